"""The machine that `interpret_channel` runs: storage, barriers, roles, and what is in flight.

Every agent that could move offers one action: a role that does not wait its next statement, each
copy its landing, each queue of operations in flight the completion of its oldest. Whoever drives
the machine picks one, until there is none.

Faults: R1 nobody can move; R2 storage is written while it is read or written; R3 an operand is
not the one named, or not there; R4 a barrier gets an arrival it does not wait for; R6 a turn is
passed before the last is taken; R7 something is left over at the end. (R5, a wrong result, is
found by comparison.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from tensorc.ir.channel import (
    BUILTIN,
    COMMIT,
    Done,
    Get,
    Kernel,
    Pass,
    Perform,
    Put,
    Read,
    Ring,
    Role,
    Statement,
    Turn,
    Wait,
    When,
    iteration,
    phase,
    slot,
    statements,
    unfold,
)
from tensorc.ir.machine_parts import Action, Activity, Actor, Barrier, Cell, Fault, Stamp, User
from tensorc.ir.print_channel import print_statement
from tensorc.ir.term import Meaning, apply
from tensorc.ir.trace import Entry


class Machine:
    """A kernel at work on tiles of the given trip counts."""

    def __init__(self, kernel: Kernel, trips: Sequence[int], meaning: Meaning) -> None:
        self.trips, self.meaning = trips, meaning
        self.rings = {ring.name: ring for ring in kernel.rings}
        self.slots = {r.name: [Cell() for _ in range(r.depth)] for r in kernel.rings}
        self.full = {
            r.name: [Barrier(r.full_arrivals) for _ in range(r.depth)] for r in kernel.rings
        }
        self.empty = {
            r.name: [Barrier(r.empty_arrivals) for _ in range(r.depth)] for r in kernel.rings
        }
        self.given = {token.name: token.given for token in kernel.tokens}
        self.turns = dict(self.given)
        self.copies = list[Activity]()
        self.results = dict[tuple[str, int, int], object]()
        self.began = dict[tuple[str, int, int], int]()
        self.ended = dict[tuple[str, int, int], int]()
        self.trace = list[Entry]()
        self.fault: Fault | None = None
        self.actors = [Actor(role, self._program(role), _places(role)) for role in kernel.roles]
        for actor in self.actors:
            self._next(actor)

    def _program(self, role: Role) -> Iterator[tuple[Statement, int, int]]:
        for tile, trips in enumerate(self.trips):
            for item, step in unfold(role, trips):
                yield item, step, tile

    def _next(self, actor: Actor) -> None:
        actor.current = next(actor.program, None)

    def actions(self) -> dict[str, Action]:
        """What can happen next, by agent; empty when nothing can."""
        found = dict[str, Action]()
        for number, copy in enumerate(self.copies):
            found[f"{copy.agent}.{number}"] = lambda copy=copy: self._land(copy)
        for actor in self.actors:
            for unit, queue in actor.flights.items():
                if queue:
                    found[f"{actor.role.name}'s {unit}"] = lambda q=queue: self._complete(q)
            if actor.busy is not None:
                found[actor.role.name] = lambda actor=actor: self._finish(actor)
            elif actor.current is not None and self._ready(actor, *actor.current):
                found[actor.role.name] = lambda actor=actor: self._do(actor)
        return found

    def remains(self) -> Fault | None:
        """The fault of a machine that has come to rest: a deadlock or something left over."""
        waiting = [actor for actor in self.actors if actor.current is not None]
        if waiting:
            texts = [print_statement(a.current[0]) for a in waiting if a.current]
            for actor, text in zip(waiting, texts, strict=True):
                self.trace.append(Entry(actor.role.name, f"{text}  waits"))
            who = ", ".join(f"{a.role.name} at `{t}`" for a, t in zip(waiting, texts, strict=True))
            return Fault("R1", f"all wait: {who}", (texts[0], texts[-1]))
        return self._leftover()

    def _leftover(self) -> Fault | None:
        for name, turns in self.turns.items():
            if turns != self.given[name]:
                operations = (f"pass {name}", f"turn {name}")
                return Fault("R7", f"{turns} turns are passed at the end", operations)
        for name, barriers in (*self.full.items(), *self.empty.items()):
            if any(b.due != b.arrivals or b.bytes for b in barriers):
                operations = (f"put {name}", f"done {name}")
                return Fault("R7", f"a barrier of {name} is half complete at the end", operations)
        for actor in self.actors:
            for number, name in ((n, s[0]) for s, n in actor.held.items()):
                operations = (f"get {name}", f"done {name}")
                return Fault("R7", f"element {number} of {name} is not given back", operations)
        return None

    def _ready(self, actor: Actor, item: Statement, step: int, tile: int) -> bool:
        match item:
            case Put(name, _):
                ring, number = self.rings[name], actor.counts[("put", name)]
                empty = self.empty[name][slot(ring, number)]
                return empty.passes(1 - phase(ring, number))
            case Get(name, _):
                ring, number = self.rings[name], actor.counts[("get", name)]
                return self.full[name][slot(ring, number)].passes(phase(ring, number))
            case Turn(token):
                return self.turns[token] > 0
            case Wait(unit, pending):
                return len(actor.flights.get(unit, ())) <= pending
            case Perform() | Done() | Pass() | When():
                return True

    def _do(self, actor: Actor) -> None:
        """The first half of a role's statement: all of it unless the role's threads compute."""
        assert actor.current is not None
        item, step, tile = actor.current
        self.trace.append(Entry(actor.role.name, _told(item, step, tile, self.trips[tile])))
        match item:
            case Perform():
                self._perform(actor, item, step, tile)
            case Put():
                self._put(actor, item, step, tile)
            case Get(name, at):
                number = self._counted(actor, "get", name)
                actor.held[(name, tile, iteration(at, step, self.trips[tile]))] = number
            case Done():
                self._done(actor, item, step, tile)
            case Turn(token):
                self.turns[token] -= 1
            case Pass(token):
                self._pass(token)
            case Wait() | When():
                pass
        self._next(actor)

    def _counted(self, actor: Actor, kind: str, ring: str) -> int:
        number = actor.counts[(kind, ring)]
        actor.counts[(kind, ring)] += 1
        return number

    def _pass(self, token: str) -> None:
        if self.turns[token]:
            sentence = f"{token} is passed again before it is taken"
            self._fail("R6", sentence, f"pass {token}", f"turn {token}")
        self.turns[token] += 1

    def _done(self, actor: Actor, item: Done, step: int, tile: int) -> None:
        stamp = (item.ring, tile, iteration(item.at, step, self.trips[tile]))
        actor.held.pop(stamp, None)
        number = self._counted(actor, "done", item.ring)
        arrive = self._arrival(item.ring, number)
        if item.deferred:
            activity = Activity(print_statement(item), actor.role.name, arrive)
            actor.flights.setdefault(COMMIT, deque()).append(activity)
        else:
            arrive()

    def _arrival(self, name: str, number: int) -> Action:
        ring = self.rings[name]

        def arrive() -> None:
            if not self.empty[name][slot(ring, number)].count(1, 0):
                self._fail("R4", f"too many arrivals empty {name}", f"done {name}", f"put {name}")

        return arrive

    def _perform(self, actor: Actor, item: Perform, step: int, tile: int) -> None:
        targets = [
            (actor.registers.setdefault(result.into, Cell()), result.name)
            for result in item.results
        ]
        queue = actor.flights.setdefault(item.flight, deque()) if item.flight else None
        activity = self._begin(actor, item, targets, (step, tile), queue)
        if queue is None:
            actor.busy = activity
        else:
            queue.append(activity)

    def _put(self, actor: Actor, item: Put, step: int, tile: int) -> None:
        ring, number = self.rings[item.ring], self._counted(actor, "put", item.ring)
        place = slot(ring, number)
        targets = [(self.slots[item.ring][place], item.ring)]
        stamp = (item.ring, tile, iteration(item.call.at, step, self.trips[tile]))
        actor.put[stamp] = number
        queue = actor.flights.setdefault(COMMIT, deque()) if ring.fill == "commit" else None
        activity = self._begin(actor, item, targets, (step, tile), queue)
        full, write = self.full[item.ring][place], activity.finish
        if ring.fill == "copy":
            self._expect(full, ring)

        def finish() -> None:
            write()
            came = (0, ring.bytes) if ring.fill == "copy" else (1, 0)
            if not full.count(*came):
                text = print_statement(item)
                self._fail("R4", f"too many arrivals fill {ring.name}", text, text)

        activity.finish = finish
        if ring.fill == "copy":
            activity.agent = f"copy {ring.name}"
            self.copies.append(activity)
        elif queue is not None:
            queue.append(activity)
        else:
            actor.busy = activity

    def _expect(self, full: Barrier, ring: Ring) -> None:
        """Arrive on a full barrier and tell it the bytes to come."""
        full.bytes += ring.full_bytes
        if not full.count(1, 0):
            text = f"put {ring.name}"
            self._fail("R4", f"too many arrivals fill {ring.name}", text, text)

    def _begin(
        self,
        actor: Actor,
        item: Perform | Put,
        targets: list[tuple[Cell, str]],
        when: tuple[int, int],
        queue: deque[Activity] | None,
    ) -> Activity:
        """Start an operation: check its operands and take hold of them and of its targets."""
        (step, tile), call, text = when, item.call, print_statement(item)
        user = User(text, queue)
        operands = [self._operand(actor, user, read, when) for read in call.reads]
        for cell in operands:
            cell.readers.append(user)
        for cell, name in targets:
            busy = [other for other in (*cell.readers, *cell.writers) if user.meets(other)]
            if busy:
                self._fail("R2", f"{name} is written while in use", text, busy[0].text)
            cell.writers.append(user)
        at = iteration(call.at, step, self.trips[tile])
        self.began[(call.operation, tile, at)] = len(self.trace)

        def finish() -> None:
            arguments = tuple(cell.value for cell in operands)
            values = apply(self.meaning, item, tile, at, arguments)
            for cell in operands:
                cell.readers.remove(user)
            for (cell, name), value in zip(targets, values, strict=False):
                cell.writers.remove(user)
                cell.stamp, cell.value, cell.source = (name, tile, at), value, text
            if call.operation not in BUILTIN:
                self.results[(call.operation, tile, at)] = values
                self.ended[(call.operation, tile, at)] = len(self.trace)

        return Activity(text, actor.role.name, finish)

    def _operand(self, actor: Actor, user: User, read: Read, when: tuple[int, int]) -> Cell:
        """The storage of what is read, with what is wrong about it as a fault."""
        step, tile = when
        stamp = (read.name, tile, iteration(read.at, step, self.trips[tile]))
        cell = self._cell(actor, user, stamp)
        writers = [other for other in cell.writers if user.meets(other)]
        if writers:
            sentence = f"{read.name} is read while it is written"
            self._fail("R2", sentence, user.text, writers[0].text)
        elif not cell.writers and cell.stamp != stamp:
            found = _shown(cell.stamp) if cell.stamp else "nothing"
            sentence = f"{_shown(stamp)} is read, {found} is there"
            self._fail("R3", sentence, user.text, cell.source)
        return cell

    def _cell(self, actor: Actor, user: User, stamp: Stamp) -> Cell:
        """The registers or the slot in which a value or element should be."""
        name = stamp[0]
        if name not in self.rings:
            return actor.registers.setdefault(actor.places.get(name, name), Cell())
        number = actor.held.get(stamp)
        if number is None and user.queue is not None:
            number = actor.put.get(stamp)
        if number is None:
            self._fail("R3", f"{_shown(stamp)} is not held", user.text, f"get {name}")
            number = actor.counts[("get", name)]
        return self.slots[name][slot(self.rings[name], number)]

    def _finish(self, actor: Actor) -> None:
        assert actor.busy is not None
        activity, actor.busy = actor.busy, None
        self.trace.append(Entry(actor.role.name, f"{activity.text}  ends"))
        activity.finish()

    def _land(self, copy: Activity) -> None:
        self.copies.remove(copy)
        self.trace.append(Entry(copy.agent, f"{copy.text}  lands"))
        copy.finish()

    def _complete(self, queue: deque[Activity]) -> None:
        activity = queue.popleft()
        self.trace.append(Entry(activity.agent, f"{activity.text}  completes"))
        activity.finish()

    def _fail(self, rule: str, sentence: str, first: str, second: str) -> None:
        if self.fault is None:
            self.fault = Fault(rule, sentence, (first, second))


def _places(role: Role) -> dict[str, str]:
    performs = (item for item in statements(role) if isinstance(item, Perform))
    return {result.name: result.into for item in performs for result in item.results}


def _told(item: Statement, step: int, tile: int, trips: int) -> str:
    where = f"i = {step}" if step < trips else "end"
    return f"{print_statement(item)}  (tile {tile}, {where})"


def _shown(stamp: Stamp) -> str:
    return f"{stamp[0]}[{stamp[2]}] of tile {stamp[1]}"
