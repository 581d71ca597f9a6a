"""A Clebsch-Gordan product: a constant table T couples two features into a third."""

import tensorc as tc

e, c, i, j, k = tc.indices("e c i j k")


@tc.op("T: const f32[i=9, j=9, k=9], x: f32[e, c, i], y: f32[e, c, j] -> z: f32[e, c, k]")
def cg_product(T: tc.Tensor, x: tc.Tensor, y: tc.Tensor) -> tc.Expr:
    return tc.sum[i, j](T[i, j, k] * x[e, c, i] * y[e, c, j])
