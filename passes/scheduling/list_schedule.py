"""A schedule without a solver: greedy, in a moment, and legal if it is returned at all.

Operations are placed in order of need at the first cycle at which their operands are there and
their role and units are free in a period; like parts go to like roles. Growing intervals are tried
up to one at which an iteration's operations simply follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from tensorc.ir.schedule import (
    Certificate,
    LoopProblem,
    Operation,
    Placement,
    Schedule,
    operation_of,
)
from tensorc.passes.scheduling.check_registers import registers_needed
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.schedule_answer import arranged
from tensorc.passes.scheduling.schedule_bounds import limits, sequential

Taken = dict[str, list[tuple[int, int]]]
"""For each role or unit the intervals (begin, cycles) of a period in which it is taken."""


def list_schedule(problem: LoopProblem) -> Schedule | None:
    """The first greedy schedule that passes `check_schedule`, or None."""
    low, high = limits(problem)[0].cycles, max(sequential(problem), 1)
    roles = dict(_roles(problem))
    intervals = [low]
    while intervals[-1] < high:
        intervals.append(min(high, intervals[-1] + intervals[-1] // 8 + 1))
    for ii in intervals:
        drafts = [_greedy(problem, ii, roles), *([_in_turn(problem)] if ii == high else [])]
        for made in (_made(problem, ii, roles, starts) for starts in drafts if starts):
            if not check_schedule(problem, made):
                return made
    return None


def _roles(problem: LoopProblem) -> Iterator[tuple[str, str]]:
    """A role for each operation: parts apart, what must be together in one."""
    isolated = any(role.variable for role in problem.roles)
    for members in _bound_together(problem):
        warps = max(item.warps for item in members)
        legal = [
            role.name
            for role in problem.roles
            if role.warps >= warps
            and (not isolated or all(role.variable == item.variable for item in members))
        ]
        least = min((r.warps for r in problem.roles if r.name in legal), default=0)
        like = [r.name for r in problem.roles if r.name in legal and r.warps == least]
        part = next((item.part for item in members if item.part is not None), 0)
        for item in members:
            yield item.name, like[part % len(like)] if like else problem.roles[0].name


def _bound_together(problem: LoopProblem) -> list[list[Operation]]:
    """Operations joined by values and by dependences that may not change roles."""
    wide = {value.name for value in problem.values}
    groups = [[item] for item in problem.operations]
    for edge in problem.dependences:
        if edge.transfer is None or edge.carries in wide:
            touched = [g for g in groups if any(o.name in (edge.source, edge.target) for o in g)]
            merged = [item for group in touched for item in group]
            groups = [g for g in groups if g not in touched] + [merged]
    return groups


def _order(problem: LoopProblem) -> list[str]:
    """Operations so that those of one iteration that are waited for come first, late ones last."""
    left, order = list(operation_of(problem)), list[str]()
    edges = [(e.source, e.target) for e in problem.dependences if e.distance == 0]
    while left:
        blocked = {target for source, target in edges if source in left}
        ready = [name for name in left if name not in blocked]
        order.append(ready[0])
        left.remove(ready[0])
    return order


def _greedy(problem: LoopProblem, ii: int, roles: dict[str, str]) -> dict[str, int] | None:
    """Starts in list order, each the first that is free modulo `ii`; None if one finds no place."""
    starts, taken = dict[str, int](), Taken()
    for name in _order(problem):
        item, ready = operation_of(problem)[name], 0
        for edge in problem.dependences:
            if edge.target == name and edge.source in starts:
                told = (
                    edge.transfer if edge.transfer and roles[edge.source] != roles[name] else None
                )
                delay = edge.latency + (told.latency if told else 0)
                ready = max(ready, starts[edge.source] + delay - ii * edge.distance)
        needs = _needs(item, roles[name])
        free = (t for t in range(ready, ready + ii) if _free(needs, t, ii, taken))
        begin = next(free, None)
        if begin is None:
            return None
        starts[name] = begin
        for resource, offset, cycles in needs:
            taken.setdefault(resource, []).append(((begin + offset) % ii, cycles))
    return starts


def _needs(item: Operation, role: str) -> list[tuple[str, int, int]]:
    """What the operation takes: (resource, offset, cycles)."""
    units = [(f"unit {use.unit}", use.offset, use.cycles) for use in item.uses if use.cycles]
    return [*units, *([(f"role {role}", 0, item.busy)] if item.busy else [])]


def _free(needs: list[tuple[str, int, int]], start: int, ii: int, taken: Taken) -> bool:
    for resource, offset, cycles in needs:
        begin = (start + offset) % ii
        for other, lasts in taken.get(resource, ()):
            if (begin - other) % ii < lasts or (other - begin) % ii < cycles:
                return False
        if cycles > ii:
            return False
    return True


def _in_turn(problem: LoopProblem) -> dict[str, int]:
    """Every operation after all of the one before it."""
    starts, at = dict[str, int](), 0
    for name in _order(problem):
        item = operation_of(problem)[name]
        touching = [e for e in problem.dependences if name in (e.source, e.target) and e.transfer]
        at += sum(e.transfer.busy for e in touching if e.transfer and e.target == name)
        waits = [
            starts[e.source] + e.latency + (e.transfer.latency if e.transfer else 0)
            for e in problem.dependences
            if e.target == name and e.source in starts and e.distance == 0
        ]
        starts[name] = at = max([at, *waits])
        ends = [use.offset + use.cycles for use in item.uses]
        at += max(item.busy, item.latency, item.hold, *ends, 0)
        at += sum(e.transfer.busy for e in touching if e.transfer and e.source == name)
    return starts


def _made(problem: LoopProblem, ii: int, roles: dict[str, str], starts: dict[str, int]) -> Schedule:
    first = min(starts.values()) // ii
    places = {
        name: Placement(name, roles[name], begin // ii - first, begin % ii)
        for name, begin in starts.items()
    }
    proof = Certificate(1, "", "none", 1, Fraction(0))
    used = dict.fromkeys(roles.values(), problem.registers.ceiling)
    draft = arranged(problem, ii, places, used, proof)
    step, floor = problem.registers.step, problem.registers.floor
    for role in problem.roles:
        if role.name in used:
            need, _, _ = registers_needed(problem, draft, role)
            used[role.name] = -(-max(need, floor) // step) * step
    return arranged(problem, ii, places, used, proof)
