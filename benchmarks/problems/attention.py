"""Attention forward with sums in registers: the loop over keys of one tile of queries."""

from __future__ import annotations

from benchmarks.problems.roles import (
    ORIGIN,
    flows,
    hopper_roles,
    stays,
    through,
)
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, Ring, Value
from tensorc.machine.costs import (
    Ledger,
    computed,
    copied,
    multiplied,
    register_file,
    shared_memory,
    units,
)
from tensorc.machine.product import Product


def attention_hopper(
    product: Product,
    d: int = 128,
    keys: int = 128,
    parts: int = 2,
    groups: int | None = None,
    rows: int = 64,
) -> LoopProblem:
    """f16, `parts` tiles of `rows` queries; sums in registers. `groups` consumers are on offer."""
    ledger = Ledger(product)
    k, v = copied(ledger, "K", keys * d * 2), copied(ledger, "V", keys * d * 2)
    operations, edges, values = [k, v], list[Dependence](), list[Value]()
    for part in range(parts):
        made = _part_hopper(ledger, part, d, keys, rows, k, v)
        operations += made[0]
        edges += made[1]
        values += made[2]
    return LoopProblem(
        f"attention.d{d}.keys{keys}",
        product.name,
        tuple(operations),
        tuple(edges),
        units(),
        hopper_roles(ledger, parts if groups is None else groups),
        tuple(Ring(n, "shared", keys * d * 2, n, "copy", deepest=4) for n in ("K", "V")),
        tuple(values),
        (shared_memory(ledger, taken=rows * parts * d * 2 + 1024),),
        register_file(ledger),
        figures=ledger.figures(),
        origin=ORIGIN,
    )


def _part_hopper(
    ledger: Ledger, p: int, d: int, keys: int, rows: int, k: Operation, v: Operation
) -> tuple[list[Operation], list[Dependence], list[Value]]:
    """t = q k; r = max; y = exp2; l = sum; P = f16(y); a~ = x a; a = a~ + P v, for part `p`."""
    cells, pairs = rows * keys, rows // 32  # a thread has two rows of every 64
    t = multiplied(ledger, f"t.{p}", cells * d, p, statement="t")
    r = computed(ledger, f"r.{p}", p, statement="r", alu=cells)
    y = computed(ledger, f"y.{p}", p, statement="y", in_place=True, exp=cells, fma=cells)
    low = computed(ledger, f"P.{p}", p, statement="P", in_place=True, convert=cells // 2)
    l_ = computed(ledger, f"l.{p}", p, statement="l", fma=cells)
    scale = computed(ledger, f"x.{p}", p, statement="x", fma=rows * d)
    a = multiplied(ledger, f"a.{p}", cells * d, p, statement="a")
    wide, half = cells // 128, cells // 256
    edges = [
        through(ledger, "K", k, t),
        flows(ledger, t.name, wide, t, r),
        flows(ledger, t.name, wide, t, y),
        stays(f"m.{p}", r, r, 1),
        flows(ledger, r.name, 2 * pairs, r, y),
        flows(ledger, r.name, 2 * pairs, r, scale),
        flows(ledger, y.name, wide, y, l_),
        stays(l_.name, l_, l_, 1),
        flows(ledger, y.name, wide, y, low),
        through(ledger, "V", v, a),
        flows(ledger, low.name, half, low, a),
        stays(a.name, scale, a),
        stays(a.name, a, scale, 1),
    ]
    values = [
        Value(t.name, t.name, wide),
        Value(y.name, y.name, wide),
        Value(r.name, r.name, 2 * pairs),
        Value(low.name, low.name, half),
        Value(f"m.{p}", r.name, pairs, resident=True),
        Value(l_.name, l_.name, pairs, resident=True),
        Value(a.name, a.name, rows * d // 128, resident=True),
    ]
    return [t, r, y, l_, low, scale, a], edges, values
