"""y = g x / sqrt(mean(x^2) + 1e-6)"""

import tensorc as tc

t, i = tc.indices("t i")


@tc.op("x: bf16[t, i], g: f32[i] -> y: bf16[t, i]")
def rms_norm(x: tc.Tensor, g: tc.Tensor) -> tc.Expr:
    return x[t, i] * tc.rsqrt(tc.mean[i](x[t, i] ** 2) + 1e-6) * g[i]
