"""A convolution with stride 2 and one row of padding: what lies outside is not added."""

import tensorc as tc

n, c, h, w, o, r, s, y, x = tc.indices("n c h w o r s y x")


@tc.op(
    "X: f16[n, c, h, w], K: f16[o, c, r, s]"
    "-> Y: f16[n, o, y=(|h| + 2 - |r|) // 2 + 1, x=(|w| + 2 - |s|) // 2 + 1]"
)
def conv2d(X: tc.Tensor, K: tc.Tensor) -> tc.Expr:
    u, v = 2 * y + r - 1, 2 * x + s - 1
    seen = tc.inside(u, h.size) & tc.inside(v, w.size)
    return tc.sum[c, r, s](X[n, c, u, v] * K[o, c, r, s], where=seen)
