"""Y = silu(A B + b): a product, a bias and an activation."""

import tensorc as tc

m, n, k = tc.indices("m n k")


@tc.op("A: bf16[m, k], B: bf16[k, n], b: f32[n] -> Y: bf16[m, n]")
def gemm(A: tc.Tensor, B: tc.Tensor, b: tc.Tensor) -> tc.Expr:
    z = tc.let[m, n](tc.sum[k](A[m, k] * B[k, n]) + b[n])
    return z[m, n] * tc.sigmoid(z[m, n])
