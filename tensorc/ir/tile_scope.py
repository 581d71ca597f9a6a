"""What a level-2 statement may refer to, and whether its expressions, tiles and bounds do: T2 to
T6, T9, T13, T19, T20 and T24 of `verify_tile`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tensorc.ir.dtypes import BOOL, DType
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial, symbols
from tensorc.ir.stores import stores
from tensorc.ir.tensor import Expr, Read, Reduce, Round, Select, free_indices, value_type
from tensorc.ir.tile import (
    Blocked,
    Frame,
    Kernel,
    Linear,
    Loop,
    Operand,
    Panel,
    Strided,
    Tile,
)
from tensorc.ir.walk_tile import bound, loop_blocks, opaque, positions, seen_in, values_in

_LAYOUTS: dict[str, tuple[type, ...]] = {
    "global": (Strided, Panel),
    "shared": (Linear, Strided),
    "register": (Frame, Operand, Blocked, Linear, Strided),
    "tensor": (Frame,),
    "packed": (Panel,),
    "memory": (Linear, Strided, Panel),
}


@dataclass
class Scope:
    """What may be used at a statement: indices with their lanes, and tiles."""

    kernel: Kernel
    extents: Mapping[str, Polynomial]
    constants: frozenset[str]
    whole: Mapping[str, int]
    blocks: dict[str, int] = field(default_factory=dict[str, int])
    tiles: dict[str, Tile] = field(default_factory=dict[str, Tile])
    loops: tuple[str, ...] = ()

    def bind(self, index: str, lanes: int) -> Iterator[str]:
        """Bind an index; T4."""
        if index not in self.extents:
            yield f"T4: index {index} has no extent"
        if index in self.blocks:
            yield f"T4: index {index} is bound twice"
        self.blocks[index] = lanes

    def inside(self, loop: Loop) -> Scope:
        """The scope of the loop's body."""
        own = {carry.tile.name: carry.tile for carry in loop.carries}
        blocks = {**self.blocks, loop.index: loop.block}
        loops = (*self.loops, loop.index)
        return replace(self, blocks=blocks, tiles={**self.tiles, **own}, loops=loops)

    def leave(self, loop: Loop) -> None:
        """After the loop its carries stay readable."""
        self.tiles.update((carry.tile.name, carry.tile) for carry in loop.carries)

    def lanes(self, index: str) -> int | None:
        """The lanes of an index here; None if it has none (it counts lanes, or is unknown)."""
        return self.blocks.get(index, self.whole.get(index))

    def counts_lanes(self, index: str) -> bool:
        """True outside the loops of an index that the kernel's loops bind."""
        return index not in self.blocks and index in bound(self.kernel)


def expression_faults(
    exprs: Iterable[Expr], axes: tuple[str, ...], scope: Scope
) -> Iterator[str]:  # fmt: skip
    """T2, T3, T4, T5, T13 and T20 for what a statement evaluates."""
    exprs = tuple(exprs)
    yield from _reads(exprs, scope)
    for index in sorted(frozenset[str]().union(*map(free_indices, exprs))):
        if index not in scope.extents:
            yield f"T4: index {index} has no extent"
        elif index not in axes and scope.blocks.get(index) != 1:
            lanes = scope.lanes(index)
            yield f"T5: index {index} with {lanes or 'many'} lanes is no axis of the statement"
    for index in sorted(positions(exprs)):
        if scope.counts_lanes(index):
            yield f"T13: outside its loop, {index} counts lanes and has no position"
    for index in sorted(seen_in(exprs)):
        if index not in scope.loops:
            yield f"T20: no loop over {index} is open, so none of it was seen"


def _reads(exprs: tuple[Expr, ...], scope: Scope) -> Iterator[str]:
    """T2 and T3."""
    for name, value in values_in(exprs).items():
        tile = scope.tiles.get(name)
        if tile is None:
            yield f"T2: tile {name} is not in scope"
        elif (value.axes, value.dtype) != (tile.axes, tile.dtype):
            yield f"T2: {name} is read as {value.dtype}[{', '.join(value.axes)}], it is " + (
                f"{tile.dtype}[{', '.join(tile.axes)}]"
            )
    for item in postorder(exprs):
        if isinstance(item, Read) and item.tensor not in scope.kernel.reads:
            yield f"T3: {item.tensor.name} is not among the tensors that the kernel reads"


def tile_faults(tile: Tile, scope: Scope) -> Iterator[str]:
    """T4, T6, T24 for a tile where it is defined."""
    for axis, size in zip(tile.axes, tile.sizes, strict=True):
        if axis not in scope.extents:
            yield f"T4: axis {axis} has no extent"
        lanes = scope.lanes(axis)
        if size < 1 or (lanes is not None and lanes != size):
            yield f"T6: axis {axis} has {size} lanes where its index has {lanes}"
        if scope.counts_lanes(axis) and size not in loop_blocks(scope.kernel, axis):
            yield f"T6: axis {axis} counts {size} lanes, and no loop over it has such blocks"
    yield from _layout_faults(tile)


def _layout_faults(tile: Tile) -> Iterator[str]:
    """T24."""
    if tile.space not in _LAYOUTS:
        yield f"T24: {tile.space} is no space"
    elif not isinstance(tile.layout, _LAYOUTS[tile.space]):
        yield f"T24: a tile in {tile.space} has no layout {type(tile.layout).__name__}"
    match tile.layout:
        case Frame(_, rows, columns) | Operand(_, _, rows, columns):
            missing = set(tile.axes) ^ {*rows, *columns}
        case Linear(order, _):
            missing = set(tile.axes) ^ set(order)
        case Panel(axis, _):
            missing = {axis} - set(tile.axes)
        case Blocked(threads, vector, axis):
            missing = set[str]()
            lanes = dict(zip(tile.axes, tile.sizes, strict=True)).get(axis, 0)
            if threads < 1 or vector < 1 or lanes % (threads * vector):
                yield f"T24: {lanes} lanes of {axis} are not dealt to {threads} x {vector}"
        case Strided():
            missing = set[str]()
    if missing:
        yield f"T24: the layout of {tile.name} does not fit its axes ({', '.join(sorted(missing))})"


def stored_type(value: Expr, storage: DType) -> Iterator[str]:
    """T9."""
    yield from forbidden((value,))
    dtype = type_of(value)
    if isinstance(dtype, str):
        yield dtype
    elif not stores(dtype, storage):
        yield f"T9: a value of type {dtype} is not stored as {storage} without a cast"


def forbidden(exprs: tuple[Expr, ...]) -> Iterator[str]:
    """T9, of what has no place in a body."""
    for item in postorder(exprs):
        if isinstance(item, Reduce | Round):
            yield f"T9: {type(item).__name__} has no place in a body"
        if isinstance(item, Select) and type_of(item.condition) is not BOOL:
            yield "T9: a condition is not bool"


def type_of(expr: Expr) -> DType | str:
    """The value type of an expression, or the fault that it has none."""
    try:
        return value_type(expr)
    except TypeError as error:
        return f"T9: {error}"


def bound_faults(limit: Polynomial, scope: Scope) -> Iterator[str]:
    """T19."""
    for symbol in sorted(symbols(limit), key=str):
        if symbol.kind == "extent" and symbol.name not in scope.extents:
            yield f"T19: {symbol} is no extent"
        if symbol.kind == "parameter" and symbol.name not in scope.constants:
            yield f"T19: {symbol.name} is no const parameter"
        if symbol.kind == "base" and symbol.name not in scope.blocks:
            yield f"T19: {symbol.name} is bound by no enclosing block"
        if symbol.kind == "index":
            yield f"T19: {symbol.name} has many values in a block; a bound uses its base"
    for expr in opaque(limit):
        yield from _reads((expr,), scope)
        for index in sorted(free_indices(expr)):
            if scope.blocks.get(index) != 1:
                yield f"T19: it depends on data along {index}, which has many lanes"
