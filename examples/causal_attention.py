"""Attention to the past: query m sees the keys n <= m + |n| - |m|. l = log sum exp of a row.

A function with several outputs returns a tuple.
"""

import tensorc as tc

b, h, m, n, d, e = tc.indices("b h m n d e")


@tc.op(
    "q: f16[b, h, m, d], k: f16[b, h, n, d], v: f16[b, h, n, e]"
    "-> o: f16[b, h, m, e], l: f32[b, h, m]"
)
def causal_attention(q: tc.Tensor, k: tc.Tensor, v: tc.Tensor) -> tuple[tc.Expr, tc.Expr]:
    s = tc.let[b, h, m, n](tc.sum[d](q[b, h, m, d] * k[b, h, n, d]) / tc.sqrt(d.size))
    seen = n <= m + n.size - m.size
    p = tc.let[b, h, m, n](tc.softmax[n](s[b, h, m, n], where=seen), dtype=tc.f16)
    o = tc.sum[n](p[b, h, m, n] * v[b, h, n, e])
    return o, tc.logsumexp[n](s[b, h, m, n], where=seen)
