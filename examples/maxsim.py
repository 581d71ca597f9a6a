"""Late interaction: each query token takes its best document token; documents have lengths."""

import tensorc as tc

q, d, i, j, k = tc.indices("q d i j k")


@tc.op("Q: f16[q, i, k], D: f16[d, j, k], len: i32[d] -> S: f32[q, d], win: i32[q, d, i]")
def maxsim(Q: tc.Tensor, D: tc.Tensor, len: tc.Tensor) -> tuple[tc.Expr, tc.Expr]:
    s = tc.let[q, d, i, j](tc.sum[k](Q[q, i, k] * D[d, j, k]))
    live = j < len[d]
    best = tc.max[j](s[q, d, i, j], where=live)
    return tc.sum[i](best), tc.argmax[j](s[q, d, i, j], where=live)
