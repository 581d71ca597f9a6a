"""`tensorc report FILE.tc -o report.html`: one page about an operator on a GPU, and its trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensorc.commands import pipelines
from tensorc.commands.options import sizes, with_file, with_sizes, write_together

if TYPE_CHECKING:
    from tensorc.codegen.page import Part
    from tensorc.passes.pipelining.scheduled import Pipelined

TRIPS = 6
"""Iterations on the timeline, if the loop has no known count."""


@click.command("report")
@with_file
@with_sizes
@click.option("--arch", default=pipelines.DEFAULT, show_default=True, help="sm_80, sm_89, sm_90a.")
@pipelines.with_machine
@pipelines.with_proof
@click.option("-o", "output", required=True, help="The page, NAME.html.")
@click.option("--trace", help="Write the predicted timeline for Perfetto to this file too.")
@click.option("--force", is_flag=True, help="Overwrite the files.")
def command(
    file: str, name: str | None, size: tuple[str, ...], arch: str, machine: str | None,
    prove: bool, output: str, trace: str | None, force: bool,
) -> int:  # fmt: skip
    """Write a page about FILE: mathematics, passes, level 2, schedules with the timeline that the
    machine model predicts, level 3, and the CUDA C++. It loads nothing and runs no script.

    FILE is a .tc file, a level-2 text (.tile) or a loop problem (.json).
    """
    from tensorc.codegen.page import page

    given = sizes(size)
    asked = "native" if pipelines.is_text(file) else arch
    found = pipelines.find(file, name, asked, machine, given, prove)
    parts = [*_operator(found, arch, given), *_texts(found, given)]
    files = {output: page(f"{found.name}, {Path(file).name}", parts).encode()}
    if trace is not None:
        files[trace] = _trace(found).encode()
    write_together(files, force)
    return 0


def _operator(found: pipelines.Found, arch: str, given: dict[str, int]) -> Iterator[Part]:
    """The mathematics and what every pass did; nothing for a file that is no operator."""
    from tensorc.codegen.page import Part
    from tensorc.cuda_levels import request
    from tensorc.cuda_ways import explained
    from tensorc.observe import show

    if found.program is None:
        return
    yield Part("mathematics", text=show(found.program))
    for section in explained(found.program, request(arch, given, {})).sections:
        yield Part(section.title, text="\n".join(section.lines))


def _texts(found: pipelines.Found, given: dict[str, int]) -> Iterator[Part]:
    from tensorc.codegen.page import Part
    from tensorc.observe import show

    if found.tiles is not None:
        yield Part("level 2", text=show(found.tiles))
    for item in found.pipelines:
        yield from _pipeline(item, found.reason(item))
    if found.program is not None:
        yield _source(found, given)


def _pipeline(item: Pipelined, reason: str) -> Iterator[Part]:
    from tensorc.codegen.page import Part
    from tensorc.codegen.timeline import timeline
    from tensorc.ir.print_channel import print_channel
    from tensorc.ir.print_schedule import headline, print_schedule
    from tensorc.passes.scheduling.simulate import simulate

    if item.problem is None or item.schedule is None:
        yield Part(f"schedule of {item.name}", f"It has no pipeline: {reason}.")
        return
    run = simulate(item.problem, item.schedule, item.problem.trip or TRIPS)
    drawing = timeline(item.problem, item.schedule, run)
    table = print_schedule(item.schedule)
    yield Part(f"schedule of {item.name}", headline(item.schedule), table, drawing)
    if item.channel is None:
        yield Part(f"level 3 of {item.name}", f"There is none: {reason}.")
    else:
        yield Part(f"level 3 of {item.name}", text=print_channel(item.channel), folded=True)


def _source(found: pipelines.Found, given: dict[str, int]) -> Part:
    """The CUDA C++ that is emitted for the operator."""
    from tensorc.codegen.page import Part
    from tensorc.cuda_levels import MACHINES, levels, request
    from tensorc.cuda_ways import first

    assert found.program is not None and found.tiles is not None
    arch = next(name for name, kind in MACHINES.items() if kind == found.tiles.machine)
    wanted = first(found.program, request(arch, given, {}))
    return Part("CUDA C++", text=levels(found.program, wanted).source, folded=True)


def _trace(found: pipelines.Found) -> str:
    """The trace of the first kernel that has a schedule. Raises Infeasible if none has."""
    from tensorc.codegen.trace import trace
    from tensorc.errors import Infeasible
    from tensorc.passes.scheduling.simulate import simulate

    for item in found.pipelines:
        if item.problem and item.schedule:
            trips = item.problem.trip or TRIPS
            return trace(item.problem, item.schedule, simulate(item.problem, item.schedule, trips))
    raise Infeasible(f"no kernel of {found.name} has a schedule whose timeline could be traced")
