"""`tensorc check FILE.tc`: types, ranges, and the size conditions that remain for the call."""

from __future__ import annotations

import click

from tensorc.commands.options import choose, print_json, read_programs, with_file, with_json
from tensorc.ir.tensor import Program


@click.command("check")
@with_file
@with_json
def command(file: str, name: str | None, as_json: bool) -> int:
    """Check types, ranges and size conditions of FILE."""
    programs = read_programs(file)
    chosen = programs if name is None else [choose(programs, name, file)]
    if as_json:
        print_json("check", {"file": file, "operators": [_summary(p) for p in chosen]})
    else:
        for program in chosen:
            click.echo(_text(program))
    return 0


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
