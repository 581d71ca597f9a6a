"""Where the tiles of a kernel lie in the shared memory of a block, and which of them the ring of a
loop holds: a tile that a loop fills from global memory alone has a slot for each block that is
filled ahead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensorc.ir.tile import Each, Kernel, Let, Linear, Loop, Statement, Tile
from tensorc.ir.walk_tile import values_in

ALIGNED = 1024  # bytes: where the widest swizzle repeats


@dataclass(frozen=True)
class Region:
    """Where a tile lies: `offset` bytes from the start of shared memory, or of its ring's slot."""

    offset: int
    loop: Loop | None


@dataclass(frozen=True)
class Ring:
    """The slots of what one loop copies ahead."""

    offset: int
    bytes: int  # of one slot


@dataclass(frozen=True)
class Shared:
    """The whole of a kernel's shared memory."""

    regions: dict[str, Region]
    rings: dict[Loop, Ring]
    bytes: int


def flat(body: Iterable[Statement]) -> Iterator[Let | Loop | Statement]:
    """Statements with the bodies of `Each` in place: each of them is pointwise in its index, and
    warps take parts of that index anyway."""
    for item in body:
        if isinstance(item, Each):
            yield from flat(item.body)
        else:
            yield item


def copied(item: Statement) -> bool:
    """Whether a statement fills shared memory from global memory alone."""
    return isinstance(item, Let) and item.tile.space == "shared" and not values_in((item.body,))


def storage(tile: Tile) -> tuple[tuple[str, ...], int]:
    """Order of the axes, and the swizzle, of a shared tile."""
    match tile.layout:
        case Linear(order, swizzle):
            return order, swizzle
        case _:
            return tile.axes, 0


def size(tile: Tile) -> int:
    """Bytes that a tile takes, a multiple of `ALIGNED`."""
    bytes_ = math.prod(tile.sizes) * tile.dtype.bits // 8
    return -(-bytes_ // ALIGNED) * ALIGNED


def arrange(kernel: Kernel, depth: int) -> Shared:
    """Tiles one after another, in program order; a loop's copies in slots."""
    found = Shared({}, {}, 0)
    return _arrange(tuple(flat(kernel.body)), None, depth, found)


def _arrange(body: tuple[Statement, ...], loop: Loop | None, depth: int, found: Shared) -> Shared:
    total, slot = found.bytes, 0
    ring = [item.tile for item in body if loop and copied(item) and isinstance(item, Let)]
    for tile in ring:
        found.regions[tile.name] = Region(slot, loop)
        slot += size(tile)
    if loop and ring:
        found.rings[loop] = Ring(total, slot)
        total += depth * slot
    for item in body:
        if isinstance(item, Let) and item.tile.space == "shared" and item.tile not in ring:
            found.regions[item.tile.name] = Region(total, None)
            total += size(item.tile)
        elif isinstance(item, Loop):
            inner = Shared(found.regions, found.rings, total)
            total = _arrange(tuple(flat(item.body)), item, depth, inner).bytes
    return Shared(found.regions, found.rings, total)
