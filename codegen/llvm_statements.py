"""Statements of level 2 as LLVM IR: tiles defined, lanes reduced, elements stored.

A statement becomes loops over its lanes around one computation of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_combine import combine
from tensorc.codegen.llvm_convert import convert, rounded
from tensorc.codegen.llvm_expressions import Expressions
from tensorc.codegen.llvm_folds import Folds
from tensorc.codegen.llvm_lanes import Lanes
from tensorc.codegen.llvm_parts import Parts
from tensorc.codegen.llvm_places import is_view
from tensorc.codegen.llvm_scope import ZERO, Scope
from tensorc.codegen.llvm_tiles import Tiles
from tensorc.codegen.llvm_turn import Turns
from tensorc.codegen.llvm_types import Operand
from tensorc.codegen.llvm_walks import Walks
from tensorc.ir.dtypes import BOOL, I64, DType, value_of
from tensorc.ir.tensor import (
    Expr,
    Read,
    Value,
    free_indices,
    resolved,
    value_type,
)
from tensorc.ir.tile import Let, Store, Tile


class Statements:
    """Emits `Let` and `Store` at the current point."""

    def __init__(
        self, b: Builder, scope: Scope, walks: Walks, tiles: Tiles, e: Expressions, lanes: Lanes
    ) -> None:
        self.b, self.scope, self.w = b, scope, walks
        self.t, self.e, self.l = tiles, e, lanes
        self.folds = Folds(b, scope, walks, tiles, e, lanes)
        self.turns = Turns(b, scope, walks.places, e, lanes)
        self.parts = Parts(b, scope, walks.places, lanes)

    # --- Let ------------------------------------------------------------------------------------

    def let(self, item: Let) -> None:
        """Define a tile."""
        if is_view(item):
            self.scope.views[item.tile.name] = item.body
            return
        self.t.define(item.tile)
        self.scope.depth = self.b.depth
        free = {*item.tile.axes, *item.reduced, *free_indices(item.body)}
        for _ in self.w.rows(free - {*item.reduced}):
            for part in self.parts.of(free, item.tile):
                if item.op is None:
                    self.pointwise(item)
                else:
                    self.folds.reduction(part.onto(item), item.op)

    def pointwise(self, item: Let) -> None:
        body = self.w.body(item)
        counts = self.w.counts(item.tile.axes, (body,))
        vector = self.w.vector(counts, (body,), item.tile)
        axes = self.w.axes(counts, vector)
        if item.tile.name not in self.scope.buffers:
            axes = [self.w.whole(axis) for axis in axes]

        def work() -> None:
            self.write(item.tile, self.e.value(body, value_of(item.tile.dtype)))

        turn = self.turns.found(body, vector, counts)
        if turn is not None and item.tile.name in self.scope.buffers:
            self.turns.over(turn, counts, False, work)
        else:
            self.l.over(axes, work)

    def write(self, tile: Tile, value: Operand) -> None:
        self.t.write(tile, rounded(self.b, value, tile.dtype))

    def fill(self, tile: Tile, value: Callable[[], Operand]) -> None:
        """Set all lanes of a buffer to a value that is found on each."""
        self.scope.depth = self.b.depth
        counts: dict[str, int | None] = {
            axis: size for axis, size in zip(tile.axes, tile.sizes, strict=True) if size > 1
        }
        windows, self.l.windows = self.l.windows, {}
        edges, self.scope.edges = self.scope.edges, set[str]()
        vector = tile.axes[-1] if tile.axes else None
        axes = self.w.axes(counts, vector if vector in counts else None)
        self.l.over(axes, lambda: self.t.write(tile, value()))
        self.l.windows, self.scope.edges = windows, edges

    def loaded(self, tile: Tile) -> Operand:
        """All lanes of a short buffer at once."""
        self.scope.depth = self.b.depth
        counts: dict[str, int | None] = {
            axis: size for axis, size in zip(tile.axes, tile.sizes, strict=True) if size > 1
        }
        found: list[Operand] = []
        read = Value(tile.name, tile.axes, tile.dtype)
        axes = [self.w.whole(axis) for axis in self.w.axes(counts, None)]
        self.l.over(axes, lambda: found.append(self.t.read(read)))
        return found[0]

    def constant(self, expr: Expr, dtype: DType) -> Operand:
        """A constant expression, rounded to a storage type."""
        return rounded(self.b, self.e.value(expr, value_of(dtype)), dtype)

    def when(self, test: Operand | None) -> _If:
        """Run what is within where `test` holds (None: always)."""
        return _If(self.b, None if test is None else convert(self.b, test, I64))

    # --- Store ----------------------------------------------------------------------------------

    def store(self, item: Store) -> None:
        """Write the lanes inside the domain, for the first block of `once` only."""
        self.scope.depth = self.b.depth
        exprs = (item.value, *item.subscripts)
        free = frozenset[str]().union(*map(free_indices, exprs))
        with self.when(self.first(item.once)):
            for _ in self.w.rows(free):
                for _ in self.parts.of(free, None):
                    self.stored(item, sorted(free))

    def first(self, indices: Sequence[str]) -> Operand | None:
        """Whether the blocks of all these indices are their first."""
        total: Operand | None = None
        for index in indices:
            zero = self.b.op("icmp eq", self.scope.bases[index], ZERO, BOOL)
            total = zero if total is None else self.b.op("and", total, zero)
        return total

    def stored(self, item: Store, free: Sequence[str]) -> None:
        value, tensor = self.w.body(item), item.tensor
        wanted = resolved(value_type(value), value_of(tensor.dtype))
        every = (item.value, *item.subscripts)
        counts = self.w.counts(free, every)
        element = Read(tensor, item.subscripts)
        vector = None
        if item.combine is None:
            vector = self.w.vector(counts, (value,), None, (), element)
        self.scope.depth = self.b.depth

        def work() -> None:
            found = self.e.value(value, wanted)
            if item.combine is None:
                self.e.store(tensor, item.subscripts, found)
            else:
                combine(self.e, item.combine, tensor, item.subscripts, found)

        turn = self.turns.found(value, vector, counts)
        if turn is not None:
            self.turns.over(turn, counts, True, work)
        else:
            self.l.over(self.w.axes(counts, vector, free), work)


class _If:
    """A loop that runs once where a number is 1, and never where it is 0."""

    def __init__(self, b: Builder, count: Operand | None) -> None:
        self.b, self.count = b, count

    def __enter__(self) -> None:
        if self.count is not None:
            self.loop = self.b.open_loop(None, 1, ZERO, self.count)

    def __exit__(self, *_: object) -> None:
        if self.count is not None:
            self.b.close_loop(self.loop)
