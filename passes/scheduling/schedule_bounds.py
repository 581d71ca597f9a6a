"""Closed-form bounds on the initiation interval of a loop: what no schedule can go below.

A unit must fit a period's work, the roles must fit what only they can do, and a recurrence (a cycle
of waits) must fit into the iterations that it spans. Waits are dependences, the return of the
deepest ring's slot, and the single copy of a value that stays in its role.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from tensorc.ir.node import fact
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, held, operation_of, readers_of


@dataclass(frozen=True)
class Limit:
    """A lower bound in cycles and what gives it, in words."""

    cycles: int
    name: str


@dataclass(frozen=True)
class Wait:
    """start(target) + ii * distance >= start(source) + cycles."""

    source: str
    target: str
    cycles: int
    distance: int


def limits(problem: LoopProblem) -> tuple[Limit, ...]:
    """All closed-form bounds, largest first."""
    found = [*_unit_limits(problem), *_role_limits(problem)]
    least = max((limit.cycles for limit in found), default=1)
    if recurrence := _recurrence(problem, least):
        found.append(recurrence)
    return tuple(sorted(found, key=lambda limit: -limit.cycles)) or (Limit(1, "nothing"),)


def sequential(problem: LoopProblem) -> int:
    """An interval at which every operation of an iteration can follow the other: if no schedule
    has it, none exists, because a longer period never breaks a rule."""
    total = 1
    for item in problem.operations:
        ends = [use.offset + use.cycles for use in item.uses]
        total += max(item.busy, item.latency, item.hold, *ends, 0)
    for edge in problem.dependences:
        cost = edge.transfer
        total += max(0, edge.latency - operation_of(problem)[edge.source].latency, edge.hold or 0)
        total += cost.latency + 2 * cost.busy if cost else 0
    return total


@fact
def stages_needed(problem: LoopProblem) -> int:
    """How many stages the longest chain of one iteration takes at the smallest interval, and one
    more for the places where it has to wait."""
    begin = {item.name: 0 for item in problem.operations}
    edges = [wait for wait in waits(problem) if wait.distance == 0]
    for _ in begin:
        for edge in edges:
            begin[edge.target] = max(begin[edge.target], begin[edge.source] + edge.cycles)
    return min(8, 2 + max(begin.values()) // limits(problem)[0].cycles)


def _unit_limits(problem: LoopProblem) -> Iterator[Limit]:
    for unit in problem.units:
        uses = [use for item in problem.operations for use in item.uses if use.unit == unit.name]
        work = sum(use.cycles * use.demand for use in uses)
        longest = max((use.cycles for use in uses), default=0)
        if work:
            yield Limit(max(ceil(work / unit.capacity), longest), f"unit {unit.name}")


def _role_limits(problem: LoopProblem) -> Iterator[Limit]:
    isolated = any(role.variable for role in problem.roles)
    for item in problem.operations:
        yield Limit(item.busy, f"operation {item.name}")
    for variable in (False, True) if isolated else (False,):
        for warps in (1, 4):
            roles = [
                role
                for role in problem.roles
                if role.warps >= warps and (role.variable == variable or not isolated)
            ]
            work = sum(
                item.busy
                for item in problem.operations
                if item.warps >= warps and (item.variable == variable or not isolated)
            )
            if work and roles:
                names = " ".join(role.name for role in roles)
                yield Limit(ceil(work / len(roles)), f"roles {names}")


def waits(problem: LoopProblem) -> tuple[Wait, ...]:
    """Every wait that holds wherever the operations are placed, with the least cycles it takes."""
    found = [_wait(problem, edge) for edge in problem.dependences]
    for ring in problem.rings:
        depth = _deepest(problem, ring.name)
        for edge in readers_of(problem)[ring.name]:
            cycles = held(problem, edge) + _certain(problem, edge)
            found.append(Wait(edge.target, edge.source, cycles, depth - edge.distance))
    for value in problem.values:
        for edge in readers_of(problem)[value.name] if not value.resident else ():
            if edge.transfer is None:
                cycles = held(problem, edge)
                found.append(Wait(edge.target, edge.source, cycles, 1 - edge.distance))
    return tuple(found)


def _wait(problem: LoopProblem, edge: Dependence) -> Wait:
    cycles = edge.latency + _certain(problem, edge)
    return Wait(edge.source, edge.target, cycles, edge.distance)


def _certain(problem: LoopProblem, edge: Dependence) -> int:
    """The transfer's cycles if the two ends can share no role."""
    one, two = (operation_of(problem)[name] for name in (edge.source, edge.target))
    apart = edge.transfer and not (_homes(problem, one) & _homes(problem, two))
    return edge.transfer.latency if edge.transfer and apart else 0


def _homes(problem: LoopProblem, item: Operation) -> set[str]:
    isolated = any(role.variable for role in problem.roles)
    return {
        role.name
        for role in problem.roles
        if role.warps >= item.warps and (not isolated or role.variable == item.variable)
    }


def _deepest(problem: LoopProblem, name: str) -> int:
    """How deep a ring can be when the others of its memory are as shallow as they may."""
    ring = next(ring for ring in problem.rings if ring.name == name)
    memory = next(memory for memory in problem.memories if memory.name == ring.memory)
    slot = -(-ring.bytes // ring.align) * ring.align
    others = sum(
        -(-other.bytes // other.align) * other.align * other.shallowest
        for other in problem.rings
        if other.memory == ring.memory and other.name != name
    )
    room = (memory.bytes - memory.taken - others) // slot
    return max(ring.shallowest, min(ring.deepest, room))


def _recurrence(problem: LoopProblem, least: int) -> Limit | None:
    """The least interval above `least` that no cycle of waits exceeds, and the tightest cycle."""
    edges, low, high = waits(problem), least, sequential(problem)
    if _positive_cycle(problem, edges, low) is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _positive_cycle(problem, edges, middle) is None:
            high = middle
        else:
            low = middle
    cycle = _positive_cycle(problem, edges, high - 1) or ()
    return Limit(high, f"recurrence {' '.join(cycle)}")


def _positive_cycle(
    problem: LoopProblem, edges: tuple[Wait, ...], ii: int
) -> tuple[str, ...] | None:
    """The operations of a cycle of waits that takes more than its iterations at `ii`, or None."""
    start = {item.name: 0 for item in problem.operations}
    before: dict[str, str] = {}
    last = ""
    for _ in range(len(start) + 1):
        last = ""
        for edge in edges:
            earliest = start[edge.source] + edge.cycles - ii * edge.distance
            if earliest > start[edge.target]:
                start[edge.target], before[edge.target] = earliest, edge.source
                last = edge.target
        if not last:
            return None
    for _ in start:
        last = before[last]
    cycle = [last]
    while before[cycle[-1]] != last:
        cycle.append(before[cycle[-1]])
    rank = {item.name: number for number, item in enumerate(problem.operations)}
    ordered = list(reversed(cycle))
    first = ordered.index(min(ordered, key=rank.__getitem__))
    return tuple(ordered[first:] + ordered[:first])
