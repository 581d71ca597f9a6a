"""The moves of the transition system in `protocol`, and the rules that they must keep.

P1 someone can move until all have finished; P2 a slot is filled only when every getter has given
back what it held; P3 at most one fill is in flight to a slot; P4 an element is got only when it is
in its slot, whole, and no later one is; P5 a role gives back only what it has got, and a barrier
gets no more arrivals than it waits for; P6 a turn is passed at most once before it is taken;
P7 at the end every element put has been got and given back, and as many turns are passed as at
the start.

Barriers behave as the hardware's: a wait looks at one parity bit, so it may pass two phases too
early or too late. The rules look at the counters instead, which no barrier knows.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir.channel import Done, Get, Pass, Put, Ring, Turn
from tensorc.passes.pipelining.protocol import (
    FINISHED,
    Barrier,
    Channel,
    Code,
    Event,
    Fault,
    Holding,
    Place,
    State,
    Step,
    System,
    arrive,
    cross,
)


def moves(system: System, state: State) -> Iterator[Step]:
    """The transitions out of `state` that matter.

    Landing, arriving, getting and giving back concern one slot. While a put to it has to wait (and,
    for a landing, a get as well), nothing else that may happen can tell whether such a move has
    been made, and only the move itself leads to where the slot may be put again. So it is made at
    once, as the only one, and no fault is lost. Where the slot may be put although the move is
    outstanding, all transitions are followed.
    """
    for step, shut in autonomous(system, state):
        if shut:
            yield step
            return
    for role, place in enumerate(state.places):
        if _commutes(system, state, role, place):
            yield from move(system, state, role)
            return
    yield from every_move(system, state)


def _commutes(system: System, state: State, role: int, place: Place) -> bool:
    """Whether a role's next statement is a get or done that may happen, of a slot that is shut.

    Nothing can take the chance away from it, and only a put to the slot could tell, but waits.
    """
    event = None if place.at == FINISHED else system.codes[role].events[place.at]
    if event is None or not isinstance(event.item, Get | Done):
        return False
    _, holding = _holding(system, state, role, event.target)
    ring, channel = system.rings[event.target], state.channels[event.target]
    if isinstance(event.item, Done):
        number = holding.done + holding.deferred
        return number < holding.got and _full_up(ring, channel, number)
    number = holding.got
    there = number < channel.put <= number + ring.depth and number not in channel.flights
    passes = channel.full[number % ring.depth].parity != number // ring.depth % 2
    return there and passes and _full_up(ring, channel, number)


def every_move(system: System, state: State) -> Iterator[Step]:
    """Every transition out of `state`."""
    yield from (step for step, _ in autonomous(system, state))
    for role in range(len(system.codes)):
        yield from move(system, state, role)


def autonomous(system: System, state: State) -> Iterator[tuple[Step, bool]]:
    """The transitions that no role makes, and whether the slot concerned lets nobody pass."""
    yield from _landings(system, state)
    yield from _deferred(system, state)


def _shut(ring: Ring, channel: Channel, number: int) -> bool:
    """Whether neither a get of element `number` nor the next put to its slot would pass."""
    full = channel.full[number % ring.depth]
    return full.parity == number // ring.depth % 2 and _full_up(ring, channel, number)


def _full_up(ring: Ring, channel: Channel, number: int) -> bool:
    """Whether the next put to the slot of element `number` would have to wait."""
    last = channel.put - 1 - (channel.put - 1 - number) % ring.depth
    return channel.empty[number % ring.depth].parity != (last // ring.depth + 1) % 2


def move(system: System, state: State, role: int) -> Iterator[Step]:
    """The transitions of one role; none if it waits or has finished."""
    place, code = state.places[role], system.codes[role]
    event = None if place.at == FINISHED else code.events[place.at]
    if event is None:
        if place.at == code.end:
            yield from (Step(code.name, "next tile", s) for s in cross(system, state, role))
        return
    after = _effect(system, state, role, event)
    if after is None:
        return
    if isinstance(after, Fault):
        yield Step(code.name, event.text, after)
        return
    place = after.places[role]
    moved = _placed(after, role, place._replace(at=place.at + 1))
    for arrived in arrive(system, moved, role):
        yield Step(code.name, event.text, arrived)


def _effect(system: System, state: State, role: int, event: Event) -> State | Fault | None:
    """The state after the event but before the role moves on; None if it has to wait."""
    match event.item:
        case Put():
            return _put(system, state, event)
        case Get():
            return _get(system, state, role, event)
        case Done():
            return _done(system, state, role, event)
        case Turn():
            if not state.turns[event.target]:
                return None
            return _turned(state, event.target, -1)
        case Pass():
            if state.turns[event.target]:
                sentence = "passes a turn that is still waiting to be taken"
                return Fault("P6", sentence, (event.text, f"turn {event.item.token}"))
            return _turned(state, event.target, 1)


def _put(system: System, state: State, event: Event) -> State | Fault | None:
    ring, channel = system.rings[event.target], state.channels[event.target]
    number = channel.put
    at, round_ = number % ring.depth, number // ring.depth
    if channel.empty[at].parity != round_ % 2:
        return None
    fault = _occupied(system, state, event, number)
    if fault:
        return fault
    full = channel.full[at]
    flights = channel.flights if ring.fill == "threads" else (*channel.flights, number)
    channel = channel._replace(put=number + 1, flights=flights)
    if ring.fill == "commit":
        return _with(state, event.target, channel)
    counted = full._replace(arrivals=full.arrivals - 1, bytes=full.bytes + ring.full_bytes)
    return _filled(state, event.target, channel, at, counted, ring, event.text)


def _occupied(system: System, state: State, event: Event, number: int) -> Fault | None:
    """P2 and P3 for a fill of element `number`."""
    ring, channel = system.rings[event.target], state.channels[event.target]
    before = number - ring.depth
    for code, place in zip(system.codes, state.places, strict=True):
        for target, holding in zip(code.gets, place.holdings, strict=True):
            if target == event.target and holding.done <= before:
                held = "still holds" if holding.got > before else "has not got yet"
                sentence = f"fills a slot whose last element {code.name} {held}"
                other = f"done {ring.name}" if holding.got > before else f"get {ring.name}"
                return Fault("P2", sentence, (event.text, f"{other} in {code.name}"))
    if any(flight % ring.depth == number % ring.depth for flight in channel.flights):
        sentence = "fills a slot to which the last fill is still in flight"
        return Fault("P3", sentence, (event.text, event.text))
    return None


def _filled(
    state: State, target: int, channel: Channel, at: int, full: Barrier, ring: Ring, text: str
) -> State | Fault:
    """`channel` with a slot's full barrier as counted, completed if nothing more is due."""
    if full.arrivals < 0:
        sentence = f"arrives on a full barrier of {ring.name} that waits for no arrival"
        return Fault("P5", sentence, (text, text))
    if full.arrivals == 0 and full.bytes == 0:
        full = Barrier(1 - full.parity, ring.full_arrivals, 0)
    barriers = (*channel.full[:at], full, *channel.full[at + 1 :])
    return _with(state, target, channel._replace(full=barriers))


def _get(system: System, state: State, role: int, event: Event) -> State | Fault | None:
    ring, channel = system.rings[event.target], state.channels[event.target]
    which, holding = _holding(system, state, role, event.target)
    number = holding.got
    if channel.full[number % ring.depth].parity == number // ring.depth % 2:
        return None
    put = f"put {ring.name}"
    if number >= channel.put or number in channel.flights:
        return Fault("P4", "gets an element that is not there yet", (event.text, put))
    if channel.put > number + ring.depth:
        return Fault("P4", "gets an element that a later one has replaced", (event.text, put))
    return _held(state, role, which, holding._replace(got=number + 1))


def _done(system: System, state: State, role: int, event: Event) -> State | Fault:
    which, holding = _holding(system, state, role, event.target)
    name = system.rings[event.target].name
    if holding.done + holding.deferred >= holding.got:
        return Fault("P5", "gives back an element it has not got", (event.text, f"get {name}"))
    if isinstance(event.item, Done) and event.item.deferred:
        return _held(state, role, which, holding._replace(deferred=holding.deferred + 1))
    return _given_back(system, state, role, event.target, event.text)


def _given_back(system: System, state: State, role: int, target: int, text: str) -> State | Fault:
    """An arrival of `role` on the empty barrier of its oldest element."""
    ring, channel = system.rings[target], state.channels[target]
    which, holding = _holding(system, state, role, target)
    at = holding.done % ring.depth
    empty = channel.empty[at]
    empty = empty._replace(arrivals=empty.arrivals - 1)
    if empty.arrivals == 0:
        empty = Barrier(1 - empty.parity, ring.empty_arrivals, 0)
    elif empty.arrivals < 0:
        sentence = f"arrives on an empty barrier of {ring.name} that waits for no arrival"
        return Fault("P5", sentence, (text, f"put {ring.name}"))
    barriers = (*channel.empty[:at], empty, *channel.empty[at + 1 :])
    state = _held(state, role, which, holding._replace(done=holding.done + 1))
    return _with(state, target, channel._replace(empty=barriers))


def _landings(system: System, state: State) -> Iterator[tuple[Step, bool]]:
    """The oldest fill in flight of each ring lands.

    Fills may land in any order, but elements are got in order: whoever gets the second has got the
    first. So a run in which the second lands early does the same as one in which it lands late.
    """
    for target, (ring, channel) in enumerate(zip(system.rings, state.channels, strict=True)):
        if channel.flights:
            number, *rest = channel.flights
            at = number % ring.depth
            full = channel.full[at]
            if ring.fill == "copy":
                full = full._replace(bytes=full.bytes - ring.bytes)
            else:
                full = full._replace(arrivals=full.arrivals - 1)
            landed = channel._replace(flights=tuple(rest))
            text = f"put {ring.name} lands"
            after = _filled(state, target, landed, at, full, ring, text)
            yield Step(f"{ring.fill} {ring.name}", text, after), _shut(ring, channel, number)


def _deferred(system: System, state: State) -> Iterator[tuple[Step, bool]]:
    """Each role's oldest deferred arrival on each ring."""
    for role, (code, place) in enumerate(zip(system.codes, state.places, strict=True)):
        for which, holding in enumerate(place.holdings):
            if not holding.deferred:
                continue
            target = code.gets[which]
            ring, channel = system.rings[target], state.channels[target]
            text = f"done {ring.name} arrives"
            less = _held(state, role, which, holding._replace(deferred=holding.deferred - 1))
            after = _given_back(system, less, role, target, text)
            shut = _full_up(ring, channel, holding.done)
            yield Step(f"commit {code.name}", text, after), shut


def _holding(system: System, state: State, role: int, target: int) -> tuple[int, Holding]:
    which = system.codes[role].gets.index(target)
    return which, state.places[role].holdings[which]


def _held(state: State, role: int, which: int, holding: Holding) -> State:
    place = state.places[role]
    holdings = (*place.holdings[:which], holding, *place.holdings[which + 1 :])
    return _placed(state, role, place._replace(holdings=holdings))


def _placed(state: State, role: int, place: Place) -> State:
    return state._replace(places=(*state.places[:role], place, *state.places[role + 1 :]))


def _with(state: State, target: int, channel: Channel) -> State:
    channels = (*state.channels[:target], channel, *state.channels[target + 1 :])
    return state._replace(channels=channels)


def _turned(state: State, target: int, by: int) -> State:
    turns = (*state.turns[:target], state.turns[target] + by, *state.turns[target + 1 :])
    return state._replace(turns=turns)


def stuck(system: System, state: State) -> Fault | None:
    """The fault of a state without transitions; None if it is a good end."""
    waiting = [
        (code, code.events[place.at])
        for code, place in zip(system.codes, state.places, strict=True)
        if place.at != FINISHED
    ]
    if waiting:
        return _deadlock(system, waiting)
    return _leftover(system, state)


def _deadlock(system: System, waiting: list[tuple[Code, Event | None]]) -> Fault:
    blocked = [f"{code.name} at `{event.text}`" for code, event in waiting if event]
    first = next(event for _, event in waiting if event)
    return Fault("P1", "all wait: " + ", ".join(blocked), (first.text, _release(first)))


def _release(event: Event) -> str:
    """What an event waits for, as a statement."""
    match event.item:
        case Put(name, _):
            return f"done {name}"
        case Get(name, _):
            return f"put {name}"
        case Turn(name):
            return f"pass {name}"
        case Done() | Pass():
            return event.text


def _leftover(system: System, state: State) -> Fault | None:
    for target, (ring, channel) in enumerate(zip(system.rings, state.channels, strict=True)):
        for code, place in zip(system.codes, state.places, strict=True):
            for got, holding in zip(code.gets, place.holdings, strict=True):
                if got == target and (holding.got, holding.done) != (channel.put, channel.put):
                    ops = (f"put {ring.name}", f"done {ring.name} in {code.name}")
                    return Fault("P7", f"elements of {ring.name} are left over at the end", ops)
    for name, turns, given in zip(system.tokens, state.turns, system.given, strict=True):
        if turns != given:
            sentence = f"{turns} turns are passed at the end, {given} at the start"
            return Fault("P7", sentence, (f"pass {name}", f"turn {name}"))
    return None
