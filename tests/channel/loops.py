"""Schedules for tests: valid by construction, not good; and random loop problems to schedule.

Nothing here is shared with the scheduler of the package. Times are least solutions of the
dependences with random delays on top, so that operations fall into several stages.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from tensorc.ir.schedule import (
    Certificate,
    Dependence,
    LoopProblem,
    Memory,
    Operation,
    Placement,
    Ring,
    RingPlan,
    Role,
    RolePlan,
    Schedule,
    Transfer,
    Unit,
    UnitOrder,
    Use,
    Value,
    held,
    readers_of,
)

UNITS = (Unit("copy"), Unit("mma", ordered=True), Unit("alu"))


def schedule_of(
    problem: LoopProblem,
    roles: Mapping[str, str],
    ii: int,
    delays: Mapping[str, int] | None = None,
) -> Schedule:
    """A schedule of at least period `ii` with the operations in the given roles.

    `delays` are added to the earliest start of operations. The period grows until every recurrence
    and every register lifetime fits in it.
    """
    while True:
        late = dict(delays or {})
        for _ in range(100):
            times = _times(problem, roles, ii, late)
            clash = _clash(roles, ii, times) if times else None
            if times and not clash:
                return _plan(problem, roles, ii, times)
            if not (times and clash):
                break
            late[clash] = times[clash] + 1
        ii += max(1, ii // 8)


def _clash(roles: Mapping[str, str], ii: int, times: Mapping[str, int]) -> str | None:
    """An operation that would be issued in the same cycle as another of its role."""
    taken = set[tuple[str, int]]()
    for name, time in times.items():
        if (roles[name], time % ii) in taken:
            return name
        taken.add((roles[name], time % ii))
    return None


def _times(
    problem: LoopProblem, roles: Mapping[str, str], ii: int, delays: Mapping[str, int]
) -> dict[str, int] | None:
    """The least starts that keep every dependence and every lifetime; None if there are none."""
    times = {item.name: delays.get(item.name, 0) for item in problem.operations}
    bounds = [
        (e.source, e.target, _latency(e, roles) - ii * e.distance) for e in problem.dependences
    ]
    for value in problem.values:
        for edge in readers_of(problem)[value.name] if not value.resident else ():
            own = roles[edge.target] == roles[value.writer]
            hold = held(problem, edge) + 1 if own else 0
            bounds.append((edge.target, value.writer, ii * (edge.distance - 1) + hold))
    for _ in range(len(times) + 1):
        late = False
        for before, after, gap in bounds:
            if times[after] < times[before] + gap:
                times[after], late = times[before] + gap, True
        if not late:
            return times
    return None


def _latency(edge: Dependence, roles: Mapping[str, str]) -> int:
    crosses = roles[edge.source] != roles[edge.target]
    return edge.latency + (edge.transfer.latency if edge.transfer and crosses else 0)


def _plan(
    problem: LoopProblem, roles: Mapping[str, str], ii: int, times: Mapping[str, int]
) -> Schedule:
    order = _program_order(problem)
    places = [
        Placement(item.name, roles[item.name], times[item.name] // ii, times[item.name] % ii)
        for item in problem.operations
    ]
    places.sort(key=lambda p: (p.cycle, order[p.operation]))
    used = [role for role in problem.roles if role.name in roles.values()]
    rings = list[RingPlan]()
    offset = dict[str, int]()
    for ring in problem.rings:
        ends = [
            times[e.target] + ii * e.distance + held(problem, e) + _latency(e, roles) - e.latency
            for e in readers_of(problem)[ring.name]
        ]
        depth = max(ring.shallowest, -(-(max(ends) - times[ring.writer]) // ii))
        at = offset.get(ring.memory, 0)
        readers = {roles[edge.target] for edge in readers_of(problem)[ring.name]}
        copied = ring.bytes if ring.fill == "copy" else 0
        rings.append(RingPlan(ring.name, depth, at, 1, copied, len(readers)))
        offset[ring.memory] = at + depth * ring.bytes
    return Schedule(
        problem.name, problem.machine, ii,
        tuple(RolePlan(role.name, role.warps, 128) for role in used),
        tuple(places), tuple(_orders(problem, places)), tuple(rings),
        Certificate(1, "nothing", "none", 1 + max(p.stage for p in places)),
    )  # fmt: skip


def _program_order(problem: LoopProblem) -> dict[str, int]:
    """A number for each operation that grows along dependences of distance 0."""
    rank = {item.name: 0 for item in problem.operations}
    for _ in rank:
        for edge in problem.dependences:
            if edge.distance == 0:
                rank[edge.target] = max(rank[edge.target], rank[edge.source] + 1)
    return rank


def _orders(problem: LoopProblem, places: list[Placement]) -> list[UnitOrder]:
    found = list[UnitOrder]()
    for unit in problem.units:
        users = {o.name for o in problem.operations if any(u.unit == unit.name for u in o.uses)}
        here = [place for place in places if place.operation in users]
        roles = list(dict.fromkeys(place.role for place in here))
        barriers = tuple((role, k + 1) for k, role in enumerate(roles))
        taken = barriers if unit.ordered and len(roles) > 1 else ()
        found.append(UnitOrder(unit.name, tuple(p.operation for p in here), taken))
    return found


def random_loop(seed: int) -> tuple[LoopProblem, dict[str, str], int, dict[str, int]]:
    """A problem, roles for its operations, a period to start from, and delays.

    Copies into rings; chains of computations by threads or by the tensor core, on sums in
    registers or into tensor memory; values and order across roles; carried values.
    """
    chance = random.Random(seed)
    maker = _Maker(chance)
    for k in range(chance.randint(1, 3)):
        maker.copy(f"L{k}")
    for part in range(chance.randint(1, 2)):
        maker.chain(part, chance.randint(1, 5))
    maker.use_all()
    maker.look_back()
    delays = {o.name: chance.choice((0, 0, 0, 50, 150, 400)) for o in maker.operations}
    roles = tuple(Role(f"role{k}", 4, 24) for k in range(4))
    problem = LoopProblem(
        f"random{seed}", "h100", tuple(maker.operations), tuple(maker.edges), UNITS, roles,
        tuple(maker.rings), tuple(maker.values),
        (Memory("shared", 1 << 24), Memory("tensor", 1 << 24)),
    )  # fmt: skip
    return problem, maker.roles, chance.choice((100, 200, 300, 500)), delays


class _Maker:
    """The parts of a random loop problem, as they are made."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.operations = list[Operation]()
        self.edges = list[Dependence]()
        self.rings = list[Ring]()
        self.values = list[Value]()
        self.roles = dict[str, str]()

    def add(self, name: str, role: str, unit: str, cycles: int, warps: int = 4) -> None:
        """An operation; one on the unit of the threads is theirs and lets its operands go."""
        threads = unit == "alu"
        busy, hold = (cycles, 0) if threads else (10, cycles)
        uses = (Use(unit, 10),)
        item = Operation(name, name, None, uses, busy, cycles, hold, warps, threads=threads)
        self.operations.append(item)
        self.roles[name] = role

    def copy(self, name: str) -> None:
        self.add(name, self.chance.choice(("role0", "role0", "role3")), "copy", 200, 1)
        self.rings.append(Ring(name, "shared", 1024, name, "copy"))

    def latency(self, source: str) -> int:
        return next(item.latency for item in self.operations if item.name == source)

    def depend(self, source: str, target: str, carries: str, distance: int = 0) -> None:
        crosses = self.roles[source] != self.roles[target]
        transfer = Transfer(40, 20, "", "shared", 512) if crosses else None
        self.edges.append(
            Dependence(source, target, distance, self.latency(source), carries, transfer)
        )

    def use_all(self) -> None:
        """Every copy has a reader."""
        for ring in self.rings:
            if not any(edge.carries == ring.name for edge in self.edges):
                first = next(item for item in self.operations if item.name.startswith("v"))
                self.depend(ring.writer, first.name, ring.name)

    def look_back(self) -> None:
        """Some read what was copied, or computed in either role, one iteration before."""
        values = {value.name for value in self.values}
        names = [item.name for item in self.operations]
        for k, target in enumerate(names):
            if not self.operations[k].threads:
                continue
            computed = [name for name in names[k + 1 :] if name in values]
            if self.chance.random() < 0.15:
                ring = self.chance.choice([r for r in self.rings if r.fill == "copy"])
                self.depend(ring.writer, target, ring.name, 1)
            if computed and self.chance.random() < 0.2:
                source = self.chance.choice(computed)
                self.depend(source, target, source, 1)

    def chain(self, part: int, length: int) -> None:
        home = f"role{part + 1}"
        before = list[tuple[str, str]]()  # operation, what it leaves for others to read
        for k in range(length):
            name = f"v{part}.{k}"
            kind = self.chance.choice(("threads", "threads", "sums", "slot"))
            role = home if self.chance.random() < 0.85 else f"role{2 - part}"
            threads = kind == "threads"
            self.add(name, role, "alu" if threads else "mma", 60, 1 if kind == "slot" else 4)
            slots = {ring.name for ring in self.rings}
            legal = [b for b in before if kind != "slot" or b[1] in slots]
            self.read(name, legal)
            before.append((name, self.leave(name, kind)))

    def read(self, name: str, before: list[tuple[str, str]]) -> None:
        for ring in self.rings:
            if ring.fill == "copy" and self.chance.random() < 0.5:
                self.depend(ring.writer, name, ring.name)
        for source, carries in before[-2:]:
            if self.chance.random() < 0.7:
                self.depend(source, name, carries)
            elif self.chance.random() < 0.3:
                self.depend(source, name, "")

    def leave(self, name: str, kind: str) -> str:
        """A value, a carried value, or a slot for the result; and its name."""
        if kind == "slot":
            self.rings.append(Ring(f"{name}.s", "tensor", 2048, name, "commit"))
            self.depend_self_free(name)
            return f"{name}.s"
        resident = kind == "sums" or self.chance.random() < 0.3
        if resident:
            self.values.append(Value(f"{name}.sum", name, 4, resident=True))
            self.depend(name, name, f"{name}.sum", 1)
        self.values.append(Value(name, name, 4))
        return name

    def depend_self_free(self, name: str) -> None:
        """Someone must read a slot: a check by threads in another role."""
        reader = f"{name}.r"
        self.add(reader, self.chance.choice(("role1", "role2")), "alu", 30)
        self.depend(name, reader, f"{name}.s")
