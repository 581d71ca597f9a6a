"""One squaring of a relation, R = P or P P; outputs may have dimensions of one name.

`tc.result` says which index is the first dimension of R, and which the second.
"""

import tensorc as tc

i, j, k = tc.indices("i j k")


@tc.op("P: bool[n, n] -> R: bool[n, n]")
def transitive_closure(P: tc.Tensor) -> tc.Tensor:
    return tc.result[i, j](P[i, j] | tc.any[k](P[i, k] & P[k, j]))
