"""A linear map stored as a train of three cores, y = x F G H."""

import tensorc as tc

n, i, j, k, a, b, c, r, s = tc.indices("n i j k a b c r s")


@tc.op(
    "x: f32[n, i, j, k], F: f32[i, a, r], G: f32[r, j, b, s], H: f32[s, k, c]-> y: f32[n, a, b, c]"
)
def tt_linear(x: tc.Tensor, F: tc.Tensor, G: tc.Tensor, H: tc.Tensor) -> tc.Expr:
    return tc.sum[i, j, k, r, s](x[n, i, j, k] * F[i, a, r] * G[r, j, b, s] * H[s, k, c])
