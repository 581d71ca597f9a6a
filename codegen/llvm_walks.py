"""The axes of a statement: how many lanes they have here, and along which vectors run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_lanes import Axis, Lanes
from tensorc.codegen.llvm_places import Places
from tensorc.codegen.llvm_scope import ZERO, Scope
from tensorc.ir.dtypes import I64
from tensorc.ir.tensor import Expr, Read, Select
from tensorc.ir.tile import Let, Store, Tile

Counts = dict[str, int | None]


class Walks:
    """`blocks`: lanes of the open block of each index; `unrolled`: the index whose rows are
    unrolled here, and how many."""

    def __init__(self, b: Builder, scope: Scope, places: Places, lanes: Lanes) -> None:
        self.b, self.scope, self.places, self.l = b, scope, places, lanes
        self.blocks: dict[str, int] = {}
        self.unrolled: tuple[str, int] = ("", 1)

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

    def whole(self, axis: Axis) -> Axis:
        """All lanes of an SSA vector at once."""
        return replace(axis, width=axis.count or 1, stops=False)

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
