"""Copies that turn rows into columns, as LLVM IR: square blocks that are read along one index and
written along another, exchanged in registers instead of gathered element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_expressions import Expressions
from tensorc.codegen.llvm_lanes import Lanes
from tensorc.codegen.llvm_places import Places, step_of
from tensorc.codegen.llvm_scope import Scope
from tensorc.codegen.llvm_types import Operand, llvm_type
from tensorc.ir.affine import is_whole
from tensorc.ir.dtypes import I64
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Expr, Read, free_indices, value_type

Counts = dict[str, int | None]


@dataclass(frozen=True)
class Turn:
    """`read` has neighbours along `near`; the statement's vectors run along `far`. Blocks of
    `size` by `size` elements are turned."""

    read: Read
    near: str
    far: str
    size: int


class Turns:
    """Finds such copies in statements and emits them."""

    def __init__(
        self, b: Builder, scope: Scope, places: Places, e: Expressions, lanes: Lanes
    ) -> None:
        self.b, self.scope, self.places, self.e, self.l = b, scope, places, e, lanes

    def found(self, body: Expr, vector: str | None, counts: Counts) -> Turn | None:
        """The turn that a statement needs; None where its blocks may be partial."""
        if vector is None or vector in self.scope.edges or vector in self.l.windows:
            return None
        for read in (item for item in postorder([body]) if isinstance(item, Read)):
            if value_type(read).bits < 32:
                continue
            size = max(2, self.places.vector * 8 // value_type(read).bits)
            for near in free_indices(read) & counts.keys() - self.scope.edges - {vector}:
                if self.turns(read, near, vector, size) and self.fit(counts, near, vector, size):
                    return Turn(read, near, vector, size)
        return None

    def turns(self, read: Read, near: str, far: str, size: int) -> bool:
        strides = [stride.ref for stride in self.scope.storage[read.tensor.name].strides]
        along = step_of(read.subscripts, strides, near, size, read.tensor.dtype.bits) == 1
        across = far in free_indices(read)
        return along and across and is_whole(read, self.scope.shapes)

    def fit(self, counts: Counts, near: str, far: str, size: int) -> bool:
        numbers = [counts[near], counts[far]]
        return near not in self.l.windows and all(n is not None and n % size == 0 for n in numbers)

    def over(self, turn: Turn, counts: Counts, cut: bool, work: Callable[[], None]) -> None:
        """Do some work on the lanes of a statement's axes, its turned read at hand; `cut`: on
        none outside the domain."""
        rest = [
            self.l.axis(i, n, 1, cut) for i, n in counts.items() if i not in (turn.near, turn.far)
        ]

        def block() -> None:
            columns = self.columns(turn)
            for place, column in enumerate(columns):
                self.at(turn.near, place, lambda c=column: self.told(turn, c, work))

        def square() -> None:
            near = self.l.axis(turn.near, counts[turn.near])
            loop, kept = self.l.open(near, [], turn.size)
            self.l.over([self.l.axis(turn.far, counts[turn.far], turn.size)], block)
            self.l.close(loop, [], kept)

        self.l.over(rest, square)

    def told(self, turn: Turn, column: Operand, work: Callable[[], None]) -> None:
        self.scope.turned[turn.read] = column
        work()
        del self.scope.turned[turn.read]

    def at(self, index: str, step: int, work: Callable[[], None]) -> None:
        """Do some work a few lanes further along an index."""
        scope, number = self.scope, self.b.const(step, I64)
        lane, position = scope.lanes[index], scope.positions[index]
        scope.lanes[index] = self.b.add(lane, number)
        scope.positions[index] = self.b.add(position, number)
        work()
        scope.lanes[index], scope.positions[index] = lane, position

    def columns(self, turn: Turn) -> list[Operand]:
        """The block's columns, from its rows."""
        rows: list[Operand] = []
        kind = value_type(turn.read)
        widths, self.scope.widths = self.scope.widths, {turn.near: turn.size}
        for row in range(turn.size):
            self.at(turn.far, row, lambda: rows.append(self.e.value(turn.read, kind)))
        self.scope.widths = widths
        return exchanged(self.b, rows)


def exchanged(b: Builder, rows: Sequence[Operand]) -> list[Operand]:
    """The columns of a square of vectors: blocks off the diagonal change places, from halves down
    to single elements."""
    found, size = list(rows), len(rows)
    step = size // 2
    while step:
        for i in range(size):
            if i & step == 0:
                upper, lower = found[i], found[i + step]
                kept = [n + size - step if n & step else n for n in range(size)]
                moved = [n + size if n & step else n + step for n in range(size)]
                found[i] = _shuffled(b, upper, lower, kept)
                found[i + step] = _shuffled(b, upper, lower, moved)
        step //= 2
    return found


def _shuffled(b: Builder, x: Operand, y: Operand, order: Sequence[int]) -> Operand:
    kind = llvm_type(x.dtype, x.lanes)
    numbers = ", ".join(f"i32 {n}" for n in order)
    text = f"shufflevector {kind} {x.ref}, {kind} {y.ref}, <{len(order)} x i32> <{numbers}>"
    return b.result(text, x.dtype, x.lanes, max(x.depth, y.depth))
