"""Statements that the threads of warps do on fragments: element by element, reductions along rows
or columns, and operands made in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorc.codegen.cuda_fragments import (
    Blocks,
    column,
    dimensions,
    element,
    positions,
    row,
)
from tensorc.codegen.cuda_frames import Frames, frames
from tensorc.codegen.cuda_functions import (
    C_TYPES,
    FUNCTIONS,
    bare,
    constant,
    narrowed,
    rounded,
)
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_masks import masked
from tensorc.codegen.cuda_scope import Scope, value_kind
from tensorc.codegen.cuda_shared import element as shared_element
from tensorc.ir.dtypes import BF16, BOOL, F16, F32, DType, integer_range, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.tensor import Expr, Select, Value, free_indices
from tensorc.ir.tile import Let, Operand, Tile
from tensorc.ir.walk_tile import constant as constant_everywhere
from tensorc.ir.walk_tile import tensors_in, values_in
from tensorc.machine.arrange import storage

_COMBINED: dict[Reducer, str] = {
    SUM: "add", PROD: "mul", MAX: "max", MIN: "min", ANY: "or", ALL: "and",
}  # fmt: skip
_NEUTRAL: dict[Reducer, str | int] = {SUM: 0, PROD: 1, MAX: "-inf", MIN: "inf", ANY: 0, ALL: 1}
PACKED = {F16: "tc_pack_f16", BF16: "tc_pack_bf16"}


def block(head: str, lines: Sequence[str]) -> Iterator[str]:
    """A loop's body, on one line where it is one statement."""
    if len(lines) == 1 and head:
        yield f"{head} {lines[0]}"
        return
    yield f"{head} {{".lstrip()
    yield from ("  " + line for line in lines)
    yield "}"


def pointwise(scope: Scope, item: Let, full: str) -> Iterator[str]:
    """d = f(...), in a frame; `full`: the condition of blocks in which a guard always holds."""
    name, new = scope.variable(item.tile, item.into)
    if new:
        shape = "".join(f"[{n}]" for n in dimensions(item.tile, scope.placement))
        yield f"{value_kind(item.tile)} {name}{shape};"
    body = item.body
    if item.edge and isinstance(body, Select) and full and not tensors_in((body,)):
        yield from _assigned(scope, item, body.yes, "")
        yield f"if (!({full})) {{"
        for line in _guarded(scope, item, body):
            yield "  " + line
        yield "}"
        return
    yield from _assigned(scope, item, body, "")


def _value(scope: Scope, expr: Expr, tile: Tile) -> str:
    kind = value_of(tile.dtype)
    text = scope.e.value(expr, kind)
    return text if kind is tile.dtype else rounded(text, kind, tile.dtype)


def _assigned(scope: Scope, item: Let, body: Expr, head: str) -> Iterator[str]:
    frame = frames(scope, (body,), (item.tile,))
    frame.bind((body,))
    target = element(item.tile, scope.variables[item.tile.name], scope.placement)
    reads = tensors_in((body,))
    axes = {axis for read in reads for axis in free_indices(read)}
    lines = list(scope.place(frame.lanes, (body,), axes))
    tests = scope.inside(axes & frame.lanes.keys())
    value = _value(scope, body, item.tile)
    if tests:
        value = f"{' && '.join(tests)} ? {value} : {constant(0, value_of(item.tile.dtype))}"
    scope.leave()
    if value != target:
        yield from block(head + frame.loops(), [*lines, f"{target} = {bare(value)};"])


def _guarded(scope: Scope, item: Let, body: Select) -> Iterator[str]:
    """Set the lanes of which the guard does not hold."""
    frame = frames(scope, (body.condition, body.no), (item.tile,))
    if constant_everywhere(body.no):
        target = element(item.tile, scope.variables[item.tile.name], scope.placement)
        text = f"{target} = {_value(scope, body.no, item.tile)};"
        lines = masked(scope, body.condition, frame.lanes, frame.columns, frame.blocks, text)
        if lines is not None:
            yield from lines
            return
    frame.bind((body.condition, body.no))
    target = element(item.tile, scope.variables[item.tile.name], scope.placement)
    lines = list(scope.place(frame.lanes, (body.condition, body.no)))
    test = scope.e.functions["not"]([scope.e.value(body.condition, BOOL)], BOOL)
    value = _value(scope, body.no, item.tile)
    scope.leave()
    yield from block(frame.loops(), [*lines, f"if {test} {target} = {value};"])


def reduction(scope: Scope, item: Let, across: bool = True) -> Iterator[str]:
    """d = [onto op] op over lanes: in each thread, then among the lanes that share the result, then
    across warps through shared memory. `across`: False where threads keep their own parts."""
    tile, op = item.tile, item.op
    assert op is not None
    frame = frames(scope, (item.body,), (tile,))
    frame.add(item.reduced)
    kind = value_of(tile.dtype)
    name, new = scope.variable(tile, item.into)
    shape = list(dimensions(tile, scope.placement)) if tile.axes else []
    if new:
        yield f"{C_TYPES[kind]} {name}{''.join(f'[{n}]' for n in shape)};"
    rows, columns = (set(side) & set(tile.axes) for side in (frame.rows, frame.columns))
    if rows and columns:
        raise NotImplementedError(f"{tile.name}: a reduction over {', '.join(item.reduced)}")
    outer = "i" if rows else ("j" if columns else "")
    neutral = constant(_neutral(op, kind), kind)
    head = f"TCT_FOR({outer}, {shape[0]}) " if outer else ""
    yield head + "{"
    yield f"  {C_TYPES[kind]} part[4] = {{{', '.join([neutral] * 4)}}};"
    for line in _parts(scope, item, frame, outer, neutral):
        yield "  " + line
    pairs = {"i": ("2 * side", "2 * side + 1"), "j": ("side", "side + 2")}
    if outer and not across and item.onto is not None:
        own = tuple(f"part[{n}]" for n in pairs[outer])
        start = f"{scope.variables[item.onto.name]}[{outer}][side]"
        total = _function(op, (start, f"({_function(op, own, kind)})"), kind)
        yield from (f"  TCT_FOR(side, 2) {name}[{outer}][side] = {total};", "}")
        return
    if outer:
        yield "  TCT_FOR(side, 2) {"
        first, second = pairs[outer]
        total = _function(op, (f"part[{first}]", f"part[{second}]"), kind)
        pad = "    "
    else:
        total = _function(op, tuple(f"part[{n}]" for n in range(4)), kind)
        pad = "  "
    yield f"{pad}{C_TYPES[kind]} total = {total};"
    masks = [] if columns or not frame.columns else [1, 2]
    masks += [] if rows or not frame.rows else [4, 8, 16]
    for mask in masks if across else []:
        both = (_shuffled("total", mask, kind), "total")  # `||` must not skip the exchange
        yield f"{pad}total = {_function(op, both, kind)};"
    for line in _across(scope, item, frame, (bool(rows), bool(columns)), kind):
        yield pad + line
    place = f"[{outer}][side]" if outer else ""
    if item.onto is not None:
        start = scope.variables[item.onto.name] + place
        result = _function(op, (start, "total"), kind)
    else:
        result = "total"
    yield f"{pad}{name}{place} = {rounded(result, kind, tile.dtype)};"
    yield from ("  }", "}") if outer else ("}",)


def _parts(
    scope: Scope, item: Let, frame: Frames, outer: str, neutral: str
) -> Iterator[str]:  # fmt: skip
    """The reduction of a thread's own elements, in a part for each register of a block."""
    assert item.op is not None
    kind = value_of(item.tile.dtype)
    frame.bind((item.body,))
    axes = {axis for read in tensors_in((item.body,)) for axis in free_indices(read)}
    axes |= set(item.by.exact)
    lines = list(scope.place(frame.lanes, (item.body,), axes))
    value = scope.e.value(item.body, kind)
    if tests := scope.inside(axes & frame.lanes.keys()):
        value = f"({' && '.join(tests)} ? {value} : {neutral})"
    scope.leave()
    loops = frame.loops().replace(f"TCT_FOR({outer}, {_count(frame, outer)}) ", "", 1)
    both = _function(item.op, ("part[reg]", value), kind)
    first = {"i": "j", "j": "i"}.get(outer, "")
    if first and not lines and _count(frame, first) > 1:  # no operation with the neutral element
        both = f"{first} ? {both} : {value}"
    yield from block(loops, [*lines, f"part[reg] = {both};"])


def _count(frame: Frames, outer: str) -> int:
    return frame.blocks.rows if outer == "i" else frame.blocks.columns


def _across(
    scope: Scope, item: Let, frame: Frames, kept: tuple[bool, bool], kind: DType
) -> Iterator[str]:
    """The total of all warps that have a part of it, from what each leaves in shared memory."""
    rows = scope.placement.rows if frame.rows and not kept[0] else 1
    columns = scope.placement.columns if frame.columns and not kept[1] else 1
    if columns > 1 or (rows > 1 and kept[1]):
        raise NotImplementedError(f"{item.tile.name}: a reduction across {rows * columns} warps")
    if rows == 1:
        return
    assert item.op is not None
    memory = f"(({C_TYPES[kind]}*)(smem + {scope.scratch(8 * rows)}))"
    yield "tc_syncthreads();"
    yield f"if (lane == 0) {memory}[warp_m] = total;"
    yield "tc_syncthreads();"
    yield f"total = {memory}[0];"
    other = _function(item.op, ("total", f"{memory}[other]"), kind)
    yield f"for (int other = 1; other < {rows}; other++) total = {other};"


def _function(op: Reducer, args: Sequence[str], kind: DType) -> str:
    return bare(FUNCTIONS[_COMBINED[op]](list(args), kind))


def _shuffled(name: str, mask: int, kind: DType) -> str:
    if kind is F32:
        return f"tc_shfl_xor_f32({name}, {mask})"
    return f"tcs_other({name}, {mask})"


def _neutral(op: Reducer, kind: DType) -> str | int:
    """What changes nothing: of integers the end of their range."""
    if kind.integral and kind is not BOOL and op in (MAX, MIN):
        return integer_range(kind)[0 if op is MAX else 1]
    return _NEUTRAL[op]


def operand(scope: Scope, item: Let) -> Iterator[str]:
    """A first operand made of accumulators, register by register: word `word` of step s holds
    registers of column blocks 2 s and 2 s + 1."""
    tile = item.tile
    assert isinstance(tile.layout, Operand)
    if tile.layout.which != "A" or tile.dtype not in PACKED:
        raise NotImplementedError(f"{tile.name}: an operand made in registers: {tile.layout}")
    steps, count, _ = dimensions(tile, scope.placement)
    name, new = scope.variable(tile, None)
    sizes = dict(zip(tile.axes, tile.sizes, strict=True))
    own = Blocks(count, 2 * steps)
    lanes = positions(tile.layout.m, sizes, row(own, scope.placement))
    lanes |= positions(tile.layout.k, sizes, column(own, scope.placement))
    frame = frames(scope, (item.body,), ())
    frame.lanes = lanes
    frame.bind((item.body,))
    axes = {axis for read in tensors_in((item.body,)) for axis in free_indices(read)}
    lines = list(scope.place(lanes, (item.body,), axes))
    value = scope.e.value(item.body, F32)
    if tests := scope.inside(axes & lanes.keys()):
        value = f"{' && '.join(tests)} ? {value} : 0.0f"
    scope.leave()
    if new:
        yield f"u32 {name}[{steps}][{count}][4];"
    if not lines and isinstance(item.body, Value):  # registers as they are
        array = scope.variables[item.body.tile]
        pair = ", ".join(
            f"{array}[i][2 * s + word / 2][word % 2 * 2{more}]" for more in ("", " + 1")
        )
        made = f"{name}[s][i][word] = {PACKED[tile.dtype]}({pair});"
        yield f"TCT_FOR(s, {steps}) TCT_FOR(i, {count}) TCT_FOR(word, 4) {made}"
        return
    yield f"TCT_FOR(s, {steps}) TCT_FOR(i, {count}) TCT_FOR(word, 4) {{"
    yield "  const int j = 2 * s + word / 2;"
    yield "  float pair[2];"
    inner = [*lines, f"pair[side] = {bare(value)};"]
    for line in block("TCT_FOR(side, 2)", ["const int reg = word % 2 * 2 + side;", *inner]):
        yield "  " + line
    yield f"  {name}[s][i][word] = {PACKED[tile.dtype]}(pair[0], pair[1]);"
    yield "}"


def to_shared(scope: Scope, item: Let) -> Iterator[str]:
    """A shared tile made of fragments: each warp writes its own elements."""
    frame = frames(scope, (item.body,), ())
    frame.bind((item.body,))
    reading = bool(tensors_in((item.body,)))
    lines = list(scope.place(frame.lanes, (item.body,), item.tile.axes if reading else ()))
    kind, dtype = value_of(item.tile.dtype), item.tile.dtype
    value = scope.e.value(item.body, kind)
    tests = " && ".join(scope.inside(item.tile.axes)) if reading else ""
    own = {axis: frame.lanes[axis] for axis in item.tile.axes}
    scope.leave()
    if dtype in PACKED and frame.pairs(storage(item.tile)[0][-1]):
        value = f"{tests} ? {value} : 0.0f" if tests else bare(value)
        first = {axis: _first(lane) for axis, lane in own.items()}
        target = shared_element(item.tile, scope.region(item.tile), first)
        target = target.replace("(u16*)", "(u32*)")
        loops = frame.loops().replace("TCT_FOR(reg, 4)", "TCT_FOR(half, 2)")
        if not lines and "reg" not in value.replace("[reg]", ""):
            both = [value.replace("[reg]", f"[2 * half{more}]") for more in ("", " + 1")]
            yield from (loops, f"  {target} = {PACKED[dtype]}({', '.join(both)});")
            return
        yield loops + " {"
        yield "  float pair[2];"
        inner = ["const int reg = 2 * half + side;", *lines, f"pair[side] = {value};"]
        yield from ("  " + line for line in block("TCT_FOR(side, 2)", inner))
        yield f"  {target} = {PACKED[dtype]}(pair[0], pair[1]);"
        yield "}"
        return
    target = shared_element(item.tile, scope.region(item.tile), own)
    value = narrowed(value, kind, dtype)
    value = f"{tests} ? {value} : 0" if tests else bare(value)
    yield from block(frame.loops(), [*lines, f"{target} = {value};"])


def _first(lane: Index) -> Index:
    """The lane of the first of two neighbours, where reg = 2 * half."""
    pairs = zip(lane.factors, lane.most, strict=True)
    kept = [(text, n, m) for (text, n), m in pairs if text != "(reg % 2)"]
    factors = tuple(("half" if text == "(reg / 2)" else text, n) for text, n, _ in kept)
    return Index(factors, tuple(most for _, _, most in kept), lane.constant)


def scalar(scope: Scope, item: Let) -> Iterator[str]:
    """A value that every thread holds."""
    name, new = scope.variable(item.tile, item.into)
    for used in values_in((item.body,)):
        scope.e.tiles[used] = scope.variables[used]
    kind = f"const {value_kind(item.tile)} " if new else ""
    yield f"{kind}{name} = {_value(scope, item.body, item.tile)};"
