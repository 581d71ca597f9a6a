"""Warp groups with roles for a level-2 kernel of sm_90a: its loop as a problem, the problem's
schedule, and the level-3 kernel of that.

Afterwards the level-3 kernel passes its verifier, as `pipeline` promises; a launch has as many
blocks as the product has multiprocessors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tensorc.ir.placement import Pipelined
from tensorc.ir.print_schedule import told
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.ir.tile import Kernel
from tensorc.ir.walk_tile import has_fragments
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.pipeline import pipeline
from tensorc.passes.scheduling.extract_problem import extract
from tensorc.passes.scheduling.schedule import JIT, schedule


def solved(problem: LoopProblem) -> Schedule:
    """A schedule by the solver in this process, in the time that a first call may take."""
    return schedule(problem, JIT)


@lru_cache(64)
def place_groups(
    kernel: Kernel, machine: str, product: str,
    solve: Callable[[LoopProblem], Schedule] = solved,
) -> Pipelined | None:  # fmt: skip
    """The roles of a kernel; None for one without fragments. `solve`: what schedules its loop.

    Unpipelined: it is no single loop of copies and products. Infeasible: no schedule fits.
    """
    if not has_fragments(kernel):
        return None
    chip = load_product(product)
    text = extract(kernel, MACHINES[machine], chip)
    made = solve(text.problem)
    most = chip.whole("chip.processors")
    return Pipelined(text.kernel, pipeline(text, made), most, told(made))
