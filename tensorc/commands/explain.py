"""`tensorc explain WHAT`: an error code, or why the kernels of a program are as they are."""

from __future__ import annotations

import re

import click

from tensorc.commands import pipelines
from tensorc.commands.options import (
    choose,
    note_open,
    print_json,
    read_programs,
    sizes,
    static,
    with_cuts,
    with_file,
    with_json,
    with_numerics,
    with_sizes,
)
from tensorc.explain import Report
from tensorc.ir.tensor import Program
from tensorc.schedules import PRODUCT_OF

CODE = re.compile(r"(TC-)?[ENRW]\d+", re.IGNORECASE)


@click.command("explain")
@with_file
@with_sizes
@click.option("--arch", default="native", show_default=True, help="native, cpu, sm_80, sm_90a, ...")
@with_numerics
@with_cuts
@pipelines.with_machine
@pipelines.with_proof
@with_json
def command(
    file: str,
    name: str | None,
    size: tuple[str, ...],
    arch: str,
    policy: str,
    deterministic: bool,
    cuts: str | None,
    machine: str | None,
    prove: bool,
    as_json: bool,
) -> int:
    """Explain FILE, a program: what every pass did, its kernels, what they cost, hints; for a GPU
    also how its tensor-core kernels are pipelined.

    Or explain an error code, such as TC-E215, or the pipeline of a level-2 text (.tile) or of a
    loop problem (.json).
    """
    if CODE.fullmatch(file):
        return _code(file.upper().removeprefix("TC-"), as_json)
    given = sizes(size)
    if pipelines.is_text(file):
        found = pipelines.find(file, name, arch, machine, given, prove)
        return _print(file, [Report(found.name, (pipelines.section(found),))], as_json)
    note_open(deterministic, given)
    programs = read_programs(file)
    chosen = programs if name is None else [choose(programs, name, file)]
    reports = [_report(item, given, arch, policy, deterministic, cuts) for item in chosen]
    if arch in PRODUCT_OF or machine is not None:
        for k, item in enumerate(chosen):
            found = pipelines.of_program(item, arch, machine, given, prove)
            sections = (*reports[k].sections, pipelines.section(found))
            reports[k] = Report(reports[k].title, sections)
    return _print(file, reports, as_json)


def _print(file: str, reports: list[Report], as_json: bool) -> int:
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
    program: Program, given: dict[str, int], arch: str, policy: str, deterministic: bool,
    cuts: str | None,
) -> Report:  # fmt: skip
    from tensorc import cuda_ways, pipeline
    from tensorc.cuda_levels import CPU, request

    wanted = request(arch, static(program, given), {}, policy, deterministic, cuts=cuts)
    explained = pipeline.explained if arch in CPU else cuda_ways.explained
    return explained(program, wanted)
