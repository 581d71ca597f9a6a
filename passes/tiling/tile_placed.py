"""Level 2 for GPUs whose kernels for tensor cores have a place: `tile_gpu`, or plain kernels for
all of a program if one of its kernels fits no block of warps.

True afterwards: `placed` refuses no kernel, and `reasons` says why kernels are plain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorc.errors import Infeasible, Unavailable
from tensorc.ir.placement import Pipelined, Placement
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.ir.tensor import Program
from tensorc.ir.tile import Kernel
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.place_groups import place_groups, solved
from tensorc.passes.scheduling.groups import Unpipelined
from tensorc.passes.scheduling.place_warps import place_warps
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.choose_tile import Wanted
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.lower import lower
from tensorc.passes.tiling.shapes import SUMS
from tensorc.passes.tiling.tile_gpu import Tiled, tile_for

WITH_ROLES = ("sm_90a",)  # machines whose products are those of warp groups


def placed(
    kernel: Kernel, machine: str, product: str,
    solve: Callable[[LoopProblem], Schedule] = solved,
) -> Placement | Pipelined | None:  # fmt: skip
    """Where a kernel's fragments lie and who works on them; None for a plain kernel. `solve`: what
    schedules the loop of a kernel for warp groups.

    Infeasible, Unpipelined: nothing fits, with the reason; and what `solve` raises.
    """
    if machine in WITH_ROLES:
        return place_groups(kernel, machine, product, solve)
    return place_warps(kernel, load_product(product))


def tile_placed(
    program: Program, machine: str, widths: Widths, units: Units,
    static: Mapping[str, int], product: str,
    solve: Callable[[LoopProblem], Schedule] = solved, hints: Mapping[str, int] | None = None,
) -> Tiled:  # fmt: skip
    """Tile a canonical program for a GPU; the arguments are those of `tile_gpu`. `product`: whose
    registers and memory kernels have to fit into: where they do not, smaller tiles are tried, and
    then plain kernels; `solve`: see `placed`. A solver that is Unavailable makes kernels plain,
    too."""
    reason = ""
    for sums in (SUMS, SUMS // 2, SUMS // 4):
        made = tile_for(program, Wanted(machine, widths, units, static, hints or {}, sums=sums))
        try:
            for kernel in made.program.kernels:
                placed(kernel, machine, product, solve)
        except (Infeasible, Unpipelined, Unavailable) as why:
            reason = reason or str(why)
            continue
        return made
    plain = lower(program, widths, units, machine, static)
    return Tiled(plain, {kernel.name: reason for kernel in plain.kernels})
