"""One block of a level-2 kernel while it runs: bases, lanes and tiles; and reductions of lanes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tensorc.ir import reductions
from tensorc.ir.dtypes import DType, integer_range
from tensorc.ir.functions import Reducer
from tensorc.ir.lanes import KNOWN, UNKNOWN, Axis, Lanes
from tensorc.ir.rounding import LARGEST, Array, numpy_dtype, round_exact, round_to
from tensorc.ir.tensor import Expr
from tensorc.ir.tile import Kernel, Tile
from tensorc.ir.walk_tile import values_in

Axes = tuple[Axis, ...]
POINTS = 1 << 21  # elements that a reduction evaluates at once


@dataclass
class Block:
    """One block of the grid, and where in its loops it is.

    `bases` and `counts`: base position and lanes of each index bound here; `windows`: the lanes
    that `Each` singles out; `full`: whether the block of an open loop lies in its full range.
    """

    kernel: Kernel
    bases: dict[str, int]
    counts: dict[str, int]
    bound: frozenset[str]
    whole: Mapping[str, int]
    windows: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    full: dict[str, bool] = field(default_factory=dict[str, bool])
    seen: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    tiles: dict[str, tuple[tuple[str, ...], Lanes]] = field(
        default_factory=dict[str, tuple[tuple[str, ...], Lanes]]
    )

    def __str__(self) -> str:
        at = ", ".join(f"{index} = {base}" for index, base in self.bases.items())
        return f"{self.kernel.name} at {at}" if at else self.kernel.name

    def window(self, tile: Tile) -> tuple[slice, ...]:
        """The lanes of a tile that statements work on here."""
        spans = (self.windows.get(a, (0, n)) for a, n in zip(tile.axes, tile.sizes, strict=True))
        return tuple(slice(start, start + count) for start, count in spans)

    def fetch(self, tile: Tile) -> Lanes:
        """Those lanes of a tile."""
        return self.tiles[tile.name][1].at(self.window(tile))

    def assign(self, tile: Tile, lanes: Lanes) -> None:
        """Set those lanes of a tile; all of its lanes have no value before the first time."""
        if tile.name not in self.tiles:
            values = np.zeros(tile.sizes, numpy_dtype(tile.dtype))
            states = np.full(tile.sizes, UNKNOWN, np.uint8)
            self.tiles[tile.name] = tile.axes, Lanes(values, states)
        whole, window = self.tiles[tile.name][1], self.window(tile)
        whole.values[window], whole.states[window] = lanes.values, lanes.states != KNOWN

    def lanes_of(self, index: str, exprs: Iterable[Expr]) -> int | None:
        """How many lanes an index has in a statement: those of its block, those of the tiles that
        it reads, those that whole tiles have; None: exactly its extent."""
        if index in self.counts:
            return self.counts[index]
        for value in values_in(exprs).values():
            if index in value.axes:
                return self.tiles[value.tile][1].values.shape[value.axes.index(index)]
        return self.whole.get(index)


def exact(axis: Axis) -> Axis:
    """The lanes of an axis that are inside the domain."""
    return replace(axis, count=int(axis.inside.sum()))


def parts(outer: Axes, inner: Axes) -> Iterator[Axes]:
    """The reduced lanes in ascending order, few enough at a time."""
    lanes = math.prod(axis.count for axis in (*outer, *inner))
    place = next((n for n, axis in enumerate(inner) if axis.count > 1), None)
    if lanes <= POINTS or place is None:
        yield inner
        return
    axis = inner[place]
    step = max(1, axis.count * POINTS // lanes)
    for start in range(0, axis.count, step):
        count = min(step, axis.count - start)
        piece = replace(axis, start=axis.start + start, count=count)
        yield (*inner[:place], piece, *inner[place + 1 :])


def combined(
    op: Reducer, total: Lanes | None, lanes: Lanes, shape: tuple[int, ...], rank: int
) -> Lanes:
    """`total` reduced with `lanes`, one after another, over all axes but the first `rank`."""
    order = (*range(rank, len(shape)), *range(rank))
    values, states = (
        np.broadcast_to(item, shape).transpose(order).reshape((-1, *shape[:rank]))
        for item in (lanes.values, lanes.states != KNOWN)
    )
    if total is not None:
        first = np.broadcast_to(total.values, shape[:rank]).astype(values.dtype)
        values = np.concatenate([first[None], values])
        held = np.broadcast_to(total.states != KNOWN, shape[:rank])
        states = np.concatenate([held[None], states])
    found = reductions.reduce(op.name, values, None, ordered=True)
    return Lanes(found, np.where(states.any(axis=0), np.uint8(UNKNOWN), np.uint8(KNOWN)))


def neutral(op: Reducer, dtype: np.dtype[Any]) -> Array:
    """What a reduction of nothing gives."""
    return reductions.reduce(op.name, np.zeros((0,), dtype), None, ordered=True)


def lowest(dtype: DType) -> Array:
    """The lowest finite value of a type."""
    if dtype.floating:
        return round_to(-LARGEST[dtype], dtype)
    return round_exact(Fraction(integer_range(dtype)[0]), dtype)
