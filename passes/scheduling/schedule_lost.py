"""What a loop gets whose solver was lost: a list schedule with the reason in its note (E404)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tensorc.errors import Infeasible
from tensorc.ir.schedule import Certificate, LoopProblem, Schedule
from tensorc.passes.scheduling.list_schedule import list_schedule
from tensorc.passes.scheduling.schedule_bounds import limits

LOST = "TC-E404"
"""In the note of a schedule that is not the solver's, and not to be kept."""


def without_solver(problem: LoopProblem, reason: str) -> Schedule:
    """A list schedule of `problem`. Infeasible (E404): none fits."""
    made = list_schedule(problem)
    if made is None:
        message = f"{LOST}: {problem.name}: {reason}, and no list schedule fits {problem.machine}"
        raise Infeasible(message, resource="effort")
    limit = limits(problem)[0]
    note = f"{LOST} {reason}: list schedule"
    proof = Certificate(limit.cycles, limit.name, "none", 1, Fraction(0), problem.figures, (), note)
    if made.ii == limit.cycles:
        proof = replace(proof, proof="closed form")
    return replace(made, certificate=proof)
