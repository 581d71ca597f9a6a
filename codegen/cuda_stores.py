"""Stores of fragments: 16 bytes at once where the tensor is aligned and the columns of a quad lie
side by side in it, element by element elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorc.codegen.cuda_fragments import LANE, positions
from tensorc.codegen.cuda_frames import Frames, frames
from tensorc.codegen.cuda_functions import bare, narrowed
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_scope import Scope
from tensorc.codegen.cuda_simt import PACKED, block
from tensorc.ir.dtypes import F32, value_of
from tensorc.ir.tensor import Expr, Position, Tensor, free_indices, resolved, value_type
from tensorc.ir.tile import Store
from tensorc.ir.walk_tile import tensors_in


def store(scope: Scope, item: Store) -> Iterator[str]:
    """tensor[...] = f(fragments), for elements inside the domain."""
    exprs = (*item.subscripts, item.value)
    frame = frames(scope, exprs, ())
    if item.combine is not None:
        raise NotImplementedError("stores that combine in memory are not emitted yet")
    axis = _adjacent(scope, item, frame)
    if axis is None:
        yield from _stored(scope, item, frame)
        return
    yield "if (WIDE) {"
    for line in _pieces(scope, item, frame, axis):
        yield "  " + line
    yield "} else {"
    for line in _stored(scope, item, frame):
        yield "  " + line
    yield "}"


def _adjacent(scope: Scope, item: Store, frame: Frames) -> int | None:
    """The tensor's axis, of unit stride, along which a frame's columns run and pieces of several
    elements may be stored, where it is aligned, which `scope.aligned` notes; None: never."""
    if not frame.rows or not frame.columns:
        return None
    last = frame.columns[-1]
    users = [n for n, part in enumerate(item.subscripts) if last in free_indices(part)]
    if len(users) != 1 or not isinstance(item.subscripts[users[0]], Position):
        return None
    dtype, kind = item.tensor.dtype, resolved(value_type(item.value), value_of(item.tensor.dtype))
    if tensors_in(item.subscripts) or kind is not F32 or not scope.unit(item.tensor, users[0]):
        return None
    per = frame.blocks.columns
    if dtype in PACKED and per % 4 == 0 and frame.sizes[last] % 32 == 0:
        condition = scope.even(item.tensor, users[0], 16)
    elif dtype is F32:
        condition = scope.even(item.tensor, users[0], 8)
    else:
        return None
    if not condition:
        return None
    scope.aligned[item.tensor.name] = condition
    return users[0]


def _stored(scope: Scope, item: Store, frame: Frames) -> Iterator[str]:
    exprs = (*item.subscripts, item.value)
    frame.bind(exprs)
    lines = list(scope.place(frame.lanes, exprs, frame.lanes))
    tests = scope.inside(frame.lanes) + _once(scope, item, frame)
    pointer, offset = _target(scope, item)
    text = f"{pointer}[{offset}] = {_narrow(scope, item.value, item.tensor)};"
    scope.leave()
    last = f"if ({' && '.join(tests)}) {text}" if tests else text
    yield from block(frame.loops(), [*lines, last])


def _target(scope: Scope, item: Store) -> tuple[str, str]:
    """The tensor, and the offset of the element that is stored."""
    tensor = item.tensor
    return scope.parameters.pointer(tensor), scope.e.offset(tensor, item.subscripts)


def _once(scope: Scope, item: Store, frame: Frames) -> list[str]:
    """Lanes that hold copies of an element, and blocks that would store it again."""
    tests = [f"{scope.base(index)} == 0" for index in item.once]
    if not frame.columns:
        tests += ["lane % 4 == 0"] + (["warp_n == 0"] if scope.placement.columns > 1 else [])
    if not frame.rows:
        tests += ["lane / 4 == 0"] + (["warp_m == 0"] if scope.placement.rows > 1 else [])
    return tests


def _narrow(scope: Scope, value: Expr, tensor: Tensor) -> str:
    kind = resolved(value_type(value), value_of(tensor.dtype))
    return narrowed(scope.e.value(value, kind), kind, tensor.dtype)


def _pieces(scope: Scope, item: Store, frame: Frames, axis: int) -> Iterator[str]:
    """Pairs of f32; or 8 neighbours of 16 bits, which a lane gets from its quad."""
    last = item.subscripts[axis]
    assert isinstance(last, Position)
    half = item.tensor.dtype is not F32
    frame.bind((*item.subscripts, item.value))
    pair = list(_pair(scope, item, frame))
    columns = frame.blocks.columns
    lanes = dict(frame.lanes) | positions(frame.columns, frame.sizes, _first(scope, columns, half))
    count, name = (columns // 4, "t") if half else (columns, "j")
    yield f"TCT_FOR(i, {frame.blocks.rows}) TCT_FOR(half, 2) TCT_FOR({name}, {count}) {{"
    yield from _words(item, pair) if half else ("  " + line for line in pair)
    halves = {a: _at_half(lane) for a, lane in lanes.items()}
    for line in scope.place(halves, item.subscripts, frame.lanes):
        yield "  " + line
    tests, text = _written(scope, item, frame, axis, last.index)
    scope.leave()
    yield f"  if ({' && '.join(tests)}) {text}" if tests else f"  {text}"
    yield "}"


def _pair(scope: Scope, item: Store, frame: Frames) -> Iterator[str]:
    """Two neighbouring values, 0 outside of the domain."""
    axes = {axis for read in tensors_in((item.value,)) for axis in free_indices(read)}
    values = list(scope.place(frame.lanes, (item.value,), axes))
    value = scope.e.value(item.value, F32)
    if tests := scope.inside(axes & frame.lanes.keys()):
        value = f"{' && '.join(tests)} ? {value} : 0.0f"
    scope.leave()
    yield "float pair[2];"
    inner = ["const int reg = 2 * half + side;", *values, f"pair[side] = {bare(value)};"]
    yield from block("TCT_FOR(side, 2)", inner)


def _first(scope: Scope, columns: int, half: bool) -> Index:
    """The column of a piece's first element."""
    warp = Index.of("warp_n", scope.placement.columns) * (8 * columns)
    if half:
        return warp + Index.of("t", columns // 4) * 32 + LANE % 4 * 8
    return warp + Index.of("j", columns) * 8 + LANE % 4 * 2


def _words(item: Store, pair: Sequence[str]) -> Iterator[str]:
    """Four pairs as words of 16 bits each, exchanged so that a lane has neighbours."""
    yield "  u32 words[4];"
    yield "  TCT_FOR(word, 4) {"
    yield "    const int j = 4 * t + word;"
    yield from ("    " + line for line in pair)
    yield f"    words[word] = {PACKED[item.tensor.dtype]}(pair[0], pair[1]);"
    yield "  }"
    yield "  tct_quad_transpose(words, lane);"


def _written(
    scope: Scope, item: Store, frame: Frames, axis: int, last: str
) -> tuple[list[str], str]:
    """The conditions of a piece's store, and the store."""
    half, tests = item.tensor.dtype is not F32, _once(scope, item, frame)
    where = " + ".join(_target(scope, item))
    if scope.rows_whole(item.tensor, axis):  # aligned rows have whole pieces
        kind = "tc_u32x4" if half else "tc_u32x2"
        words = ("words[0], words[1], words[2], words[3]" if half
                 else "tc_f32_bits(pair[0]), tc_f32_bits(pair[1])")  # fmt: skip
        return tests + scope.inside(frame.lanes), f"*({kind}*)({where}) = {{{words}}};"
    rest = f"{scope.parameters.extent(last)} - {scope.e.position[last]}"
    call, held, width = ("tct_store8", "words", 8) if half else ("tct_store2", "pair", 2)
    tests += scope.inside(frame.lanes.keys() - {last})
    return tests, f"{call}({where}, {held}, tct_count({rest}, {width}));"


def _at_half(lane: Index) -> Index:
    """The same lane where half = reg / 2."""
    factors = tuple(("half" if text == "(reg / 2)" else text, n) for text, n in lane.factors)
    return Index(factors, lane.most, lane.constant)
