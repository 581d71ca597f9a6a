"""C_b = A_b B_b for every b: a batch is one more index."""

import tensorc as tc

b, m, n, k = tc.indices("b m n k")


@tc.op("A: f16[b, m, k], B: f16[b, k, n] -> C: f32[b, m, n]")
def batched_gemm(A: tc.Tensor, B: tc.Tensor) -> tc.Expr:
    return tc.sum[k](A[b, m, k] * B[b, k, n])
