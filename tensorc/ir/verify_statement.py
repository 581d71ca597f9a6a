"""The invariants of single level-2 statements in their scope: T2 to T9, T11, T13, T14, T17 to T20
and T22 to T25 of `verify_tile`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tensorc.ir.dtypes import BOOL, DType, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, reduced_type
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial, symbols
from tensorc.ir.tensor import Expr, Read, Reduce, Round, Select, Value, free_indices, value_type
from tensorc.ir.tile import (
    Blocked,
    Carry,
    Frame,
    Kernel,
    Let,
    Linear,
    Loop,
    Operand,
    Panel,
    Store,
    Strided,
    Tile,
    Use,
)
from tensorc.ir.walk_tile import (
    bound,
    constant,
    expressions,
    loop_blocks,
    opaque,
    positions,
    seen_in,
    values_in,
)

REDUCERS = (SUM, PROD, MAX, MIN, ANY, ALL)
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


def let_faults(let: Let, scope: Scope) -> Iterator[str]:
    """All faults of a `Let` in its scope."""
    where = f"{let.tile.name}[{', '.join(let.tile.axes)}]"
    faults = (
        *_expression_faults((let.body,), (*let.tile.axes, *let.reduced), scope),
        *_tile_faults(let.tile, scope),
        *_reduction_faults(let, scope),
        *_let_types(let),
        *_onto_faults(let, scope),
        *_into_faults(let, scope),
        *_guard_faults(let.body, let.edge, scope),
        *_use_faults(let.by, (*let.tile.axes, *let.reduced), let.reduced),
    )
    if let.by.fill is not None and not isinstance(let.body, Read):
        faults = (*faults, "T23: it has a fill, but is no copy of a tensor")
    return (_at(where, fault) for fault in faults)


def store_faults(store: Store, scope: Scope) -> Iterator[str]:
    """All faults of a `Store` in its scope."""
    where = f"store {store.tensor.name}"
    axes = tuple(sorted(free_indices(store.value).union(*map(free_indices, store.subscripts))))
    faults = (
        *_expression_faults(expressions(store), axes, scope),
        *_stored_type(store.value, store.tensor.dtype),
        *_guard_faults(store.value, store.edge, scope),
        *_use_faults(store.by, axes, ()),
        *_once(store, scope),
    )
    if store.tensor not in scope.kernel.writes:
        faults = (*faults, f"T3: {store.tensor.name} is not among the kernel's results")
    if len(store.subscripts) != len(store.tensor.shape):
        faults = (*faults, f"T9: {len(store.tensor.shape)} subscripts are expected")
    return (_at(where, fault) for fault in faults)


def loop_faults(loop: Loop, scope: Scope) -> Iterator[str]:
    """All faults of a loop's head; its body is verified in `scope.inside(loop)`."""
    where = f"loop {loop.index}"
    if loop.block < 1:
        yield f"T7: {where} by {loop.block}"
    inner = replace(scope, blocks=dict(scope.blocks))
    yield from (_at(where, fault) for fault in inner.bind(loop.index, loop.block))
    for limit in (loop.lower, loop.upper, *loop.full):
        yield from (_at(where, fault) for fault in _bound_faults(limit, scope))
    for carry in loop.carries:
        yield from (_at(f"carry {carry.tile.name}", fault) for fault in _carry(carry, scope, inner))


def _at(where: str, fault: str) -> str:
    number, sentence = fault.split(": ", 1)
    return f"{number}: {where}: {sentence}"


def _expression_faults(
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


def _tile_faults(tile: Tile, scope: Scope) -> Iterator[str]:
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
        case Blocked() | Strided():
            missing = set[str]()
    if missing:
        yield f"T24: the layout of {tile.name} does not fit its axes ({', '.join(sorted(missing))})"


def _reduction_faults(let: Let, scope: Scope) -> Iterator[str]:
    """T8."""
    if (let.op is None) != (not let.reduced):
        yield "T8: a reduction names what it reduces, and nothing else does"
    if let.op is not None and let.op not in REDUCERS:
        yield f"T8: {let.op} is no reduction of level 2"
    for index in let.reduced:
        if index in let.tile.axes:
            yield f"T8: {index} is reduced and an axis of the result"
        if index not in free_indices(let.body):
            yield f"T8: {index} is reduced but does not occur"
    if len(set(let.reduced)) != len(let.reduced):
        yield "T8: an index is reduced twice"


def _let_types(let: Let) -> Iterator[str]:
    """T9."""
    yield from _forbidden((let.body,))
    dtype = _type(let.body)
    if isinstance(dtype, str):
        yield dtype
        return
    if let.op is not None:
        accumulated = let.tile.dtype if let.op in (SUM, PROD) else None
        found = reduced_type(let.op, dtype, accumulated)
        if found is None:
            yield f"T9: {let.op} takes no {dtype}"
            return
        dtype = found
    if not storable(dtype, let.tile.dtype):
        yield f"T9: a value of type {dtype} is not stored as {let.tile.dtype} without a cast"


def _stored_type(value: Expr, storage: DType) -> Iterator[str]:
    """T9."""
    yield from _forbidden((value,))
    dtype = _type(value)
    if isinstance(dtype, str):
        yield dtype
    elif not storable(dtype, storage):
        yield f"T9: a value of type {dtype} is not stored as {storage} without a cast"


def _forbidden(exprs: tuple[Expr, ...]) -> Iterator[str]:
    for item in postorder(exprs):
        if isinstance(item, Reduce | Round):
            yield f"T9: {type(item).__name__} has no place in a body"
        if isinstance(item, Select) and _type(item.condition) is not BOOL:
            yield "T9: a condition is not bool"


def _type(expr: Expr) -> DType | str:
    try:
        return value_type(expr)
    except TypeError as error:
        return f"T9: {error}"


def storable(value: DType, storage: DType) -> bool:
    """True if a store converts without a cast: within a kind, integer to float, bool to any
    number, real to complex (language, types)."""
    if value is BOOL or storage.complex:
        return True
    if storage is BOOL or value.complex:
        return False
    return storage.floating or value.integral


def _carry(carry: Carry, scope: Scope, inner: Scope) -> Iterator[str]:
    """T6, T11, T24."""
    tile, start = carry.tile, carry.start
    yield from _tile_faults(tile, inner)
    match start:
        case Tile():
            if scope.tiles.get(start.name) is not start:
                yield f"T2: tile {start.name} is not in scope"
            if (start.axes, start.sizes, start.dtype) != (tile.axes, tile.sizes, tile.dtype):
                yield f"T11: it starts as {start.name}, which is not like it"
        case str():
            if start != "lowest" or tile.dtype.complex or tile.dtype is BOOL:
                yield f"T11: {start} is no start of a tile of {tile.dtype}"
        case _:
            yield from _stored_type(start, tile.dtype)
            if not constant(start):
                yield "T11: it starts as an expression that is not constant"


def _onto_faults(let: Let, scope: Scope) -> Iterator[str]:
    """T14."""
    if let.onto is None:
        return
    onto, tile = let.onto, let.tile
    if let.op is None:
        yield "T14: it goes onto a tile without reducing"
    if scope.tiles.get(onto.name) is not onto:
        yield f"T14: tile {onto.name} is not in scope"
    if (onto.axes, onto.sizes) != (tile.axes, tile.sizes):
        yield f"T14: {onto.name} has other axes"
    if value_of(onto.dtype) != value_of(tile.dtype):
        yield f"T14: {onto.name} is {onto.dtype}, the result {tile.dtype}"


def _into_faults(let: Let, scope: Scope) -> Iterator[str]:
    """T15."""
    into, tile = let.into, let.tile
    if into is None:
        return
    if scope.tiles.get(into.name) is not into:
        yield f"T15: tile {into.name} is not in scope"
    if (into.axes, into.sizes, into.dtype) != (tile.axes, tile.sizes, tile.dtype):
        yield f"T15: {into.name} is not like it"
    if into.space != tile.space:
        yield f"T15: {into.name} is in {into.space}, the result in {tile.space}"


def _guard_faults(body: Expr, edge: tuple[str, ...], scope: Scope) -> Iterator[str]:
    """T17 and T18."""
    if not edge:
        return
    if not isinstance(body, Select):
        yield "T17: it guards an edge, but is no select"
        return
    point = {index for index, lanes in scope.blocks.items() if lanes == 1}
    for item in postorder([body.condition]):
        if isinstance(item, Value) or (isinstance(item, Read) and free_indices(item) - point):
            yield "T17: the condition of a guard depends on data of many lanes"
    for index in edge:
        if index not in free_indices(body.condition) or scope.counts_lanes(index):
            yield f"T18: it guards the edge of {index}, on which its condition does not depend"


def _bound_faults(limit: Polynomial, scope: Scope) -> Iterator[str]:
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


def _use_faults(by: Use, axes: tuple[str, ...], reduced: tuple[str, ...]) -> Iterator[str]:
    """T22 and T23."""
    names = [role for role, _ in by.roles]
    used = [axis for _, group in by.roles for axis in group]
    if len(set(names)) != len(names) or len(set(used)) != len(used):
        yield "T22: a role or an axis stands twice"
    for axis in used:
        if axis not in axes:
            yield f"T22: {axis} has a role but is no axis of the statement"
    for role, count in by.repeat:
        if role not in names or count < 2:
            yield f"T22: {count} atoms along {role}"
    for axis in by.exact:
        if axis not in reduced:
            yield f"T23: {axis} is walked exactly but not reduced"


def _once(store: Store, scope: Scope) -> Iterator[str]:
    """T25."""
    if store.combine is not None:
        if store.combine not in REDUCERS:
            yield f"T25: stores do not combine by {store.combine}"
        return
    named = frozenset[str]().union(*map(free_indices, store.subscripts))
    lacking = {block.index for block in scope.kernel.grid} - named
    if set(store.once) != lacking:
        wrong = ", ".join(sorted(lacking ^ set(store.once)))
        yield f"T25: it is stored once for {', '.join(store.once) or 'nothing'}, not for {wrong}"
    for index in sorted((free_indices(store.value) | {*scope.loops}) - named - lacking):
        yield f"T25: its subscripts do not depend on {index}, so elements are stored many times"
