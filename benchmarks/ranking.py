"""How well the CPU's ways to tile are ranked: what is chosen against the best of all candidates.

    python -m benchmarks.ranking [NAME ...]

Every candidate of an operator that leads to a text of its own is compiled and called in turn, in
rounds; a candidate's time is the CPU time of its best round. A line says what part of the best
one's speed the first-ranked one has, and that of the tile that no size had a say in. The last line
has the geometric mean over operators and the worst of them; the bars are 0.90 and 0.75.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorc.commands.measure import Measured, candidates, times
from tensorc.commands.run import drawn
from tensorc.compiler import compile_cpu
from tensorc.ir.sizes import bind
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.observe import show
from tensorc.pipeline import run_passes
from tensorc.request import Request, cpu_target
from tensorc.runtime.compiled import Compiled

GEMM = (
    "op gemm(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n  c[m, n] = sum[k](a[m, k] * b[k, n])\n"
)
TURNED = (
    "op gemm(a: f32[m, k], b: f32[n, k]) -> c: f32[m, n]\n  c[m, n] = sum[k](a[m, k] * b[n, k])\n"
)
BATCHED = (
    "op gemm(a: f32[b, m, k], d: f32[b, k, n]) -> c: f32[b, m, n]\n"
    "  c[b, m, n] = sum[k](a[b, m, k] * d[b, k, n])\n"
)
DENSE = (
    "op dense(x: f32[m, k], w: f32[k, n], v: f32[n]) -> y: f32[m, n]\n"
    "  y[m, n] = max(sum[k](x[m, k] * w[k, n]) + v[n], 0)\n"
)
GATED = (
    "op gated(x: f32[m, k], u: f32[k, n], v: f32[k, n], w: f32[n, d]) -> y: f32[m, d]\n"
    "  g[m, n] = sum[k](x[m, k] * u[k, n])\n"
    "  h[m, n] = g[m, n] * sigmoid(g[m, n]) * sum[k](x[m, k] * v[k, n])\n"
    "  y[m, d] = sum[n](h[m, n] * w[n, d])\n"
)
CONV = (
    "op conv(x: f32[c, h, w], f: f32[o, c, r, s]) -> y: f32[o, p=|h| - |r| + 1, q=|w| - |s| + 1]\n"
    "  y[o, p, q] = sum[c, r, s](x[c, p + r, q + s] * f[o, c, r, s])\n"
)
PADDED = (
    "op conv(x: f32[c, h, w], f: f32[o, c, r, s]) -> y: f32[o, p=|h|, q=|w|]\n"
    "  y[o, p, q] = sum[c, r, s](x[c, p + r - 1, q + s - 1] * f[o, c, r, s]\n"
    "      where inside(p + r - 1, |h|) and inside(q + s - 1, |w|))\n"
)
OPERATORS: dict[str, tuple[str, dict[str, int]]] = {
    "product 64": (GEMM, {"m": 64, "n": 64, "k": 64}),
    "product 512": (GEMM, {"m": 512, "n": 512, "k": 512}),
    "product 1000": (GEMM, {"m": 1000, "n": 1000, "k": 1000}),
    "product 1024": (GEMM, {"m": 1024, "n": 1024, "k": 1024}),
    "odd product": (GEMM, {"m": 33, "n": 65, "k": 129}),
    "few rows": (GEMM, {"m": 8, "n": 2048, "k": 1024}),
    "one row": (GEMM, {"m": 1, "n": 2048, "k": 2048}),
    "few columns": (GEMM, {"m": 2048, "n": 8, "k": 512}),
    "long sum": (GEMM, {"m": 16, "n": 16, "k": 8192}),
    "short sum": (GEMM, {"m": 1024, "n": 1024, "k": 16}),
    "layer of a transformer": (GEMM, {"m": 197, "n": 768, "k": 768}),
    "b transposed": (TURNED, {"m": 300, "n": 500, "k": 400}),
    "a batch": (BATCHED, {"b": 64, "m": 50, "n": 64, "k": 64}),
    "a batch of small ones": (BATCHED, {"b": 512, "m": 16, "n": 16, "k": 16}),
    "dense layer": (DENSE, {"m": 128, "n": 512, "k": 512}),
    "gated layer": (GATED, {"m": 64, "k": 256, "n": 512, "d": 256}),
    "convolution": (CONV, {"c": 64, "h": 30, "w": 30, "o": 64, "r": 3, "s": 3}),
    "wide convolution": (CONV, {"c": 32, "h": 58, "w": 58, "o": 64, "r": 3, "s": 3}),
    "pointwise convolution": (CONV, {"c": 64, "h": 32, "w": 32, "o": 64, "r": 1, "s": 1}),
    "padded convolution": (PADDED, {"c": 64, "h": 28, "w": 28, "o": 64, "r": 3, "s": 3}),
}  # fmt: skip


@dataclass(frozen=True)
class Rank:
    """Seconds of the first-ranked candidate, of the tile chosen without sizes, and of the best;
    how many candidates there were."""

    first: float
    fixed: float
    best: float
    count: int


def ranked(name: str) -> tuple[Rank, Measured]:
    """The ranks of one operator, and its best candidate."""
    text, sizes = OPERATORS[name]
    (program,) = read(text)
    request = Request(cpu_target(), sizes, rewrite=False)
    made = list(_compiled(program, request))
    arrays = drawn(program, {}, sizes, seed=0)
    extents = bind(program, {n: a.shape for n, a in arrays.items()}, sizes)
    spent = times([kernel for _, _, kernel in made], arrays, extents)
    found = [Measured(wanted, p, s) for (p, wanted, _), s in zip(made, spent, strict=True)]
    best = min(found, key=lambda item: item.seconds)
    usual = cpu_target()
    fixed = next((f for f in found if _same(f.request, usual.rows, usual.vectors)), found[0])
    return Rank(found[0].seconds, fixed.seconds, best.seconds, len(found)), best


def _same(request: Request, rows: int, vectors: int) -> bool:
    target = request.target
    return (target.rows, target.vectors, target.packed) == (rows, vectors, False)


def _compiled(program: Program, request: Request) -> Iterator[tuple[float, Request, Compiled]]:
    """The candidates with texts of their own, best first by prediction."""
    seen: set[str] = set()
    for seconds, wanted in candidates(program, request):
        text = show(run_passes(program, wanted))
        if text not in seen:
            seen.add(text)
            yield seconds, wanted, compile_cpu(program, wanted)


def main(names: Sequence[str]) -> None:
    """Print the table."""
    os.environ["TENSORC_THREADS"] = "1"
    parts: list[float] = []
    for name in names or OPERATORS:
        rank, best = ranked(name)
        parts.append(rank.best / rank.first)
        tile = best.request.target
        print(
            f"{name:24} {rank.count:3} candidates   first {parts[-1]:.2f} of the best   "
            f"without sizes {rank.best / rank.fixed:.2f}   best {rank.best * 1e6:9.1f} us: "
            f"{tile.rows} x {tile.vectors}{' packed' * tile.packed}",
            flush=True,
        )
    mean = math.exp(sum(map(math.log, parts)) / len(parts))
    print(f"{len(parts)} operators: geometric mean {mean:.3f}, worst {min(parts):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
