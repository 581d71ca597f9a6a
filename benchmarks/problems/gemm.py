"""Matrix products: the loop over k of one output tile."""

from __future__ import annotations

from benchmarks.problems.roles import ORIGIN, hopper_roles, through
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, Ring, Value
from tensorc.machine.costs import (
    Ledger,
    copied,
    multiplied,
    register_file,
    shared_memory,
    units,
)
from tensorc.machine.product import Product


def gemm(
    product: Product, m: int = 128, n: int = 256, k: int = 64, deepest: int = 8
) -> LoopProblem:
    """An f16 tile of m by n, k at a time; each 64 rows are one part. Three buffers by default."""
    ledger = Ledger(product)
    parts = m // 64
    a = copied(ledger, "A", m * k * 2)
    b = copied(ledger, "B", n * k * 2)
    products = [multiplied(ledger, f"c.{p}", 64 * n * k, p, statement="c") for p in range(parts)]
    edges: list[Dependence] = []
    for item in products:
        edges += [through(ledger, load.name, load, item) for load in (a, b)]
        edges.append(_summed(ledger, item))
    return LoopProblem(
        f"gemm.{m}x{n}x{k}",
        product.name,
        (a, b, *products),
        tuple(edges),
        units(),
        hopper_roles(ledger, parts),
        (
            Ring("A", "shared", m * k * 2, "A", "copy", deepest=deepest),
            Ring("B", "shared", n * k * 2, "B", "copy", deepest=deepest),
        ),
        tuple(Value(item.name, item.name, n // 2, resident=True) for item in products),
        (shared_memory(ledger, taken=1024),),
        register_file(ledger),
        figures=ledger.figures(),
        origin=ORIGIN,
    )


def _summed(ledger: Ledger, item: Operation) -> Dependence:
    """The next product onto the same sums: the tensor core works in order and forwards them."""
    working = item.latency - ledger.cycles("cost.mma_drain")
    return Dependence(item.name, item.name, 1, working, item.name)
