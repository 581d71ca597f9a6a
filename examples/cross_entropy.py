"""loss_t = log sum_v exp(z_tv) - z_t,label(t) with the logits z = X W'.

`tc.let` names z, so that it can be read at another place than its own.
"""

import tensorc as tc

t, v, d = tc.indices("t v d")


@tc.op("X: bf16[t, d], W: bf16[v, d], label: i32[t] -> loss: f32[t]")
def cross_entropy(X: tc.Tensor, W: tc.Tensor, label: tc.Tensor) -> tc.Expr:
    z = tc.let[t, v](tc.sum[d](X[t, d] * W[v, d]))
    return tc.logsumexp[v](z[t, v]) - z[t, label[t]]
