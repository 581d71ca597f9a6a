"""Places in shared tiles as C++ text."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tensorc.codegen.cuda_functions import stored_type
from tensorc.codegen.cuda_index import Index
from tensorc.ir.tile import Tile
from tensorc.machine.arrange import storage


def place(tile: Tile, lanes: Mapping[str, Index]) -> str:
    """The byte offset in a tile of the element at these lanes, as C++."""
    order, swizzle = storage(tile)
    sizes = dict(zip(tile.axes, tile.sizes, strict=True))
    *outer, last = order
    row = Index.number(0)
    for axis in outer:
        row = row * sizes[axis] + lanes[axis]
    within = lanes[last] * (tile.dtype.bits // 8)
    if not swizzle:
        return str(row * (sizes[last] * tile.dtype.bits // 8) + within)
    return f"tct_byte<{math.prod(sizes[axis] for axis in outer)}, {swizzle}>({row}, {within})"


def element(tile: Tile, at: str, lanes: Mapping[str, Index]) -> str:
    """The element as an lvalue; `at`: the offset of the tile."""
    return f"*({stored_type(tile.dtype)}*)(smem + {at} + {place(tile, lanes)})"
