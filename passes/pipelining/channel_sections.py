"""From the items of one step to a role's prologue, steady state and epilogue, with waits and turns.

With S stages the steady state runs the steps first = S - 1 <= p < T. Step p of the prologue does
the items of stage s <= p, each if iteration p - s exists; step T + k of the epilogue does those of
stage s > k, if the prologue has not done them, that is, if first <= T + k. So for every T, also
below S - 1, each item runs once for each iteration, in the order of steps.

What stays in flight is waited for where it must be: the program is run for every trip count that
differs, with a queue for each unit, and a statement that needs an operation complete gets a wait
for as many as have been issued since. Where trip counts disagree the strictest wait is taken. What
nothing needs complete is waited for two steps later, so that no queue grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorc.ir import channel
from tensorc.ir.channel import At
from tensorc.passes.pipelining.channel_cut import Item, operation, stages
from tensorc.passes.pipelining.channel_steps import Do, Fill, Give, Operand, Take
from tensorc.passes.pipelining.channel_turns import Batch

Place = tuple[str, int, int]  # section, step in it, item; what a statement is known by


@dataclass(frozen=True)
class Waits:
    """The wait in front of each place (unit to number left in flight), and units to drain."""

    before: dict[Place, dict[str, int]]
    last: tuple[str, ...]


@dataclass(frozen=True)
class Sections:
    """A role's program without what stands around the loop."""

    first: int
    prologue: tuple[channel.Statement, ...]
    steady: tuple[channel.Statement, ...]
    epilogue: tuple[channel.Statement, ...]


def sections(
    step: tuple[Item, ...],
    batches: tuple[Batch, ...],
    tiles: frozenset[str],
    places: dict[str, str],
) -> Sections:
    """The program of a role whose steady step is `step`.

    `tiles` are the names that are there once per tile, `places` the registers of each value.
    """
    first, waits = stages(step) - 1, waits_of(step, places)
    writer = _Writer(step, batches, tiles, places, waits)
    prologue = [*writer.idle(0), *(s for p in range(first) for s in writer.step("prologue", p))]
    steady = list(writer.step("steady", 0))
    epilogue = [*(s for k in range(first) for s in writer.step("epilogue", k)), *writer.idle(1)]
    drained = [channel.Wait(unit, 0) for unit in waits.last]
    return Sections(
        first, _grouped(prologue), tuple(s for _, s in steady), (*_grouped(epilogue), *drained)
    )


Guarded = tuple[At | None, channel.Statement]


def _grouped(found: list[Guarded]) -> tuple[channel.Statement, ...]:
    """Statements with the same guard, one after another, under one When."""
    grouped = list[channel.Statement]()
    body, guard = list[channel.Statement](), None
    for at, item in [*found, (None, None)]:
        if body and (at is not guard or item is None):
            grouped += [channel.When(guard, tuple(body))] if guard else body
            body = []
        guard = at
        if item is not None:
            body.append(item)
    return tuple(grouped)


@dataclass(frozen=True)
class _Writer:
    """Turns the items of a step of some section into statements."""

    items: tuple[Item, ...]
    batches: tuple[Batch, ...]
    tiles: frozenset[str]
    places: dict[str, str]
    waits: Waits

    def step(self, section: str, number: int) -> Iterator[Guarded]:
        """The statements of one step of a section, each with the iteration that must exist."""
        turns = self.turns(section, number)
        for k, item in enumerate(self.items):
            here = self.runs(section, number, item.stage)
            guard = self.guard(section, number, item.stage)
            waits = self.waits.before.get((section, number, k), {}) if here else {}
            for unit, pending in waits.items():
                yield guard, channel.Wait(unit, pending)
            yield from turns.get((k, 0), ())
            if here:
                yield guard, self.statement(item, section, number)
            yield from turns.get((k, 1), ())

    def idle(self, end: int) -> Iterator[Guarded]:
        """Turns in periods before the role's first step (end 0) or after its last (end 1)."""
        periods = list[tuple[int, int]]()
        for k, batch in enumerate(self.batches):
            many = batch.tail if end else batch.lead
            begin = batch.lead + stages(self.items) if end else 0
            periods += [(begin + n, k) for n in range(many)]
        for _, k in sorted(periods):
            yield At("start"), channel.Turn(self.batches[k].takes)
            yield At("start"), channel.Pass(self.batches[k].passes)

    def runs(self, section: str, number: int, stage: int) -> bool:
        """Whether items of a stage are in a step."""
        if section == "prologue":
            return stage <= number
        return section == "steady" or stage > number

    def guard(self, section: str, number: int, stage: int) -> At | None:
        """The iteration without which a step does not run an item of a stage."""
        if section == "prologue":
            return At("start", number - stage)
        if section == "epilogue":
            return At("start", stages(self.items) - 2 - number)
        return None

    def at(self, section: str, number: int, stage: int) -> At:
        """The iteration on which an item of a stage works."""
        match section:
            case "prologue":
                return At("start", number - stage)
            case "steady":
                return At("step", -stage)
            case _:
                return At("end", number - stage)

    def turns(self, section: str, number: int) -> dict[tuple[int, int], list[Guarded]]:
        """Turns before the first and passes after the last operation of each batch in a step."""
        found = dict[tuple[int, int], list[Guarded]]()
        for batch in self.batches:
            all_ = [k for k, item in enumerate(self.items) if operation(item) in batch.operations]
            here = [k for k in all_ if self.runs(section, number, self.items[k].stage)]
            counting = [k for k in here if operation(self.items[k]) == batch.leader]
            if batch.leader and not counting:
                continue
            stage = self.items[counting[0]].stage if counting else number
            guard = self.guard(section, number, stage if section == "prologue" else 0)
            members = here or all_
            found.setdefault((members[0], 0), []).append((guard, channel.Turn(batch.takes)))
            found.setdefault((members[-1], 1), []).append((guard, channel.Pass(batch.passes)))
        return found

    def statement(self, item: Item, section: str, number: int) -> channel.Statement:
        """An item as a statement."""
        at = self.at(section, number, item.stage)
        match item.action:
            case Do(operation, reads, results, flight):
                return channel.Perform(self.call(operation, at, reads), results, flight)
            case Fill(ring, operation, reads):
                return channel.Put(ring, self.call(operation, at, reads))
            case Take(ring):
                return channel.Get(ring, at)
            case Give(ring, deferred):
                return channel.Done(ring, at, deferred)

    def call(self, operation: str, at: At, reads: tuple[Operand, ...]) -> channel.Call:
        found = list[channel.Read]()
        for name, distance in reads:
            back = channel.ONCE if name in self.tiles else At(at.anchor, at.offset - distance)
            if back.anchor == "start" and back.offset < 0 and name not in self.places:
                continue  # rings have no elements before the first iteration
            found.append(channel.Read(name, back))
        return channel.Call(operation, at, tuple(found))


@dataclass
class _Flying:
    """An operation in flight in the run that finds the waits."""

    action: Do
    iteration: int


@dataclass
class _Queues:
    """What is in flight on each unit, and the strictest waits found so far."""

    places: dict[str, str]
    most: dict[str, int]  # how many may be in flight on each unit
    flying: dict[str, list[_Flying]] = field(default_factory=dict[str, list[_Flying]])
    waits: dict[Place, dict[str, int]] = field(default_factory=dict[Place, dict[str, int]])


def waits_of(step: tuple[Item, ...], places: dict[str, str]) -> Waits:
    """The waits that the program made from `step` needs, over all trip counts."""
    longest = 3 * stages(step) + 3
    last = set[str]()
    units = [_unit(item) for item in step]
    queues = _Queues(places, {unit: 2 * units.count(unit) for unit in units})
    for trips in range(longest + 1):
        queues.flying.clear()
        for place, item, iteration in _unrolled(step, trips):
            _pass(queues, place, item, iteration)
        last |= {unit for unit, flying in queues.flying.items() if flying}
    return Waits(queues.waits, tuple(sorted(last)))


def _unrolled(step: tuple[Item, ...], trips: int) -> Iterator[tuple[Place, Item, int]]:
    """The items of all steps for a trip count, with their place and iteration."""
    first = stages(step) - 1
    for p in range(trips + first):
        if p < first:
            section, number = "prologue", p
        elif p < trips:
            section, number = "steady", 0
        else:
            section, number = "epilogue", p - trips
        for k, item in enumerate(step):
            if 0 <= p - item.stage < trips:
                yield (section, number, k), item, p - item.stage


def _pass(queues: _Queues, place: Place, item: Item, iteration: int) -> None:
    """Wait for what `item` needs, as an earlier run said or as this one shows; then issue it."""
    for unit, flying in queues.flying.items():
        needed = [n for n, flight in enumerate(flying) if _meets(queues, item, iteration, flight)]
        if not needed and _unit(item) == unit and len(flying) >= queues.most[unit]:
            needed = [0]
        known = queues.waits.get(place, {}).get(unit)
        if needed:
            pending = len(flying) - needed[-1] - 1
            known = pending if known is None else min(known, pending)
            queues.waits.setdefault(place, {})[unit] = known
        if known is not None:
            del flying[: max(0, len(flying) - known)]
    if isinstance(item.action, Do) and _unit(item):
        queues.flying.setdefault(_unit(item), []).append(_Flying(item.action, iteration))


def _unit(item: Item) -> str:
    """The unit on which an item stays in flight until it is waited for; empty if it does not."""
    flight = item.action.flight if isinstance(item.action, Do) else ""
    return "" if flight == channel.COMMIT else flight


def _meets(queues: _Queues, item: Item, iteration: int, flight: _Flying) -> bool:
    """Whether `item` must not start before `flight` is complete."""
    match item.action:
        case Do(_, reads, results, unit, after) if unit == flight.action.flight:
            if results == flight.action.results:
                return False  # accumulation: the unit works in order
            return _touches(queues, reads, results, flight)
        case Do(_, reads, results, _, after):
            ordered = _ordered(after, iteration, flight)
            return ordered or _touches(queues, reads, results, flight)
        case Fill(_, _, reads, after):
            return _ordered(after, iteration, flight) or _touches(queues, reads, (), flight)
        case Give(ring):
            elements = {(n, flight.iteration - d) for n, d in flight.action.reads}
            return (ring, iteration) in elements
        case Take():
            return False


def _ordered(after: tuple[Operand, ...], iteration: int, flight: _Flying) -> bool:
    return any(
        name == flight.action.operation and iteration - distance >= flight.iteration
        for name, distance in after
    )


def _touches(
    queues: _Queues,
    reads: tuple[Operand, ...],
    results: tuple[channel.Result, ...],
    flight: _Flying,
) -> bool:
    """Whether registers are written that the flight reads or writes, or read that it writes."""
    places = queues.places
    written = {result.into for result in flight.action.results}
    used = {places[name] for name, _ in flight.action.reads if name in places}
    targets = {result.into for result in results}
    sources = {places[name] for name, _ in reads if name in places}
    return bool(sources & written or targets & written or targets & used)
