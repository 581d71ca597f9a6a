"""`tensorc check FILE.tc`: types, ranges, and the size conditions that remain for the call; with
`--arch` also schedules, barriers and numbers on the way to that GPU."""

from __future__ import annotations

import click

from tensorc.commands import pipelines
from tensorc.commands.check_gpu import Finding, findings
from tensorc.commands.options import (
    choose,
    print_json,
    read_programs,
    sizes,
    with_file,
    with_json,
    with_sizes,
)
from tensorc.ir.tensor import Program


@click.command("check")
@with_file
@with_sizes
@click.option("--arch", help="Look at what is made for this GPU too: sm_80, sm_89, sm_90a.")
@pipelines.with_machine
@pipelines.with_proof
@click.option("--schedule", metavar="PATH", help="Judge this schedule of a .json or .tile FILE.")
@with_json
def command(
    file: str, name: str | None, size: tuple[str, ...], arch: str | None, machine: str | None,
    prove: bool, schedule: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Check types, ranges and size conditions of FILE.

    With --arch: also the certificate of every schedule, the barriers of level 3 for any number of
    iterations, and, at the extents given with --size, its numbers and the CUDA C++ in the emulator.
    FILE may then be a level-2 text (.tile) or a loop problem (.json), and --schedule one that is
    written by hand, as `compile --emit schedule` prints them, to be judged instead of the solver's.
    """
    given = sizes(size)
    if schedule is not None and not pipelines.is_text(file):
        raise click.UsageError("--schedule is one of a loop: FILE is a .json or .tile then")
    if pipelines.is_text(file):
        found = pipelines.find(file, name, arch or "native", machine, given, prove, schedule)
        return _text_checked(file, found, as_json)
    if arch is None and (machine is not None or prove or given):
        raise click.UsageError("--size, --machine and --prove are for what --arch looks at")
    programs = read_programs(file)
    chosen = programs if name is None else [choose(programs, name, file)]
    made = [_found(item, arch, machine, given, prove) for item in chosen]
    if as_json:
        operators = [
            {**_summary(item), **_data(part)} for item, part in zip(chosen, made, strict=True)
        ]
        print_json("check", {"file": file, "operators": operators})
    else:
        for program, part in zip(chosen, made, strict=True):
            click.echo("\n".join([_text(program), *(f"  {item}" for item in part)]))
    return _code([item for part in made for item in part])


def _text_checked(file: str, found: pipelines.Found, as_json: bool) -> int:
    """A level-2 text or a loop problem: no operator, so that only its pipelines are looked at."""
    part = findings(found, found.tiles.machine if found.tiles else "", {})
    if as_json:
        print_json("check", {"file": file, "operators": [{"name": found.name, **_data(part)}]})
    else:
        click.echo("\n".join([f"{found.name}: read", *(f"  {item}" for item in part)]))
    return _code(part)


def _found(
    program: Program, arch: str | None, machine: str | None, given: dict[str, int], prove: bool
) -> list[Finding]:
    if arch is None:
        return []
    return findings(pipelines.of_program(program, arch, machine, given, prove), arch, given)


def _code(found: list[Finding]) -> int:
    """3 where something failed; what could not be decided is said on stderr, and is no failure."""
    for item in found:
        if item.outcome == "undecided":
            click.echo(str(item), err=True)
    return 3 if any(item.outcome == "failed" for item in found) else 0


def _data(found: list[Finding]) -> dict[str, object]:
    if not found:
        return {}
    return {"checks": [{"what": f.what, "outcome": f.outcome, "detail": f.detail} for f in found]}


def _summary(program: Program) -> dict[str, object]:
    return {
        "name": program.name,
        "parameters": [item.tensor.name for item in program.parameters],
        "outputs": [item.tensor.name for item in program.outputs],
        "conditions": [item.what for item in program.conditions],
        "checked_reads": [_checked(program, n) for n in range(len(program.checks))],
    }


def _checked(program: Program, number: int) -> str:
    from tensorc.ir.print_tensor import show

    check = program.checks[number]
    return f"{show(check.read)}, dimension {check.axis}"


def _text(program: Program) -> str:
    lines = [f"{program.name}: ok"]
    lines += [f"  decided at the call: {item.what}" for item in program.conditions]
    lines += [
        f"  compared while running: {_checked(program, n)}" for n in range(len(program.checks))
    ]
    return "\n".join(lines)
