"""Invariants C6 to C12 of level 3: one role alone, run for every trip count that differs.

A role is a sequential program, so what it holds, what it has in flight and what its registers
contain follow from running it, whatever the other roles do. It is run for T = 0, 1, ... up to the
`horizon`. Longer loops add nothing new: after a step of the steady state all that matters is the
holdings, the flights and the registers relative to the step, and C12 demands that these repeat
from one step to the next at the horizon, so they repeat for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tensorc.ir.channel import (
    BUILTIN,
    COMMIT,
    At,
    Call,
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
    flatten,
    iteration,
    statements,
    unfold,
)
from tensorc.ir.print_channel import print_statement

Element = tuple[str, int]  # a ring or value, and the iteration


def horizon(kernel: Kernel) -> int:
    """A trip count from which the roles' programs differ only in the length of the steady state."""
    steps = [role.first for role in kernel.roles]
    offsets = [abs(at.offset) for role in kernel.roles for at in _named(role)]
    flights = [s.pending for role in kernel.roles for s in statements(role) if isinstance(s, Wait)]
    return 4 + max(steps, default=0) + 2 * max(offsets, default=0) + max(flights, default=0)


def _named(role: Role) -> Iterator[At]:
    for item in statements(role):
        match item:
            case Perform(call, _, _) | Put(_, call):
                yield call.at
                yield from (read.at for read in call.reads)
            case Get(_, at) | Done(_, at, _) | When(at, _):
                yield at
            case Turn() | Pass() | Wait():
                pass


@dataclass
class _Flight:
    """An asynchronous operation that its role has not yet waited for."""

    unit: str
    text: str
    writes: frozenset[str]  # storages
    reads: frozenset[str | Element]  # storages, and elements of rings


@dataclass
class _Run:
    """A role in the middle of a tile: what it has done, holds, has in flight and in registers."""

    rings: dict[str, Ring]
    places: dict[str, str]  # each value's storage
    role: Role
    trips: int
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    held: list[Element] = field(default_factory=list[Element])
    flights: list[_Flight] = field(default_factory=list[_Flight])
    committed: dict[Element, str] = field(default_factory=dict[Element, str])
    registers: dict[str, tuple[Element, str]] = field(
        default_factory=dict[str, tuple[Element, str]]
    )
    before: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    performed: Counter[Element] = field(default_factory=Counter[Element])
    step: int = 0

    def where(self, item: Statement) -> str:
        """The statement and the situation, for messages."""
        return f"{self.role.name}, T = {self.trips}, step {self.step}: `{print_statement(item)}`"

    def state(self) -> object:
        """What later steps depend on, relative to the step."""
        held = [(name, i - self.step) for name, i in self.held if self.rings[name].per != "tile"]
        values = sorted((n, i - self.step) for (n, i), _ in self.registers.values())
        return held, [(f.unit, f.text) for f in self.flights], values


Fault = tuple[str, str, str]  # invariant, statement, sentence


def verify_role(kernel: Kernel, role: Role) -> list[str]:
    """The faults of `role`, each once, with the smallest trip count that shows it."""
    found = dict[tuple[str, str], str]()
    for rule, text, sentence in _runs(kernel, role):
        found.setdefault((rule, text), f"{rule}: {sentence}")
    return [*found.values(), *_settles(_last(kernel, role))]


def faultless(kernel: Kernel, role: Role) -> bool:
    """Whether `verify_role` has nothing to say; known as soon as there is a fault."""
    return not any(_runs(kernel, role)) and not any(_settles(_last(kernel, role)))


def _runs(kernel: Kernel, role: Role) -> Iterator[Fault]:
    """What is found in the runs for all trip counts that differ."""
    rings, places = {ring.name: ring for ring in kernel.rings}, _places(role)
    for trips in range(horizon(kernel) + 1):
        yield from _tile(_Run(rings, places, role, trips))


def _last(kernel: Kernel, role: Role) -> _Run:
    rings = {ring.name: ring for ring in kernel.rings}
    return _Run(rings, _places(role), role, horizon(kernel))


def _places(role: Role) -> dict[str, str]:
    performs = (item for item in statements(role) if isinstance(item, Perform))
    return {result.name: result.into for item in performs for result in item.results}


def _tile(run: _Run) -> Iterator[Fault]:
    for item, step in unfold(run.role, run.trips):
        run.step = step
        yield from _statement(run, item)
    yield from _ends(run)


def _statement(run: _Run, item: Statement) -> Iterator[Fault]:
    match item:
        case Get(ring, at):
            yield from _counted(run, item, ring, at)
            run.held.append((ring, iteration(at, run.step, run.trips)))
        case Done(ring, at, _):
            yield from _counted(run, item, ring, at)
            yield from _given_back(run, item)
        case Put(ring, call):
            yield from _counted(run, item, ring, call.at)
            yield from _called(run, item, call)
            if run.rings[ring].fill == "commit":
                for read in _elements(run, call):
                    run.committed[read] = print_statement(item)
        case Perform():
            yield from _performed(run, item)
        case Wait(unit, pending):
            _retire(run, unit, pending)
        case Turn() | Pass() | When():
            pass


def _counted(run: _Run, item: Put | Get | Done, ring: str, at: At) -> Iterator[Fault]:
    """C6: the k-th statement of its kind on a ring names element k."""
    key, text = (type(item).__name__, ring), print_statement(item)
    due, named = run.counts[key], iteration(at, run.step, run.trips)
    before = run.before.get(key, f"{_PARTNER[type(item)]} {ring}")
    run.counts[key] += 1
    run.before[key] = text
    if due != named:
        sentence = (
            f"{run.where(item)} is for {ring}[{named}], {ring}[{due}] is next, see `{before}`"
        )
        yield "C6", text, sentence


_PARTNER = {Put: "get", Get: "put", Done: "get"}


def _given_back(run: _Run, item: Done) -> Iterator[Fault]:
    """C6 and C8: what is given back is held, and no operation in flight reads it."""
    element = (item.ring, iteration(item.at, run.step, run.trips))
    text, where = print_statement(item), run.where(item)
    if element not in run.held:
        yield "C6", text, f"{where} gives back {_show(element)}, which `get` has not got"
        return
    run.held.remove(element)
    for flight in run.flights:
        if element in flight.reads:
            yield "C8", text, f"{where} gives back what `{flight.text}` in flight still reads"
    reader = run.committed.pop(element, None)
    if reader and not item.deferred:
        yield "C8", text, f"{where} gives back what `{reader}` still reads: defer it to completion"


def _elements(run: _Run, call: Call) -> frozenset[Element]:
    named = ((read.name, iteration(read.at, run.step, run.trips)) for read in call.reads)
    return frozenset(named)


def _called(run: _Run, item: Perform | Put, call: Call) -> Iterator[Fault]:
    """C7 and C9 for what the operation reads; C10 counts it."""
    text, where = print_statement(item), run.where(item)
    run.performed[(call.operation, iteration(call.at, run.step, run.trips))] += 1
    for element in sorted(_elements(run, call)):
        name, at = element
        if name in run.rings:
            if element not in run.held and not _own(run, item, element):
                due = run.counts[("Get", name)]
                fate = f"`done {name}` came before" if at < due else f"`get {name}` has not come"
                yield "C7", text, f"{where} reads {_show(element)}, which is not held: {fate}"
            continue
        there = run.registers.get(run.places.get(name, name))
        if there is None:
            yield "C9", text, f"{where} reads {_show(element)}, which nothing has written"
        elif there[0] != element:
            left = f"`{there[1]}` left {_show(there[0])}"
            yield "C9", text, f"{where} reads {_show(element)}, where {left}"
        yield from _unfinished(run, item, run.places.get(name, name))
        if _queued(run, item):
            yield "C9", text, f"{where} is not waited for and reads {name} in registers"


def _own(run: _Run, item: Perform | Put, element: Element) -> bool:
    """Whether an element is the role's own, put before on the queue that the operation joins.

    Operations to be committed work in order, so what one has put the next may read, without a
    barrier, until the slot is put again.
    """
    name, at = element
    ring, put = run.rings[name], run.counts[("Put", name)]
    there = put - ring.depth <= at < put
    return there and ring.fill == "commit" and _queued(run, item)


def _queued(run: _Run, item: Perform | Put) -> bool:
    """Whether an operation is asynchronous and completes by a commit."""
    if isinstance(item, Put):
        return run.rings[item.ring].fill == "commit"
    return item.flight == COMMIT


def _unfinished(run: _Run, item: Perform | Put, place: str) -> Iterator[Fault]:
    """C9: a value in flight is read only by the next accumulation on the same unit."""
    for flight in run.flights:
        if place not in flight.writes or (isinstance(item, Perform) and _chained(item, flight)):
            continue
        sentence = f"{run.where(item)} reads {place} while `{flight.text}` in flight writes it"
        yield "C9", print_statement(item), sentence


def _chained(item: Perform, flight: _Flight) -> bool:
    """Whether an operation continues on the results of one in flight: units work in order."""
    return item.flight == flight.unit and _targets(item) == flight.writes


def _targets(item: Perform) -> frozenset[str]:
    return frozenset(result.into for result in item.results)


def _performed(run: _Run, item: Perform) -> Iterator[Fault]:
    yield from _called(run, item, item.call)
    text, where, targets = print_statement(item), run.where(item), _targets(item)
    for flight in run.flights:
        if _chained(item, flight):
            continue
        if targets & flight.writes:
            yield "C9", text, f"{where} writes what `{flight.text}` in flight writes"
        if targets & flight.reads:
            yield "C9", text, f"{where} overwrites what `{flight.text}` in flight reads"
    at = iteration(item.call.at, run.step, run.trips)
    for result in item.results:
        run.registers[result.into] = ((result.name, at), text)
    elements = _elements(run, item.call)
    if item.flight == COMMIT:
        run.committed.update({e: text for e in elements if e[0] in run.rings})
    elif item.flight:
        reads = frozenset(run.places.get(e[0], e) for e in elements)
        run.flights.append(_Flight(item.flight, text, targets, reads))


def _retire(run: _Run, unit: str, pending: int) -> None:
    there = [flight for flight in run.flights if flight.unit == unit]
    for flight in there[: max(0, len(there) - pending)]:
        run.flights.remove(flight)


def _ends(run: _Run) -> Iterator[Fault]:
    """C6, C10 and C11 at the end of a tile."""
    at = f"{run.role.name}, T = {run.trips}"
    for (kind, ring), count in run.counts.items():
        due = 1 if run.rings[ring].per == "tile" else run.trips
        if count != due:
            statement, other = f"`{kind.lower()} {ring}`", "get" if kind == "Put" else "put"
            sentence = (
                f"{at}: {statement} happens {count} times, `{other} {ring}` is due {due} times"
            )
            yield "C6", statement, sentence
    for name in dict.fromkeys(name for name, _ in run.held):
        statement = f"`get {name}`"
        yield "C6", statement, f"{at}: {statement} is not followed by enough `done {name}`"
    for flight in run.flights:
        yield "C11", flight.text, f"{at}: `{flight.text}` is still in flight after the tile"
    yield from _complete(run, at)


def _complete(run: _Run, at: str) -> Iterator[Fault]:
    """C10: every operation of the loop once for each iteration."""
    calls = [s.call for s in statements(run.role) if isinstance(s, Perform | Put)]
    looped = {call.operation for call in calls if call.at.anchor != "tile"} - set(BUILTIN)
    for name in sorted(looped):
        for i in range(-1, run.trips + 1):
            due, count = int(0 <= i < run.trips), run.performed[(name, i)]
            if count != due:
                yield "C10", name, f"{at}: operation {name} of iteration {i} runs {count} times"
                break


def _settles(run: _Run) -> list[str]:
    """C12: the state after the last two steps of the longest run is the same."""
    role, trips = run.role, run.trips
    states = dict[int, object]()
    for item, step in unfold(role, trips):
        run.step = step
        for _ in _statement(run, item):
            pass
        if step < trips:
            states[step] = run.state()
    steady = any(True for _ in flatten(role.steady))
    if not steady or states.get(trips - 1) == states.get(trips - 2):
        return []
    return [f"C12: {role.name}: what it holds or has in flight still changes after {trips} steps"]


def _show(element: Element) -> str:
    return f"{element[0]}[{element[1]}]"
