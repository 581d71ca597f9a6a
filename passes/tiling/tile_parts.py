"""A kernel whose grid leaves most of the machine idle, in parts that run side by side.

    o[h, r] = softmax[t](...) of 8192 keys        one block of 64 rows
    partial: grid part, h by 64; a chunk of the keys each          combine: the parts' states

The two largest split factors that do not queue up are candidates like tiles: the one with the least
estimate of all its kernels is taken, if that is less than the estimate of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorc.ir.plan import Plan
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Program
from tensorc.ir.tile import Kernel, TileProgram
from tensorc.machine.machines import MACHINES
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.fusion.split import split
from tensorc.passes.tiling.choose_tile import Wanted, chosen, evaluated
from tensorc.passes.tiling.estimate import Estimate, estimate
from tensorc.passes.tiling.exists import without_searches
from tensorc.passes.tiling.tile_apart import plain_kernels

PARTS = (2, 4, 8, 16)  # chunks of a pass that may run side by side
GAIN = 0.9  # of the time as a whole: what is saved must be more than estimates are wrong


def in_parts(
    program: Program, plan: Plan, whole: Estimate, wanted: Wanted
) -> TileProgram | None:  # fmt: skip
    """The program with its one pass in parts; None where that is not estimated to be faster."""
    processors = wanted.product.whole("chip.processors")
    if 2 * whole.blocks > processors:
        return None
    best: tuple[float, TileProgram] | None = None
    for parts in [parts for parts in PARTS if parts * whole.blocks <= 2 * processors][-2:]:
        found = _parts(program, plan, parts, wanted)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
    return best[1] if best is not None and best[0] < GAIN * whole.seconds else None


def _parts(
    program: Program, plan: Plan, parts: int, wanted: Wanted
) -> tuple[float, TileProgram] | None:
    """The estimate of a split program, and the program; None: it cannot be split so."""
    try:
        (kernel,) = plan.kernels
        told = without_searches(kernel, dict(plan.extents))
        made, stored = split(program, replace(plan, kernels=(told,)), parts)
        again = fuse(made, wanted.guided, "none", stored)
        scene = wanted.scene(made, again)
        first = chosen(again.kernels[0], scene, wanted)
    except Unfused:
        return None
    if first.estimate is None:
        return None
    equations = tuple(output for kernel in again.kernels for output in kernel.outputs)
    lowered = replace(made, equations=equations, extents=again.extents, checks=again.checks)
    partial = {tensor.name for tensor in first.kernel.writes}
    rest = {item.tensor.name for item in equations} - partial
    plain = plain_kernels(lowered, rest, wanted)
    extents = plain.extent_of
    seconds = first.estimate.seconds + sum(_seconds(k, extents, wanted) for k in plain.kernels)
    return seconds, replace(plain, kernels=(first.kernel, *plain.kernels))


def _seconds(kernel: Kernel, extents: Mapping[str, Polynomial], wanted: Wanted) -> float:
    sizes = evaluated(extents, wanted.guided)
    return estimate(kernel, MACHINES[wanted.machine], wanted.product, extents, sizes).seconds
