"""A mixture of experts: token t goes through s experts, pick[t, s], and their results are weighted.

A subscript may be data; the kernel compares it with the extent of its dimension.
"""

import tensorc as tc

t, e, s, k, n = tc.indices("t e s k n")


@tc.op("X: bf16[t, k], W: bf16[e, k, n], pick: i32[t, s], gate: f32[t, s] -> Y: bf16[t, n]")
def grouped_gemm(X: tc.Tensor, W: tc.Tensor, pick: tc.Tensor, gate: tc.Tensor) -> tc.Expr:
    return tc.sum[s](gate[t, s] * tc.sum[k](X[t, k] * W[pick[t, s], k, n]))
