"""Attention forward with sums in tensor memory: the loop over keys of two tiles of queries.

The scores of a tile and, later in the same place, its low-precision weights take a slot of tensor
memory, so the next scores may be written only when the last product has read the weights. `chunks`
divides a tile's keys: the first chunk of weights may be multiplied while the next is computed.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.problems.roles import (
    ORIGIN,
    blackwell_roles,
    flows,
    signalled,
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
    tensor_memory,
    units,
)
from tensorc.machine.product import Product

ROWS = 128


def attention_blackwell(
    product: Product, chunks: int = 1, d: int = 128, keys: int = 128, issuers: int = 0
) -> LoopProblem:
    """f16, two tiles of 128 queries. `issuers` limits the roles that may use the tensor core."""
    ledger = Ledger(product)
    k, v = copied(ledger, "K", keys * d * 2), copied(ledger, "V", keys * d * 2)
    operations, edges, values = [k, v], list[Dependence](), list[Value]()
    for part in range(2):
        made = _part(ledger, part, chunks, d, keys, k, v)
        operations += made[0]
        edges += made[1]
        values += made[2]
    slots = tuple(
        Ring(f"S.{p}", "tensor", ROWS * keys * 4, f"t.{p}", "commit", deepest=1) for p in range(2)
    )
    loads = tuple(Ring(n, "shared", keys * d * 2, n, "copy", deepest=4) for n in ("K", "V"))
    return LoopProblem(
        f"attention.b.d{d}.keys{keys}.chunks{chunks}" + (f".issuers{issuers}" if issuers else ""),
        product.name,
        tuple(operations),
        tuple(edges),
        tuple(replace(u, issuers=issuers) if u.ordered else u for u in units()),
        blackwell_roles(ledger, 3),
        (*loads, *slots),
        tuple(values),
        (
            shared_memory(ledger, taken=2 * ROWS * d * 2 + 1024),
            tensor_memory(ledger, taken=2 * ROWS * d * 4),
        ),
        register_file(ledger),
        figures=ledger.figures(),
        origin=ORIGIN,
    )


def _part(
    ledger: Ledger, p: int, chunks: int, d: int, keys: int, k: Operation, v: Operation
) -> tuple[list[Operation], list[Dependence], list[Value]]:
    """t = q k; s from tensor memory; r = max; y = exp2; P = f16(y); l = sum; a~ = x a; a += P v."""
    cells, wide = ROWS * keys, ROWS * keys // 128
    column = ledger["cost.tensor_load"]
    t = multiplied(ledger, f"t.{p}", cells * d, p, warps=1, statement="t")
    s = computed(ledger, f"s.{p}", p, statement="s", extra=round(keys * column))
    r = computed(ledger, f"r.{p}", p, statement="r", alu=cells)
    l_ = computed(ledger, f"l.{p}", p, statement="l", fma=cells)
    both_ways = ledger["cost.tensor_load"] + ledger["cost.tensor_store"]
    x = computed(ledger, f"x.{p}", p, statement="x", fma=ROWS * d, extra=round(d * both_ways))
    edges = [
        through(ledger, "K", k, t),
        through(ledger, f"S.{p}", t, s),
        stays(f"m.{p}", r, r, 1),
        flows(ledger, r.name, 2, r, x),
        stays(l_.name, l_, l_, 1),
    ]
    operations = [t, s, r, l_, x]
    values = [
        Value(r.name, r.name, 2),
        Value(f"m.{p}", r.name, 1, resident=True),
        Value(l_.name, l_.name, 1, resident=True),
    ]
    for c in range(chunks):
        made = _chunk(ledger, p, c, chunks, d, keys)
        y, low, a = made
        part = wide // chunks
        operations += made
        values += [Value(f"s.{y.name}", s.name, part), Value(y.name, y.name, part)]
        edges += [
            flows(ledger, f"s.{y.name}", part, s, r),
            flows(ledger, f"s.{y.name}", part, s, y),
            flows(ledger, r.name, 2, r, y),
            flows(ledger, y.name, part, y, low),
            flows(ledger, y.name, part, y, l_),
            through(ledger, "V", v, a),
            through(ledger, f"S.{p}", t, a, hold=a.uses[0].cycles),
            signalled(ledger, low, a),
            signalled(ledger, x, a),
            signalled(ledger, a, x, 1),
        ]
    return operations, edges, values


def _chunk(
    ledger: Ledger, p: int, c: int, chunks: int, d: int, keys: int
) -> tuple[Operation, Operation, Operation]:
    """The weights of one chunk of keys: computed, stored in tensor memory, multiplied."""
    cells, name = ROWS * keys // chunks, f"{p}.{c}" if chunks > 1 else f"{p}"
    store = round(ledger["cost.tensor_store"] * keys // 2 // chunks)
    y = computed(ledger, f"y.{name}", p, statement=f"y{c}", in_place=True, exp=cells, fma=cells)
    low = computed(ledger, f"P.{name}", p, statement=f"P{c}", convert=cells // 2, extra=store)
    a = multiplied(ledger, f"a.{name}", cells * d, p, warps=1, statement=f"a{c}")
    return y, low, a
