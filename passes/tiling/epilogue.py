"""What a kernel makes of its sums: pointwise statements where the sums lie, and stores.

    z[m, n] = c + bias[n]                 in the place of c
    store o[m, n] = z * sigmoid(z)

A value that is used more than once gets a tile. A result goes through shared memory where the
machine copies whole tiles from there to memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tensorc.ir.affine import is_whole
from tensorc.ir.dtypes import settled, value_of
from tensorc.ir.node import Node, children, postorder, rebuild, replaced
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Equation,
    Expr,
    Position,
    Read,
    Reduce,
    Round,
    Select,
    Tensor,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Frame, Layout, Let, Linear, Statement, Store, Strided, Tile, Use
from tensorc.ir.walk_tile import expressions, values_in
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.feed import SPANS, Copies
from tensorc.passes.tiling.operands import Names, value

STAGED = 65536  # bytes of a result that goes through shared memory, at most


@dataclass
class Epilogue:
    """The end of one kernel. `sums`: the tiles that it starts from."""

    copies: Copies
    extents: Mapping[str, Polynomial]
    lanes: Mapping[str, int]
    sums: Sequence[Tile]
    names: Names

    def statements(
        self, outputs: Sequence[Equation], known: Mapping[Reduce, Value]
    ) -> list[Statement]:  # fmt: skip
        """Statements that store the outputs; `known`: the reductions that are there."""
        bodies = [_rounded_by_store(item) for item in outputs]
        roots = [_flat(body, known) for body in bodies]
        names = self.shared(roots)
        made: list[Statement] = [
            Let(tile, None, (), _named(node, names, own=True), None, None, self.plain, ())
            for node, tile in names.items()
        ]
        for output, root in zip(outputs, roots, strict=True):
            made += self.stored(output, _named(root, names))
        return _reusing(made, list(self.sums))

    @property
    def plain(self) -> Use:
        """The instruction for anything."""
        return Use(self.copies.machine.plain)

    def shared(self, roots: Sequence[Expr]) -> dict[Expr, Tile]:
        """Values used more than once, in order, with their tiles."""
        users = Counter(child for node in postorder(roots) for child in children(node))
        found: dict[Expr, Tile] = {}
        for node in postorder(roots):
            if isinstance(node, Apply | Cast | Select) and users[node] > 1 and self.movable(node):
                found[node] = self.tile(node)
        return found

    def movable(self, node: Expr) -> bool:
        """Whether a value is one of data, and may be computed ahead of conditions around it."""
        nodes = list(postorder([node]))
        reads = [item for item in nodes if isinstance(item, Read)]
        data = any(isinstance(item, Value) for item in nodes)
        return data and all(is_whole(read, self.extents) for read in reads)

    def tile(self, node: Expr) -> Tile:
        """A register tile for a value, where the sums lie."""
        dtype = value_of(settled(value_type(node)))
        axes = self.axes(free_indices(node))
        sizes = tuple(self.lanes[axis] for axis in axes)
        return Tile(self.names.fresh("z"), axes, sizes, dtype, "register", self.layout(axes))

    def axes(self, free: frozenset[str]) -> tuple[str, ...]:
        """The indices with many lanes among these, rows before columns."""
        first = self.sums[0].axes if self.sums else ()
        order = [*first, *(i for i in self.lanes if i not in first)]
        return tuple(index for index in order if index in free and self.lanes[index] > 1)

    def layout(self, axes: tuple[str, ...]) -> Layout:
        """The frame of the sums, restricted to some axes."""
        match self.sums[0].layout:
            case Frame(atom, rows, columns) if axes:
                kept = (tuple(i for i in part if i in axes) for part in (rows, columns))
                return Frame(atom, *kept)
            case _:
                return Strided()

    def stored(self, output: Equation, body: Expr) -> list[Statement]:
        """An element stored for every lane inside the domain."""
        subscripts = tuple(Position(index) for index in output.indices)
        tile = self.staged(output, body)
        if tile is None:
            return [Store(output.tensor, subscripts, body, None, (), self.plain, ())]
        by = self.copies.store
        assert by is not None
        return [
            Let(tile, None, (), body, None, None, self.plain, ()),
            Store(output.tensor, subscripts, value(tile), None, (), Use(by.name), ()),
        ]

    def staged(self, output: Equation, body: Expr) -> Tile | None:
        """The tile in shared memory from which an output is copied, if the machine does that."""
        by, tensor = self.copies.store, output.tensor
        axes = self.axes(frozenset(output.indices))
        if by is None or len(axes) < 2 or axes != self.axes(free_indices(body)):
            return None
        last = output.indices[-1]
        read = Read(tensor, tuple(Position(index) for index in output.indices))
        wide = {axis: self.lanes[axis] for axis in axes}
        if last not in wide or not self.copies.fits(by, read, last, wide):
            return None
        sizes = tuple(self.lanes[axis] for axis in axes)
        if math.prod(sizes) * tensor.dtype.bits // 8 > STAGED:
            return None
        order = (*(axis for axis in axes if axis != last), last)
        layout = Linear(order, _span(self.lanes[last], tensor))
        return Tile(self.names.fresh(_stem(tensor)), axes, sizes, tensor.dtype, "shared", layout)


def _span(lanes: int, tensor: Tensor) -> int:
    row = lanes * tensor.dtype.bits // 8
    return next((span for span in SPANS if row % span == 0), 0)


def _stem(tensor: Tensor) -> str:
    return tensor.name[0].upper() + tensor.name[1:] if tensor.name[0].isascii() else "O"


def _rounded_by_store(item: Equation) -> Expr:
    """The body of an output; a rounding to its type is what the store does."""
    body = item.body
    return body.arg if isinstance(body, Round) and body.dtype is item.tensor.dtype else body


def _flat(expr: Expr, known: Mapping[Reduce, Value]) -> Expr:
    """`expr` with reductions replaced by tiles."""
    memo: dict[Node, Node] = {}

    def flat(item: Node) -> Node:
        if isinstance(item, Reduce):
            if item not in known:
                raise Unfused(f"a {item.reducer} is not where it can be computed")
            return known[item]
        if item not in memo:
            made = rebuild(item, flat)
            memo[item] = Cast(made.dtype, made.arg) if isinstance(made, Round) else made
        return memo[item]

    found = flat(expr)
    assert isinstance(found, Expr)
    return found


def _named(expr: Expr, names: Mapping[Expr, Tile], own: bool = False) -> Expr:
    """`expr` with the values that have tiles replaced; `own`: those below it only."""

    def named(item: Node) -> Node | None:
        if isinstance(item, Expr) and item in names and not (own and item is expr):
            return value(names[item])
        return None

    made = replaced(expr, named)
    assert isinstance(made, Expr)
    return made


def _reusing(made: list[Statement], dead: list[Tile]) -> list[Statement]:
    """Statements that take the storage of tiles which nothing reads afterwards."""
    found: list[Statement] = []
    for place, item in enumerate(made):
        if isinstance(item, Let):
            later = values_in(expr for other in made[place + 1 :] for expr in expressions(other))
            free = [tile for tile in dead if tile.name not in later and _alike(tile, item.tile)]
            if free:
                item = Let(item.tile, item.op, item.reduced, item.body, item.onto, free[0],
                           item.by, item.edge)  # fmt: skip
                dead.remove(free[0])
            dead.append(item.tile)
        found.append(item)
    return found


def _alike(a: Tile, b: Tile) -> bool:
    return (a.axes, a.sizes, a.dtype, a.space, a.layout) == (
        b.axes, b.sizes, b.dtype, b.space, b.layout,
    )  # fmt: skip
