"""What crosses from one role to another in a scheduled loop: rings, moved values, signals.

A link is a ring of the channel program with the operations that fill it and read it. Besides the
problem's own rings there is one for each register value that a role needs from another, and one
without data for each order between roles that nothing else keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorc.ir import channel
from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Operation,
    Schedule,
    Value,
    held,
    operation_of,
    placement_of,
    readers_of,
    start,
)


@dataclass(frozen=True)
class Reader:
    """An operation that reads a link's element, `distance` iterations after the writer's.

    `free`: cycles, from the start of the element's iteration, at which it gives its slot back.
    """

    operation: str
    distance: int
    free: int


@dataclass(frozen=True)
class Link:
    """A ring and who uses it.

    `moves` is the value that is copied through it ("" for the problem's rings and for signals),
    `signal` says that it carries nothing.
    """

    ring: channel.Ring
    writer: str
    readers: tuple[tuple[str, tuple[Reader, ...]], ...]  # by role
    moves: str = ""
    signal: bool = False


def links(problem: LoopProblem, schedule: Schedule) -> tuple[Link, ...]:
    """All links of the scheduled loop, the problem's rings first, in its order.

    Rings for moved values and signals have no place in memory yet (offset 0).
    """
    parts = (_rings, _moves, _signals)
    return tuple(link for part in parts for link in part(problem, schedule))


def results(problem: LoopProblem, operation: str) -> tuple[channel.Result, ...]:
    """The register values that an operation makes: those it writes, those it updates in place."""
    made = list[channel.Result]()
    for value in problem.values:
        if value.writer == operation:
            made.append(channel.Result(value.name, value.name))
        elif value.resident and operation in updaters(problem, value):
            made.append(channel.Result(version(problem, value, operation), value.name))
    return tuple(made)


def updaters(problem: LoopProblem, value: Value) -> tuple[str, ...]:
    """The operations from which a dependence carries `value`, the writer last."""
    sources = dict.fromkeys(edge.source for edge in readers_of(problem)[value.name])
    return (*(name for name in sources if name != value.writer), value.writer)


def version(problem: LoopProblem, value: Value, operation: str) -> str:
    """The name of what `operation` leaves in the registers of `value`."""
    if operation == value.writer:
        return value.name
    others = [name for name in updaters(problem, value) if name != value.writer]
    return f"{value.name}~" if len(others) == 1 else f"{value.name}~{operation}"


def commits(problem: LoopProblem, item: Operation) -> bool:
    """Whether an operation completes by a commit to a barrier, not by a wait of its role.

    So do asynchronous operations on an ordered unit that one warp issues for all: tensor cores with
    their own memory (tcgen05). Where a whole group issues them (wgmma), the group waits.
    """
    ordered = {unit.name for unit in problem.units if unit.ordered}
    return not item.threads and item.warps < 4 and any(u.unit in ordered for u in item.uses)


def flight(problem: LoopProblem, item: Operation) -> str:
    """Where an operation stays in flight: nowhere, on a unit, or until its commit."""
    if item.threads:
        return ""
    if commits(problem, item):
        return channel.COMMIT
    if not item.uses or any(ring.writer == item.name for ring in problem.rings):
        return ""
    ordered = {unit.name for unit in problem.units if unit.ordered}
    return next((use.unit for use in item.uses if use.unit in ordered), item.uses[0].unit)


def _rings(problem: LoopProblem, schedule: Schedule) -> Iterator[Link]:
    plans = {plan.ring: plan for plan in schedule.rings}
    for ring in problem.rings:
        plan = plans[ring.name]
        edges = readers_of(problem)[ring.name]
        inside = [edge for edge in edges if not crosses(schedule, edge)]
        if all(follows(problem, schedule, edge) for edge in inside):
            edges = tuple(edge for edge in edges if edge not in inside)
        readers = _by_role(problem, schedule, edges)
        copied = ring.bytes if ring.fill == "copy" else 0
        made = channel.Ring(
            ring.name, ring.memory, ring.bytes, plan.offset, plan.depth, ring.fill,
            1, copied, len(readers),
        )  # fmt: skip
        yield Link(made, ring.writer, readers)


def follows(problem: LoopProblem, schedule: Schedule, edge: Dependence) -> bool:
    """Whether the target comes behind the source in one queue of the tensor core: no barrier."""
    ends = [operation_of(problem)[name] for name in (edge.source, edge.target)]
    return not crosses(schedule, edge) and all(commits(problem, item) for item in ends)


def _by_role(
    problem: LoopProblem, schedule: Schedule, edges: tuple[Dependence, ...]
) -> tuple[tuple[str, tuple[Reader, ...]], ...]:
    roles = dict[str, list[Reader]]()
    for edge in edges:
        role = placement_of(schedule)[edge.target].role
        late = start(schedule, edge.target) + schedule.ii * edge.distance
        free = late + held(problem, edge)
        roles.setdefault(role, []).append(Reader(edge.target, edge.distance, free))
    return tuple((role, tuple(readers)) for role, readers in roles.items())


def _moves(problem: LoopProblem, schedule: Schedule) -> Iterator[Link]:
    """One slot for each value that is read in another role than it is written."""
    for value in problem.values:
        edges = tuple(e for e in readers_of(problem)[value.name] if crosses(schedule, e))
        transfers = [edge.transfer for edge in edges if edge.transfer]
        if not transfers:
            continue
        size, memory = max(t.bytes for t in transfers), transfers[0].memory or "shared"
        readers = _by_role(problem, schedule, edges)
        ring = channel.Ring(
            f"{value.name}.moved", memory, size, 0, 1, "threads", 1, 0, len(readers)
        )
        yield Link(ring, value.writer, readers, moves=value.name)


def crosses(schedule: Schedule, edge: Dependence) -> bool:
    """Whether the ends of a dependence are in different roles."""
    places = placement_of(schedule)
    return places[edge.source].role != places[edge.target].role


def _signals(problem: LoopProblem, schedule: Schedule) -> Iterator[Link]:
    """Order between roles, or after a commit: one ring for each source and target role."""
    wanted = dict[tuple[str, str], list[Dependence]]()
    for edge in problem.dependences:
        if not edge.carries and _signalled(problem, schedule, edge):
            role = placement_of(schedule)[edge.target].role
            wanted.setdefault((edge.source, role), []).append(edge)
    for (source, role), edges in wanted.items():
        if any(
            _covers(problem, schedule, other, (source, role, edges), wanted) for other in wanted
        ):
            continue
        fill = "commit" if commits(problem, operation_of(problem)[source]) else "threads"
        readers = _by_role(problem, schedule, tuple(edges))
        last = max(start(schedule, e.target) + schedule.ii * e.distance for e in edges)
        depth = max(0, last - start(schedule, source)) // schedule.ii + 1
        name = f"{source}.to.{role}"
        ring = channel.Ring(name, "none", 0, 0, depth, fill, 1, 0, 1)
        yield Link(ring, source, readers, signal=True)


def _covers(
    problem: LoopProblem,
    schedule: Schedule,
    other: tuple[str, str],
    signal: tuple[str, str, list[Dependence]],
    wanted: dict[tuple[str, str], list[Dependence]],
) -> bool:
    """Whether another source says it all: later in the same program, to the same operations."""
    source, role, edges = signal
    if other[1] != role or other[0] == source:
        return False
    places, operations = placement_of(schedule), operation_of(problem)
    alike = places[source].role == places[other[0]].role
    by_threads = operations[source].threads and operations[other[0]].threads
    later = start(schedule, other[0]) > start(schedule, source)
    targets = {(edge.target, edge.distance) for edge in edges}
    told = {(edge.target, edge.distance) for edge in wanted[other]}
    return alike and by_threads and later and targets <= told


def _signalled(problem: LoopProblem, schedule: Schedule, edge: Dependence) -> bool:
    if crosses(schedule, edge):
        return True
    return commits(problem, operation_of(problem)[edge.source]) and not follows(
        problem, schedule, edge
    )
