"""Further loops on Hopper with two warp groups of 64 rows or columns each; f16, f32 sums.

Attention backward over queries for one tile of keys; gated linear attention over chunks; a gated
two-layer network over its hidden width; RMS normalisation in front of a matrix product, over k; the
largest similarity of each query to a document, over its words; a product with 4-bit weights.
"""

from __future__ import annotations

from benchmarks.problems.draft import Draft
from tensorc.ir.schedule import LoopProblem
from tensorc.machine.product import Product


def attention_backward(product: Product, m: int = 64, d: int = 128) -> LoopProblem:
    """128 keys, `m` queries a time; dk and dv stay in registers, dq leaves by an added store."""
    draft, cells = Draft(product), 64 * m
    q, o = draft.load("q", m * d * 2), draft.load("do", m * d * 2)
    for p in range(2):
        s = draft.mma(f"s.{p}", cells * d, (q,), cells // 128)
        y = draft.simt(f"y.{p}", (s,), cells // 128, True, exp=cells, fma=cells)
        low = draft.simt(f"P.{p}", (y,), cells // 256, convert=cells // 2)
        dp = draft.mma(f"dp.{p}", cells * d, (o,), cells // 128)
        ds = draft.simt(f"ds.{p}", (y, dp), cells // 256, True, fma=2 * cells, convert=cells // 2)
        draft.stored(f"w.{p}", cells * 2, (ds,))
        dv = draft.mma(f"dv.{p}", cells * d, (low, o))
        dk = draft.mma(f"dk.{p}", cells * d, (ds, q))
        draft.update(f"sum.dv.{p}", 64 * d // 128, dv)
        draft.update(f"sum.dk.{p}", 64 * d // 128, dk)
    for p in range(2):
        dq = draft.mma(f"dq.{p}", m * (d // 2) * 128, ("w.0", "w.1"), m * d // 256)
        out = draft.stored(f"g.{p}", m * d * 2, (dq,))
        draft.sent(f"out.{p}", m * d * 2, out)
    return draft.problem("attention.backward", taken=2 * 128 * d * 2)


def gated_linear_attention(product: Product, c: int = 64, d: int = 128) -> LoopProblem:
    """Chunks of `c` positions; a state of d by d, half of its columns for each group."""
    draft, half = Draft(product), d // 2
    q, k, v, g = (draft.load(name, c * d * 2, 3) for name in "qkvg")
    for p in range(2):
        b = draft.simt(f"b.{p}", (g,), c * half // 128, shared=c * half * 2, fma=c * half)
        draft.stored(f"qg.{p}", c * half * 2, (b, q), exp=c * half, fma=c * half)
        draft.stored(f"kg.{p}", c * half * 2, (b, k), exp=c * half, fma=c * half)
    for p in range(2):
        a = draft.mma(f"a.{p}", c * c * d, ("qg.0", "qg.1", "kg.0", "kg.1"), c * c // 128)
        low = draft.simt(f"A.{p}", (a,), c * c // 256, True, alu=c * c, convert=c * c // 2)
        kept = draft.stored(f"S.{p}", d * half * 2, (), convert=d * half // 2)
        inter = draft.mma(f"o.{p}", c * half * d, ("qg.0", "qg.1", kept), c * half // 128)
        intra = draft.mma(f"oi.{p}", c * half * c, (low, v))
        draft.onto(inter, intra)
        scaled = draft.simt(f"x.{p}", (), fma=d * half)
        grown = draft.mma(f"u.{p}", d * half * c, ("kg.0", "kg.1", v))
        draft.update(f"state.{p}", d * half // 128, kept, scaled, grown)
        out = draft.stored(f"w.{p}", c * half * 2, (inter,), convert=c * half // 2)
        draft.order(intra, out)
        draft.sent(f"out.{p}", c * half * 2, out)
    return draft.problem("gated.linear.attention")


def fused_mlp(product: Product, k: int = 256, h: int = 64, n: int = 256) -> LoopProblem:
    """128 rows; `h` hidden columns a time: two products, a gate, and a product onto the output."""
    draft, cells = Draft(product), 64 * h
    up, gate, down = (
        draft.load("w1", k * h * 2, 3),
        draft.load("w3", k * h * 2, 3),
        draft.load("w2", h * n * 2, 3),
    )
    for p in range(2):
        a = draft.mma(f"a.{p}", cells * k, (up,), cells // 128)
        b = draft.mma(f"b.{p}", cells * k, (gate,), cells // 128)
        y = draft.simt(f"y.{p}", (a, b), cells // 128, True, exp=2 * cells, fma=3 * cells)
        low = draft.simt(f"P.{p}", (y,), cells // 256, True, convert=cells // 2)
        o = draft.mma(f"o.{p}", cells * n, (low, down))
        draft.update(f"sum.{p}", 64 * n // 128, o)
    return draft.problem("fused.mlp", taken=128 * k * 2)


def norm_gemm(product: Product, n: int = 256, k: int = 64) -> LoopProblem:
    """128 rows: a product over k, and the sum of squares of the same rows by the threads."""
    draft = Draft(product)
    a, b = draft.load("A", 128 * k * 2, 6), draft.load("B", n * k * 2, 6)
    for p in range(2):
        squares = draft.simt(f"q.{p}", (a,), shared=64 * k * 2, fma=64 * k)
        c = draft.mma(f"c.{p}", 64 * n * k, (a, b))
        draft.update(f"squares.{p}", 1, squares)
        draft.update(f"sum.{p}", 64 * n // 128, c)
    return draft.problem("norm.gemm")


def max_similarity(product: Product, words: int = 128, d: int = 128) -> LoopProblem:
    """128 queries against `words` words a time: a product and a running maximum."""
    draft, cells = Draft(product), 64 * words
    w = draft.load("W", words * d * 2)
    for p in range(2):
        t = draft.mma(f"t.{p}", cells * d, (w,), cells // 128)
        r = draft.simt(f"r.{p}", (t,), alu=cells)
        draft.update(f"max.{p}", 2, r)
    return draft.problem("max.similarity", taken=128 * d * 2)


def int4_gemm(product: Product, n: int = 128, k: int = 64) -> LoopProblem:
    """128 rows of 4-bit weights, widened in registers, times `n` columns."""
    draft, cells = Draft(product), 64 * k
    w, x = draft.load("W", 128 * k // 2, 6), draft.load("X", n * k * 2, 6)
    for p in range(2):
        raw = draft.simt(f"r.{p}", (w,), cells // 1024, shared=cells // 2)
        wide = draft.simt(f"D.{p}", (raw,), cells // 256, alu=3 * cells // 2, fma=cells // 2)
        c = draft.mma(f"c.{p}", cells * n, (wide, x))
        draft.update(f"sum.{p}", 64 * n // 128, c)
    return draft.problem("int4.gemm")
