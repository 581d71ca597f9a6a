"""A sliding window: query m sees the keys m - w < n <= m; w is fixed when compiling.

Conditions are joined with `&`.
"""

import tensorc as tc

h, m, n, d, e = tc.indices("h m n d e")


@tc.op("q: f16[h, m, d], k: f16[h, n, d], v: f16[h, n, e], w: const i64 -> o: f16[h, m, e]")
def window_attention(q: tc.Tensor, k: tc.Tensor, v: tc.Tensor, w: tc.Tensor) -> tc.Expr:
    s = tc.let[h, m, n](tc.sum[d](q[h, m, d] * k[h, n, d]) / tc.sqrt(d.size))
    seen = (n <= m) & (m < n + w)
    p = tc.let[h, m, n](tc.softmax[n](s[h, m, n], where=seen), dtype=tc.f16)
    return tc.sum[n](p[h, m, n] * v[h, n, e])
