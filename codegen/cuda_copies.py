"""Filling tiles in shared memory from global memory, and storing such tiles: 16 bytes at once where
addresses are aligned, which is found out when the kernel starts, element by element elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tensorc.codegen.cuda_functions import narrowed, stored_type, widened
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_scope import Scope
from tensorc.codegen.cuda_shared import element, place
from tensorc.ir.dtypes import value_of
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Expr, Position, Read, Tensor, Value
from tensorc.ir.tile import Let, Store, Tile
from tensorc.ir.walk_tile import tensors_in
from tensorc.machine.arrange import storage

WIDE = 16  # bytes that a thread copies at once


def fill(scope: Scope, item: Let, at: str) -> Iterator[str]:
    """All elements of a shared tile, by all threads; `at`: its offset."""
    axis = _axis(scope, item.tile, item.body)
    if axis is None:
        yield from _elements(scope, item, at)
        return
    assert isinstance(item.body, Read)
    yield "if (WIDE) {"
    for line in _wide(scope, item, item.body, at, axis):
        yield "  " + line
    yield "} else {"
    for line in _elements(scope, item, at):
        yield "  " + line
    yield "}"


def lanes_at(tile: Tile, vector: int) -> tuple[int, dict[str, Index]]:
    """How many pieces of `vector` elements a tile has, and the lanes of piece `piece`."""
    order, _ = storage(tile)
    sizes = dict(zip(tile.axes, tile.sizes, strict=True))
    count = math.prod(tile.sizes) // vector
    flat = Index.of("piece", count)
    found: dict[str, Index] = {}
    for axis in reversed(order):
        size = sizes[axis] // (vector if axis == order[-1] else 1)
        own = flat % size if axis != order[0] else flat
        found[axis] = own * vector if axis == order[-1] else own
        flat = flat // size
    return count, found


def _axis(scope: Scope, tile: Tile, body: Expr) -> int | None:
    """The axis of a tensor along which pieces of 16 bytes are copied, where it is aligned, which
    `scope.aligned` notes; None: never."""
    order, _ = storage(tile)
    if not isinstance(body, Read) or not order or tile.dtype is not body.tensor.dtype:
        return None
    vector = WIDE * 8 // tile.dtype.bits
    axis = along(scope, body.tensor, body.subscripts, order[-1], tile, vector)
    condition = "" if axis is None else scope.even(body.tensor, axis, WIDE)
    if not condition:
        return None
    scope.aligned[body.tensor.name] = condition
    return axis


def along(
    scope: Scope, tensor: Tensor, subscripts: tuple[Expr, ...], last: str, tile: Tile, vector: int
) -> int | None:
    """The axis of unit stride whose subscript is the index `last`, used by no other subscript."""
    users = [n for n, part in enumerate(subscripts) if _uses(part, last)]
    plain = len(users) == 1 and isinstance(subscripts[users[0]], Position)
    lanes = tile.sizes[tile.axes.index(last)]
    if not plain or lanes % vector or tensors_in(subscripts):
        return None
    return users[0] if scope.unit(tensor, users[0]) else None


def _uses(expr: Expr, index: str) -> bool:
    return any(isinstance(node, Position) and node.index == index for node in postorder([expr]))


def _wide(scope: Scope, item: Let, read: Read, at: str, axis: int) -> Iterator[str]:
    """Pieces of 16 bytes by cp.async. Where rounds of all threads differ in one axis only, the
    address of the first round is computed, and the others lie a constant number of rows on."""
    vector = WIDE * 8 // item.tile.dtype.bits
    count, lanes = lanes_at(item.tile, vector)
    moving = _moving(scope, item.tile, read, vector, count)
    rounds = -(-count // scope.threads)
    last = read.subscripts[axis]
    assert isinstance(last, Position)
    if moving is None:
        yield f"TCT_FOR(round, {rounds}) {{"
        pad = "  "
        yield f"{pad}const int piece = round * {scope.threads} + threadIdx.x;"
        if count % scope.threads:
            yield f"{pad}if (piece >= {count}) continue;"
    else:
        pad = ""
        yield "const int piece = threadIdx.x;"
    for line in scope.place(lanes, (read,)):
        yield pad + line
    pointer = scope.parameters.pointer(read.tensor)
    kind = stored_type(item.tile.dtype)
    yield f"{pad}const {kind}* from = {pointer} + {scope.e.offset(read.tensor, read.subscripts)};"
    left = _left(scope, read.tensor, axis, last, vector)
    tests = [test for test in scope.bounds(read) if not _about(scope, test, last)]
    source, step = "from", 0
    if moving is not None:
        index, step = moving
        stride = scope.parameters.stride(read.tensor, _place_of(read, index))
        if not scope.whole(index):
            size = scope.block[index] if index in scope.block else count
            rest = f"{scope.parameters.extent(index)} - {scope.e.position[index]}"
            yield f"const int rows = tct_count({rest}, {size});"
        own = [test for test in tests if _about(scope, test, Position(index))]
        tests = [test for test in tests if test not in own]
        if rounds > 1:
            source = f"from + round * {step} * {stride}"
        if own:
            tests.append(f"round * {step} < rows" if rounds > 1 else "0 < rows")
    amount = f"{item.tile.dtype.bits // 8} * {left}" if left != str(vector) else str(WIDE)
    if left not in ("count", str(vector)):
        yield f"{pad}const int count = {left};"
        amount = f"{item.tile.dtype.bits // 8} * count"
    if tests:
        amount = f"{' && '.join(tests)} ? {amount} : 0"
    if moving is not None:
        lanes = {**lanes, moving[0]: lanes[moving[0]] + Index.of("round", rounds) * step}
    call = f"tc_cp_async16(shared + {at} + {place(item.tile, lanes)}, {source}, {amount});"
    if moving is None:
        yield f"  {call}"
        yield "}"
    else:
        yield f"TCT_FOR(round, {rounds}) {call}"
    scope.leave()


def _left(scope: Scope, tensor: Tensor, axis: int, last: Position, vector: int) -> str:
    """How many elements of a piece lie inside the tensor."""
    if scope.whole(last.index) and scope.spans(last.index, tensor.shape[axis]):
        return str(vector)
    size = scope.bound(tensor.shape[axis])
    return f"tct_count({size} - {scope.e.position[last.index]}, {vector})"


def _about(scope: Scope, test: str, position: Position) -> bool:
    """Whether a condition compares this position alone."""
    return test.startswith(f"{scope.e.position.get(position.index)} < ")


def _place_of(read: Read, index: str) -> int:
    """The axis whose subscript is an index."""
    return next(n for n, part in enumerate(read.subscripts) if part is Position(index))


def _moving(
    scope: Scope, tile: Tile, read: Read, vector: int, count: int
) -> tuple[str, int] | None:
    """The index along which the rounds of a copy lie, and how far from each other."""
    order, _ = storage(tile)
    outer = [axis for axis in order[:-1] if tile.sizes[tile.axes.index(axis)] > 1]
    across = tile.sizes[tile.axes.index(order[-1])] // vector
    if len(outer) != 1 or scope.threads % across or count % scope.threads:
        return None
    index = outer[0]
    users = [part for part in read.subscripts if _uses(part, index)]
    if users != [Position(index)]:
        return None
    return index, scope.threads // across


def _elements(scope: Scope, item: Let, at: str) -> Iterator[str]:
    count, lanes = lanes_at(item.tile, 1)
    yield f"TCT_EACH(piece, {count}, {scope.threads}) {{"
    reads = tensors_in((item.body,))
    for line in scope.place(lanes, (item.body,), item.tile.axes if reads else ()):
        yield "  " + line
    kind = value_of(item.tile.dtype)
    if isinstance(item.body, Read):  # outside the tensor, what the copy fills with
        tests, raw = scope.bounds(item.body), _raw(scope, item.body, item.tile)
        value = raw or narrowed(scope.e.value(item.body, kind), kind, item.tile.dtype)
    else:
        tests = scope.inside(item.tile.axes) if reads else []
        value = narrowed(scope.e.value(item.body, kind), kind, item.tile.dtype)
    zero = f"({stored_type(item.tile.dtype)})0"
    text = f"{' && '.join(tests)} ? {value} : {zero}" if tests else value
    yield f"  {element(item.tile, at, lanes)} = {text};"
    yield "}"
    scope.leave()


def _raw(scope: Scope, read: Read, tile: Tile) -> str:
    """The element's bits, where nothing is converted or checked."""
    tensor = read.tensor
    checked = any((read, axis) in scope.e.checks for axis in range(len(tensor.shape)))
    if checked or tensor.dtype is not tile.dtype:
        return ""
    return f"{scope.parameters.pointer(tensor)}[{scope.e.offset(tensor, read.subscripts)}]"


def empty(scope: Scope, item: Store, tile: Tile, at: str) -> Iterator[str]:
    """Store a shared tile as it is, by all threads."""
    order, _ = storage(tile)
    vector = WIDE * 8 // tile.dtype.bits
    same = tile.dtype is item.tensor.dtype and vector == 8 and bool(order)
    axis = along(scope, item.tensor, item.subscripts, order[-1], tile, vector) if same else None
    condition = "" if axis is None else scope.even(item.tensor, axis, WIDE)
    if axis is None or not condition:
        yield from _emptied(scope, item, tile, at)
        return
    scope.aligned[item.tensor.name] = condition
    yield "if (WIDE) {"
    for line in _emptied_wide(scope, item, tile, at, axis):
        yield "  " + line
    yield "} else {"
    for line in _emptied(scope, item, tile, at):
        yield "  " + line
    yield "}"


def _emptied_wide(scope: Scope, item: Store, tile: Tile, at: str, axis: int) -> Iterator[str]:
    vector = WIDE * 8 // tile.dtype.bits
    count, lanes = lanes_at(tile, vector)
    yield f"TCT_FOR(round, {-(-count // scope.threads)}) {{"
    yield f"  const int piece = round * {scope.threads} + threadIdx.x;"
    if count % scope.threads:
        yield f"  if (piece >= {count}) continue;"
    for line in scope.place(lanes, item.subscripts, tile.axes):
        yield "  " + line
    last = item.subscripts[axis]
    assert isinstance(last, Position)
    left = f"tct_count({scope.parameters.extent(last.index)} - {scope.e.position[last.index]}, 8)"
    tests = scope.inside(set(tile.axes) - {last.index})
    where = f"{scope.parameters.pointer(item.tensor)} + "
    where += scope.e.offset(item.tensor, item.subscripts)
    yield f"  const tc_u32x4 v = *(tc_u32x4*)(smem + {at} + {place(tile, lanes)});"
    yield "  const u32 words[4] = {v.x, v.y, v.z, v.w};"
    text = f"tct_store8((u16*)({where}), words, {left});"
    yield f"  if ({' && '.join(tests)}) {text}" if tests else f"  {text}"
    yield "}"
    scope.leave()


def _emptied(scope: Scope, item: Store, tile: Tile, at: str) -> Iterator[str]:
    count, lanes = lanes_at(tile, 1)
    yield f"TCT_EACH(piece, {count}, {scope.threads}) {{"
    for line in scope.place(lanes, (*item.subscripts, item.value), tile.axes):
        yield "  " + line
    scope.e.tiles[tile.name] = widened(element(tile, at, lanes), tile.dtype)
    kind = value_of(item.tensor.dtype)
    value = narrowed(scope.e.value(item.value, kind), kind, item.tensor.dtype)
    tests = scope.inside(tile.axes)
    where = f"{scope.parameters.pointer(item.tensor)}"
    text = f"{where}[{scope.e.offset(item.tensor, item.subscripts)}] = {value};"
    yield f"  if ({' && '.join(tests)}) {text}" if tests else f"  {text}"
    yield "}"
    scope.leave()


def plain_copy(item: Store, tiles: Mapping[str, Tile]) -> Tile | None:
    """The shared tile that a store writes out as it is."""
    match item.value:
        case Value(name, _, _) if tiles[name].space == "shared":
            return tiles[name]
        case _:
            return None
