"""Scores capped softly: s -> 30 tanh(s / 30) keeps them within -30 and 30."""

import tensorc as tc

h, m, n, d, e = tc.indices("h m n d e")


def softcap(s: tc.Expr, cap: float) -> tc.Expr:
    """An ordinary Python function is a part of an operator."""
    return cap * tc.tanh(s / cap)


@tc.op("q: bf16[h, m, d], k: bf16[h, n, d], v: bf16[h, n, e] -> o: bf16[h, m, e]")
def softcap_attention(q: tc.Tensor, k: tc.Tensor, v: tc.Tensor) -> tc.Expr:
    score = tc.sum[d](q[h, m, d] * k[h, n, d]) / tc.sqrt(d.size)
    s = tc.let[h, m, n](softcap(score, 30.0))
    p = tc.let[h, m, n](tc.softmax[n](s[h, m, n], where=n <= m), dtype=tc.bf16)
    return tc.sum[n](p[h, m, n] * v[h, n, e])
