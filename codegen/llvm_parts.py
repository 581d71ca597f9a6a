"""Statements over an index that lies whole in a tile: vectors side by side, then one by one, then
the last one, with a mask.

    t[n] = f(x[m, n])   whole n by 112, of extent 100     lanes 0..64, 64..96, and 96..112 masked

Only what is stored in memory can be done in parts; a reduction goes on from what the first part
gave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tensorc.codegen.llvm_builder import Builder, integer_of
from tensorc.codegen.llvm_lanes import Lanes
from tensorc.codegen.llvm_places import Places
from tensorc.codegen.llvm_scope import Scope
from tensorc.ir.dtypes import I64
from tensorc.ir.tile import Let, Tile


@dataclass(frozen=True)
class Part:
    """Some lanes of an index; `first`: no others were done before."""

    index: str
    first: bool

    def onto(self, item: Let) -> Let:
        """A reduction of these lanes."""
        if self.first or self.index not in item.reduced:
            return item
        return replace(item, onto=item.tile)


WHOLE = Part("", True)


class Parts:
    """Divides statements. `lanes.windows` says to what comes below which lanes are done."""

    def __init__(self, b: Builder, scope: Scope, places: Places, lanes: Lanes) -> None:
        self.b, self.scope, self.places, self.l = b, scope, places, lanes
        self.few = places.vector // 4  # lanes of one vector; several go side by side

    def of(self, free: Collection[str], tile: Tile | None) -> Iterator[Part]:
        """The parts of a statement over `free` indices that defines a tile (None: a store)."""
        index = next((i for i in sorted(free) if self.divides(i, tile)), None)
        if index is None:
            yield WHOLE
            return
        size, first = self.extent(index), 0
        self.scope.edges.discard(index)
        for step in (self.places.vector, self.few):
            if count := (size - first) // step * step:
                self.l.windows[index] = (self.b.const(first, I64), count)
                yield Part(index, first == 0)
                first += count
        self.scope.edges.add(index)
        if first < size:
            self.l.windows[index] = (self.b.const(first, I64), self.few)
            yield Part(index, first == 0)
        self.l.windows.pop(index, None)

    def divides(self, index: str, tile: Tile | None) -> bool:
        """Whether lanes of an index beyond the end of the domain are worth leaving out."""
        if index not in self.scope.edges or index in self.l.windows:
            return False
        lanes = self.places.whole.get(index, 0)
        if self.raised(self.extent(index)) > lanes or index in self.scope.bases:
            return False
        held = tile is not None and index in tile.axes and tile.name not in self.scope.buffers
        return self.extent(index) > 0 and not held

    def extent(self, index: str) -> int:
        """The extent of an index; 0 where the code does not know it."""
        return integer_of(self.scope.extents[index]) or 0

    def raised(self, size: int) -> int:
        """The lanes of whole vectors."""
        return -(-size // self.few) * self.few
