"""Rewrites that the algebra has to discover, each with variants and with a twin to leave alone.

No rule names any of them. `most` bounds the cost of the result relative to the source, each of its
sums contracted in its best order, in the units of `passes/algebra/costs.py` at `sizes`; the twin
has the same shape, but the law does not hold there, so its cost must stay within 2 % of the source.
`every` asks for all rules, those included that the policy `fast` may not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Discovery:
    """One rewrite: a program, its variants, and a twin on which it would be wrong."""

    name: str
    text: str
    sizes: Mapping[str, int]
    most: float
    twin: str
    variants: tuple[str, ...] = ()
    every: bool = False


def _op(signature: str, *lines: str, before: str = "") -> str:
    return before + f"op f({signature}\n" + "".join(f"  {line}\n" for line in lines)


_ATTENTION = "q: f16[m, d], k: f16[n, d], v: f16[n, e]) -> o: f32[m, e]"
_SCORES = "s[m, n] = sum[d](q[m, d] * k[n, d]) / sqrt(|d|)"
_HEADS = dict(m=512, n=512, d=64, e=64, x=512, y=512, u=64, w=64)

_PROJECTED = (
    "x: f16[t, c], wq: f16[c, h, d], wk: f16[c, h, d], wv: f16[c, h, d]) -> o: f16[t, h, d]"
)
_PROJECTIONS = (
    "q: f16[t, h, d] = sum[c](x[t, c] * wq[c, h, d])",
    "k: f16[t, h, d] = sum[c](x[t, c] * wk[c, h, d])",
    "v: f16[t, h, d] = sum[c](x[t, c] * wv[c, h, d])",
    "s[h, t, u=|t|] = sum[d](q[t, h, d] * k[u, h, d]) / sqrt(|d|)",
)

DISCOVERIES: tuple[Discovery, ...] = (
    Discovery(
        "chain reassociation",
        _op("A: f32[i, l], B: f32[l, k], C: f32[k, j]) -> y: f32[i, j]",
            "t[i, k] = sum[l](A[i, l] * B[l, k])", "y[i, j] = sum[k](t[i, k] * C[k, j])"),
        dict(i=512, l=512, k=512, j=4), 0.05,
        _op("A: f32[i, l], B: f32[l, k], C: f32[k, j]) -> y: f32[i, j]",
            "t[i, k] = sum[l](A[i, l] * B[l, k])", "y[i, j] = sum[k](tanh(t[i, k]) * C[k, j])"),
        (
            _op("P: f32[i, l], Q: f32[l, k], R: f32[k, j]) -> z: f32[i, j]",
                "z[i, j] = sum[k](R[k, j] * sum[l](Q[l, k] * P[i, l]))"),
            _op("A: f32[i, l], B: f32[l, k], C: f32[k, j]) -> y: f32[i, j]",
                "t[i, k] = sum[l](0.5 * A[i, l] * B[l, k])",
                "y[i, j] = tanh(sum[k](t[i, k] * C[k, j]) / 30)"),
        ),
    ),
    Discovery(
        "factoring",
        _op("A: f32[i, k], B: f32[k, j], C: f32[k, j]) -> y: f32[i, j]",
            "y[i, j] = sum[k](A[i, k] * B[k, j]) + sum[k](A[i, k] * C[k, j])"),
        dict(i=256, k=256, j=256), 0.55,
        _op("A: f32[i, k], D: f32[i, k], B: f32[k, j], C: f32[k, j]) -> y: f32[i, j]",
            "y[i, j] = sum[k](A[i, k] * B[k, j]) + sum[k](D[i, k] * C[k, j])"),
        (
            _op("A: f32[i, k], B: f32[k, j], C: f32[k, j]) -> y: f32[i, j]",
                "y[i, j] = 0.5 * (sum[l=|k|](C[l, j] * A[i, l]) + sum[k](A[i, k] * B[k, j]))"),
            _op("A: f32[i, k], B: f32[k, j], C: f32[k, j]) -> y: f32[i, j]",
                "y[i, j] = tanh((sum[k](A[i, k] * B[k, j]) + sum[k](A[i, k] * C[k, j])) / 30)"),
        ),
    ),
    Discovery(
        "distributing",
        _op("a: f32[i], b: f32[j]) -> y: f32[i]", "y[i] = sum[j](a[i] + b[j])"),
        dict(i=1024, j=1024, p=1024, r=1024), 0.05,
        _op("a: f32[i], b: f32[j]) -> y: f32[i]", "y[i] = sum[j](max(a[i], b[j]))"),
        (_op("u: f32[p], w: f32[r]) -> y: f32[p]", "y[p] = 3 * sum[r](w[r] + u[p])"),),
        every=True,
    ),
    Discovery(
        "delayed division, folded scale, exp2",
        _op(_ATTENTION, _SCORES, "p: f16[m, n] = softmax[n](s[m, n])",
            "o[m, e] = sum[n](p[m, n] * v[n, e])"),
        _HEADS, 0.99,
        _op("q: f16[m, d], k: f16[n, d], v: f16[n, e], c: f32[m, n]) -> o: f32[m, e]",
            "s[m, n] = sum[d](q[m, d] * k[n, d])",
            "o[m, e] = sum[n](s[m, n] / c[m, n] * v[n, e])"),
        (
            _op("Q: f16[x, u], K: f16[y, u], V: f16[y, w]) -> O: f32[x, w]",
                "s[x, y] = sum[u](K[y, u] * Q[x, u]) * 0.125",
                "p: f16[x, y] = softmax[y](s[x, y] where y <= x)",
                "O[x, w] = sum[y](V[y, w] * p[x, y])"),
            _op(_ATTENTION, _SCORES, "p: f16[m, n] = softmax[n](30 * tanh(s[m, n] / 30))",
                "o[m, e] = sum[n](p[m, n] * v[n, e])"),
        ),
    ),
    Discovery(
        "safe logsumexp",
        _op("x: f32[i, j]) -> y: f32[i]", "y[i] = log(sum[j](exp(x[i, j])))"),
        dict(i=256, j=1024, a=256, b=1024), 0.5,
        _op("x: f32[i, j]) -> y: f32[i]", "y[i] = log(sum[j](tanh(x[i, j])))"),
        (_op("z: f32[a, b], m: bool[b]) -> y: f32[a]",
             "y[a] = 2 * log(sum[b](exp(z[a, b] * 0.5) where m[b]))"),),
        every=True,
    ),
    Discovery(
        "absorbed projection of latents",
        _op("q: f32[h, d], W: f32[h, d, r], C: f32[t, r]) -> s: f32[h, t]",
            "k[h, t, d] = sum[r](W[h, d, r] * C[t, r])", "s[h, t] = sum[d](q[h, d] * k[h, t, d])"),
        dict(h=16, d=128, r=512, t=4096, g=16, e=128), 0.02,
        _op("q: f32[h, d], W: f32[h, d, r], C: f32[t, r]) -> s: f32[h, t]",
            "k[h, t, d] = sum[r](W[h, d, r] * C[t, r])",
            "s[h, t] = sum[d](q[h, d] * tanh(k[h, t, d]))"),
        (_op("C: f32[t, r], q: f32[g, e], U: f32[g, e, r]) -> s: f32[g, t]",
             "c[g, t] = sum[e](sum[r](C[t, r] * U[g, e, r]) * q[g, e]) / sqrt(|e|)",
             "s[g, t] = 30 * tanh(c[g, t] / 30)"),
        ),
    ),
    Discovery(
        "factored scores",
        _op("a: f32[t, h, r], b: f32[t, r, d], c: f32[s, h, p], e: f32[s, p, d]) "
            "-> y: f32[t, s, h]",
            "q[t, h, d] = sum[r](a[t, h, r] * b[t, r, d])",
            "k[s, h, d] = sum[p](c[s, h, p] * e[s, p, d])",
            "y[t, s, h] = sum[d](q[t, h, d] * k[s, h, d])"),
        dict(t=1, s=8192, h=32, d=128, r=6, p=2), 0.35,
        _op("a: f32[t, h, r], b: f32[t, r, d], c: f32[s, h, p], e: f32[s, p, d]) "
            "-> y: f32[t, s, h]",
            "q[t, h, d] = sum[r](a[t, h, r] * b[t, r, d])",
            "k[s, h, d] = sum[p](c[s, h, p] * e[s, p, d])",
            "y[t, s, h] = sum[d](sin(q[t, h, d]) * sin(k[s, h, d]))"),
    ),
    Discovery(
        "permutation folding",
        _op("X: f32[m, k=8], W: f32[k=8, n]) -> y: f32[m, n]",
            "y[m, n] = sum[k](X[m, P[k]] * W[P[k], n])",
            before="const P: i32[k=8] = [2, 0, 3, 1, 7, 6, 5, 4]\n"),
        dict(m=512, n=512, b=512, c=512), 0.9999,
        _op("X: f32[m, k=8], W: f32[k=8, n]) -> y: f32[m, n]",
            "y[m, n] = sum[k](X[m, P[k]] * W[P[k], n])",
            before="const P: i32[k=8] = [2, 0, 3, 3, 7, 6, 5, 4]\n"),
        (_op("V: f32[a=8, b], U: f32[c, a=8]) -> y: f32[c, b]",
             "y[c, b] = 2 * sum[a](V[P[a], b] * U[c, P[a]])",
             before="const P: i32[a=8] = [2, 0, 3, 1, 7, 6, 5, 4]\n"),),
    ),
    Discovery(
        "low-rank chain",
        _op("x: f32[m, k], U: f32[k, r], V: f32[r, n]) -> y: f32[m, n]",
            "W[k, n] = sum[r](U[k, r] * V[r, n])", "y[m, n] = sum[k](x[m, k] * W[k, n])"),
        dict(m=256, k=2048, n=2048, r=64), 0.1,
        _op("x: f32[m, k], U: f32[k, r], V: f32[r, n]) -> y: f32[m, n]",
            "W[k, n] = sum[r](U[k, r] * V[r, n])", "y[m, n] = sum[k](x[m, k] * abs(W[k, n]))"),
        (_op("x: f32[m, k], U: f32[k, r], V: f32[r, n]) -> y: f32[m, n]",
             "y[m, n] = 0.25 * sum[k](sum[r](V[r, n] * U[k, r]) * x[m, k])"),),
    ),
    Discovery(
        "sum through a gather",
        _op("E: f32[v, k], w: f32[k], at: i32[b]) -> y: f32[b]",
            "y[b] = sum[k](E[at[b], k] * w[k])"),
        dict(v=128, k=64, b=65536), 0.3,
        _op("E: f32[v, k], w: f32[b, k], at: i32[b]) -> y: f32[b]",
            "y[b] = sum[k](E[at[b], k] * w[b, k])"),
        (_op("E: f32[v, k], w: f32[k], at: i32[b]) -> y: f32[b]",
             "y[b] = 30 * tanh(sum[k](w[k] * E[at[b], k]) / 30)"),
         _op("E: f32[v, k], at: i32[b]) -> y: f32[b]", "y[b] = 0.5 * sum[k](E[at[b], k])"),),
    ),
    Discovery(
        "common sub-sums",
        _op("A: f32[i, k], B: f32[k, l], C: f32[l, j], D: f32[l, j], E: f32[l, j]) "
            "-> x: f32[i, j], y: f32[i, j], z: f32[i, j]",
            "x[i, j] = sum[k, l](A[i, k] * B[k, l] * C[l, j])",
            "y[i, j] = sum[k, l](A[i, k] * B[k, l] * D[l, j])",
            "z[i, j] = sum[k, l](A[i, k] * B[k, l] * E[l, j])"),
        dict(i=256, k=256, l=256, j=128), 0.9,
        _op("A: f32[i, k], B: f32[k, l], F: f32[k, l], G: f32[k, l], C: f32[l, j]) "
            "-> x: f32[i, j], y: f32[i, j], z: f32[i, j]",
            "x[i, j] = sum[k, l](A[i, k] * B[k, l] * C[l, j])",
            "y[i, j] = sum[k, l](A[i, k] * F[k, l] * abs(C[l, j]))",
            "z[i, j] = sum[k, l](A[i, k] * G[k, l] * sin(C[l, j]))"),
        (_op("A: f32[i, k], B: f32[k, l], C: f32[l, j], D: f32[l, j], E: f32[l, j]) "
             "-> x: f32[i, j], y: f32[i, j], z: f32[i, j]",
             "x[i, j] = sum[k, l](C[l, j] * B[k, l] * A[i, k]) / 2",
             "y[i, j] = sum[k, l](B[k, l] * A[i, k] * D[l, j])",
             "z[i, j] = 30 * tanh(sum[k, l](E[l, j] * B[k, l] * A[i, k]) / 30)"),),
    ),
    Discovery(
        "merging by concatenation",
        _op(_PROJECTED, *_PROJECTIONS, "p: f16[h, t, u=|t|] = tanh(s[h, t, u])",
            "o[t, h, d] = sum[u=|t|](p[h, t, u] * v[u, h, d])"),
        dict(t=4096, c=256, h=4, d=64, m=32, n=8, a=4096, b=512), 0.9999,
        _op("x: f32[t, c], y: f32[t, c], z: f32[t, c], wq: f32[c, m], wk: f32[c, n], "
            "wv: f32[c, n]) -> q: f32[t, m], k: f32[t, n], v: f32[t, n]",
            "q[t, m] = tanh(sum[c](x[t, c] * wq[c, m]))",
            "k[t, n] = exp(sum[c](y[t, c] * wk[c, n]))",
            "v[t, n] = sin(sum[c](z[t, c] * wv[c, n]))"),
        (
            _op("X: f32[a, b], U: f32[b, m], V: f32[b, n], W: f32[b, n]) "
                "-> q: f32[a, m], k: f32[a, n], v: f32[a, n]",
                "q[a, m] = tanh(sum[b](X[a, b] * U[b, m]))",
                "k[a, n] = exp(0.125 * sum[b](V[b, n] * X[a, b]))",
                "v[a, n] = sin(sum[b](W[b, n] * X[a, b]))"),
            _op(_PROJECTED, *_PROJECTIONS, "p: f16[h, t, u=|t|] = softmax[u](s[h, t, u])",
                "o[t, h, d] = sum[u=|t|](p[h, t, u] * v[u, h, d])"),
            _op(_PROJECTED, *_PROJECTIONS,
                "p: f16[h, t, u=|t|] = softmax[u](30 * tanh(s[h, t, u] / 30) where u <= t)",
                "o[t, h, d] = sum[u=|t|](p[h, t, u] * v[u, h, d])"),
        ),
    ),
)  # fmt: skip
