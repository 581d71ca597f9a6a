"""Rotary positions: the pair (d, d + |d| / 2) is turned by the angle t 10000^(-2 d / |d|)."""

import tensorc as tc

t, h, d = tc.indices("t h d")


@tc.op("u: bf16[t, h, d] -> y: bf16[t, h, d]")
def rope(u: tc.Tensor) -> tc.Expr:
    half = d.size // 2
    a = tc.let[t, d](t * 10000.0 ** (-2 * (d % half) / d.size))
    v = tc.let[t, h, d](tc.select(d < half, -1, 1) * u[t, h, (d + half) % d.size])
    return tc.cos(a[t, d]) * u[t, h, d] + tc.sin(a[t, d]) * v[t, h, d]
