"""The tropical product, C_ij = min_k (A_ik + B_kj): one step of all shortest paths."""

import tensorc as tc

i, j, k = tc.indices("i j k")


@tc.op("A: f32[i, k], B: f32[k, j] -> C: f32[i, j]")
def tropical(A: tc.Tensor, B: tc.Tensor) -> tc.Expr:
    return tc.min[k](A[i, k] + B[k, j])
