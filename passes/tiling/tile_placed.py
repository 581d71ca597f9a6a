"""Level 2 for GPUs whose kernels for tensor cores have a place: `tile_gpu`, or plain kernels for
all of a program if one of its kernels fits no block of warps.

True afterwards: `place_warps` refuses no kernel, and `reasons` says why kernels are plain.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.errors import Infeasible
from tensorc.ir.tensor import Program
from tensorc.machine.product import Product
from tensorc.passes.scheduling.place_warps import place_warps
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.lower import Widths, lower
from tensorc.passes.tiling.tile_gpu import Tiled, tile_gpu


def tile_placed(
    program: Program, machine: str, widths: Widths, units: Units,
    static: Mapping[str, int], product: Product,
) -> Tiled:  # fmt: skip
    """Tile a canonical program for a GPU; the arguments are those of `tile_gpu`. `product`: whose
    registers and memory kernels have to fit into."""
    made = tile_gpu(program, machine, widths, units, static)
    try:
        for kernel in made.program.kernels:
            place_warps(kernel, product)
    except Infeasible as why:
        plain = lower(program, widths, units, machine, static)
        return Tiled(plain, {kernel.name: str(why) for kernel in plain.kernels})
    return made
