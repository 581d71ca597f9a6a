"""Products of warp groups: wgmma on operands that rings hold, or of registers and rings."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping

from tensorc.codegen.cuda_fragments import dimensions
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_rings import Rings
from tensorc.ir.channel import Perform, Read
from tensorc.ir.tensor import Apply, Value
from tensorc.ir.tile import Let, Tile
from tensorc.machine.arrange import storage

SPAN = 128  # bytes of a panel's rows, the only swizzle of operands here


def product(
    rings: Rings, let: Let, item: Perform, target: str, tiles: Mapping[str, Tile]
) -> Generator[str, None, str]:
    """All wgmma of a product, in one group; returns the accumulators, now in flight. `tiles`:
    whole ones, of which the operands in shared memory are."""
    assert isinstance(let.body, Apply)
    first, second = let.body.args
    assert isinstance(first, Value) and isinstance(second, Value)
    roles = dict(let.by.roles)
    steps = dict(let.by.repeat).get("k", 1)
    columns = math.prod(
        n for a, n in zip(let.tile.axes, let.tile.sizes, strict=True) if a in roles["n"]
    )
    rows = dimensions(let.tile, rings.scope.placement)[0]
    if rows != 1:
        raise NotImplementedError("more than 64 rows of a product in one warp group")
    given = {tile: read for read in item.call.reads for tile in rings.holds.get(read.name, ())}
    kind = str(first.dtype)
    accumulate = "s > 0" if let.onto is None else "1"
    flat = f"(float(&)[{columns // 2}]){target}[0]"
    left, right = tiles[first.tile], tiles[second.tile]
    yield "{"
    low, b, tb = operand(rings, right, roles["n"], roles["k"], given[second.tile])
    names = f"b = {low}"
    if left.space == "register":
        a = f"{rings.scope.variables[first.tile]}[s][0]"
        call = f"tc_wgmma_{kind}_rs<{columns}, {tb}>"
    else:
        low, step, ta = operand(rings, left, roles["m"], roles["k"], given[first.tile])
        names = f"a = {low}, {names}"
        a = f"tct_descriptor(a + {step})"
        call = f"tc_wgmma_{kind}<{columns}, {ta}, {tb}>"
    yield f"  const u32 {names};"
    yield "  tc_wgmma_fence();"
    yield f"  TCT_FOR(s, {steps}) {call}({flat}, {a}, tct_descriptor(b + {b}), {accumulate});"
    yield "  tc_wgmma_commit();"
    yield "}"
    return flat


def operand(
    rings: Rings, tile: Tile, across: tuple[str, ...], along: tuple[str, ...], read: Read
) -> tuple[str, str, int]:
    """The low word of an operand's descriptor, how far it is at step `s`, and 1 if its rows in
    memory lie along k."""
    ring = rings.rings[read.name]
    order, swizzle = storage(tile)
    if swizzle != SPAN or len(order) != 2:
        raise NotImplementedError(f"{tile.name}: a matrix operand in {tile.layout}")
    rows = tile.sizes[tile.axes.index(order[0])]
    slot = rings.slot(read.name, read.at)
    shift = rings.scope.windows.get(across[0], Index.number(0))
    whole = order[-1] in along  # K-major: 64 of k in a panel
    shift = shift * SPAN if whole else shift // 64 * rows * SPAN
    first = f"shared + {shift + ring.offset}"
    more = f" + {slot} * {ring.bytes // 16}" if slot != "0" else ""
    if not whole:
        return f"tct_operand({first}, {rows * SPAN // 16}){more}", f"s * {16 * SPAN // 16}", 1
    count = tile.sizes[tile.axes.index(order[-1])] // 64
    step = "s * 2" if count == 1 else f"s % 4 * 2 + s / 4 * {rows * SPAN // 16}"
    return f"tct_operand({first}, 1){more}", step, 0
