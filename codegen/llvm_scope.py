"""What is open while a kernel is emitted: memory, tiles, and the lanes that are worked on.

An index stands at one place at a time: `positions` is where its first lane worked on lies in the
domain, `lanes` where that lies in tiles, `widths` how many lanes are worked on at once (absent: 1;
no more than one index has several). A tile is one SSA value, or a buffer in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import I64, DType
from tensorc.ir.node import fact, postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Expr, Read, Value, free_indices

ZERO = Operand("0", I64, 1, 0)


@dataclass
class Storage:
    """A tensor in memory: its base pointer, and strides in elements, constants where known."""

    pointer: str
    strides: tuple[Operand, ...]


@dataclass
class Buffer:
    """A tile in memory: values of type `dtype`, strides in elements by axis. `version` counts
    what was written, so that a value loaded before is not taken for one loaded after."""

    pointer: str
    dtype: DType
    strides: Mapping[str, int]
    version: int = 0


@dataclass(frozen=True)
class Walk:
    """An open loop as `Seen` needs it: the base of its first block in ascending order, where the
    elements end that it consumes from above (None: it runs upwards), and its block."""

    lower: Operand
    end: Operand | None
    block: int


@dataclass
class Scope:
    """What expressions may name at the current point."""

    storage: dict[str, Storage]
    extents: dict[str, Operand]
    static: Mapping[str, int]
    shapes: Mapping[str, Polynomial]
    checks: Mapping[tuple[Read, int], int]
    error: str
    tiles: dict[tuple[str, int], Operand] = field(default_factory=dict[tuple[str, int], Operand])
    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    views: dict[str, Expr] = field(default_factory=dict[str, Expr])
    row: tuple[str, int] | None = None  # the index whose rows are unrolled, and the current row
    bases: dict[str, Operand] = field(default_factory=dict[str, Operand])  # of open blocks
    walks: dict[str, Walk] = field(default_factory=dict[str, Walk])
    positions: dict[str, Operand] = field(default_factory=dict[str, Operand])
    lanes: dict[str, Operand] = field(default_factory=dict[str, Operand])
    widths: dict[str, int] = field(default_factory=dict[str, int])
    edges: set[str] = field(default_factory=set[str])  # indices that may leave their extent here
    full: dict[str, int] = field(
        default_factory=dict[str, int]
    )  # region that knows a block is full
    turned: dict[Read, Operand] = field(default_factory=dict[Read, Operand])  # reads at hand
    depth: int = 0  # of the region in which the current statement stands

    def row_in(self, indices: Iterable[str]) -> int:
        """The current row, if the unrolled index is among `indices`; else 0."""
        return self.row[1] if self.row is not None and self.row[0] in indices else 0

    def full_in(self, index: str) -> int:
        """The depth of the region in which the blocks of a grid index are full; 0 without one."""
        return self.full.get(index, 0)

    def place(self, expr: Expr) -> tuple[object, ...]:
        """What tells the value of an expression here from its values elsewhere."""
        return tuple(
            (self.positions.get(i, ZERO).ref, self.lanes.get(i, ZERO).ref, self.widths.get(i, 1),
             self.row_in((i,)))
            for i in free_in_order(expr)
        )  # fmt: skip

    def vector(self, exprs: Iterable[Expr]) -> str | None:
        """The index among those of `exprs` of which several lanes are worked on."""
        free = frozenset[str]().union(*(free_indices(item) for item in exprs))
        return next((index for index, width in self.widths.items() if width > 1 and index in free),
                    None)  # fmt: skip


@fact
def free_in_order(expr: Expr) -> tuple[str, ...]:
    """The free indices of an expression by name."""
    return tuple(sorted(free_indices(expr)))


@fact
def values_in(expr: Expr) -> tuple[Value, ...]:
    """The tiles that an expression reads, each once."""
    return tuple(item for item in postorder([expr]) if isinstance(item, Value))
