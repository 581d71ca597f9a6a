"""Where the tiles of a kernel lie, and reading and writing them.

A short register tile with one axis of lanes is one SSA vector. Every other tile is a buffer, row
by row, in the function's own memory. A vector that a statement wants lane by lane is first laid
down in a buffer as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorc.codegen import llvm_memory
from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_frame import Frame
from tensorc.codegen.llvm_places import Places
from tensorc.codegen.llvm_scope import ZERO, Buffer, Scope
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import value_of
from tensorc.ir.tensor import Value
from tensorc.ir.tile import Tile


class Tiles:
    """The tiles of one kernel."""

    def __init__(self, b: Builder, scope: Scope, places: Places, frame: Frame) -> None:
        self.b, self.scope, self.places, self.frame = b, scope, places, frame
        self.laid: dict[str, Buffer] = {}  # SSA vectors that lie in a buffer as well
        self.roots: dict[str, Buffer] = {}

    # --- values ---------------------------------------------------------------------------------

    def read(self, item: Value) -> Operand:
        """A tile's value on the lanes worked on."""
        buffer = self.scope.buffers.get(item.tile)
        if buffer is not None:
            return self.load(buffer, item.axes)
        held = self.scope.tiles[item.tile, self.scope.row_in(item.axes)]
        axis = self.places.lane_axis(item.tile)
        if axis is None or self.scope.widths.get(axis, 1) == held.lanes:
            return held
        return self.load(self.laid_down(held, axis), (axis,))

    def key(self, item: Value) -> object:
        """What tells the present value of a tile from others that had its name."""
        buffer = self.scope.buffers.get(item.tile)
        if buffer is not None:
            return (buffer.pointer, buffer.version)
        return self.scope.tiles[item.tile, self.scope.row_in(item.axes)].ref

    def write(self, tile: Tile, value: Operand) -> None:
        """Set a tile on the lanes worked on; `value` is rounded to its type already."""
        buffer = self.scope.buffers.get(tile.name)
        if buffer is None:
            lanes = self.places.lanes(tile)
            key = (tile.name, self.scope.row_in(tile.axes))
            self.scope.tiles[key] = self.b.splat(value, lanes)
            return
        offset, run, lanes = self.offset(buffer, tile.axes)
        llvm_memory.store(self.b, buffer.pointer, buffer.dtype, offset, run, lanes, value, None)
        buffer.version += 1

    def load(self, buffer: Buffer, axes: Sequence[str]) -> Operand:
        """Elements of a buffer. What this statement writes it does not read, so that they are
        loaded as soon as their place is known."""
        offset, run, lanes = self.offset(buffer, axes)
        depth = self.scope.depth
        return llvm_memory.load(
            self.b, buffer.pointer, buffer.dtype, offset, run, lanes, None, depth
        )

    def offset(self, buffer: Buffer, axes: Sequence[str]) -> tuple[Operand, int, int]:
        """(offset of the lanes worked on, 1 if they are neighbours, else 0, how many they are)."""
        b, total = self.b, ZERO
        vector = next((axis for axis in axes if self.scope.widths.get(axis, 1) > 1), None)
        lanes = self.scope.widths[vector] if vector else 1
        run = int(vector is None or buffer.strides[vector] == 1)
        for axis in axes:
            lane = self.scope.lanes.get(axis, ZERO)
            if axis == vector and not run:
                lane = b.op("add", lane, b.iota(lanes))
                stride = buffer.strides[axis]
                total = b.op("add", total, b.op("mul", lane, self.number(stride)))
                continue
            total = b.add(total, b.mul(lane, self.number(buffer.strides[axis])))
        return total, run, lanes

    def number(self, value: int) -> Operand:
        return Operand(str(value), ZERO.dtype, 1, 0)

    # --- buffers --------------------------------------------------------------------------------

    def laid_down(self, held: Operand, axis: str) -> Buffer:
        """The lanes of an SSA vector in memory."""
        if held.ref not in self.laid:
            pointer = self.frame.take(held.lanes * _bytes(held))
            buffer = Buffer(pointer, held.dtype, {axis: 1})
            self._keep(buffer, held)
            self.laid[held.ref] = buffer
        return self.laid[held.ref]

    def _keep(self, buffer: Buffer, held: Operand) -> None:
        """Store in the region of the value, once for all regions within it."""
        b, regions = self.b, self.b.regions
        b.regions = regions[: held.depth + 1]
        llvm_memory.store(b, buffer.pointer, buffer.dtype, ZERO, 1, held.lanes, held, None)
        b.regions = regions

    def define(self, tile: Tile) -> None:
        """Before a tile is written for the first time: its buffer, if it has one."""
        if not self.places.is_buffer(tile.name) or tile.name in self.scope.buffers:
            return
        root = self.places.root(tile.name)
        if root not in self.roots:
            dtype = value_of(tile.dtype)
            size = math.prod(tile.sizes) * max(1, dtype.bits // 8)
            self.roots[root] = Buffer(self.frame.take(size), dtype, _strides(tile))
        self.scope.buffers[tile.name] = self.roots[root]


def _strides(tile: Tile) -> dict[str, int]:
    """Row by row, the last axis fastest."""
    return {axis: math.prod(tile.sizes[n + 1 :]) for n, axis in enumerate(tile.axes)}


def _bytes(held: Operand) -> int:
    return max(1, held.dtype.bits // 8)
