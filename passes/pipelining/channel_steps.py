"""What one role issues in a period of the schedule, in order.

Operations come in the schedule's order; around them stand the actions that links need: an element
is taken just before its first reader and given back where its last reader no longer needs it; a
value or signal for another role leaves just after its writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorc.ir import channel
from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Placement,
    Schedule,
    operation_of,
    program,
    start,
)
from tensorc.passes.pipelining.channel_links import (
    Link,
    Reader,
    commits,
    crosses,
    flight,
    results,
    version,
)

Operand = tuple[str, int]  # a ring, tile or value, and how many iterations back


@dataclass(frozen=True)
class Do:
    """Perform an operation (or a copy). `after`: operations that must be complete before."""

    operation: str
    reads: tuple[Operand, ...]
    results: tuple[channel.Result, ...] = ()
    flight: str = ""
    after: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Fill:
    """Put an element, computed by the operation named, a copy or a signal."""

    ring: str
    operation: str
    reads: tuple[Operand, ...] = ()
    after: tuple[Operand, ...] = ()
    flight: str = ""


@dataclass(frozen=True)
class Take:
    """Get an element."""

    ring: str


@dataclass(frozen=True)
class Give:
    """Give an element back."""

    ring: str
    deferred: bool = False


Action = Do | Fill | Take | Give


@dataclass(frozen=True)
class Role:
    """A role to be lowered: its operations in cyclic order, and what links ask of it."""

    name: str
    places: tuple[Placement, ...]
    problem: LoopProblem
    schedule: Schedule
    links: tuple[Link, ...]
    tiles: dict[str, tuple[str, ...]]  # what each operation reads that is there once per tile

    def index(self, operation: str) -> int:
        """The place of an operation in the cycle."""
        return next(k for k, p in enumerate(self.places) if p.operation == operation)


Spot = tuple[int, int, int]
"""How many periods after the start of its iteration an action stands, around which operation of the
cycle, and whether before it (0) or behind (1)."""


def role_of(
    problem: LoopProblem,
    schedule: Schedule,
    name: str,
    found: tuple[Link, ...],
    tiles: dict[str, tuple[str, ...]],
) -> Role:
    """The role `name` of a schedule, ready to be cut into steps."""
    return Role(name, program(schedule, name), problem, schedule, found, tiles)


@dataclass(frozen=True)
class Entry:
    """An action at its spot, by rank among others there, and the soonest it could be without delay.

    `soonest` is for giving back: from there on the operation waited for should be complete.
    """

    rank: int
    spot: Spot
    action: Action
    soonest: Spot | None = None


def entries(role: Role) -> tuple[Entry, ...]:
    """All actions of a period, those of one spot and rank in the order in which they are to be."""
    return (*_operations(role), *_writers(role), *_readers(role))


# The order of what stands before an operation: give back, take, copy what moves, itself. Behind it:
# hand on, then give back.
_GIVE, _TAKE, _COPY, _RETURN, _DO = range(5)


def _operations(role: Role) -> Iterator[Entry]:
    for index, place in enumerate(role.places):
        yield Entry(_DO, (place.stage, index, 0), _operation(role, place.operation))


def _operation(role: Role, name: str) -> Do | Fill:
    item = operation_of(role.problem)[name]
    edges = [edge for edge in role.problem.dependences if edge.target == name]
    reads = list(dict.fromkeys(_operand(role, edge) for edge in edges if edge.carries))
    reads = [*((tile, 0) for tile in role.tiles.get(name, ())), *reads]
    after = tuple((e.source, e.distance) for e in edges if not crosses(role.schedule, e))
    made, air = results(role.problem, name), flight(role.problem, item)
    filled = [ring.name for ring in role.problem.rings if ring.writer == name]
    if filled and not made:
        return Fill(filled[0], name, tuple(reads), after, air)
    return Do(name, tuple(reads), made, air, after)


def _operand(role: Role, edge: Dependence) -> Operand:
    """What a dependence carries, under the name that it has in the target's role."""
    for value in role.problem.values:
        if value.name == edge.carries:
            if crosses(role.schedule, edge):
                return moved(value.name, role.name), edge.distance
            return version(role.problem, value, edge.source), edge.distance
    return edge.carries, edge.distance


def moved(value: str, role: str) -> str:
    """The name of a value's copy in another role."""
    return f"{value}@{role}"


def _readers(role: Role) -> Iterator[Entry]:
    """Takes and gives of the links that this role reads."""
    for link in role.links:
        readers = dict(link.readers).get(role.name, ())
        if not readers:
            continue
        first = min(readers, key=lambda r: _spot(role, r, 0))
        spot = _spot(role, first, 0)
        ring = link.ring.name
        yield Entry(_TAKE, spot, Take(ring))
        if link.moves:
            name = moved(link.moves, role.name)
            copy = Do(channel.COPY, ((ring, 0),), (channel.Result(name, name),))
            yield Entry(_COPY, spot, copy)
        if link.moves or link.signal:
            yield Entry(_RETURN, spot, Give(ring))
        else:
            yield _given(role, link, readers)


def _begins(role: Role, reader: Reader) -> int:
    """When a reader starts, in cycles from the start of the element's iteration."""
    return start(role.schedule, reader.operation) + role.schedule.ii * reader.distance


def _spot(role: Role, reader: Reader, side: int) -> Spot:
    index = role.index(reader.operation)
    return role.places[index].stage + reader.distance, index, side


def _given(role: Role, link: Link, readers: tuple[Reader, ...]) -> Entry:
    """Where the last reader's need ends, and how: by the threads or deferred to a commit."""
    operations = operation_of(role.problem)
    deferred = any(commits(role.problem, operations[reader.operation]) for reader in readers)
    free = [_free(role, link, reader) for reader in readers]
    spot, soonest = max(late for late, _ in free), max(soon for _, soon in free)
    for index, place in enumerate(role.places):
        if place.operation == link.writer:  # the role itself waits for the slot
            spot = min(spot, (place.stage + link.ring.depth, index, 0))
    return Entry(_GIVE, spot, Give(link.ring.name, deferred), min(spot, soonest))


def _free(role: Role, link: Link, reader: Reader) -> tuple[Spot, Spot]:
    """Where in the cycle one reader's element is given back, and the soonest that costs no time.

    A reader that stays in flight is waited for where its result is needed anyway; if nothing in the
    role needs it, behind the next operation issued to its unit, so that the unit always has work.
    If the slot must be free before that, as late as the reader's time allows.
    """
    item = operation_of(role.problem)[reader.operation]
    after = _spot(role, reader, 1)
    if item.threads or commits(role.problem, item):
        return after, after
    limit = start(role.schedule, link.writer) + role.schedule.ii * link.ring.depth
    limit -= _telling(role, link, reader)
    needed = [(_spot(role, use, 0), _begins(role, use)) for use in _uses(role, reader)]
    spot, time = min(needed) if needed else _behind(role, reader)
    soonest = max(after, _latest(role, reader.free))
    spot = max(after, spot) if time <= limit else soonest
    return spot, soonest if needed else spot


def _behind(role: Role, reader: Reader) -> tuple[Spot, int]:
    """After the operation that this role issues next to the reader's unit, and when it starts."""
    operations = operation_of(role.problem)
    unit = flight(role.problem, operations[reader.operation])
    index, count = role.index(reader.operation), len(role.places)
    for ahead in range(1, count + 1):
        round_, other = divmod(index + ahead, count)
        place = role.places[other]
        if flight(role.problem, operations[place.operation]) == unit:
            step = role.places[index].stage + reader.distance + round_
            return (step, other, 1), step * role.schedule.ii + place.cycle
    raise AssertionError("a role issues the reader itself, one period later")


def _uses(role: Role, reader: Reader) -> Iterator[Reader]:
    """The operations of this role that wait for the reader anyway.

    They read its result, or are ordered behind it, or overwrite a register operand of it.
    """
    operations, name = operation_of(role.problem), reader.operation
    unit = flight(role.problem, operations[name])
    for edge in role.problem.dependences:
        if name not in (edge.source, edge.target) or crosses(role.schedule, edge):
            continue
        if edge.source == name and flight(role.problem, operations[edge.target]) != unit:
            yield Reader(edge.target, reader.distance + edge.distance, 0)
        if edge.target == name and flight(role.problem, operations[edge.source]) != unit:
            if any(value.name == edge.carries for value in role.problem.values):
                yield Reader(edge.source, reader.distance + 1 - edge.distance, 0)


def _telling(role: Role, link: Link, reader: Reader) -> int:
    """Cycles until the writer learns that a slot is free."""
    for edge in role.problem.dependences:
        if (edge.source, edge.target) == (link.writer, reader.operation) and edge.transfer:
            return edge.transfer.latency if crosses(role.schedule, edge) else 0
    return 0


def _complete(role: Role, index: int) -> Spot:
    """Behind an operation; behind what starts until it is complete, if its role waits for that."""
    place, item = role.places[index], operation_of(role.problem)[role.places[index].operation]
    behind = (place.stage, index, 1)
    if flight(role.problem, item) in ("", channel.COMMIT):
        return behind
    done = _latest(role, start(role.schedule, item.name) + item.latency)
    return max(behind, min(done, (place.stage + 1, index, 0)))


def _latest(role: Role, time: int) -> Spot:
    """After the last operation that starts at `time` or before, counted from the iteration."""
    step, cycle = divmod(time, role.schedule.ii)
    before = [k for k, place in enumerate(role.places) if place.cycle <= cycle]
    if before:
        return step, before[-1], 1
    return step - 1, len(role.places) - 1, 1


def _writers(role: Role) -> Iterator[Entry]:
    """Values and signals that leave for other roles when their writer is complete."""
    for link in role.links:
        writers = [k for k, place in enumerate(role.places) if place.operation == link.writer]
        for index in writers:
            spot = _complete(role, index)
            name, done = link.ring.name, ((link.writer, 0),)
            made = results(role.problem, link.writer)
            if link.signal:
                yield Entry(_GIVE, spot, Fill(name, channel.SIGNAL, (), done))
            elif link.moves:
                yield Entry(_GIVE, spot, Fill(name, channel.COPY, ((link.moves, 0),)))
            elif made:
                yield Entry(_GIVE, spot, Fill(name, channel.COPY, ((made[0].name, 0),)))
