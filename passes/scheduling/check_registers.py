"""The checker's rules on register values: how many a role needs in a cycle, and one copy each."""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir.capacity import pool
from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Role,
    Schedule,
    held,
    placement_of,
    program,
    readers_of,
    start,
)
from tensorc.passes.scheduling.check_period import Fault, Stay, crosses, moves, peak


def check_registers(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    limits, roles = problem.registers, {role.name: role for role in problem.roles}
    for plan in schedule.roles:
        need, cycle, who = registers_needed(problem, schedule, roles[plan.role])
        if need > plan.registers:
            sentence = f"{plan.role} needs {need} registers in cycle {cycle}, has {plan.registers}"
            yield Fault("registers", who[:2], sentence)
        odd = plan.registers % limits.step
        if odd or not limits.floor <= plan.registers <= limits.ceiling:
            allowed = f"a multiple of {limits.step} from {limits.floor} to {limits.ceiling}"
            sentence = f"{plan.role} is given {plan.registers} registers, expected {allowed}"
            issued = tuple(place.operation for place in program(schedule, plan.role))
            yield Fault("registers", issued[:2], sentence)
    yield from _block(problem, schedule)


def _block(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    """All warp groups together have what the launch gave them; equal shares if not dynamic."""
    wide = [p.registers for p in schedule.roles for _ in range(p.warps // 4)]
    single = [plan.registers for plan in schedule.roles if plan.warps == 1]
    helpers = -(-len(single) // 4)
    groups = len(wide) + helpers
    total = 128 * (sum(wide) + helpers * max(single, default=0))
    have = pool(problem.registers, groups)
    if total > have:
        sentence = f"{groups} warp groups need {total} registers, a block of them has {have}"
        yield Fault("registers", _widest(schedule), sentence)
    if groups > 8:
        yield Fault("registers", (), f"{groups * 128} threads in a block, at most 1024")
    if not problem.registers.dynamic and len({*wide, *single}) > 1:
        yield Fault("registers", (), "all threads of this machine have equally many registers")


def _widest(schedule: Schedule) -> tuple[str, ...]:
    """The first operations of the two roles with most registers."""
    plans = sorted(schedule.roles, key=lambda plan: -plan.registers)[:2]
    firsts = [program(schedule, plan.role)[:1] for plan in plans]
    return tuple(place.operation for found in firsts for place in found)


def registers_needed(
    problem: LoopProblem, schedule: Schedule, role: Role
) -> tuple[int, int, tuple[str, ...]]:
    """The most registers that `role` needs in a cycle, that cycle, and whose values they are."""
    place = placement_of(schedule)
    fixed = role.base + sum(
        value.registers
        for value in problem.values
        if value.resident and place[value.writer].role == role.name
    )
    stays: list[Stay] = []
    for value in problem.values:
        if not value.resident:
            readers = readers_of(problem)[value.name]
            if place[value.writer].role == role.name:
                begin = start(schedule, value.writer)
                ends = [_until(problem, schedule, edge) for edge in readers]
                cycles = max(ends, default=begin) - begin
                stays.append(Stay(value.writer, begin, cycles, value.registers))
            for edge in readers:
                if place[edge.target].role == role.name and crosses(schedule, edge):
                    stays.append(_copied(problem, schedule, edge, value.registers))
    need, cycle, who = peak(stays, schedule.ii)
    return fixed + need, cycle, who


def _until(problem: LoopProblem, schedule: Schedule, edge: Dependence) -> int:
    """The cycle in which the writer's role no longer needs the value for this reader."""
    if edge.transfer and crosses(schedule, edge):
        return start(schedule, edge.source) + edge.latency + edge.transfer.busy
    return start(schedule, edge.target) + schedule.ii * edge.distance + held(problem, edge)


def _copied(problem: LoopProblem, schedule: Schedule, edge: Dependence, width: int) -> Stay:
    assert edge.transfer
    busy = edge.transfer.busy
    begin = start(schedule, edge.target) - busy
    return Stay(edge.target, begin, busy + held(problem, edge), width)


def check_values(problem: LoopProblem, schedule: Schedule) -> Iterator[Fault]:
    for value in problem.values:
        begin = start(schedule, value.writer)
        for edge in readers_of(problem)[value.name] if not value.resident else ():
            life = _until(problem, schedule, edge) - begin
            if life > schedule.ii:
                sentence = f"{value.name} lives {life} cycles, a single copy {schedule.ii}"
                yield Fault("value", (edge.source, edge.target), sentence)
    for edge, store, load in moves(problem, schedule):
        assert edge.transfer
        late = load + edge.transfer.busy + schedule.ii * edge.distance - store
        if late > schedule.ii:
            sentence = f"{edge.carries} waits {late} cycles to be loaded, its slot {schedule.ii}"
            yield Fault("value", (edge.source, edge.target), sentence)
