"""The transition system of a level-3 kernel's barriers: what `check_protocol` explores.

A state has the trip counts as far as decided, the place of every role, and every barrier: the
phase parity and the arrivals and bytes still due on each slot's full and empty barrier, the fills
in flight, the arrivals deferred to the tensor core, the turns passed. Roles move from one
synchronising statement to the next; fills land and deferred arrivals happen at any later time.

Trip counts are not bounded. They are decided as late as possible: a role that asks whether
iteration k exists, when no one has asked before, goes both ways, and the answer binds the others.
Counters grow, but only differences matter: a ring whose counters all are at least b behaves like
one turned by b slots, with the phases of the slots passed over flipped. `normal` turns every ring
back, drops tiles that all roles have left, shortens the distance to the loop's end, and sorts
roles that are alike. Turning a ring by twice its depth is the identity, so this is the usual
reduction modulo twice the depth, and a little stronger.

This module reads kernels; it shares nothing with the pass that makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tensorc.ir.channel import (
    At,
    Done,
    Get,
    Kernel,
    Pass,
    Perform,
    Put,
    Ring,
    Role,
    Statement,
    Turn,
    Wait,
    When,
)
from tensorc.ir.print_channel import print_statement

FINISHED = -1


class Event(NamedTuple):
    """A synchronising statement, the iterations that must exist for it, and its text."""

    item: Put | Get | Done | Turn | Pass
    target: int  # index of its ring or token in the system
    guards: tuple[At, ...]
    text: str


class Trips(NamedTuple):
    """What is known of a tile's trip count: at least `least`, and equal to it if `exact`."""

    least: int
    exact: bool


class Holding(NamedTuple):
    """A getter's counters on a ring: elements got, given back, and given back but not arrived."""

    got: int
    done: int
    deferred: int


class Place(NamedTuple):
    """Where a role is: tile, index in its code, step, and its counters on the rings it gets."""

    tile: int
    at: int
    step: int
    holdings: tuple[Holding, ...]


class Barrier(NamedTuple):
    """An mbarrier: parity of the phase under way, arrivals and bytes still due in it."""

    parity: int
    arrivals: int
    bytes: int


class Channel(NamedTuple):
    """A ring: elements put, fills in flight, and the barriers of its slots."""

    put: int
    flights: tuple[int, ...]
    full: tuple[Barrier, ...]
    empty: tuple[Barrier, ...]


class State(NamedTuple):
    """Everything; `last` says that the last of `tiles` is the kernel's last."""

    tiles: tuple[Trips, ...]
    last: bool
    places: tuple[Place, ...]
    channels: tuple[Channel, ...]
    turns: tuple[int, ...]


class Fault(NamedTuple):
    """A broken rule: its number, what happened, and the two operations concerned."""

    rule: str
    sentence: str
    operations: tuple[str, str]


class Step(NamedTuple):
    """A transition: who moves, what is done, and the state or the fault it leads to."""

    agent: str
    text: str
    after: State | Fault


@dataclass(frozen=True)
class Code:
    """A role's synchronising statements on the chosen rings and tokens.

    `events` has the prologue's; None at `head`, the loop's test; the steady state's; None, the jump
    back; from `exit` on the epilogue's; None at `end`.
    """

    name: str
    first: int
    events: tuple[Event | None, ...]
    head: int
    exit: int
    gets: tuple[int, ...]  # the rings it gets or gives back

    @property
    def end(self) -> int:
        """The index after the last event."""
        return len(self.events) - 1


@dataclass(frozen=True)
class System:
    """A kernel seen through some of its rings and tokens."""

    persistent: bool
    rings: tuple[Ring, ...]
    tokens: tuple[str, ...]
    given: tuple[int, ...]
    codes: tuple[Code, ...]
    classes: tuple[tuple[int, ...], ...]  # indices of roles with equal code
    settled: int  # iterations at least this far from the start are alike
    silent: frozenset[int]  # trip counts for which no role has an event
    ahead: int  # tiles not left by all, from which on to begin another is a move of its own


def build(kernel: Kernel, rings: frozenset[str], tokens: frozenset[str]) -> System:
    """The system of the named rings and tokens; roles without events on them are left out."""
    chosen = tuple(ring for ring in kernel.rings if ring.name in rings)
    turns = tuple(token for token in kernel.tokens if token.name in tokens)
    index = {item.name: k for items in (chosen, turns) for k, item in enumerate(items)}
    codes = [_code(role, index) for role in kernel.roles]
    codes = [code for code in codes if any(code.events)]
    settled = 2 + max((_furthest(code) for code in codes), default=0)
    silent = frozenset(t for t in range(settled) if all(_quiet(code, t) for code in codes))
    ahead = 2 + max((ring.depth for ring in chosen), default=1)
    persistent = kernel.persistent and any(map(_framed, codes))
    return System(
        persistent, chosen, tuple(t.name for t in turns), tuple(t.given for t in turns),
        tuple(codes), _classes(codes), settled, silent if persistent else frozenset(), ahead,
    )  # fmt: skip


def _framed(code: Code) -> bool:
    """Whether a tile is more than its steps: else many tiles are like one with all their steps."""
    return code.head > 0 or code.end > code.exit or code.first > 0


def _code(role: Role, index: dict[str, int]) -> Code:
    sections = (role.prologue, role.steady, role.epilogue)
    prologue, steady, epilogue = (tuple(_events(body, (), index)) for body in sections)
    events = (*prologue, None, *steady, None, *epilogue, None)
    gets = dict.fromkeys(e.target for e in events if e and isinstance(e.item, Get | Done))
    head = len(prologue)
    return Code(role.name, role.first, events, head, head + len(steady) + 2, tuple(gets))


def _events(
    body: tuple[Statement, ...], guards: tuple[At, ...], index: dict[str, int]
) -> Iterator[Event]:
    for item in body:
        match item:
            case When(at, inner):
                yield from _events(inner, (*guards, at), index)
            case Put(name, _) | Get(name, _) | Done(name, _, _) | Turn(name) | Pass(name):
                if name in index:
                    yield Event(item, index[name], guards, print_statement(item))
            case Perform() | Wait():
                pass


def _furthest(code: Code) -> int:
    guards = (at for event in code.events if event for at in event.guards)
    return max([code.first, *(abs(at.offset) for at in guards)])


def _quiet(code: Code, trips: int) -> bool:
    def runs(event: Event | None, step: int) -> bool:
        if event is None:
            return False
        return all((at.offset + step * (at.anchor == "step")) < trips for at in event.guards)

    around = [(event, 0) for event in (*code.events[: code.head], *code.events[code.exit :])]
    steady = code.events[code.head : code.exit]
    looped = [(event, step) for step in range(code.first, trips) for event in steady]
    return not any(runs(event, step) for event, step in (*around, *looped))


def _classes(codes: list[Code]) -> tuple[tuple[int, ...], ...]:
    alike = dict[object, list[int]]()
    for k, code in enumerate(codes):
        puts = any(isinstance(event.item, Put) for event in code.events if event)
        bare = tuple((event.item, event.guards) if event else None for event in code.events)
        alike.setdefault((code.first, bare, k if puts else -1), []).append(k)
    return tuple(tuple(members) for members in alike.values() if len(members) > 1)


def initial(system: System) -> list[State]:
    """The states in which every role stands before its first event."""
    tiles = (Trips(0, False),)
    places = tuple(
        Place(0, 0, 0, tuple(Holding(0, 0, 0) for _ in code.gets)) for code in system.codes
    )
    channels = tuple(_fresh(ring) for ring in system.rings)
    states = [State(tiles, not system.persistent, places, channels, system.given)]
    for k in range(len(system.codes)):
        states = [after for state in states for after in arrive(system, state, k)]
    return states


def _fresh(ring: Ring) -> Channel:
    full = (Barrier(0, ring.full_arrivals, 0),) * ring.depth
    empty = (Barrier(0, ring.empty_arrivals, 0),) * ring.depth
    return Channel(0, (), full, empty)


def arrive(system: System, state: State, role: int) -> Iterator[State]:
    """`state` with `role` moved on to its next event, for every way the trip counts may turn out.

    Follows guards, the loop's test and jump, and the way to the next tile.
    """
    place, code = state.places[role], system.codes[role]
    event = None if place.at == FINISHED else code.events[place.at]
    if place.at == FINISHED:
        yield state
    elif event is not None:
        for after, runs in _guarded(system, state, place, event.guards):
            if runs:
                yield after
            else:
                skipped = place._replace(at=place.at + 1)
                yield from arrive(system, _moved(after, role, skipped), role)
    elif place.at == code.head:
        yield from _test(system, state, role)
    elif place.at == code.exit - 1:
        back = place._replace(at=code.head, step=place.step + 1)
        yield from arrive(system, _moved(state, role, back), role)
    else:
        yield from _next_tile(system, state, role)


def _moved(state: State, role: int, place: Place) -> State:
    places = (*state.places[:role], place, *state.places[role + 1 :])
    return state._replace(places=places)


def _test(system: System, state: State, role: int) -> Iterator[State]:
    """The loop's test: into the steady state if iteration `step` exists, else to the epilogue."""
    place, code = state.places[role], system.codes[role]
    if code.exit == code.head + 2:  # nothing in the steady state
        yield from arrive(system, _moved(state, role, place._replace(at=code.exit, step=0)), role)
        return
    step = max(place.step, code.first)
    for after, runs in _exists(system, state, place.tile, step):
        at = place.at + 1 if runs else code.exit
        moved = place._replace(at=at, step=step if runs else 0)
        yield from arrive(system, _moved(after, role, moved), role)


def _next_tile(system: System, state: State, role: int) -> Iterator[State]:
    """Across the border of a tile, unless the role is far ahead of the others: then it stops."""
    place = state.places[role]
    hindmost = min(p.tile for p in state.places if p.at != FINISHED)
    foremost = place.tile + 1 == len(state.tiles)
    if foremost and not state.last and place.tile + 1 - hindmost >= system.ahead:
        yield _moved(state, role, place._replace(step=0))
    else:
        yield from cross(system, state, role)


def cross(system: System, state: State, role: int) -> Iterator[State]:
    """A role at the end of a tile goes on to the next, or finishes, or decides which it is."""
    place = state.places[role]
    following = place._replace(tile=place.tile + 1, at=0, step=0)
    if place.tile + 1 < len(state.tiles):
        yield from arrive(system, _moved(state, role, following), role)
        return
    if not state.last:
        more = state._replace(tiles=(*state.tiles, Trips(0, False)))
        yield from arrive(system, _moved(more, role, following), role)
    finished = place._replace(tile=0, at=FINISHED, step=0)
    yield _moved(state._replace(last=True), role, finished)


def _guarded(
    system: System, state: State, place: Place, guards: tuple[At, ...]
) -> Iterator[tuple[State, bool]]:
    if not guards:
        yield state, True
        return
    at = guards[0]
    needed = at.offset + (place.step if at.anchor == "step" else 0)
    for after, exists in _exists(system, state, place.tile, needed):
        if exists:
            yield from _guarded(system, after, place, guards[1:])
        else:
            yield after, False


def _exists(
    system: System, state: State, tile: int, iteration: int
) -> Iterator[tuple[State, bool]]:
    """Whether a tile has an iteration: as known, or both ways with the knowledge added."""
    known = state.tiles[tile]
    if known.least > iteration:
        yield state, True
    elif known.exact:
        yield state, False
    else:
        for trips in range(known.least, iteration + 1):
            if trips not in system.silent:
                yield _knowing(state, tile, Trips(trips, True)), False
        yield _knowing(state, tile, Trips(iteration + 1, False)), True


def _knowing(state: State, tile: int, known: Trips) -> State:
    tiles = (*state.tiles[:tile], known, *state.tiles[tile + 1 :])
    return state._replace(tiles=tiles)
