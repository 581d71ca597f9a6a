"""One decoding step of latent attention: all heads share the latents C and the rotated keys R.

The scale is that of the scores before the latents were absorbed, of 128 + |e| dimensions.
"""

import tensorc as tc

b, h, t, r, e = tc.indices("b h t r e")


@tc.op(
    "q: bf16[b, h, r], p: bf16[b, h, e], C: bf16[b, t, r], R: bf16[b, t, e], len: i32[b]"
    "-> o: bf16[b, h, r]"
)
def mla_decode(q: tc.Tensor, p: tc.Tensor, C: tc.Tensor, R: tc.Tensor, len: tc.Tensor) -> tc.Expr:
    s = tc.let[b, h, t](tc.sum[r](q[b, h, r] * C[b, t, r]) + tc.sum[e](p[b, h, e] * R[b, t, e]))
    scaled = s[b, h, t] / tc.sqrt(128 + e.size)
    w = tc.let[b, h, t](tc.softmax[t](scaled, where=t < len[b]), dtype=tc.bf16)
    return tc.sum[t](w[b, h, t] * C[b, t, r])
