"""Level 2 for GPUs whose kernels for tensor cores have a place: `tile_gpu` with tiles that warps
can hold.

True afterwards: `place_warps` refuses no kernel, and `reasons` says why kernels are plain.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.errors import Infeasible
from tensorc.ir.tensor import Program
from tensorc.ir.tile import Kernel
from tensorc.machine.product import Product
from tensorc.passes.scheduling.place_warps import place_warps
from tensorc.passes.tiling.choose_tile import Wanted
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.lower import Widths
from tensorc.passes.tiling.tile_apart import Tiled
from tensorc.passes.tiling.tile_gpu import tile_for


def tile_placed(
    program: Program, machine: str, widths: Widths, units: Units,
    static: Mapping[str, int], product: Product,
) -> Tiled:  # fmt: skip
    """Tile a canonical program for a GPU; the arguments are those of `tile_gpu`. `product`: whose
    registers and memory kernels have to fit into, and whose rates choose among those that do."""

    def refused(kernel: Kernel) -> str:
        try:
            place_warps(kernel, product)
        except Infeasible as why:
            return str(why)
        return ""

    return tile_for(
        program, Wanted(machine, widths, units, static, {}, gpu=product, refused=refused)
    )
