"""Choose between the kernels of a plan and one kernel for every equation.

True afterwards: a program has its plan beside it if the level-2 text of the plan is estimated to
take less time than that of the plain lowering, or if one kernel was asked for; else it has none.
The reasons stand in the result. Plans regroup sums: a strict or deterministic kernel has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.ir.node import postorder
from tensorc.ir.plan import Plan, Planned
from tensorc.ir.polynomial import symbols
from tensorc.ir.tensor import Program, Reduce
from tensorc.ir.tile import TileProgram
from tensorc.passes.fusion.agree import compares_again
from tensorc.passes.fusion.fuse import fuse, intermediates, is_large
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.fusion.price import GUESS, size_in_bytes, sizes_of
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.estimate_cpu import estimate
from tensorc.passes.tiling.lower import lower
from tensorc.passes.tiling.tile_fused import tile_fused

# Plans to compare, by where kernels are asked to end: by estimate, or as seldom as may be.
_WAYS = {"cost": ("cost", "none"), "none": ("none",)}
WORTH = 0.95  # of the time of the plain lowering: what is saved has to exceed what estimates miss
FRESH = 0.08  # nanoseconds a byte of a workspace, that the system clears a page at a time


@dataclass(frozen=True)
class Setting:
    """What level 2 is made for, beside the program: as in `lower` and `tile_fused`."""

    widths: Widths
    units: Units
    machine: str
    static: Mapping[str, int]


def choose_plan(program: Program, setting: Setting, cuts: str) -> Planned:
    """A canonical program with its plan, for a CPU. `cuts`: where kernels end: "cost", "none" or
    "all", after every equation."""
    if cuts == "all":
        return Planned(program, None, ("a kernel for each equation was asked for",))
    if _is_simple(program):
        return Planned(program, None, ("one equation with one reduction at most: nothing to fuse",))
    try:
        return _compared(program, setting, cuts)
    except Unfused as reason:
        return Planned(program, None, (f"not fused: {reason}",))


def _is_simple(program: Program) -> bool:
    bodies = [item.body for item in program.equations]
    reductions = [node for node in postorder(bodies) if isinstance(node, Reduce)]
    return len(bodies) == 1 and len(reductions) <= 1


def _compared(program: Program, setting: Setting, cuts: str) -> Planned:
    """The plan of least time, or none unless it clearly takes less than the plain lowering. Raises
    Unfused."""
    static = setting.static
    plans: list[Plan] = []
    for way in _WAYS[cuts][: 1 if is_large(program) else None]:
        plan = _agreeing(program, static, way)
        if plan is not None and not any(plan.kernels == other.kernels for other in plans):
            plans.append(plan)
    if not plans:
        raise Unfused("it compares values that a kernel would compute again, in another order")
    timed = [(_time(program, _fused(program, plan, setting), setting), plan) for plan in plans]
    ours, best = min(timed, key=lambda item: item[0])
    widths = setting.widths
    plain = lower(program, widths, setting.units, setting.machine, static)
    theirs = _time(program, plain, setting)
    guessed = "" if _settled(program, static) else ", extents that are not known taken as 256"
    line = f"{ours:,.1f} us fused, {theirs:,.1f} us with a kernel for each equation{guessed}"
    if cuts == "none":
        return Planned(program, best, (f"one kernel was asked for; estimated {line}",))
    return Planned(program, best if ours < WORTH * theirs else None, (f"estimated {line}",))


def _agreeing(program: Program, static: Mapping[str, int], way: str) -> Plan | None:
    """A plan that compares nothing with what it computes again: with one more intermediate in
    memory if need be. None: there is none."""
    for stored in ((), *((name,) for name in intermediates(program, ()))):
        plan = fuse(program, static, way, stored)
        outputs = [output.body for kernel in plan.kernels for output in kernel.outputs]
        if not compares_again(outputs):
            return plan
    return None


def _fused(program: Program, plan: Plan, setting: Setting) -> TileProgram:
    lanes, units, static = setting.widths.lanes, setting.units, setting.static
    return tile_fused(program, plan, lanes, units, setting.machine, static)


def _time(program: Program, text: TileProgram, setting: Setting) -> float:
    """Microseconds of the kernels and for the workspaces, which every call takes afresh."""
    values = {item.tensor.name: GUESS for item in program.parameters if item.const}
    sizes = {**values, **sizes_of(program, setting.static), **setting.static}
    fresh = sum(size_in_bytes(tensor, sizes) for tensor in text.workspaces) * FRESH
    return (estimate(text, sizes, setting.widths.lanes, setting.units) + fresh) / 1000


def _settled(program: Program, static: Mapping[str, int]) -> bool:
    """Whether every extent is known, or follows."""
    every = {symbol.name for _, size in program.extents for symbol in symbols(size)}
    return every <= static.keys()
