"""From a solved model to a schedule: program orders, ring plans, registers, tokens.

The solver decides interval, roles and starts. What follows from them is derived here: the order of
each role and unit, the depth that each ring needs, and then the memory that is left is spent on
depth, which is what absorbs copies that land late.
"""

from __future__ import annotations

from tensorc.ir.capacity import room
from tensorc.ir.schedule import (
    Certificate,
    LoopProblem,
    Placement,
    Ring,
    RingPlan,
    RolePlan,
    Schedule,
    UnitOrder,
    held,
    occupies,
    readers_of,
)
from tensorc.passes.scheduling.schedule_model import padded
from tensorc.passes.scheduling.schedule_polish import Polished

Places = dict[str, Placement]


def assemble(problem: LoopProblem, best: Polished, certificate: Certificate) -> Schedule:
    """The schedule that the solution of `best` stands for."""
    model, solution = best.model, best.answer.solution
    assert solution
    earliest = min(solution.value(stage) for stage in model.stage.values())
    places = {
        item.name: Placement(
            item.name,
            next(r for (n, r), v in model.within.items() if n == item.name and solution.value(v)),
            solution.value(model.stage[item.name]) - earliest,
            solution.value(model.phase[item.name]),
        )
        for item in problem.operations
    }
    step = problem.registers.step
    roles = {
        role.name: step * solution.value(model.registers[role.name])
        for role in problem.roles
        if solution.value(model.used[role.name])
    }
    return arranged(problem, model.ii, places, roles, certificate)


def arranged(
    problem: LoopProblem, ii: int, places: Places, roles: dict[str, int], proof: Certificate
) -> Schedule:
    """The schedule with these starts; `roles` has the registers per thread of each role used."""
    if not problem.registers.dynamic:
        roles = dict.fromkeys(roles, max(roles.values()))
    order = program_order(problem, ii, places)
    plans = tuple(
        RolePlan(role.name, role.warps, roles[role.name])
        for role in problem.roles
        if role.name in roles
    )
    by_role = tuple(p for plan in plans for p in order if p.role == plan.role)
    return Schedule(
        problem.name,
        problem.machine,
        ii,
        plans,
        by_role,
        _unit_orders(problem, ii, order),
        ring_plans(problem, ii, places),
        proof,
    )


def program_order(problem: LoopProblem, ii: int, places: Places) -> tuple[Placement, ...]:
    """All placements by cycle; among equal cycles what is waited for comes first."""
    waits: dict[str, set[str]] = {name: set() for name in places}
    for edge in problem.dependences:
        one, two = places[edge.source], places[edge.target]
        if one.cycle == two.cycle and one.stage - two.stage == edge.distance and one is not two:
            waits[edge.target].add(edge.source)
    left = sorted(places.values(), key=lambda place: place.cycle)
    order: list[Placement] = []
    while left:
        ready = [p for p in left if not waits[p.operation] & {q.operation for q in left}]
        order.append((ready or left)[0])
        left.remove(order[-1])
    return tuple(order)


def _unit_orders(
    problem: LoopProblem, ii: int, order: tuple[Placement, ...]
) -> tuple[UnitOrder, ...]:
    """Each exclusive unit's operations by turn, and a named barrier for each role taking turns."""
    orders: list[UnitOrder] = []
    free = 1  # barrier 0 belongs to the whole block
    for unit in problem.units:
        if unit.capacity > 1:
            continue
        offsets = [(place, occupies(problem, place.operation, unit.name)) for place in order]
        turns = [((p.cycle + offset) % ii, p) for p, offset in offsets if offset is not None]
        users = [place for _, place in sorted(turns, key=lambda turn: turn[0])]
        roles = list(dict.fromkeys(place.role for place in users))
        tokens = roles if unit.ordered and len(roles) > 1 else []
        barriers = tuple((role, free + number) for number, role in enumerate(tokens))
        free += len(tokens)
        orders.append(UnitOrder(unit.name, tuple(p.operation for p in users), barriers))
    return tuple(orders)


def life(problem: LoopProblem, ii: int, places: Places, ring: Ring) -> int:
    """Cycles from the start of the slot's writer until its last reader has given it back."""
    ends = [0]
    for edge in readers_of(problem)[ring.name]:
        writer, reader = places[edge.source], places[edge.target]
        start = (reader.stage + edge.distance) * ii + reader.cycle
        crosses = edge.transfer is not None and writer.role != reader.role
        told = edge.transfer.latency if edge.transfer and crosses else 0
        ends.append(start + held(problem, edge) + told - writer.stage * ii - writer.cycle)
    return max(ends)


def ring_plans(problem: LoopProblem, ii: int, places: Places) -> tuple[RingPlan, ...]:
    """Depths that cover every life, deepened while memory lasts, one memory after the other."""
    lives = {ring.name: life(problem, ii, places, ring) for ring in problem.rings}
    depth = {r.name: max(r.shallowest, -(-lives[r.name] // ii)) for r in problem.rings}
    offsets: dict[str, int] = {}
    for memory in problem.memories:
        rings = [ring for ring in problem.rings if ring.memory == memory.name]
        free = room(problem, memory)
        _deepen(rings, depth, lives, ii, free - _moving(problem, places, memory.name))
        at = memory.bytes - free
        for ring in sorted(rings, key=lambda ring: -ring.align):
            offsets[ring.name] = at
            at += padded(ring) * depth[ring.name]
    return tuple(
        _plan(problem, places, ring, depth[ring.name], offsets[ring.name]) for ring in problem.rings
    )


def _moving(problem: LoopProblem, places: Places, memory: str) -> int:
    """Bytes of `memory` in which values lie that change roles."""
    return sum(
        edge.transfer.bytes
        for edge in problem.dependences
        if edge.transfer
        and edge.transfer.memory == memory
        and places[edge.source].role != places[edge.target].role
    )


def _deepen(
    rings: list[Ring], depth: dict[str, int], lives: dict[str, int], ii: int, free: int
) -> None:
    """Give a slot at a time to the ring of copies whose writer would wait first."""
    free -= sum(padded(ring) * depth[ring.name] for ring in rings)
    while True:
        open_rings = [
            ring
            for ring in rings
            if ring.fill == "copy" and depth[ring.name] < ring.deepest and padded(ring) <= free
        ]
        if not open_rings:
            return
        least = min(open_rings, key=lambda ring: depth[ring.name] * ii - lives[ring.name])
        depth[least.name] += 1
        free -= padded(least)


def _plan(problem: LoopProblem, places: Places, ring: Ring, depth: int, offset: int) -> RingPlan:
    readers = {places[edge.target].role for edge in readers_of(problem)[ring.name]}
    size = ring.bytes if ring.fill == "copy" else 0
    return RingPlan(ring.name, depth, offset, 1, size, len(readers))
