"""A schedule as the hardware runs it: every role as soon as it can, in its program order.

Of a schedule only orders, roles and depths reach the hardware; its cycles are a witness. Here each
operation starts when its role, its operands, the slots it writes and its turn on each exclusive
unit allow (a max-plus system, so nominal latencies never give a longer period than the interval).
Durations may be jittered: work of threads and transfers by up to a fraction, landings of copies by
a tail. On a unit without tokens the order is taken as scheduled; units of larger capacity and the
busy time of transfers are not simulated.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from random import Random

from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Operation,
    Run,
    Schedule,
    held,
    occupies,
    operation_of,
    placement_of,
    readers_of,
    start,
)


@dataclass(frozen=True)
class Jitter:
    """`threads`: work of threads and transfers take up to this fraction longer, uniformly.
    `tail_share` of the copies take up to `tail` times their latency."""

    threads: float = 0.0
    tail_share: float = 0.0
    tail: float = 1.0
    seed: int = 0


def simulate(
    problem: LoopProblem, schedule: Schedule, trips: int = 64, jitter: Jitter | None = None
) -> Run:
    """Run `trips` iterations (at least 1) of a legal schedule.

    Raises ValueError if the roles wait for one another forever, which a legal schedule never does.
    """
    return _Machine(problem, schedule, trips, jitter or Jitter()).run()


def on_time(schedule: Schedule, run: Run) -> bool:
    """Whether nothing started later than the schedule says: true of every nominal run."""
    return all(
        begin <= start(schedule, name) + i * schedule.ii
        for name, starts in run.starts.items()
        for i, begin in enumerate(starts)
    )


class _Machine:
    """The event times of one run; every time is the maximum of times known before it."""

    def __init__(
        self, problem: LoopProblem, schedule: Schedule, trips: int, jitter: Jitter
    ) -> None:
        self.problem, self.schedule, self.trips, self.jitter = problem, schedule, trips, jitter
        self.random = Random(jitter.seed)
        self.begin: dict[tuple[str, int], float] = {}
        self.end: dict[tuple[str, int], float] = {}
        self.busy: dict[tuple[str, int], float] = {}
        self.freed: dict[tuple[str, int], float] = {}
        self.before = _orders(problem, schedule)
        self.incoming: dict[str, list[Dependence]] = defaultdict(list)
        for edge in problem.dependences:
            self.incoming[edge.target].append(edge)

    def run(self) -> Run:
        programs = self.programs()
        left = sum(map(len, programs.values()))
        at = dict.fromkeys(programs, 0)
        while left:
            moved = 0
            for role, events in programs.items():
                while at[role] < len(events) and self.step(*events[at[role]]):
                    at[role] += 1
                    moved += 1
            if not moved:
                stuck = ", ".join(
                    f"{r} at {e[at[r]]}" for r, e in programs.items() if at[r] < len(e)
                )
                raise ValueError(f"the roles wait for one another: {stuck}")
            left -= moved
        return self.outcome()

    def programs(self) -> dict[str, list[tuple[str, int]]]:
        """Each role's events in issue order: period by period, operations as in its program."""
        events: dict[str, list[tuple[int, int, str, int]]] = defaultdict(list)
        for rank, place in enumerate(self.schedule.placements):
            for i in range(self.trips):
                events[place.role].append((place.stage + i, rank, place.operation, i))
        return {role: [e[2:] for e in sorted(found)] for role, found in events.items()}

    def step(self, name: str, i: int) -> bool:
        """Issue iteration `i` of an operation if all that it waits for is known."""
        times = [0.0, *self.operands(name, i), *self.slots(name, i), *self.turns(name, i)]
        if None in times:
            return False
        known = [time for time in times if time is not None]
        item = operation_of(self.problem)[name]
        begin = max(known)
        self.begin[name, i] = begin
        stretch = self.stretch(item)
        self.end[name, i] = begin + item.latency * stretch
        busy = item.busy * stretch if item.threads else item.busy
        self.busy[name, i] = begin + busy
        return True

    def stretch(self, item: Operation) -> float:
        """How much longer than nominal this iteration of the operation takes."""
        if item.threads:
            return 1 + self.random.random() * self.jitter.threads
        if item.variable and self.random.random() < self.jitter.tail_share:
            return 1 + self.random.random() * (self.jitter.tail - 1)
        return 1.0

    def told(self, edge: Dependence) -> float:
        """The transfer's latency in this run, if the ends are in different roles."""
        place = placement_of(self.schedule)
        if edge.transfer is None or place[edge.source].role == place[edge.target].role:
            return 0.0
        return edge.transfer.latency * (1 + self.random.random() * self.jitter.threads)

    def operands(self, name: str, i: int) -> list[float | None]:
        found: list[float | None] = []
        for edge in self.incoming[name]:
            source = (edge.source, i - edge.distance)
            if source[1] >= 0:
                begin = self.begin.get(source)
                if begin is None:
                    return [None]
                item = operation_of(self.problem)[edge.source]
                late = (self.end[source] - begin) / item.latency if item.latency else 1.0
                found.append(begin + edge.latency * late + self.told(edge))
        return found

    def slots(self, name: str, i: int) -> list[float | None]:
        """When the slots that the operation writes were given back."""
        found: list[float | None] = []
        for plan in self.schedule.rings:
            for edge in readers_of(self.problem)[plan.ring] if i >= plan.depth else ():
                reader = (edge.target, i - plan.depth + edge.distance)
                if edge.source == name and 0 <= reader[1] < self.trips:
                    begin = self.begin.get(reader)
                    if begin is None:
                        return [None]
                    found.append(begin + held(self.problem, edge) + self.told(edge))
        return found

    def turns(self, name: str, i: int) -> list[float | None]:
        """When the role, and each exclusive unit, is done with what comes before."""
        found: list[float | None] = []
        for previous, back, cycles in self.before[name]:
            event = (previous, i + back)
            if 0 <= event[1] < self.trips:
                begin = self.begin.get(event)
                if begin is None:
                    return [None]
                found.append(self.busy[event] if cycles is None else begin + cycles)
        return found

    def outcome(self) -> Run:
        names = [item.name for item in self.problem.operations]
        starts = {n: tuple(self.begin[n, i] for i in range(self.trips)) for n in names}
        half = self.trips // 2
        laps = [s[-1] - s[half] for s in starts.values()]
        period = max(laps) / (self.trips - 1 - half) if self.trips - 1 > half else 0.0
        cycles = max((*self.end.values(), *self.busy.values()))
        return Run(starts, cycles, period)


Before = tuple[str, int, int | None]
"""An operation that comes just before, its iteration less one's own, and after how many cycles of
it one may start (None: when its role is no longer busy)."""


def _orders(problem: LoopProblem, schedule: Schedule) -> dict[str, list[Before]]:
    """What each operation follows in its role and on the exclusive units."""
    found: dict[str, list[Before]] = defaultdict(list)
    place = placement_of(schedule)
    for plan in schedule.roles:
        names = [p.operation for p in schedule.placements if p.role == plan.role]
        for previous, name, wrapped in _neighbours(names):
            back = place[name].stage - place[previous].stage - wrapped
            found[name].append((previous, back, None))
    for order in schedule.orders:
        for previous, name, wrapped in _neighbours(list(order.operations)):
            cycles = _occupied(problem, previous, name, order.unit)
            early, late = (_turn(problem, schedule, n, order.unit) for n in (previous, name))
            found[name].append((previous, late - early - wrapped, cycles))
    return found


def _neighbours(names: list[str]) -> list[tuple[str, str, int]]:
    """Cyclic neighbours, with 1 where the previous one belongs to the period before."""
    return [(names[i - 1], name, int(i == 0)) for i, name in enumerate(names)]


def _turn(problem: LoopProblem, schedule: Schedule, name: str, unit: str) -> int:
    """The period in which iteration 0 of the operation first occupies the unit."""
    return (start(schedule, name) + (occupies(problem, name, unit) or 0)) // schedule.ii


def _occupied(problem: LoopProblem, previous: str, name: str, unit: str) -> int:
    """Cycles from the start of `previous` until `name` may start, for their uses of the unit."""
    uses = [u for u in operation_of(problem)[previous].uses if u.unit == unit]
    return max(u.offset + u.cycles for u in uses) - (occupies(problem, name, unit) or 0)
