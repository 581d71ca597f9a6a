"""Shared memory of what stands around a loop: how much, and what lies in whose place."""

from __future__ import annotations

from collections.abc import Iterable

from tensorc.ir.tile import Let, Loop, Statement, Tile
from tensorc.ir.walk_tile import reads, statements
from tensorc.passes.scheduling.groups import flat
from tensorc.passes.scheduling.statement_costs import size_in_bytes

_ALIGN = 1024


def space(item: Statement) -> int:
    """Shared memory of a tile outside the loop, in bytes; 0 for what needs none."""
    if not isinstance(item, Let) or item.tile.space != "shared":
        return 0
    size = size_in_bytes(item.tile, dict(zip(item.tile.axes, item.tile.sizes, strict=True)))
    return -(-size // _ALIGN) * _ALIGN


def reused(
    before: tuple[Statement, ...], loop: Loop, after: tuple[Statement, ...]
) -> tuple[tuple[Let, Tile], ...]:
    """The tiles after the loop that can lie where an operand of the loop did, with that operand.

    Whoever writes a part of the tile has read that part of the operand last, so that nobody waits:
    both are divided along their first axis, or nothing is divided.
    """
    free = [item.tile for item in statements(before) if isinstance(item, Let)]
    inside = list(flat(loop.body))
    found = list[tuple[Let, Tile]]()
    for item, nest in flat(after):
        if not isinstance(item, Let) or (place := home(item.tile, free)) is None:
            continue
        nests = [nest, *(other for user, other in inside if place.name in reads(user))]
        first = item.tile.axes[0]
        if all(any(index == first for index, _ in other) for other in nests) or not any(nests):
            free.remove(place)
            found.append((item, place))
    return tuple(found)


def home(tile: Tile, free: Iterable[Tile]) -> Tile | None:
    """A tile of shared memory whose place another can take lane by lane: both have the same sizes,
    type and layout, and the same first axis."""
    for other in free:
        same = (other.space, other.sizes, other.dtype) == (tile.space, tile.sizes, tile.dtype)
        swizzles = [getattr(item.layout, "swizzle", None) for item in (tile, other)]
        orders = [
            tuple(item.axes.index(a) for a in getattr(item.layout, "order", item.axes))
            for item in (tile, other)
        ]
        if tile.space == "shared" and same and tile.axes[:1] == other.axes[:1]:
            if swizzles[0] == swizzles[1] and orders[0] == orders[1]:
                return other
    return None
