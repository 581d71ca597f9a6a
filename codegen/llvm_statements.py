"""Statements of level 2 as LLVM IR: tiles defined, lanes reduced, elements stored.

A statement becomes loops over its lanes around one computation of its body. A product's
accumulators stay in registers along the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_combine import combine
from tensorc.codegen.llvm_convert import convert, rounded
from tensorc.codegen.llvm_expressions import Expressions
from tensorc.codegen.llvm_functions import FUNCTIONS
from tensorc.codegen.llvm_lanes import Axis, Lanes
from tensorc.codegen.llvm_places import Places, is_view
from tensorc.codegen.llvm_reduce import JOIN, across, neutral
from tensorc.codegen.llvm_scope import ZERO, Scope
from tensorc.codegen.llvm_tiles import Tiles
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import BOOL, F32, I64, DType, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
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
from tensorc.ir.tile import Let, Store, Tile


@dataclass(frozen=True)
class Fold:
    """A reduction: of what, by what, in which type; the type that the result is stored as, and
    the reduced indices that stop at the end of the domain."""

    body: Expr
    op: Reducer
    kind: DType
    dtype: DType
    exact: frozenset[str]


class Statements:
    """Emits `Let` and `Store` at the current point."""

    def __init__(
        self, b: Builder, scope: Scope, places: Places, tiles: Tiles, e: Expressions, lanes: Lanes
    ) -> None:
        self.b, self.scope, self.places = b, scope, places
        self.t, self.e, self.l = tiles, e, lanes
        self.blocks: dict[str, int] = {}  # lanes of the open block of each index
        self.unrolled: tuple[str, int] = (
            "",
            1,
        )  # the index whose rows are unrolled here, and how many

    def rows(self, indices: Collection[str]) -> Iterator[int]:
        """Once for every row of the open block of rows, if the statement depends on its index."""
        index, count = self.unrolled
        if index not in indices:
            yield 0
            return
        base = self.scope.bases[index]
        for row in range(count):
            self.scope.row = (index, row)
            self.scope.positions[index] = self.b.add(base, self.b.const(row, I64))
            yield row
        self.scope.row = None
        self.scope.positions[index] = base

    # --- Let ------------------------------------------------------------------------------------

    def let(self, item: Let) -> None:
        """Define a tile."""
        if is_view(item):
            self.scope.views[item.tile.name] = item.body
            return
        self.t.define(item.tile)
        self.scope.depth = self.b.depth
        for _ in self.rows({*item.tile.axes, *free_indices(item.body)}):
            if item.op is None:
                self.pointwise(item)
            else:
                self.reduction(item, item.op)

    def body(self, item: Let | Store) -> Expr:
        """What is computed here: of a guard in a full block, its first branch."""
        body = item.body if isinstance(item, Let) else item.value
        guarding = self.scope.edges.intersection(item.edge)
        return body.yes if item.edge and not guarding and isinstance(body, Select) else body

    def counts(self, indices: Collection[str], exprs: Sequence[Expr]) -> dict[str, int | None]:
        """The axes of a statement with their lanes; points and rows are none."""
        found = {i: self.places.count(i, exprs, self.blocks) for i in indices}
        return {i: n for i, n in found.items() if n != 1 and i != self.unrolled[0]}

    def axes(
        self, counts: dict[str, int | None], vector: str | None, cut: Collection[str] = ()
    ) -> list[Axis]:
        """The axes, that of the vectors innermost."""
        found: list[Axis] = []
        for index, count in counts.items():
            width = self.width(index, count) if index == vector else 1
            found.append(self.l.axis(index, count, width, index in cut))
        return sorted(found, key=lambda axis: axis.width > 1)

    def width(self, index: str, count: int | None) -> int:
        """Lanes of the vector axis that are worked on at once."""
        _, number = self.l.windows.get(index, (ZERO, count))
        if number is None:
            return self.places.width(self.places.vector)
        return self.places.width(number)

    def pointwise(self, item: Let) -> None:
        body = self.body(item)
        counts = self.counts(item.tile.axes, (body,))
        vector = self.vector(counts, (body,), item.tile)
        axes = self.axes(counts, vector)
        if item.tile.name not in self.scope.buffers:
            axes = [self.whole(axis) for axis in axes]

        def work() -> None:
            self.write(item.tile, self.e.value(body, value_of(item.tile.dtype)))

        self.l.over(axes, work)

    def whole(self, axis: Axis) -> Axis:
        """All lanes of an SSA vector at once."""
        return replace(axis, width=axis.count or 1, stops=False)

    def write(self, tile: Tile, value: Operand) -> None:
        self.t.write(tile, rounded(self.b, value, tile.dtype))

    def vector(
        self, counts: dict[str, int | None], exprs: Sequence[Expr], tile: Tile | None,
        reduced: Sequence[str] = (), written: Read | None = None,
    ) -> str | None:  # fmt: skip
        """The index along which vectors run; an SSA vector's own."""
        if tile is not None and tile.name not in self.scope.buffers:
            axis = self.places.lane_axis(tile.name)
            if axis is not None:
                return axis
        lanes = {i: self.part(i, n, written is not None) for i, n in counts.items()}
        return self.places.vector_axis(list(lanes), exprs, tile, lanes, reduced, written)

    def part(self, index: str, count: int | None, stored: bool) -> int:
        """The lanes that are worked on in one part; as many as the extent: any, in a store."""
        _, number = self.l.windows.get(index, (ZERO, count))
        return number if number is not None else self.places.vector if stored else 1

    def fill(self, tile: Tile, value: Callable[[], Operand]) -> None:
        """Set all lanes of a buffer to a value that is found on each."""
        self.scope.depth = self.b.depth
        counts: dict[str, int | None] = {
            axis: size for axis, size in zip(tile.axes, tile.sizes, strict=True) if size > 1
        }
        windows, self.l.windows = self.l.windows, {}
        edges, self.scope.edges = self.scope.edges, set[str]()
        vector = tile.axes[-1] if tile.axes else None
        axes = self.axes(counts, vector if vector in counts else None)
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
        axes = [self.whole(axis) for axis in self.axes(counts, None)]
        self.l.over(axes, lambda: found.append(self.t.read(read)))
        return found[0]

    def constant(self, expr: Expr, dtype: DType) -> Operand:
        """A constant expression, rounded to a storage type."""
        return rounded(self.b, self.e.value(expr, value_of(dtype)), dtype)

    def when(self, test: Operand | None) -> _If:
        """Run what is within where `test` holds (None: always)."""
        return _If(self.b, None if test is None else convert(self.b, test, I64))

    # --- reductions -----------------------------------------------------------------------------

    def reduction(self, item: Let, op: Reducer) -> None:
        body, tile = self.body(item), item.tile
        every = (item.body,)
        outer, inner = self.counts(tile.axes, every), self.counts(item.reduced, every)
        vector = self.vector({**outer, **inner}, (body,), tile, item.reduced)
        exact, body = self.exact(item, op, body)
        kind = self.kind(body, op, tile)
        own = self.axes(outer, vector)
        if tile.name not in self.scope.buffers:
            own = [self.whole(axis) if axis.index == vector else axis for axis in own]
        walked = self.axes(inner, vector, exact)

        def work() -> None:
            lanes = next((axis.width for axis in own if axis.width > 1), 1)
            start = self.start(item, kind)
            value = self.folded(
                Fold(body, op, kind, tile.dtype, frozenset(exact)), walked, lanes, start
            )
            self.write(tile, convert(self.b, value, value_of(tile.dtype)))

        self.l.over(own, work)

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

    def exact(self, item: Let, op: Reducer, body: Expr) -> tuple[set[str], Expr]:
        """The reduced indices that stop at the end of the domain, and what is then computed: a
        guard that only says that lanes are inside, and is neutral elsewhere, is not needed."""
        exact = set(item.by.exact)
        match body:
            case Select(Apply(function, (Position(index), Extent(size))), yes, Literal(value, _)):
                vector = index == self.vector_of(item)
                same = index == size and function.name == "lt" and index in item.reduced
                if same and not vector and value == _NEUTRAL.get(op):
                    return exact | {index}, yes
            case _:
                pass
        return exact, body

    def vector_of(self, item: Let) -> str | None:
        every = (item.body,)
        counts = self.counts((*item.tile.axes, *item.reduced), every)
        return self.vector(counts, (self.body(item),), item.tile, item.reduced)

    def folded(
        self, item: Fold, axes: Sequence[Axis], lanes: int, start: Operand | None
    ) -> Operand:
        """The body reduced over `axes`, from `start`. Lanes of vectors that are reduced are
        reduced at the end, before they meet `start`."""
        wide = next((axis.width for axis in axes if axis.width > 1), 0)
        total = self.walk(item, axes, max(wide, lanes), None if wide else start)
        if not wide:
            return total
        total = across(self.b, item.op, self.b.splat(total, wide))
        return total if start is None else self.join(item, start, total)

    def walk(self, item: Fold, axes: Sequence[Axis], lanes: int, total: Operand | None) -> Operand:
        if not axes:
            value = self.element(item)
            return value if total is None else self.join(item, total, value)
        axis, *rest = axes
        if axis.single:
            _, kept = self.l.open(axis, [])
            value = self.walk(item, rest, lanes, total)
            self.l.close(None, [], kept)
            return value
        first = self.b.splat(total or neutral(self.b, item.op, item.kind), lanes)
        loop, kept = self.l.open(axis, [first])
        assert loop is not None
        value = self.walk(item, rest, lanes, loop.values[0])
        (after,) = self.l.close(loop, [self.b.splat(value, lanes)], kept)
        return after

    def element(self, item: Fold) -> Operand:
        """What one lane adds; of vectors that stop at the end of the domain, neutral beyond."""
        value = self.e.value(item.body, item.kind)
        vectors = item.exact.intersection(self.scope.widths)
        inside = self.e.domain(vectors)
        if inside is None:
            return value
        return self.b.select(inside, value, neutral(self.b, item.op, item.kind))

    def join(self, item: Fold, a: Operand, b: Operand) -> Operand:
        """Two parts together; sums and products round to the tile's type at every step."""
        joined = FUNCTIONS[JOIN[item.op]](self.b, [a, b])
        if item.op in (SUM, PROD) and value_of(item.dtype) is not item.dtype:
            return rounded(self.b, joined, item.dtype)
        return joined

    # --- Store ----------------------------------------------------------------------------------

    def store(self, item: Store) -> None:
        """Write the lanes inside the domain, for the first block of `once` only."""
        self.scope.depth = self.b.depth
        exprs = (item.value, *item.subscripts)
        free = frozenset[str]().union(*map(free_indices, exprs))
        with self.when(self.first(item.once)):
            for _ in self.rows(free):
                self.stored(item, sorted(free))

    def first(self, indices: Sequence[str]) -> Operand | None:
        """Whether the blocks of all these indices are their first."""
        total: Operand | None = None
        for index in indices:
            zero = self.b.op("icmp eq", self.scope.bases[index], ZERO, BOOL)
            total = zero if total is None else self.b.op("and", total, zero)
        return total

    def stored(self, item: Store, free: Sequence[str]) -> None:
        value, tensor = self.body(item), item.tensor
        wanted = resolved(value_type(value), value_of(tensor.dtype))
        every = (item.value, *item.subscripts)
        counts = self.counts(free, every)
        element = Read(tensor, item.subscripts)
        vector = None
        if item.combine is None:
            vector = self.vector(counts, (value,), None, (), element)
        self.scope.depth = self.b.depth

        def work() -> None:
            found = self.e.value(value, wanted)
            if item.combine is None:
                self.e.store(tensor, item.subscripts, found)
            else:
                combine(self.e, item.combine, tensor, item.subscripts, found)

        self.l.over(self.axes(counts, vector, free), work)


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


_NEUTRAL: dict[Reducer, object] = {
    SUM: 0, PROD: 1, MAX: "-inf", MIN: "inf", ANY: 0, ALL: 1,
}  # fmt: skip
