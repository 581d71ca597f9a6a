"""y_i = exp(x_i) / sum_j exp(x_j), in its stable form without saying so."""

import tensorc as tc

t, i = tc.indices("t i")


@tc.op("x: f32[t, i] -> y: f32[t, i]")
def softmax(x: tc.Tensor) -> tc.Expr:
    return tc.softmax[i](x[t, i])
