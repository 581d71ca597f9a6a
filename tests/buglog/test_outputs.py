"""BL041: the value of an expression does not depend on which other values are returned."""

from __future__ import annotations

import numpy as np

import tensorc as tc

ALONE = "op f(x: f32[n]) -> y: i64\n  y = argmax[n](x[n] - x[n])\n"
BESIDE = (
    "op f(x: f32[n]) -> d: f32[n], y: i64\n"
    "  d[n] = x[n] - x[n]\n  y = argmax[n](x[n] - x[n])\n"
)  # fmt: skip


def test_an_extra_output_changes_nothing() -> None:
    x = np.array([1, 2, np.inf, np.nan, 3], np.float32)  # inf - inf is the first NaN
    assert tc.loads(ALONE).f(x) == 2
    d, y = tc.loads(BESIDE).f(x)
    assert y == 2
    np.testing.assert_array_equal(d, np.array([0, 0, np.nan, np.nan, 0], np.float32))
