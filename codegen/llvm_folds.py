"""Reductions of level 2 as LLVM IR: loops over the lanes of what is reduced.

Accumulators stay in registers along the reduction. Where several lanes of an axis share an operand
that runs along vectors, they are reduced side by side, so that it is loaded once for all of them:
the register tile of a product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_convert import convert, rounded
from tensorc.codegen.llvm_expressions import Expressions
from tensorc.codegen.llvm_functions import FUNCTIONS
from tensorc.codegen.llvm_lanes import Axis, Lanes
from tensorc.codegen.llvm_reduce import JOIN, across, neutral
from tensorc.codegen.llvm_scope import Scope
from tensorc.codegen.llvm_tiles import Tiles
from tensorc.codegen.llvm_types import Operand
from tensorc.codegen.llvm_walks import Walks
from tensorc.ir.dtypes import F32, I64, DType, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.node import postorder
from tensorc.ir.tensor import (
    Apply,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Select,
    Value,
    free_indices,
    resolved,
    value_type,
)
from tensorc.ir.tile import Let, Tile


@dataclass(frozen=True)
class Fold:
    """A reduction: of what, by what, in which type; the type that the result is stored as, and
    the reduced indices that stop at the end of the domain."""

    body: Expr
    op: Reducer
    kind: DType
    dtype: DType
    exact: frozenset[str]


@dataclass(frozen=True)
class Rows:
    """Lanes of one axis that are worked on side by side."""

    index: str
    count: int


ONE = Rows("", 1)
ROWS = 6  # with four vectors of accumulators each, they leave registers for operands


class Folds:
    """Emits a `Let` that reduces."""

    def __init__(
        self, b: Builder, scope: Scope, walks: Walks, tiles: Tiles, e: Expressions, lanes: Lanes
    ) -> None:
        self.b, self.scope, self.w = b, scope, walks
        self.t, self.e, self.l = tiles, e, lanes

    def reduction(self, item: Let, op: Reducer) -> None:
        """Define a tile that is reduced."""
        body, tile, every = self.w.body(item), item.tile, (item.body,)
        outer, inner = self.w.counts(tile.axes, every), self.w.counts(item.reduced, every)
        vector = self.w.vector({**outer, **inner}, (body,), tile, item.reduced)
        exact, body = self.exact(item, op, body, vector)
        fold = Fold(body, op, self.kind(body, op, tile), tile.dtype, frozenset(exact))
        own, walked = self.w.axes(outer, vector), self.w.axes(inner, vector, exact)
        if tile.name not in self.scope.buffers:
            own = [self.w.whole(axis) if axis.index == vector else axis for axis in own]
            self.l.over(own, lambda: self.some(item, fold, own, walked, ONE))
            return
        row = self.shared(own, vector, body)
        if row is None:
            self.l.over(own, lambda: self.some(item, fold, own, walked, ONE))
        else:
            rest = [axis for axis in own if axis is not row]
            self.l.over(rest, lambda: self.by_rows(item, fold, rest, walked, row))

    def shared(self, own: Sequence[Axis], vector: str | None, body: Expr) -> Axis | None:
        """The axis several lanes of which share an operand that runs along the vectors."""
        reads = [e for e in postorder([body]) if isinstance(e, Read | Value)]
        along = [frozenset(free_indices(e)) for e in reads if vector in free_indices(e)]
        found = [a for a in own if a.index != vector and any(a.index not in free for free in along)]
        able = [axis for axis in found if axis.count is not None and axis.count > 1]
        return able[-1] if able and any(axis.index == vector for axis in own) else None

    def by_rows(
        self, item: Let, fold: Fold, own: Sequence[Axis], walked: Sequence[Axis], axis: Axis
    ) -> None:
        """The lanes of `axis`, as many side by side as the register file has room for."""
        wide = max((other.width for other in own), default=1)
        most = max(1, min(ROWS, self.w.places.vector * ROWS // wide))
        count = axis.count or 1
        rows = next((n for n in range(most, most // 2, -1) if count % n == 0), min(most, count))
        number = self.b.const(rows, I64)
        whole = count % rows == 0 and not axis.stops
        full = self.b.op("sub", axis.end, axis.first)
        full = self.b.op("sdiv", full, number)
        end = axis.end if whole else self.b.add(axis.first, self.b.mul(full, number))
        if rows > 1:
            part = replace(axis, end=end)
            loop, kept = self.l.open(part, [], rows)
            self.some(item, fold, own, walked, Rows(axis.index, rows))
            self.l.close(loop, [], kept)
        if rows == 1 or not whole:
            rest = axis if rows == 1 else replace(axis, first=end, count=None)
            self.l.over([rest], lambda: self.some(item, fold, own, walked, ONE))

    def some(
        self, item: Let, fold: Fold, own: Sequence[Axis], walked: Sequence[Axis], rows: Rows
    ) -> None:
        """Lanes of the result that are reduced side by side."""
        lanes = next((axis.width for axis in own if axis.width > 1), 1)
        starts = [self.start(item, fold.kind) for _ in self.each(rows)]
        values = self.folded(fold, walked, lanes, starts, rows)
        kind = value_of(item.tile.dtype)
        for _, value in zip(self.each(rows), values, strict=True):
            made = rounded(self.b, convert(self.b, value, kind), item.tile.dtype)
            self.t.write(item.tile, made)

    def each(self, rows: Rows) -> Iterator[int]:
        """Stand at every one of the rows."""
        if rows.count == 1:
            yield 0
            return
        scope, index = self.scope, rows.index
        lane, position = scope.lanes[index], scope.positions[index]
        for row in range(rows.count):
            number = self.b.const(row, I64)
            scope.lanes[index] = self.b.add(lane, number)
            scope.positions[index] = self.b.add(position, number)
            yield row
        scope.lanes[index], scope.positions[index] = lane, position

    def start(self, item: Let, kind: DType) -> Operand | None:
        if item.onto is None:
            return None
        onto = Value(item.onto.name, item.onto.axes, item.onto.dtype)
        return convert(self.b, self.t.read(onto), kind)

    def kind(self, body: Expr, op: Reducer, tile: Tile) -> DType:
        """The type in which lanes are reduced."""
        if op in (SUM, PROD):
            return value_of(tile.dtype)
        return resolved(value_type(body), F32)

    def exact(
        self, item: Let, op: Reducer, body: Expr, vector: str | None
    ) -> tuple[set[str], Expr]:
        """The reduced indices that stop at the end of the domain, and what is then computed: a
        guard that only says that lanes are inside, and is neutral elsewhere, is not needed."""
        exact = set(item.by.exact)
        match body:
            case Select(Apply(function, (Position(index), Extent(size))), yes, Literal(value, _)):
                same = index == size and function.name == "lt" and index in item.reduced
                if same and index != vector and value == _NEUTRAL.get(op):
                    return exact | {index}, yes
            case _:
                pass
        return exact, body

    def folded(
        self, item: Fold, axes: Sequence[Axis], lanes: int, starts: list[Operand | None],
        rows: Rows,
    ) -> list[Operand]:  # fmt: skip
        """The body reduced over `axes`, from `starts`, one for each row. Lanes of vectors that
        are reduced are reduced at the end, before they meet their start."""
        wide = next((axis.width for axis in axes if axis.width > 1), 0)
        if not wide:
            return self.walk(item, axes, lanes, starts, rows)
        found = self.walk(item, axes, wide, [None] * rows.count, rows)
        totals = [across(self.b, item.op, self.b.splat(total, wide)) for total in found]
        return [self.onto(item, a, b) for a, b in zip(starts, totals, strict=True)]

    def walk(
        self, item: Fold, axes: Sequence[Axis], lanes: int, totals: Sequence[Operand | None],
        rows: Rows,
    ) -> list[Operand]:  # fmt: skip
        """Loops over `axes`, the first outermost, that carry a total for each row."""
        if not axes:
            parts = zip(self.each(rows), totals, strict=True)
            return [self.onto(item, total, self.element(item)) for _, total in parts]
        axis, *rest = axes
        if axis.single:
            _, kept = self.l.open(axis, [])
            values = self.walk(item, rest, lanes, totals, rows)
            self.l.close(None, [], kept)
            return values
        empty = neutral(self.b, item.op, item.kind)
        first = [self.b.splat(total or empty, lanes) for total in totals]
        loop, kept = self.l.open(axis, first)
        assert loop is not None
        values = self.walk(item, rest, lanes, loop.values, rows)
        return self.l.close(loop, [self.b.splat(value, lanes) for value in values], kept)

    def element(self, item: Fold) -> Operand:
        """What one lane adds; of vectors that stop at the end of the domain, neutral beyond."""
        value = self.e.value(item.body, item.kind)
        vectors = item.exact.intersection(self.scope.widths)
        inside = self.e.domain(vectors)
        if inside is None:
            return value
        return self.b.select(inside, value, neutral(self.b, item.op, item.kind))

    def onto(self, item: Fold, total: Operand | None, part: Operand) -> Operand:
        """Two parts together; sums and products round to the tile's type at every step."""
        if total is None:
            return part
        joined = FUNCTIONS[JOIN[item.op]](self.b, [total, part])
        if item.op in (SUM, PROD) and value_of(item.dtype) is not item.dtype:
            return rounded(self.b, joined, item.dtype)
        return joined


_NEUTRAL: dict[Reducer, object] = {
    SUM: 0, PROD: 1, MAX: "-inf", MIN: "inf", ANY: 0, ALL: 1,
}  # fmt: skip
