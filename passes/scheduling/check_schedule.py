"""Does a schedule keep every limit of its problem? An independent judge of the solver's answers.

Nothing here comes from the solver or its model: every rule is derived again from the problem, by
sweeping over the cycles of one period. Rules, by which faults are named:

    form         the schedule is one of this problem (`ir/verify_schedule.py`)
    dependence   a result is there when it is read, in its role or after its transfer
    role         legal for the operation; one operation at a time; program order is by cycle
    unit         demand within capacity in every cycle; at most its issuers; orders by cycle
    ring         depth in range and enough for every slot's life
    memory       slots aligned, apart, inside the memory, beside what is taken and what is moving
    registers    every role has its base, residents and live values; the block can have them all
    value        one copy is enough; a resident value stays in one role
    barrier      named barriers are in range and used once, tokens where roles take turns
    arrivals     what fills a slot and what empties it arrives that often
    bytes        the bytes expected are the bytes copied
    certificate  the bound and the proof do not contradict the interval
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tensorc.errors import ArgumentError
from tensorc.ir.capacity import room
from tensorc.ir.read_schedule import read_schedule
from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Placement,
    Ring,
    RingPlan,
    Schedule,
    held,
    occupies,
    operation_of,
    placement_of,
    program,
    readers_of,
    start,
)
from tensorc.ir.source import Diagnostic
from tensorc.ir.verify_schedule import verify_schedule
from tensorc.passes.scheduling.check_period import Fault, Stay, crosses, delay, moves, peak
from tensorc.passes.scheduling.check_registers import check_registers, check_values


def check_schedule(problem: LoopProblem, schedule: Schedule) -> list[Fault]:
    """All rules that `schedule` breaks; empty if it is legal."""
    if form := verify_schedule(problem, schedule):
        return [Fault("form", (), sentence) for sentence in form]
    rules = (_dependences, _roles, _units, _rings, _memories, check_registers, check_values)
    checks = (*rules, _barriers, _arrivals, _certificate)
    return [fault for rule in checks for fault in rule(problem, schedule)]


def schedule_from_text(problem: LoopProblem, text: str, name: str = "<schedule>") -> Schedule:
    """The schedule that `text` gives for `problem`, written by hand perhaps.

    Raises ArgumentError: E407 if it cannot be read, E405 with every broken rule, the operations
    that meet there and the numbers if it is not legal.
    """
    made = read_schedule(text, name)
    faults = check_schedule(problem, made)
    if faults:
        raise ArgumentError([_diagnostic(fault, name) for fault in faults])
    return made


def _diagnostic(fault: Fault, name: str) -> Diagnostic:
    names = " and ".join(fault.operations)
    message = f"{name} breaks the rule {fault.rule}" + (f" at {names}" if names else "")
    return Diagnostic("E405", message, found=fault.sentence)


def _dependences(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    for edge in problem.dependences:
        ends = (edge.source, edge.target)
        if edge.transfer is None and crosses(schedule, edge):
            place = placement_of(schedule)
            roles = f"{place[edge.source].role} and {place[edge.target].role}"
            what = f"{edge.carries} is" if edge.carries else "they are"
            yield Fault("dependence", ends, f"{what} in roles {roles}, must be in one")
        there = start(schedule, edge.target) + schedule.ii * edge.distance
        ready = start(schedule, edge.source) + edge.latency + delay(schedule, edge)
        if there < ready:
            yield Fault(
                "dependence", ends, f"starts in cycle {there}, its operand is there in {ready}"
            )


def _roles(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    isolated = any(role.variable for role in problem.roles)
    roles = {role.name: role for role in problem.roles}
    for place in schedule.placements:
        item, role = operation_of(problem)[place.operation], roles[place.role]
        if item.warps > role.warps:
            yield Fault(
                "role", (item.name,), f"needs {item.warps} warps, {role.name} has {role.warps}"
            )
        if isolated and item.variable != role.variable:
            kind = "of variable latency" if item.variable else "of known latency"
            yield Fault("role", (item.name,), f"is {kind} and may not be in {role.name}")
    for plan in schedule.roles:
        stays = _busy(problem, schedule, plan.role)
        count, cycle, who = peak(stays, schedule.ii)
        if count > 1:
            yield Fault("role", who[:2], f"both keep {plan.role} busy in cycle {cycle}")
        yield from _program(problem, schedule, plan.role)
        declared = roles[plan.role].warps
        if plan.warps != declared:
            yield Fault("role", (), f"{plan.role} is planned with {plan.warps} warps of {declared}")


def _busy(problem: LoopProblem, schedule: Schedule, role: str) -> list[Stay]:
    """Everything that keeps `role` busy: its operations, and the values that it stores or loads."""
    stays = [
        Stay(name, start(schedule, name), item.busy)
        for name, item in operation_of(problem).items()
        if placement_of(schedule)[name].role == role
    ]
    for edge, store, load in moves(problem, schedule):
        for end, begin in ((edge.source, store), (edge.target, load)):
            if edge.transfer and placement_of(schedule)[end].role == role:
                stays.append(Stay(end, begin, edge.transfer.busy))
    return stays


def _program(problem: LoopProblem, schedule: Schedule, role: str) -> Iterator[Fault]:
    """The role's program order is by cycle, and an operand is not issued after its reader."""
    order = program(schedule, role)
    for one, two in pairwise(order):
        if one.cycle > two.cycle:
            names = (one.operation, two.operation)
            yield Fault("role", names, f"stand in {role} against cycles {one.cycle}, {two.cycle}")
    rank = {place.operation: number for number, place in enumerate(order)}
    for edge in problem.dependences:
        if edge.source in rank and edge.target in rank and _same_period(schedule, edge):
            if rank[edge.source] > rank[edge.target]:
                names = (edge.source, edge.target)
                yield Fault("role", names, f"the operand is issued later in the program of {role}")


def _same_period(schedule: Schedule, edge: Dependence) -> bool:
    """Whether the two ends run in one period of the steady state."""
    one, two = (placement_of(schedule)[name] for name in (edge.source, edge.target))
    return one.stage - two.stage == edge.distance and edge.source != edge.target


def _units(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    for unit in problem.units:
        stays = _occupied(problem, schedule, unit.name)
        demand, cycle, who = peak(stays, schedule.ii)
        if demand > unit.capacity:
            names = who if unit.capacity > 1 else who[:2]
            have = f"{demand} of {unit.capacity} {unit.name} in cycle {cycle}"
            yield Fault("unit", tuple(names), f"take {have}")
        places = [p for p in schedule.placements if p.operation in {stay.who for stay in stays}]
        users = dict.fromkeys(p.role for p in places if _issues(problem, p, unit.name))
        if unit.issuers and len(users) > unit.issuers:
            names = tuple(p.operation for p in places if _issues(problem, p, unit.name))[:2]
            roles = " ".join(users)
            yield Fault("unit", names, f"{unit.name} has issuers {roles}, at most {unit.issuers}")
    for order in schedule.orders:
        turns = {name: _turn(problem, schedule, name, order.unit) for name in order.operations}
        for one, two in pairwise(order.operations):
            if turns[one] > turns[two]:
                sentence = f"the order of {order.unit} is against cycles {turns[one]}, {turns[two]}"
                yield Fault("unit", (one, two), sentence)


def _turn(problem: LoopProblem, schedule: Schedule, name: str, unit: str) -> int:
    """The cycle of a period in which the operation first occupies the unit."""
    return (start(schedule, name) + (occupies(problem, name, unit) or 0)) % schedule.ii


def _issues(problem: LoopProblem, place: Placement, unit: str) -> bool:
    return any(use.unit == unit for use in operation_of(problem)[place.operation].uses)


def _occupied(problem: LoopProblem, schedule: Schedule, unit: str) -> list[Stay]:
    stays = [
        Stay(item.name, start(schedule, item.name) + use.offset, use.cycles, use.demand)
        for item in problem.operations
        for use in item.uses
        if use.unit == unit
    ]
    for edge, store, load in moves(problem, schedule):
        if edge.transfer and edge.transfer.unit == unit:
            stays += [
                Stay(edge.source, store, edge.transfer.busy),
                Stay(edge.target, load, edge.transfer.busy),
            ]
    return stays


def _rings(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    plans = {plan.ring: plan for plan in schedule.rings}
    for ring in problem.rings:
        depth = plans[ring.name].depth
        if not ring.shallowest <= depth <= ring.deepest:
            allowed = f"{ring.shallowest} to {ring.deepest}"
            yield Fault(
                "ring", _ends(problem, ring), f"{ring.name} has depth {depth}, allowed {allowed}"
            )
        for edge in readers_of(problem)[ring.name]:
            life = _life(problem, schedule, edge)
            if life > schedule.ii * depth:
                sentence = f"a slot of {ring.name} lives {life} cycles, depth {depth} gives "
                sentence += f"{schedule.ii * depth}"
                yield Fault("ring", (edge.source, edge.target), sentence)


def _ends(problem: LoopProblem, ring: Ring) -> tuple[str, ...]:
    """The ring's writer and its first reader."""
    readers = [edge.target for edge in readers_of(problem)[ring.name]]
    return (ring.writer, *readers[:1])


def _life(problem: LoopProblem, schedule: Schedule, edge: Dependence) -> int:
    """Cycles from the writer's start until this reader has given the slot back to it."""
    done = start(schedule, edge.target) + schedule.ii * edge.distance + held(problem, edge)
    return done + delay(schedule, edge) - start(schedule, edge.source)


def _memories(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    rings = {ring.name: ring for ring in problem.rings}
    for memory in problem.memories:
        plans = [plan for plan in schedule.rings if rings[plan.ring].memory == memory.name]
        ends = [(p.offset, p.offset + _size(rings[p.ring], p), p.ring) for p in plans]
        for plan in plans:
            align = rings[plan.ring].align
            if plan.offset % align or plan.offset < memory.taken:
                yield Fault(
                    "memory",
                    _ends(problem, rings[plan.ring]),
                    f"{plan.ring} is at byte {plan.offset}, expected a multiple of {align} from "
                    f"{memory.taken} on",
                )
        for one, two in pairwise(sorted(ends)):
            if one[1] > two[0]:
                names = (rings[one[2]].writer, rings[two[2]].writer)
                yield Fault("memory", names, f"{one[2]} ends at {one[1]}, {two[2]} is at {two[0]}")
        moving = _moving(problem, schedule, memory.name)
        used = sum(end - begin for begin, end, _ in ends) + moving
        last = max((end for _, end, _ in ends), default=memory.taken)
        if used > room(problem, memory) or last > memory.bytes:
            need = f"{memory.name} needs {used} bytes and ends at {last}"
            names = tuple(rings[p.ring].writer for p in plans)[:2]
            yield Fault("memory", names, f"{need}, {memory.bytes} with {memory.taken} taken")


def _size(ring: Ring, plan: RingPlan) -> int:
    return -(-ring.bytes // ring.align) * ring.align * plan.depth


def _moving(problem: LoopProblem, schedule: Schedule, memory: str) -> int:
    return sum(
        edge.transfer.bytes
        for edge in problem.dependences
        if edge.transfer and edge.transfer.memory == memory and crosses(schedule, edge)
    )


def _barriers(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    ids = Counter(number for order in schedule.orders for _, number in order.barriers)
    for order in schedule.orders:
        for number in dict.fromkeys(number for _, number in order.barriers):
            if ids[number] > 1 or not 1 <= number < problem.barriers:
                allowed = f"once each, from 1 to {problem.barriers - 1}"
                sentence = f"named barrier {number} is used {ids[number]} times, {allowed}"
                yield Fault("barrier", order.operations[:2], sentence)
    for order in schedule.orders:
        roles = list(dict.fromkeys(placement_of(schedule)[name].role for name in order.operations))
        ordered = next(unit.ordered for unit in problem.units if unit.name == order.unit)
        expected = roles if ordered and len(roles) > 1 else []
        if [role for role, _ in order.barriers] != expected:
            given = " ".join(role for role, _ in order.barriers) or "none"
            needed = " ".join(expected) or "none"
            names = order.operations[:2]
            yield Fault("barrier", names, f"tokens of {order.unit} for {given}, needed {needed}")


def _arrivals(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    rings = {ring.name: ring for ring in problem.rings}
    for plan in schedule.rings:
        ring = rings[plan.ring]
        readers = {placement_of(schedule)[e.target].role for e in readers_of(problem)[ring.name]}
        for kind, given, needed in (
            ("full", plan.full_arrivals, 1),
            ("empty", plan.empty_arrivals, len(readers)),
        ):
            if given != needed:
                sentence = f"{ring.name} is {kind} after {given} arrivals, {needed} arrive"
                yield Fault("arrivals", _ends(problem, ring), sentence)
        size = ring.bytes if ring.fill == "copy" else 0
        if plan.full_bytes != size:
            sentence = f"{ring.name} expects {plan.full_bytes} bytes, {size} are copied"
            yield Fault("bytes", _ends(problem, ring), sentence)


def _certificate(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    proof = schedule.certificate
    if proof.bound > schedule.ii or (proof.proof != "none" and proof.bound != schedule.ii):
        sentence = f"interval {schedule.ii}, bound {proof.bound}, proof {proof.proof}"
        yield Fault("certificate", (), sentence)
    if proof.proof == "closed form" and _work(problem) > schedule.ii:
        yield Fault("certificate", (), f"a unit has {_work(problem)} cycles of work in a period")
    if proof.slack < 0:
        yield Fault("certificate", (), f"slack {proof.slack} is negative")


def _work(problem: LoopProblem) -> int:
    """The cycles that the busiest unit needs in a period."""
    totals: Counter[str] = Counter()
    for item in problem.operations:
        for use in item.uses:
            totals[use.unit] += use.cycles * use.demand
    return max((-(-totals[unit.name] // unit.capacity) for unit in problem.units), default=0)
