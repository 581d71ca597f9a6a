"""Products of warps on the tensor core, and their operands: ldmatrix and mma.sync.

An operand that is loaded for one product only is loaded inside its loops, step by step along k, so
that few registers hold it; the statement that loads it has the same meaning wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.codegen.cuda_fragments import (
    COLUMNS,
    ROWS,
    STEP,
    dimensions,
    named,
    positions,
)
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_scope import Scope
from tensorc.codegen.cuda_shared import place
from tensorc.ir.tensor import Apply, Value
from tensorc.ir.tile import Let, Operand, Tile
from tensorc.machine.arrange import storage

LOADS = ("ldmatrix", "ldmatrix.trans")


def is_load(item: Let) -> bool:
    """Whether a statement loads an operand."""
    return item.by.instruction in LOADS


def is_product(item: Let) -> bool:
    """Whether a statement multiplies on the tensor core."""
    return item.by.instruction.startswith("mma.")


def operands(scope: Scope, item: Let) -> tuple[Tile, Tile]:
    """First and second operand of a product."""
    assert isinstance(item.body, Apply)
    first, second = item.body.args
    assert isinstance(first, Value) and isinstance(second, Value)
    return scope.tiles[first.tile], scope.tiles[second.tile]


def load(scope: Scope, item: Let) -> Iterator[str]:
    """All fragments of an operand, kept in registers."""
    name, _ = scope.variable(item.tile, None)
    steps, count, _ = dimensions(item.tile, scope.placement)
    inner = "i" if _which(item.tile) == "A" else "t"
    yield f"u32 {name}[{steps}][{count}][4];"
    call = _ldmatrix(scope, item, f"{name}[s][{inner}]")
    yield f"TCT_FOR(s, {steps}) TCT_FOR({inner}, {count}) {call}"


def product(scope: Scope, item: Let, loads: dict[str, Let]) -> Iterator[str]:
    """d += a b; `loads`: the operands that are loaded here."""
    first, second = operands(scope, item)
    steps, rows, _ = dimensions(first, scope.placement)
    _, pairs, _ = dimensions(second, scope.placement)
    name, new = scope.variable(item.tile, item.into)
    if new:
        yield f"float {name}[{rows}][{2 * pairs}][4];"
        assert item.onto is None, "U10: a product adds where its sum lies"
    yield f"TCT_FOR(s, {steps}) {{"
    a, b = (scope.names.plain(tile.name) for tile in (first, second))
    if first.name in loads:
        yield f"  u32 {a}[{rows}][4];"
        yield f"  TCT_FOR(i, {rows}) {_ldmatrix(scope, loads[first.name], f'{a}[i]')}"
    else:
        a = f"{scope.variables[first.name]}[s]"
    yield f"  TCT_FOR(t, {pairs}) {{"
    if second.name in loads:
        yield f"    u32 {b}[4];"
        yield f"    {_ldmatrix(scope, loads[second.name], b)}"
    else:
        b = f"{scope.variables[second.name]}[s][t]"
    call = f"tc_mma_m16n8k16_{first.dtype}"
    yield f"    TCT_FOR(i, {rows}) TCT_FOR(j, 2) {{"
    args = f"({name}[i][2 * t + j], {a}[i], {b}[2 * j], {b}[2 * j + 1]);"
    if item.onto is None:
        yield f"      if (s == 0) {call}_zero{args}"
        yield f"      else {call}{args}"
    else:
        yield f"      {call}{args}"
    yield from ("    }", "  }", "}")


def _which(tile: Tile) -> str:
    assert isinstance(tile.layout, Operand)
    return tile.layout.which


def _ldmatrix(scope: Scope, item: Let, into: str) -> str:
    """The load of 16 by 16 elements at step `s`, row block `i` or pair of column blocks `t`."""
    transposed = item.by.instruction.endswith("trans")
    which, placement = _which(item.tile), scope.placement
    steps, count, _ = dimensions(item.tile, placement)
    row, along = named(which, transposed)
    across = placement.rows if which == "A" else placement.columns
    width = ROWS if which == "A" else 2 * COLUMNS
    warp, loop = ("warp_m", "i") if which == "A" else ("warp_n", "t")
    row = row + Index.of(warp, across) * (width * count)
    roles = dict(item.by.roles)
    assert isinstance(item.body, Value)
    source = scope.tiles[item.body.tile]
    call = f"tc_ldmatrix_x4{'_trans' if transposed else ''}"
    steps_on, blocks_on = Index.of("s", steps) * STEP, Index.of(loop, count) * width
    whole = _lanes(source, roles, row + blocks_on, along + steps_on)
    outer, inner = (steps_on, blocks_on) if transposed else (blocks_on, steps_on)
    region = scope.region(source)
    first = _lanes(source, roles, row, along)
    far = _far(source, first, outer, inner)
    if far is None:
        return f"{call}({into}, shared + {region} + {place(source, whole)});"
    name = scope.names.derived("at", item.tile.name)
    start = _plus(scope.start(source), place(source, first))
    scope.heads[name] = f"const u32 {name} = shared + {start};"
    slot = "slot + " if region.startswith("slot") else ""
    bits, rest = far
    where = f"({slot}{name} ^ {bits})" if bits else f"{slot}{name}"
    return f"{call}({into}, {_plus(where, rest)});"


def _plus(*terms: str) -> str:
    return " + ".join(term for term in terms if term not in ("", "0"))


def _lanes(
    source: Tile, roles: dict[str, tuple[str, ...]], row: Index, along: Index
) -> dict[str, Index]:
    sizes = dict(zip(source.axes, source.sizes, strict=True))
    return positions(roles["m"], sizes, row) | positions(roles["k"], sizes, along)


def _far(
    source: Tile, first: dict[str, Index], outer: Index, inner: Index
) -> tuple[str, str] | None:
    """How far the elements at `outer` rows and `inner` columns on lie from the first ones: bits to
    exchange and bytes to add. In a panel the pieces of 16 bytes are numbered by exclusive-or, which
    is a sum where no bit is in both: `inner` counts from a multiple of its own range.

    None: the tile has more axes, or its rows are not cut so evenly.
    """
    order, span = storage(source)
    if len(order) != 2 or not span:
        return None
    rows = source.sizes[source.axes.index(order[0])]
    item = source.dtype.bits // 8
    start, moved = first[order[1]] * item, inner * item
    reach = moved.top + 32
    pairs = zip(start.factors, start.most, strict=True)
    small = start.constant + sum(n * most for (_, n), most in pairs if n % reach)
    if reach & (reach - 1) or small >= 32:
        return None
    here, panels = moved % span, moved // span
    away = _plus(*(str(x) for x in (outer * span, panels * (rows * span))))
    return ("" if str(here) == "0" else str(here)), away
