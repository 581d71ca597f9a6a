"""What the checker's rules share: faults, transfers, and what a resource holds in each cycle.

A resource's use repeats every period; a stay that is longer than a period overlaps itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir.schedule import Dependence, LoopProblem, Schedule, placement_of, start


@dataclass(frozen=True)
class Fault:
    """A broken rule, the operations that break it (those that meet there), and the numbers."""

    rule: str
    operations: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        names = " and ".join(self.operations)
        return f"TC-E405 {self.rule}: {names}{': ' if names else ''}{self.sentence}"


def crosses(schedule: Schedule, edge: Dependence) -> bool:
    place = placement_of(schedule)
    return place[edge.source].role != place[edge.target].role


def delay(schedule: Schedule, edge: Dependence) -> int:
    """The transfer's latency if the ends are in different roles."""
    return edge.transfer.latency if edge.transfer and crosses(schedule, edge) else 0


@dataclass(frozen=True)
class Stay:
    """`demand` of something for `cycles` cycles from `begin` in every period, due to `who`."""

    who: str
    begin: int
    cycles: int
    demand: int = 1


def peak(stays: list[Stay], ii: int) -> tuple[int, int, tuple[str, ...]]:
    """The largest total demand in a period, the first cycle that has it, and who is there."""
    changes = {0} | {stay.begin % ii for stay in stays}
    best = (0, 0, ())
    for cycle in sorted(changes):
        present = [(stay, _turns(stay, cycle, ii)) for stay in stays]
        demand = sum(stay.demand * turns for stay, turns in present)
        if demand > best[0]:
            best = (demand, cycle, tuple(stay.who for stay, turns in present if turns))
    return best


def _turns(stay: Stay, cycle: int, ii: int) -> int:
    """How many iterations of `stay` are present in `cycle` of the steady state."""
    gone = (cycle - stay.begin) % ii
    return 0 if gone >= stay.cycles else 1 + (stay.cycles - 1 - gone) // ii


def moves(problem: LoopProblem, schedule: Schedule) -> list[tuple[Dependence, int, int]]:
    """Dependences whose value changes roles, with the cycles in which its store and load start."""
    return [
        (
            edge,
            start(schedule, edge.source) + edge.latency,
            start(schedule, edge.target) - edge.transfer.busy,
        )
        for edge in problem.dependences
        if edge.transfer and edge.transfer.busy and crosses(schedule, edge)
    ]
