"""O = softmax(Q K' / sqrt(d)) V, with the weights rounded once so that both products are f16."""

import tensorc as tc

b, h, m, n, d, e = tc.indices("b h m n d e")


@tc.op("q: f16[b, h, m, d], k: f16[b, h, n, d], v: f16[b, h, n, e] -> o: f16[b, h, m, e]")
def attention(q: tc.Tensor, k: tc.Tensor, v: tc.Tensor) -> tc.Expr:
    s = tc.let[b, h, m, n](tc.sum[d](q[b, h, m, d] * k[b, h, n, d]) / tc.sqrt(d.size))
    p = tc.let[b, h, m, n](tc.softmax[n](s[b, h, m, n]), dtype=tc.f16)
    return tc.sum[n](p[b, h, m, n] * v[b, h, n, e])
