"""Y = z (X W) with two 4-bit weights in a byte; products and sums are exact integers."""

import tensorc as tc

m, n, k = tc.indices("m n k")


@tc.op("X: i8[m, k], W: u8[p=(|k| + 1) // 2, n], z: f32[n] -> Y: f32[m, n]")
def int4_gemm(X: tc.Tensor, W: tc.Tensor, z: tc.Tensor) -> tc.Expr:
    w = tc.let[k, n]((W[k // 2, n] >> 4 * (k % 2) & 15) - 8)
    return z[n] * tc.sum[k, tc.i32](X[m, k] * w[k, n])
