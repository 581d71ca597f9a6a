"""The invariants of loop problems and of the form of schedules, each with its number.

Problems: S1 names are unique within their kind and have no spaces; S2 every reference exists;
S3 numbers are in range (cycles and registers >= 0; busy cycles, sizes, capacities and depths > 0;
demand within capacity); S4 a carried dependence starts at its ring's or value's writer,
and one that carries a resident value has no transfer; S5 dependences of
distance 0 form no cycle.

Schedules: S6 it is of this problem and machine; S7 every operation is placed once, in a role in
use, with 0 <= cycle < ii and stage >= 0; S8 the plans name each ring, role and unit of capacity 1
once; S9 a unit's order has exactly the operations that use it.

Whether a schedule keeps the machine's limits is the matter of
`passes/scheduling/check_schedule.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Operation,
    Schedule,
    operation_of,
)


def verify_problem(problem: LoopProblem) -> list[str]:
    """All faults of `problem`; empty if it is well formed."""
    faults = [*_names(problem), *_references(problem)]
    if faults:
        return faults
    return [*_ranges(problem), *_writers(problem), *_cycles(problem)]


def verify_schedule(problem: LoopProblem, schedule: Schedule) -> list[str]:
    """All faults in the form of `schedule` as an answer to `problem`; empty if well formed."""
    return [*_addressed(problem, schedule), *_placed(problem, schedule), *_plans(problem, schedule)]


def _names(problem: LoopProblem) -> Iterator[str]:
    kinds = {
        "operation": [item.name for item in problem.operations],
        "unit": [item.name for item in problem.units],
        "role": [item.name for item in problem.roles],
        "ring or value": [item.name for item in (*problem.rings, *problem.values)],
        "memory": [item.name for item in problem.memories],
    }
    for kind, names in kinds.items():
        for name, count in Counter(names).items():
            if count > 1:
                yield f"S1: {kind} {name} is declared {count} times"
            if not name or any(c.isspace() or c in "=,:" for c in name):
                yield f"S1: {kind} {name!r}: a name has no spaces, commas, colons or equals signs"
    if not problem.operations or not problem.roles:
        yield "S1: a problem has at least one operation and one role"


def _references(problem: LoopProblem) -> Iterator[str]:
    operations = {item.name for item in problem.operations}
    units = {item.name for item in problem.units}
    memories = {item.name for item in problem.memories}
    storage = {item.name for item in (*problem.rings, *problem.values)} | {""}
    for item in problem.operations:
        yield from _missing(f"operation {item.name}", "unit", (u.unit for u in item.uses), units)
    for edge in problem.dependences:
        where = show(edge)
        yield from _missing(where, "operation", (edge.source, edge.target), operations)
        yield from _missing(where, "ring or value", (edge.carries,), storage)
        if edge.transfer and edge.transfer.unit:
            yield from _missing(where, "unit", (edge.transfer.unit,), units)
    for ring in problem.rings:
        yield from _missing(f"ring {ring.name}", "operation", (ring.writer,), operations)
        yield from _missing(f"ring {ring.name}", "memory", (ring.memory,), memories)
    for value in problem.values:
        yield from _missing(f"value {value.name}", "operation", (value.writer,), operations)


def _missing(where: str, kind: str, names: Iterable[str], known: set[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            yield f"S2: {where}: there is no {kind} {name!r}"


def show(edge: Dependence) -> str:
    """A dependence in words, for messages."""
    return f"dependence {edge.source} -> {edge.target} (distance {edge.distance})"


def _ranges(problem: LoopProblem) -> Iterator[str]:
    for unit in problem.units:
        yield from _least(f"unit {unit.name}", 1, capacity=unit.capacity)
        yield from _least(f"unit {unit.name}", 0, issuers=unit.issuers)
    for item in problem.operations:
        yield from _operation_range(problem, item)
    for edge in problem.dependences:
        yield from _least(show(edge), 0, distance=edge.distance, latency=edge.latency)
        yield from _least(show(edge), 0, hold=edge.hold or 0)
        if edge.transfer:
            cost = edge.transfer
            yield from _least(show(edge), 0, transfer_latency=cost.latency, busy=cost.busy)
    for ring in problem.rings:
        yield from _least(f"ring {ring.name}", 1, bytes=ring.bytes, shallowest=ring.shallowest)
        yield from _least(f"ring {ring.name}", ring.shallowest, deepest=ring.deepest)
        if ring.align < 1 or ring.align & (ring.align - 1):
            yield f"S3: ring {ring.name}: align is {ring.align}, a power of two is expected"
    for value in problem.values:
        yield from _least(f"value {value.name}", 0, registers=value.registers)
    for role in problem.roles:
        yield from _least(f"role {role.name}", 0, base=role.base)
        if role.warps not in (1, *range(4, 33, 4)):
            yield f"S3: role {role.name}: warps is {role.warps}, allowed are 1 and multiples of 4"
    for memory in problem.memories:
        yield from _least(f"memory {memory.name}", 0, bytes=memory.bytes, taken=memory.taken)
    if problem.trip is not None:
        yield from _least("the loop", 0, trip=problem.trip)


def _operation_range(problem: LoopProblem, item: Operation) -> Iterator[str]:
    where = f"operation {item.name}"
    yield from _least(where, 1, busy=item.busy)
    yield from _least(where, 0, latency=item.latency, hold=item.hold)
    if not any(role.warps >= item.warps for role in problem.roles):
        yield f"S3: {where} needs {item.warps} warps and no role has them"
    capacity = {unit.name: unit.capacity for unit in problem.units}
    for use in item.uses:
        yield from _least(where, 0, cycles=use.cycles, offset=use.offset)
        if not 1 <= use.demand <= capacity[use.unit]:
            yield f"S3: {where} demands {use.demand} of {use.unit}'s {capacity[use.unit]}"


def _least(where: str, least: int, **numbers: int) -> Iterator[str]:
    for name, number in numbers.items():
        if number < least:
            yield f"S3: {where}: {name} is {number}, at least {least} is expected"


def _writers(problem: LoopProblem) -> Iterator[str]:
    writer = {item.name: item.writer for item in (*problem.rings, *problem.values)}
    residents = {item.name for item in problem.values if item.resident}
    for edge in problem.dependences:
        if edge.carries in residents:
            if edge.transfer:
                yield f"S4: {show(edge)} updates {edge.carries} in place, so it may not cross roles"
        elif edge.carries and edge.source != writer[edge.carries]:
            yield f"S4: {show(edge)} carries {edge.carries}, which {writer[edge.carries]} writes"


def _cycles(problem: LoopProblem) -> Iterator[str]:
    """S5, by removing operations without predecessors until none is left to remove."""
    left = {item.name for item in problem.operations}
    edges = [(e.source, e.target) for e in problem.dependences if e.distance == 0]
    while True:
        blocked = {target for source, target in edges if source in left}
        if left <= blocked:
            break
        left &= blocked
    if left:
        yield f"S5: operations {', '.join(sorted(left))} wait for one another in one iteration"


def _addressed(problem: LoopProblem, schedule: Schedule) -> Iterator[str]:
    if (schedule.problem, schedule.machine) != (problem.name, problem.machine):
        yield f"S6: a schedule of {schedule.problem} on {schedule.machine}, the problem is " + (
            f"{problem.name} on {problem.machine}"
        )
    if schedule.ii < 1:
        yield f"S7: the initiation interval is {schedule.ii}, at least 1 is expected"


def _placed(problem: LoopProblem, schedule: Schedule) -> Iterator[str]:
    counts = Counter(place.operation for place in schedule.placements)
    roles = {plan.role for plan in schedule.roles}
    for name in operation_of(problem):
        if counts[name] != 1:
            yield f"S7: operation {name} is placed {counts[name]} times"
    for place in schedule.placements:
        if place.operation not in operation_of(problem):
            yield f"S7: {place.operation} is placed but is no operation of the problem"
        if place.role not in roles:
            yield f"S7: {place.operation} is in role {place.role}, which is not in use"
        if not 0 <= place.cycle < schedule.ii or place.stage < 0:
            yield (
                f"S7: {place.operation} at stage {place.stage}, cycle {place.cycle}: expected "
                + (f"stage >= 0 and 0 <= cycle < {schedule.ii}")
            )


def _plans(problem: LoopProblem, schedule: Schedule) -> Iterator[str]:
    rings = Counter(plan.ring for plan in schedule.rings)
    yield from _exactly("ring", rings, {ring.name for ring in problem.rings})
    known = {role.name for role in problem.roles}
    for name, count in Counter(plan.role for plan in schedule.roles).items():
        if count > 1 or name not in known:
            yield f"S8: role {name} is planned {count} times, declared {int(name in known)} times"
    single = {unit.name for unit in problem.units if unit.capacity == 1}
    yield from _exactly("order of unit", Counter(o.unit for o in schedule.orders), single)
    for order in schedule.orders:
        users = [
            item.name
            for item in problem.operations
            if any(use.unit == order.unit and use.cycles for use in item.uses)
        ]
        if sorted(users) != sorted(order.operations):
            yield f"S9: the order of {order.unit} has {' '.join(order.operations)}; its users " + (
                f"are {' '.join(users)}"
            )


def _exactly(kind: str, counts: Counter[str], expected: set[str]) -> Iterator[str]:
    for name in sorted(expected | set(counts)):
        if counts[name] != int(name in expected):
            yield f"S8: {kind} {name} is planned {counts[name]} times, declared " + (
                f"{int(name in expected)} times"
            )
