"""Row tok[b, t] of a table for every token."""

import tensorc as tc

b, t, v, d = tc.indices("b t v d")


@tc.op("E: f16[v, d], tok: i32[b, t] -> y: f16[b, t, d]")
def embedding(E: tc.Tensor, tok: tc.Tensor) -> tc.Expr:
    return E[tok[b, t], d]
