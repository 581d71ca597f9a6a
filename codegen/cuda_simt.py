"""Statements that the threads of warps do on fragments: element by element, reductions along rows
or columns, and operands made in registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorc.codegen.cuda_fragments import (
    Blocks,
    blocks,
    column,
    dimensions,
    element,
    groups,
    positions,
    row,
)
from tensorc.codegen.cuda_functions import (
    C_TYPES,
    FUNCTIONS,
    bare,
    constant,
    narrowed,
    rounded,
    widened,
)
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_scope import Scope, value_kind
from tensorc.codegen.cuda_shared import element as shared_element
from tensorc.ir.dtypes import BF16, BOOL, F16, F32, DType, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.tensor import Expr, Select, free_indices
from tensorc.ir.tile import Frame, Let, Operand, Tile
from tensorc.ir.walk_tile import tensors_in, values_in

_COMBINED: dict[Reducer, str] = {
    SUM: "add", PROD: "mul", MAX: "max", MIN: "min", ANY: "or", ALL: "and",
}  # fmt: skip
_NEUTRAL: dict[Reducer, str | int] = {SUM: 0, PROD: 1, MAX: "-inf", MIN: "inf", ANY: 0, ALL: 1}
PACKED = {F16: "tc_pack_f16", BF16: "tc_pack_bf16"}


class Frames:
    """The frame that a statement works on: axes of rows and columns with their lanes."""

    def __init__(self, scope: Scope, tiles: Sequence[Tile]) -> None:
        self.scope = scope
        framed = [tile for tile in tiles if isinstance(tile.layout, Frame)]
        found = [groups(tile) for tile in framed]
        self.rows = max((rows for rows, _ in found), key=len, default=())
        self.columns = max((columns for _, columns in found), key=len, default=())
        self.sizes = {a: n for tile in framed for a, n in zip(tile.axes, tile.sizes, strict=True)}
        shape = [blocks(tile, scope.placement) for tile in framed]
        self.blocks = Blocks(
            max((item.rows for item in shape), default=0),
            max((item.columns for item in shape), default=0),
        )
        self.lanes: dict[str, Index] = {}
        if self.rows:
            at = row(self.blocks, scope.placement)
            self.lanes |= positions(self.rows, self.sizes, at)
        if self.columns:
            at = column(self.blocks, scope.placement)
            self.lanes |= positions(self.columns, self.sizes, at)

    def loops(self) -> str:
        """The heads of the loops over all registers of a lane."""
        parts = [f"TCT_FOR(i, {self.blocks.rows})"] if self.rows else []
        parts += [f"TCT_FOR(j, {self.blocks.columns})"] if self.columns else []
        if self.rows and self.columns:
            return " ".join([*parts, "TCT_FOR(reg, 4)"])
        if self.rows:  # reg counts 0, 2
            return " ".join([*parts, "for (int reg = 0; reg < 4; reg += 2)"])
        return " ".join([*parts, "TCT_FOR(reg, 2)"]) if self.columns else ""

    def bind(self, exprs: Sequence[Expr]) -> None:
        """The tiles that expressions read, at the registers of the loops around."""
        for name in values_in(exprs):
            tile = self.scope.tiles[name]
            if tile.space == "shared":
                at = self.scope.region(tile)
                own = {axis: self.lanes[axis] for axis in tile.axes}
                text = widened(shared_element(tile, at, own), tile.dtype)
            else:
                text = element(tile, self.scope.variables[name], self.scope.placement)
            self.scope.e.tiles[name] = text


def frames(scope: Scope, exprs: Sequence[Expr], own: Sequence[Tile]) -> Frames:
    """The frame of a statement with these expressions and results."""
    read = [scope.tiles[name] for name in values_in(exprs)]
    return Frames(scope, [*own, *read])


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
    yield from block(head + frame.loops(), [*lines, f"{target} = {bare(value)};"])


def _guarded(scope: Scope, item: Let, body: Select) -> Iterator[str]:
    """Set the lanes of which the guard does not hold."""
    frame = frames(scope, (body.condition, body.no), (item.tile,))
    frame.bind((body.condition, body.no))
    target = element(item.tile, scope.variables[item.tile.name], scope.placement)
    lines = list(scope.place(frame.lanes, (body.condition, body.no)))
    test = scope.e.functions["not"]([scope.e.value(body.condition, BOOL)], BOOL)
    value = _value(scope, body.no, item.tile)
    scope.leave()
    yield from block(frame.loops(), [*lines, f"if {test} {target} = {value};"])


def reduction(scope: Scope, item: Let) -> Iterator[str]:
    """d = [onto op] op over rows' columns, or columns' rows: in each lane, then in the quad or
    across it."""
    assert item.op is not None
    tile = item.tile
    frame = frames(scope, (item.body,), (tile,))
    rows, columns = set(frame.rows) & set(item.reduced), set(frame.columns) & set(item.reduced)
    if bool(rows) == bool(columns) or (rows or columns) != set(item.reduced):
        raise NotImplementedError(f"{tile.name}: a reduction over {', '.join(item.reduced)}")
    across = scope.placement.rows if rows else scope.placement.columns
    if across > 1:
        raise NotImplementedError(f"{tile.name}: a reduction across {across} warps")
    kind = value_of(tile.dtype)
    name, new = scope.variable(tile, item.into)
    own = blocks(tile, scope.placement)
    if new:
        shape = "".join(f"[{n}]" for n in dimensions(tile, scope.placement))
        yield f"{C_TYPES[kind]} {name}{shape};"
    outer, count = ("i", own.rows) if columns else ("j", own.columns)
    inner = f"TCT_FOR(j, {frame.blocks.columns})" if columns else f"TCT_FOR(i, {frame.blocks.rows})"
    masks = (1, 2) if columns else (4, 8, 16)
    yield f"TCT_FOR({outer}, {count}) {{"
    neutral = constant(_NEUTRAL[item.op], kind)
    yield f"  {C_TYPES[kind]} part[4] = {{{', '.join([neutral] * 4)}}};"
    frame.bind((item.body,))
    lines = list(scope.place(frame.lanes, (item.body,), item.by.exact))
    value = scope.e.value(item.body, kind)
    if tests := scope.inside(item.by.exact):
        value = f"({' && '.join(tests)} ? {value} : {neutral})"
    scope.leave()
    both = _function(item.op, ("part[reg]", value), kind)
    for line in block(f"{inner} TCT_FOR(reg, 4)", [*lines, f"part[reg] = {both};"]):
        yield "  " + line
    first, second = ("2 * side", "2 * side + 1") if columns else ("side", "side + 2")
    yield "  TCT_FOR(side, 2) {"
    joined = _function(item.op, (f"part[{first}]", f"part[{second}]"), kind)
    yield f"    {C_TYPES[kind]} total = {joined};"
    for mask in masks:
        other = _shuffled("total", mask, kind)
        yield f"    total = {_function(item.op, ('total', other), kind)};"
    if item.onto is not None:
        start = f"{scope.variables[item.onto.name]}[{outer}][side]"
        total = _function(item.op, (start, "total"), kind)
    else:
        total = "total"
    yield f"    {name}[{outer}][side] = {rounded(total, kind, tile.dtype)};"
    yield from ("  }", "}")


def _function(op: Reducer, args: Sequence[str], kind: DType) -> str:
    return bare(FUNCTIONS[_COMBINED[op]](list(args), kind))


def _shuffled(name: str, mask: int, kind: DType) -> str:
    if kind is F32:
        return f"tc_shfl_xor_f32({name}, {mask})"
    if kind.bits <= 32:
        return f"({C_TYPES[kind]})tc_shfl_xor((u32){name}, {mask})"
    raise NotImplementedError(f"a reduction of {kind} across lanes")


def operand(scope: Scope, item: Let) -> Iterator[str]:
    """A first operand made of accumulators, register by register: word `word` of step s holds
    registers of column blocks 2 s and 2 s + 1."""
    tile = item.tile
    assert isinstance(tile.layout, Operand)
    if tile.layout.which != "A" or tile.dtype not in PACKED:
        raise NotImplementedError(f"{tile.name}: an operand made in registers: {tile.layout}")
    steps, count, _ = dimensions(tile, scope.placement)
    name, _ = scope.variable(tile, None)
    sizes = dict(zip(tile.axes, tile.sizes, strict=True))
    own = Blocks(count, 2 * steps)
    lanes = positions(tile.layout.m, sizes, row(own, scope.placement))
    lanes |= positions(tile.layout.k, sizes, column(own, scope.placement))
    frame = frames(scope, (item.body,), ())
    frame.lanes = lanes
    frame.bind((item.body,))
    lines = list(scope.place(lanes, (item.body,)))
    value = scope.e.value(item.body, F32)
    scope.leave()
    yield f"u32 {name}[{steps}][{count}][4];"
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
    lines = list(scope.place(frame.lanes, (item.body,), item.tile.axes))
    kind = value_of(item.tile.dtype)
    value = narrowed(scope.e.value(item.body, kind), kind, item.tile.dtype)
    if tensors_in((item.body,)) and (tests := scope.inside(item.tile.axes)):
        value = f"{' && '.join(tests)} ? {value} : 0"
    own = {axis: frame.lanes[axis] for axis in item.tile.axes}
    target = shared_element(item.tile, scope.region(item.tile), own)
    scope.leave()
    yield from block(frame.loops(), [*lines, f"{target} = {bare(value)};"])


def scalar(scope: Scope, item: Let) -> Iterator[str]:
    """A value that every thread holds."""
    name, new = scope.variable(item.tile, item.into)
    for used in values_in((item.body,)):
        scope.e.tiles[used] = scope.variables[used]
    kind = f"const {value_kind(item.tile)} " if new else ""
    yield f"{kind}{name} = {_value(scope, item.body, item.tile)};"
