"""Everything that is known of the pipelines of a level-2 program: problem, schedule, level 3.

A kernel whose loop is no loop problem, or has no schedule, has the reason instead. Schedules are
checked by the checker, level-3 kernels by their verifiers; what those find is a bug of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tensorc.errors import BrokenInvariant, Infeasible
from tensorc.ir import channel
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.ir.tile import Kernel, TileProgram
from tensorc.ir.verify_bodies import verify_bodies
from tensorc.ir.verify_channel import verify_channel
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import Product
from tensorc.passes.pipelining.channels import channels
from tensorc.passes.pipelining.pipeline import pipeline
from tensorc.passes.scheduling.extract_loops import extract_loops
from tensorc.passes.scheduling.extract_problem import LoopText, extract
from tensorc.passes.scheduling.groups import Unpipelined

Solve = Callable[[LoopProblem], Schedule]
"""Finds the schedule of a problem, or raises Infeasible."""


@dataclass(frozen=True)
class Pipelined:
    """A kernel called `name`, as far as it could be taken; `reason`: why not further, or ""."""

    name: str
    reason: str = ""
    text: LoopText | None = None
    problem: LoopProblem | None = None
    schedule: Schedule | None = None
    channel: channel.Kernel | None = None


def pipelines(program: TileProgram, product: Product, solve: Solve) -> tuple[Pipelined, ...]:
    """Every kernel of a program scheduled on `product`; each loop of a kernel with several."""
    found = list[Pipelined]()
    for kernel in program.kernels:
        try:
            text = extract(kernel, MACHINES[program.machine], product)
        except Unpipelined as reason:
            found += _loops(kernel, program.machine, product, solve, str(reason))
        else:
            found.append(_kernel(kernel, text, solve))
    return tuple(found)


def _loops(
    kernel: Kernel, machine: str, product: Product, solve: Solve, reason: str
) -> Iterator[Pipelined]:
    """The schedules of the loops of a kernel that is no single loop, or the kernel without any."""
    problems = extract_loops(kernel, MACHINES[machine], product)
    for problem in problems:
        made = of_problem(problem, solve)
        yield replace(made, reason=made.reason or reason, channel=None)
    if not problems:
        yield Pipelined(kernel.name, reason)


def _kernel(kernel: Kernel, text: LoopText, solve: Solve) -> Pipelined:
    found = of_problem(text.problem, solve)
    if found.schedule is None:
        return Pipelined(kernel.name, found.reason, text, text.problem)
    try:
        made = pipeline(text, found.schedule)
    except Unpipelined as reason:
        return Pipelined(kernel.name, str(reason), text, text.problem, found.schedule)
    if faults := [*verify_channel(made), *verify_bodies(made, text.kernel)]:
        raise BrokenInvariant(f"level 3 of {kernel.name}:\n" + "\n".join(faults))
    return Pipelined(kernel.name, "", text, text.problem, found.schedule, made)


def of_problem(problem: LoopProblem, solve: Solve) -> Pipelined:
    """A loop problem scheduled; its level 3 has no bodies and nothing around the loop."""
    try:
        made = solve(problem)
    except Infeasible as reason:
        return Pipelined(problem.name, str(reason), None, problem)
    kernel = channels(problem, made)
    if faults := verify_channel(kernel):
        raise BrokenInvariant(f"level 3 of {problem.name}:\n" + "\n".join(faults))
    return Pipelined(problem.name, "", None, problem, made, kernel)
