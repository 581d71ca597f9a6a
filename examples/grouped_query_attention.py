"""Grouped queries: |h| / |g| query heads share the keys and values of one head g."""

import tensorc as tc

b, h, g, m, n, d, e = tc.indices("b h g m n d e")


@tc.op("q: bf16[b, h, m, d], k: bf16[b, g, n, d], v: bf16[b, g, n, e] -> o: bf16[b, h, m, e]")
def grouped_query_attention(q: tc.Tensor, k: tc.Tensor, v: tc.Tensor) -> tc.Expr:
    shared = h // (h.size // g.size)
    s = tc.let[b, h, m, n](tc.sum[d](q[b, h, m, d] * k[b, shared, n, d]) / tc.sqrt(d.size))
    seen = n <= m + n.size - m.size
    p = tc.let[b, h, m, n](tc.softmax[n](s[b, h, m, n], where=seen), dtype=tc.bf16)
    return tc.sum[n](p[b, h, m, n] * v[b, shared, n, e])
