"""Loops of few iterations: the time of all of them counts, not the interval alone.

N iterations take (N - 1) * ii + span cycles, span being one iteration from its first start to its
last end. A longer interval may allow a shorter span, so intervals above the smallest are tried up
to the one at which even the shortest possible span could not make up for it. They are tried at
growing distances, so what is found is the best of those tried, and the note says so.
"""

from __future__ import annotations

from dataclasses import replace

from tensorc.ir.schedule import LoopProblem, Schedule, span
from tensorc.passes.scheduling.schedule_bounds import sequential, waits
from tensorc.passes.scheduling.schedule_search import Meter, tiles_stay

FEW = 8
"""A loop of at most this many iterations is scheduled for their total time."""


def total_cycles(problem: LoopProblem, made: Schedule, trip: int) -> int:
    """Cycles of `trip` iterations, from the first start to the last end; 0 for none."""
    return (trip - 1) * made.ii + span(problem, made) if trip else 0


def shortest_span(problem: LoopProblem) -> int:
    """No iteration is shorter than its longest chain of waits, whatever the interval."""
    begin = {item.name: 0 for item in problem.operations}
    edges = [wait for wait in waits(problem) if wait.distance == 0]
    for _ in begin:
        for edge in edges:
            begin[edge.target] = max(begin[edge.target], begin[edge.source] + edge.cycles)
    return max(begin[o.name] + max(o.latency, o.busy) for o in problem.operations)


def candidates(problem: LoopProblem, made: Schedule, trip: int) -> list[int]:
    """Intervals above that of `made` at which `trip` iterations might take less time."""
    best, least = total_cycles(problem, made, trip), shortest_span(problem)
    if trip < 2:
        return [sequential(problem)] if trip else []
    last = (best - least - 1) // (trip - 1)
    found, step = list[int](), max(1, (last - made.ii) // 16)
    while made.ii + step <= last:
        found.append(made.ii + step)
        step *= 2
    return found


def for_few(problem: LoopProblem, made: Schedule, meter: Meter) -> Schedule:
    """`made`, or a schedule of a longer interval that finishes `problem.trip` iterations sooner."""
    from tensorc.passes.scheduling.schedule import at_interval

    trip = problem.trip or 0
    best = made
    for ii in candidates(problem, made, trip):
        for version in dict.fromkeys((tiles_stay(problem), problem)):
            other = at_interval(problem, version, ii, made.certificate, meter)
            if other and total_cycles(problem, other, trip) < total_cycles(problem, best, trip):
                best = other
    cycles = total_cycles(problem, best, trip)
    told = f"{trip} iterations take {cycles} cycles, the best of the intervals tried"
    note = "; ".join(filter(None, (made.certificate.note, told)))
    return replace(best, certificate=replace(best.certificate, note=note))
