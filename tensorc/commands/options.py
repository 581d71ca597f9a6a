"""What commands share: reading a file, choosing an operator, `name=value` options, JSON output."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tensorc.ir.tensor import Program

F = TypeVar("F", bound=Callable[..., Any])
_LIMITS = "tensorc.limits"  # where a command's context keeps what --max-bytes and its like gave


def read_programs(path: str) -> list[Program]:
    """The operators of a `.tc` file ("-": standard input). Raises NotationError."""
    from tensorc.lang import read
    from tensorc.lang.parse import Limits, read_source, read_stream

    given = click.get_current_context().meta.get(_LIMITS, {})
    limits = Limits(**{name: number for name, number in given.items() if number is not None})
    if path == "-":
        return read(read_stream(sys.stdin.buffer, "<stdin>", limits), limits=limits)
    return read(read_source(path, limits), limits=limits)


def choose(programs: Sequence[Program], name: str | None, path: str) -> Program:
    """The operator called `name`, or the only one."""
    if name is None and len(programs) == 1:
        return programs[0]
    names = ", ".join(program.name for program in programs)
    if name is None:
        raise click.UsageError(f"{path} has several operators ({names}); choose one with --op")
    for program in programs:
        if program.name == name:
            return program
    raise click.UsageError(f"{path} has no operator {name}; it has {names}")


def pairs(values: Sequence[str], option: str) -> dict[str, str]:
    """`name=value` options as a mapping; commas separate several in one option."""
    found: dict[str, str] = {}
    for value in (part for item in values for part in item.split(",")):
        name, equals, text = value.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise click.UsageError(f"{option} {value}: expected NAME=VALUE")
        found[name.strip()] = text.strip()
    return found


def sizes(values: Sequence[str], option: str = "--size") -> dict[str, int]:
    """`name=integer` options; the integer may be written with underscores or as hexadecimal."""
    found: dict[str, int] = {}
    for name, text in pairs(values, option).items():
        try:
            found[name] = int(text, 0)
        except ValueError:
            raise click.UsageError(f"{option} {name}={text}: expected an integer") from None
    return found


def static(program: Program, given: dict[str, int], option: str = "--size") -> dict[str, int]:
    """The extents that --size fixes in a kernel (or that --hint expects); UsageError for another
    name or a negative one."""
    unknown = sorted(set(given) - set(program.extent_of))
    if unknown:
        raise click.UsageError(f"{option} {unknown[0]}: {program.name} has no index of that name")
    for name, value in given.items():
        if value < 0:
            raise click.UsageError(f"{option} {name}={value}: an extent is at least 0")
    return given


def note_open(deterministic: bool, *given: Mapping[str, int]) -> None:
    """Say on standard error that --size and --hint have no say in a deterministic kernel."""
    names = sorted({name for one in given for name in one})
    if deterministic and names:
        click.echo(
            "note: a --deterministic kernel serves all sizes and is the same for all; what was "
            f"given for {', '.join(names)} is not used",
            err=True,
        )


def print_json(schema: str, fields: Mapping[str, object]) -> None:
    """One JSON object with its schema's name, on stdout."""
    json.dump({"schema": f"tensorc-{schema}-1", **fields}, sys.stdout, indent=2, default=str)
    sys.stdout.write("\n")


def write_output(path: str, data: bytes, force: bool) -> None:
    """Write a file whole or not at all; an existing file needs `--force`. "-": stdout. What is no
    plain file (a pipe, a device) is written to, never replaced."""
    if path == "-":
        sys.stdout.buffer.write(data)
        return
    target = Path(path)
    if target.is_dir():
        raise click.UsageError(f"{path} is a folder; name a file")
    if target.exists() and not target.is_file():
        target.write_bytes(data)
        return
    if target.exists() and not force:
        raise click.UsageError(f"{path} exists; --force overwrites it")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(data)
    part.replace(target)


def write_together(files: Mapping[str, bytes], force: bool) -> None:
    """Write several files, none of which may exist without `--force`."""
    for path in files:
        if Path(path).exists() and not force:
            raise click.UsageError(f"{path} exists; --force overwrites it")
    for path, data in files.items():
        write_output(path, data, force)


def with_file(function: F) -> F:
    """The FILE argument, --op, and the limits --max-bytes and --max-statements."""
    for unit in ("statements", "bytes"):
        function = click.option(
            f"--max-{unit}",
            unit,
            type=click.IntRange(1),
            expose_value=False,
            callback=_keep_limit,
            help=f"Read larger files, up to this many {unit}.",
        )(function)
    function = click.option("--op", "name", help="The operator, if the file has several.")(function)
    return click.argument("file", type=click.Path(allow_dash=True))(function)


def _keep_limit(context: click.Context, option: click.Parameter, value: int | None) -> None:
    context.meta.setdefault(_LIMITS, {})[option.name] = value


def with_sizes(function: F) -> F:
    """--size NAME=N, repeatable."""
    return click.option(
        "--size", "size", multiple=True, metavar="NAME=N", help="Extent of an index; repeatable."
    )(function)


def with_hints(function: F) -> F:
    """--hint NAME=N, repeatable."""
    return click.option(
        "--hint", "hint", multiple=True, metavar="NAME=N",
        help="Size at which the kernel should be fast, not fixed in it; repeatable.",
    )(function)  # fmt: skip


def with_numerics(function: F) -> F:
    """--policy and --deterministic."""
    function = click.option(
        "--deterministic",
        is_flag=True,
        help="Float results that do not depend on other extents or on layouts.",
    )(function)
    return click.option(
        "--policy", type=click.Choice(["fast", "strict"]), default="fast", show_default=True,
        help="Numerics: see docs/numerics.md.",
    )(function)  # fmt: skip


def with_cuts(function: F) -> F:
    """--cuts."""
    return click.option(
        "--cuts", type=click.Choice(["cost", "none", "all"]), default=None,
        help="Where kernels end: by estimate, as seldom as may be, after every equation.",
    )(function)  # fmt: skip


def with_json(function: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(function)
