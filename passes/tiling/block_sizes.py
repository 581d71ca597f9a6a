"""How large the blocks of loops are: vectors side by side, lanes of a thread, rows of a tile.

These choices change speed alone. Fusion and products on tensor cores choose theirs elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorc.ir.dtypes import settled
from tensorc.ir.functions import accumulator
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Apply, Expr, Read, Reduce, free_indices, value_type
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.thread_lanes import lanes_of_thread
from tensorc.passes.tiling.tile_scopes import COSTLY

SPARE = 1.15  # of the least work, what longer pieces of rows may cost


@dataclass(frozen=True)
class Widths:
    """The register tile of a machine: `lanes` of 32 bits in a vector; where rows share what they
    read, `vectors` of them side by side in each of `rows` rows; `packed`: panels of what they
    share are copied first, where that can be (see `panels`)."""

    lanes: int
    vectors: int = 1
    rows: int = 1
    packed: bool = False


class BlockSizes:
    """The sizes of the blocks of one equation's loops. `static`: extents known now; `threads`:
    whether lanes are threads of a GPU."""

    def __init__(
        self, widths: Widths, static: Mapping[str, int], units: Units, threads: bool
    ) -> None:
        self.widths, self.lanes, self.static = widths, widths.lanes, static
        self.units, self.threads = units, threads
        self.each: dict[str, int] = {}  # lanes of a thread, where it has several

    def blocks(self, lane: str | None, rows: str | None, body: Expr) -> dict[str, int]:
        """The blocks of the left side's vectorised indices, the outer one first."""
        lanes = self.lanes * self.wide(lane, rows, body) * 4 // max(4, widest(body))
        found: dict[str, int] = {}
        if lane is not None:
            found[lane] = self.fitting(lane, lanes)
        if rows is not None:
            found[rows] = self.widths.rows
        return found

    def thread(
        self, index: str, accesses: Sequence[Read], others: Sequence[int | None]
    ) -> None:  # fmt: skip
        """Choose the lanes that a thread of a GPU has along an index."""
        self.each[index] = lanes_of_thread(
            index, accesses, self.units, self.lanes, self.static.get(index), others
        )

    def wide(self, lane: str | None, rows: str | None, body: Expr) -> int:
        """Vectors side by side: several where rows share what they read; where sums run across
        rows in memory, of which each step then reads a longer piece; and where functions of many
        steps have to wait for themselves."""
        if rows is not None:
            return self.widths.vectors
        if lane is None or self.widths.vectors == 1:
            return 1
        nodes = list(postorder([body]))
        if any(isinstance(item, Reduce) and lane in free_indices(item) for item in nodes):
            return self.side_by_side(self.static.get(lane), 4 * self.widths.vectors)
        costly = any(isinstance(n, Apply) and n.function.name in COSTLY for n in nodes)
        return self.side_by_side(self.static.get(lane), self.widths.vectors) if costly else 1

    def side_by_side(self, size: int | None, most: int) -> int:
        """At most so many vectors, the most that make little work beyond the end of an extent."""
        if size is None or size < 2 * self.lanes:
            return most if size is None else 1
        counts = [n for n in (16, 8, 4, 2, 1) if n <= most]
        work = {n: -(-size // (n * self.lanes)) * n for n in counts}
        return next(n for n in counts if work[n] <= SPARE * min(work.values()))

    def fitting(self, index: str, lanes: int) -> int:
        """The block, of a GPU's threads with so many lanes each, or on a CPU the least power of two
        that covers a small static extent."""
        size = self.static.get(index, lanes)
        lanes *= self.each.get(index, 1)
        return lanes if self.threads or size >= lanes else max(2, 1 << (size - 1).bit_length())

    def of_sum(self, index: str | None, shared: bool) -> int:
        """The block of a reduction's own lanes: several vectors, so that sums need not wait for
        themselves. `shared`: rows share what they read there."""
        if index is None:
            return 1
        most = self.widths.vectors
        count = most if shared or most == 1 else self.side_by_side(self.static.get(index), most)
        return self.fitting(index, self.lanes * count)


def widest(body: Expr) -> int:
    """Bytes of the widest accumulator of a sum or product in `body`, at least 4."""
    sums = [item for item in postorder([body]) if isinstance(item, Reduce)]
    types = [accumulator(i.reducer, value_type(i.body), i.dtype) for i in sums]
    return max((settled(dtype).bits // 8 for dtype in types), default=4)
