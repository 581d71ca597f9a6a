"""Sums of products of two factors, without an array of all products.

Factors have the summed axis first and broadcast over the others, as in `reductions`.
"""

from __future__ import annotations

import math

import numpy as np

from tensorc.ir.rounding import Array


def ascending(a: Array, b: Array) -> Array:
    """sum of a[k] * b[k], k ascending, with one rounding a product and one a sum."""
    shape = np.broadcast_shapes(a.shape[1:], b.shape[1:])
    with np.errstate(all="ignore"):
        total = (
            np.array(np.broadcast_to(a[0] * b[0], shape)) if len(a) else np.zeros(shape, a.dtype)
        )
        product = np.empty(shape, total.dtype)
        for left, right in zip(a[1:], b[1:], strict=True):
            np.multiply(left, right, out=product)
            np.add(total, product, out=total)
    return total


def contract(a: Array, b: Array) -> Array:
    """The same in whatever order the library's matrix product takes; for finite values."""
    rank = a.ndim
    both = [x for x in range(1, rank) if a.shape[x] > 1 and b.shape[x] > 1]
    left = [x for x in range(1, rank) if x not in both and a.shape[x] > 1]
    right = [x for x in range(1, rank) if x not in both and x not in left]
    first = a.transpose(*both, *left, 0, *right).reshape(
        [a.shape[x] for x in both] + [math.prod(a.shape[x] for x in left), len(a)]
    )
    second = b.transpose(*both, 0, *right, *left).reshape(
        [b.shape[x] for x in both] + [len(b), math.prod(b.shape[x] for x in right)]
    )
    made = np.matmul(first, second)
    order = [*both, *left, *right]
    shape = [max(a.shape[x], b.shape[x]) for x in order]
    return made.reshape(shape).transpose([order.index(x) for x in range(1, rank)])
