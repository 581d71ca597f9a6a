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
from tensorc.ir.polynomial import symbols
from tensorc.ir.rounding import LARGEST, Array, round_exact, round_to
from tensorc.ir.tensor import Expr, free_indices
from tensorc.ir.tile import Each, Kernel, Let, Loop, Store, Tile
from tensorc.ir.walk_tile import opaque, statements, tiles, values_in

Axes = tuple[Axis, ...]
POINTS = 1 << 21  # elements that a reduction evaluates at once


@dataclass
class Block:
    """One block of the grid, and where in its loops it is; or many blocks that do the same.

    `batch`: all positions of grid indices with one lane, as axes in front of every tile's own.
    `bases` and `counts`: base position and lanes of each other index bound here; `windows`: the
    lanes that `Each` singles out; `full`: whether the block of an open loop lies in its full range.
    """

    kernel: Kernel
    batch: Axes
    bases: dict[str, int]
    counts: dict[str, int]
    bound: frozenset[str]
    whole: Mapping[str, int]
    windows: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    full: dict[str, bool] = field(default_factory=dict[str, bool])
    seen: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    tiles: dict[str, tuple[tuple[str, ...], Lanes]] = field(
        default_factory=dict[str, tuple[tuple[str, ...], Lanes]]
    )  # with the names of the arrays' axes

    def __str__(self) -> str:
        at = ", ".join(f"{index} = {base}" for index, base in self.bases.items())
        return f"{self.kernel.name} at {at}" if at else self.kernel.name

    def window(self, tile: Tile) -> tuple[slice, ...]:
        """The lanes of a tile that statements work on here."""
        spans = (self.windows.get(a, (0, n)) for a, n in zip(tile.axes, tile.sizes, strict=True))
        own = (slice(start, start + count) for start, count in spans)
        return (*(axis.window for axis in self.batch), *own)

    def fetch(self, tile: Tile) -> Lanes:
        """Those lanes of a tile."""
        return self.tiles[tile.name][1].at(self.window(tile))

    def assign(self, tile: Tile, lanes: Lanes) -> None:
        """Set those lanes of a tile; all of its lanes have no value before the first time."""
        if tile.name not in self.tiles:
            shape = (*(axis.count for axis in self.batch), *tile.sizes)
            names = (*(axis.index for axis in self.batch), *tile.axes)
            self.tiles[tile.name] = names, lanes.blank(shape)
        self.tiles[tile.name][1].put(self.window(tile), lanes)

    def overwrite(self, tile: Tile) -> None:
        """Those lanes of a tile have no value any more: another tile took their storage."""
        self.tiles[tile.name][1].states[self.window(tile)] = UNKNOWN

    def lanes_of(self, index: str, exprs: Iterable[Expr]) -> int | None:
        """How many lanes an index has in a statement: those of its block, those of the tiles that
        it reads, those that whole tiles have; None: exactly its extent."""
        if index in self.counts:
            return self.counts[index]
        for name in values_in(exprs):
            names, lanes = self.tiles[name]
            if index in names:
                return lanes.values.shape[names.index(index)]
        return self.whole.get(index)


def alike(kernel: Kernel) -> tuple[str, ...]:
    """The grid indices with one lane of which all blocks do the same, each on its own elements:
    no bound depends on them, and they are no tile's axis."""
    taken: set[str] = set()
    for item in statements(kernel.body):
        match item:
            case Let():
                taken.update(item.tile.axes, item.reduced)
            case Store():
                taken.update(item.once)
            case Loop():
                taken.update(axis for carry in item.carries for axis in carry.tile.axes)
                limits = (item.lower, item.upper, *item.full)
                taken.update(symbol.name for limit in limits for symbol in symbols(limit))
                taken.update(i for limit in limits for e in opaque(limit) for i in free_indices(e))
            case Each():
                taken.add(item.index)
    return tuple(b.index for b in kernel.grid if b.size == 1 and b.index not in taken)


def batch(kernel: Kernel, extents: Mapping[str, int]) -> Axes:
    """As many of the indices of `alike` as keep arrays small, the last ones first."""
    lanes = max((math.prod(tile.sizes) for tile in tiles(kernel).values()), default=1)
    chosen: list[Axis] = []
    for index in reversed(alike(kernel)):
        lanes *= extents[index]
        if lanes <= POINTS >> 2:
            chosen.insert(0, Axis(index, 0, 0, extents[index], extents[index]))
    return tuple(chosen)


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
    values = stacked(None if total is None else total.values, lanes.values, shape, rank)
    states = stacked(
        None if total is None else total.states != KNOWN, lanes.states != KNOWN, shape, rank
    )
    found = reductions.reduce(op.name, values, None, ordered=True)
    return Lanes(found, np.where(states.any(axis=0), np.uint8(UNKNOWN), np.uint8(KNOWN)))


def stacked(total: Array | None, values: Array, shape: tuple[int, ...], rank: int) -> Array:
    """`total`, if any, and then the lanes, along a first axis, over the first `rank` axes."""
    order = (*range(rank, len(shape)), *range(rank))
    flat = (math.prod(shape[rank:]), *shape[:rank])
    lanes = np.broadcast_to(values, shape).transpose(order).reshape(flat)
    if total is None:
        return lanes
    first = np.broadcast_to(total, shape[:rank]).astype(values.dtype)
    return np.concatenate([first[None], lanes])


def neutral(op: Reducer, dtype: np.dtype[Any]) -> Array:
    """What a reduction of nothing gives."""
    return reductions.reduce(op.name, np.zeros((0,), dtype), None, ordered=True)


def lowest(dtype: DType) -> Array:
    """The lowest finite value of a type."""
    if dtype.floating:
        return round_to(-LARGEST[dtype], dtype)
    return round_exact(Fraction(integer_range(dtype)[0]), dtype)
