"""The invariants of single level-2 statements in their scope: T5, T7 to T9, T11, T14, T15, T17,
T18, T22, T23 and T25 of `verify_tile`, and those that `tile_scope` verifies for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tensorc.ir.dtypes import BOOL, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, reduced_type
from tensorc.ir.node import postorder
from tensorc.ir.stores import stores
from tensorc.ir.tensor import Expr, Read, Select, Value, free_indices
from tensorc.ir.tile import Carry, Let, Loop, Store, Tile, Use
from tensorc.ir.tile_scope import (
    Scope,
    bound_faults,
    expression_faults,
    forbidden,
    stored_type,
    tile_faults,
    type_of,
)
from tensorc.ir.walk_tile import constant, expressions

REDUCERS = (SUM, PROD, MAX, MIN, ANY, ALL)


def let_faults(let: Let, scope: Scope) -> Iterator[str]:
    """All faults of a `Let` in its scope."""
    where = f"{let.tile.name}[{', '.join(let.tile.axes)}]"
    faults = (
        *expression_faults((let.body,), (*let.tile.axes, *let.reduced), scope),
        *tile_faults(let.tile, scope),
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
        *expression_faults(expressions(store), axes, scope),
        *stored_type(store.value, store.tensor.dtype),
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
        yield from (_at(where, fault) for fault in bound_faults(limit, scope))
    for carry in loop.carries:
        yield from (_at(f"carry {carry.tile.name}", fault) for fault in _carry(carry, scope, inner))


def _at(where: str, fault: str) -> str:
    number, sentence = fault.split(": ", 1)
    return f"{number}: {where}: {sentence}"


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
    yield from forbidden((let.body,))
    dtype = type_of(let.body)
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
    if not stores(dtype, let.tile.dtype):
        yield f"T9: a value of type {dtype} is not stored as {let.tile.dtype} without a cast"


def _carry(carry: Carry, scope: Scope, inner: Scope) -> Iterator[str]:
    """T6, T11, T24."""
    tile, start = carry.tile, carry.start
    yield from tile_faults(tile, inner)
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
            yield from stored_type(start, tile.dtype)
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
