"""Registers in the scheduler's constraint model: lifetimes in a period and shares of the roles.

A value occupies its role from its writer's start to its last reader, at most one period; the copies
of one role, taken twice, stack up to what the role has beside its base and its resident values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tensorc.ir.capacity import groups, pool
from tensorc.ir.schedule import Dependence, Role, Value, held, readers_of
from tensorc.passes.scheduling.cp_sat import Interval, Linear, total

if TYPE_CHECKING:
    from tensorc.passes.scheduling.schedule_model import Model

Lives = dict[str, list[tuple[Interval, int]]]


def allot(model: Model) -> None:
    """Give every role in use registers that hold its values at every cycle, within the block's."""
    lives: Lives = {role.name: [] for role in model.problem.roles}
    for value in model.problem.values:
        if not value.resident:
            _live(model, value, lives)
    for role in model.problem.roles:
        _fit(model, role, lives[role.name])
    _share(model)


def _live(model: Model, value: Value, lives: Lives) -> None:
    """The value's interval in its writer's role and its copies in the roles of other readers."""
    cp, ii = model.cp, model.ii
    begin = model.phase[value.writer]
    size = cp.new_int_var(0, ii, f"life of {value.name}")
    end = cp.new_int_var(0, 2 * ii, f"end of {value.name}")
    cp.add_linear_constraint(end - begin - size, 0, 0)
    for edge in readers_of(model.problem)[value.name]:
        _outlive(model, edge, end)
        if edge.transfer:
            _copy(model, edge, value, lives)
    for role in model.problem.roles:
        literal = model.within.get((value.writer, role.name))
        if literal is not None:
            for shift in (0, ii):
                made = cp.new_optional_interval_var(
                    begin + shift, size, end + shift, literal, value.name
                )
                lives[role.name].append((made, value.registers))


def _outlive(model: Model, edge: Dependence, end: Linear) -> None:
    """The value lives until this reader is done with it, or until it is stored for it."""
    used = model.start(edge.target) + model.ii * edge.distance + held(model.problem, edge)
    used -= model.ii * model.stage[edge.source]
    same = model.cp.add(end >= used)
    if edge.transfer:
        crosses = model.crossing[edge]
        same.only_enforce_if(~crosses)
        stored = model.phase[edge.source] + edge.latency + edge.transfer.busy
        model.cp.add(end >= stored).only_enforce_if(crosses)


def _copy(model: Model, edge: Dependence, value: Value, lives: Lives) -> None:
    """The reader's own copy, from its load to the end of its use."""
    from tensorc.passes.scheduling.schedule_model import both, turns

    assert edge.transfer
    busy, hold = edge.transfer.busy, held(model.problem, edge)
    for role in model.problem.roles:
        inside = model.within.get((edge.target, role.name))
        if inside is not None:
            literal = both(model, model.crossing[edge], inside)
            for interval in turns(model, edge.target, -busy, busy + hold, literal):
                lives[role.name].append((interval, value.registers))


def _fit(model: Model, role: Role, lives: list[tuple[Interval, int]]) -> None:
    """What the role is given covers its base, its residents and its values at every cycle."""
    limits, cp = model.problem.registers, model.cp
    steps = cp.new_int_var(0, limits.ceiling // limits.step, f"register steps of {role.name}")
    used = model.used[role.name]
    cp.add(steps <= 0).only_enforce_if(~used)
    cp.add(steps >= -(-limits.floor // limits.step)).only_enforce_if(used)
    model.registers[role.name] = steps
    held_here = [
        value.registers * model.within[value.writer, role.name]
        for value in model.problem.values
        if value.resident and (value.writer, role.name) in model.within
    ]
    free = cp.new_int_var(0, limits.ceiling, f"free registers of {role.name}")
    needed = total([free, *held_here]) + role.base
    cp.add(needed <= limits.step * steps).only_enforce_if(used)
    if lives:
        cp.add_cumulative([life for life, _ in lives], [width for _, width in lives], free)


def _share(model: Model) -> None:
    """All roles' registers come from what a block of as many warp groups is launched with."""
    cp, limits, roles = model.cp, model.problem.registers, model.problem.roles
    wide = {role.name: groups(role.warps) for role in roles if role.warps >= 4}
    narrow = [role.name for role in roles if role.warps == 1]
    helpers, most = -(-len(narrow) // 4), sum(wide.values())
    given = [pool(limits, n) // 128 // limits.step for n in range(1, most + helpers + 1)]
    for taken in range(helpers + 1):
        for count in range(most + 1):
            if taken + count:
                _launch(model, wide, narrow, count, taken, given[taken + count - 1])
    cp.add_exactly_one(*model.launches)


def _launch(
    model: Model,
    wide: Mapping[str, int],
    narrow: list[str],
    count: int,
    helpers: int,
    given: int,
) -> None:
    """If `count` warp groups and `helpers` groups of single warps are in use: they fit together.
    `wide`: the warp groups of each role that has any."""
    cp, limits = model.cp, model.problem.registers
    exactly = cp.new_bool_var(f"{count} groups and {helpers} of single warps")
    model.launches.append(exactly)
    used = total(size * model.used[name] for name, size in wide.items())
    warps = total(model.used[name] for name in narrow)
    cp.add_linear_constraint(used, count, count).only_enforce_if(exactly)
    cp.add_linear_constraint(warps, 4 * helpers - 3 if helpers else 0, 4 * helpers).only_enforce_if(
        exactly
    )
    if not limits.dynamic:
        for name in (*wide, *narrow):
            each = given // (count + helpers)
            cp.add(model.registers[name] <= each).only_enforce_if(exactly)
        return
    single = cp.new_int_var(0, limits.ceiling // limits.step, "register steps of single warps")
    for name in narrow:
        cp.add(single >= model.registers[name]).only_enforce_if(exactly)
    summed = total(size * model.registers[name] for name, size in wide.items()) + helpers * single
    cp.add(summed <= given).only_enforce_if(exactly)
