"""`tensorc explain WHAT`: an error code, or why the kernels of a program are as they are."""

from __future__ import annotations

import re

import click

from tensorc.commands.options import (
    choose,
    print_json,
    read_programs,
    sizes,
    static,
    with_file,
    with_json,
    with_numerics,
    with_sizes,
)
from tensorc.explain import Report
from tensorc.ir.tensor import Program

CODE = re.compile(r"(TC-)?[ERW]\d+", re.IGNORECASE)


@click.command("explain")
@with_file
@with_sizes
@click.option("--arch", default="native", show_default=True, help="native, cpu, sm_80, sm_90a, ...")
@with_numerics
@with_json
def command(
    file: str,
    name: str | None,
    size: tuple[str, ...],
    arch: str,
    policy: str,
    deterministic: bool,
    as_json: bool,
) -> int:
    """Explain FILE, a program: what every pass did, its kernels, what they cost, hints.

    Or explain an error code, such as TC-E215.
    """
    if CODE.fullmatch(file):
        return _code(file.upper().removeprefix("TC-"), as_json)
    programs = read_programs(file)
    chosen = programs if name is None else [choose(programs, name, file)]
    given = sizes(size)
    reports = [_report(item, given, arch, policy, deterministic) for item in chosen]
    if as_json:
        print_json("explain", {"file": file, "operators": [item.data for item in reports]})
    else:
        click.echo("\n\n".join(str(item) for item in reports))
    return 0


def _code(code: str, as_json: bool) -> int:
    from tensorc.ir.diagnostics import explain

    try:
        text = explain(code)
    except KeyError:
        raise click.UsageError(f"{code} is no error code of tensorc") from None
    if as_json:
        print_json("explain-code", {"code": code, "text": text})
    else:
        click.echo(text)
    return 0


def _report(
    program: Program, given: dict[str, int], arch: str, policy: str, deterministic: bool
) -> Report:
    from tensorc.compiler import explained
    from tensorc.emulated import request

    return explained(program, request(arch, static(program, given), {}, policy, deterministic))
