"""The best interval of a tiny loop by trying everything: a judge for the solver.

It shares no code with the solver or the checker. Operations are placed one after the other at every
start and in every role; a rule is tested as soon as all that it speaks of is placed, resources by
counting cycle by cycle. It understands the rules of `tensorc/ir/schedule.py` as written there.
"""

from __future__ import annotations

from itertools import product

from tensorc.ir.capacity import pool
from tensorc.ir.schedule import Dependence, LoopProblem, held, operation_of

Placed = dict[str, tuple[int, str]]
"""Start and role of the operations placed so far."""


def best_interval(problem: LoopProblem, stages: int, anchor: str, most: int) -> int | None:
    """The smallest ii of at most `most` for which some schedule exists in which all starts are in
    [0, stages * ii), from ii on for operations of known latency if there are others, and `anchor`
    starts at a multiple of ii; None if there is none."""
    for ii in range(1, most + 1):
        if _place(problem, ii, stages, anchor, [], {}):
            return ii
    return None


def _place(
    problem: LoopProblem, ii: int, stages: int, anchor: str, names: list[str], placed: Placed
) -> bool:
    left = [item.name for item in problem.operations if item.name not in placed]
    if not left:
        return _final(problem, ii, placed)
    name = anchor if anchor in left else left[0]
    ahead = any(item.variable for item in problem.operations)
    first = ii if ahead and not operation_of(problem)[name].variable else 0
    starts = range(first, stages * ii, ii if name == anchor else 1)
    for begin, role in product(starts, [role.name for role in problem.roles]):
        placed[name] = (begin, role)
        if _legal(problem, ii, name, placed) and _place(problem, ii, stages, anchor, names, placed):
            return True
        del placed[name]
    return False


def _legal(problem: LoopProblem, ii: int, name: str, placed: Placed) -> bool:
    """Every rule that speaks of `name` and of placed operations alone."""
    item = operation_of(problem)[name]
    role = next(role for role in problem.roles if role.name == placed[name][1])
    isolated = any(other.variable for other in problem.roles)
    if role.warps < item.warps or (isolated and role.variable != item.variable):
        return False
    edges = [e for e in problem.dependences if name in (e.source, e.target)]
    if not all(_kept(problem, ii, e, placed) for e in edges if _known(e, placed)):
        return False
    return _busy(problem, ii, placed) and _units(problem, ii, placed)


def _known(edge: Dependence, placed: Placed) -> bool:
    return edge.source in placed and edge.target in placed


def _apart(edge: Dependence, placed: Placed) -> bool:
    return placed[edge.source][1] != placed[edge.target][1]


def _kept(problem: LoopProblem, ii: int, edge: Dependence, placed: Placed) -> bool:
    """The dependence; and the life of what it carries, as far as depths and one copy allow."""
    begin, end = placed[edge.source][0], placed[edge.target][0] + ii * edge.distance
    apart, cost = _apart(edge, placed), edge.transfer
    if apart and cost is None:
        return False
    told = cost.latency if cost and apart else 0
    if end < begin + edge.latency + told:
        return False
    done = end + held(problem, edge)
    for ring in problem.rings:
        if ring.name == edge.carries and done + told - begin > ii * ring.deepest:
            return False
    for value in problem.values:
        if value.name == edge.carries and not value.resident and not apart and done - begin > ii:
            return False
    if cost and apart and cost.busy:
        kept = begin + edge.latency
        carried = any(v.name == edge.carries and not v.resident for v in problem.values)
        if end > kept + ii or (carried and kept + cost.busy - begin > ii):
            return False
    elif cost and apart:
        carried = any(v.name == edge.carries and not v.resident for v in problem.values)
        return not carried or edge.latency <= ii
    return True


def _intervals(problem: LoopProblem, placed: Placed) -> list[tuple[str, int, int]]:
    """(role, begin, cycles) of everything that keeps a role busy."""
    found = [
        (placed[o.name][1], placed[o.name][0], o.busy)
        for o in problem.operations
        if o.name in placed
    ]
    for edge in problem.dependences:
        if _known(edge, placed) and _apart(edge, placed) and edge.transfer and edge.transfer.busy:
            busy = edge.transfer.busy
            found.append((placed[edge.source][1], placed[edge.source][0] + edge.latency, busy))
            found.append((placed[edge.target][1], placed[edge.target][0] - busy, busy))
    return found


def _busy(problem: LoopProblem, ii: int, placed: Placed) -> bool:
    seen: set[tuple[str, int]] = set()
    for role, begin, cycles in _intervals(problem, placed):
        for cycle in range(begin, begin + cycles):
            if (role, cycle % ii) in seen:
                return False
            seen.add((role, cycle % ii))
    return True


def _units(problem: LoopProblem, ii: int, placed: Placed) -> bool:
    demand: dict[tuple[str, int], int] = {}
    issuers: dict[str, set[str]] = {}
    for item in problem.operations:
        for use in item.uses if item.name in placed else ():
            begin, role = placed[item.name]
            issuers.setdefault(use.unit, set()).add(role)
            for cycle in range(begin + use.offset, begin + use.offset + use.cycles):
                key = (use.unit, cycle % ii)
                demand[key] = demand.get(key, 0) + use.demand
    for unit in problem.units:
        if any(d > unit.capacity for (name, _), d in demand.items() if name == unit.name):
            return False
        if unit.issuers and len(issuers.get(unit.name, ())) > unit.issuers:
            return False
    return True


def _final(problem: LoopProblem, ii: int, placed: Placed) -> bool:
    return _memory(problem, ii, placed) and _registers(problem, ii, placed)


def _memory(problem: LoopProblem, ii: int, placed: Placed) -> bool:
    for memory in problem.memories:
        align = max((r.align for r in problem.rings if r.memory == memory.name), default=1)
        free = memory.bytes - -(-memory.taken // align) * align
        for ring in problem.rings:
            if ring.memory == memory.name:
                lives = [0]
                for edge in problem.dependences:
                    if edge.carries == ring.name:
                        told = edge.transfer.latency if edge.transfer else 0
                        late = placed[edge.target][0] + ii * edge.distance + held(problem, edge)
                        late += told if _apart(edge, placed) else 0
                        lives.append(late - placed[edge.source][0])
                depth = max(ring.shallowest, -(-max(lives) // ii))
                free -= depth * (-(-ring.bytes // ring.align) * ring.align)
        for edge in problem.dependences:
            if edge.transfer and edge.transfer.memory == memory.name and _apart(edge, placed):
                free -= edge.transfer.bytes
        if free < 0:
            return False
    return True


def _registers(problem: LoopProblem, ii: int, placed: Placed) -> bool:
    limits = problem.registers
    needs: dict[str, int] = {}
    for role in problem.roles:
        if any(name == role.name for _, name in placed.values()):
            need = role.base + max(_pressure(problem, ii, role.name, placed))
            needs[role.name] = -(-max(need, limits.floor) // limits.step) * limits.step
    wide = [needs[r.name] for r in problem.roles if r.name in needs and r.warps == 4]
    single = [needs[r.name] for r in problem.roles if r.name in needs and r.warps == 1]
    helpers = -(-len(single) // 4)
    if any(need > limits.ceiling for need in needs.values()):
        return False
    groups, widest = len(wide) + helpers, max(single, default=0)
    share = pool(limits, groups) // 128
    if not limits.dynamic:
        return max(needs.values()) <= share // groups
    return sum(wide) + helpers * widest <= share


def _pressure(problem: LoopProblem, ii: int, role: str, placed: Placed) -> list[int]:
    """Registers of values in each cycle of a period."""
    cycles = [0] * ii
    for value in problem.values:
        begin, home = placed[value.writer]
        if value.resident:
            if home == role:
                cycles = [held_now + value.registers for held_now in cycles]
            continue
        until = begin
        for edge in problem.dependences:
            if edge.carries == value.name:
                busy = edge.transfer.busy if edge.transfer else 0
                used, there = placed[edge.target]
                if there == home:
                    until = max(until, used + ii * edge.distance + held(problem, edge))
                else:
                    until = max(until, begin + edge.latency + busy)
                    if there == role:
                        for cycle in range(used - busy, used + held(problem, edge)):
                            cycles[cycle % ii] += value.registers
        if home == role:
            for cycle in range(begin, until):
                cycles[cycle % ii] += value.registers
    return cycles
