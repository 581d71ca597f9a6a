"""y = g (x - mean(x)) / sqrt(var(x) + 1e-5) + b"""

import tensorc as tc

t, i = tc.indices("t i")


@tc.op("x: bf16[t, i], g: f32[i], b: f32[i] -> y: bf16[t, i]")
def layer_norm(x: tc.Tensor, g: tc.Tensor, b: tc.Tensor) -> tc.Expr:
    z = tc.let[t, i](x[t, i] - tc.mean[i](x[t, i]))
    return z[t, i] * tc.rsqrt(tc.mean[i](z[t, i] ** 2) + 1e-5) * g[i] + b[i]
