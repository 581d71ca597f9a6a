"""Where a level-2 kernel's loop stands, how large its indices are, and whether the hardware or the
threads of the block do its copies and products."""

from __future__ import annotations

from collections import Counter

from tensorc.errors import Infeasible
from tensorc.ir.placement import Placement
from tensorc.ir.tile import Kernel, Let, Loop, Statement, Tile
from tensorc.ir.walk_tile import statements, tiles
from tensorc.machine.instruction import Machine
from tensorc.machine.product import Product
from tensorc.passes.scheduling.divide import copies, multiplies, of_groups
from tensorc.passes.scheduling.groups import Unpipelined
from tensorc.passes.scheduling.place_warps import place_warps


def lanes_of(kernel: Kernel) -> dict[str, int]:
    """The lanes of every index of a kernel: those of its tiles, of its blocks, else one."""
    sizes = Counter[str]()
    for tile in tiles(kernel).values():
        for axis, size in zip(tile.axes, tile.sizes, strict=True):
            sizes[axis] = max(sizes[axis], size)
    for block in kernel.grid:
        sizes[block.index] = block.size
    for item in statements(kernel.body):
        if isinstance(item, Loop):
            sizes[item.index] = item.block
    return sizes


def split(
    kernel: Kernel,
) -> tuple[tuple[Statement, ...], Loop, tuple[Statement, ...]]:
    """What stands before the kernel's loop, the loop, and what stands after it."""
    loops = [k for k, item in enumerate(kernel.body) if isinstance(item, Loop)]
    if len(loops) != 1:
        raise Unpipelined(f"kernel {kernel.name} has {len(loops)} loops one after another, not one")
    at = loops[0]
    loop = kernel.body[at]
    assert isinstance(loop, Loop)
    for carry in loop.carries:
        if isinstance(carry.start, Tile) or carry.tile.space != "register":
            raise Unpipelined(f"carry {carry.tile.name} does not start in registers as a constant")
    return kernel.body[:at], loop, kernel.body[at + 1 :]


def started_apart(loop: Loop, machine: Machine) -> bool:
    """Whether copies and products go on by themselves (TMA, products of warp groups); else the
    threads that compute start and do them."""
    lets = [item for item in statements(loop.body) if isinstance(item, Let)]
    by = {item: machine.instructions[item.by.instruction] for item in lets}
    copied_ = all(by[item].name == "tma" for item in lets if copies(item, machine))
    return copied_ and all(of_groups(by[item]) for item in lets if multiplies(item, machine))


def placed_block(kernel: Kernel, product: Product) -> Placement:
    """The warps of a block that work as one role, and how deep their rings are."""
    try:
        found = place_warps(kernel, product)
    except Infeasible as reason:
        raise Unpipelined(str(reason)) from None
    if found is None or found.warps % 4:
        warps = found.warps if found else 0
        raise Unpipelined(f"{kernel.name} has {warps} warps for a block, no whole warp groups")
    return found
