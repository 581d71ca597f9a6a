"""Reductions: the table of language.md section 5, each cell with the right value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tensorc.ir import dtypes as T
from tensorc.ir.functions import REDUCERS
from tensorc.ir.reductions import TABLE, reduce
from tensorc.ir.rounding import numpy_dtype

NAN, INF = math.nan, math.inf
F64, F32, I32, I64, U32 = "f8", "f4", "i4", "i8", "u4"
NONE: list[Any] = []


def test_table_has_every_reducer() -> None:
    assert set(TABLE) == set(REDUCERS)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(
    ("name", "dtype", "body", "right"),
    [
        # Empty
        ("sum", F64, NONE, 0.0), ("prod", F64, NONE, 1.0), ("sum", I64, NONE, 0),
        ("max", F64, NONE, -INF), ("min", F64, NONE, INF), ("max", I32, NONE, -(2**31)),
        ("min", I32, NONE, 2**31 - 1), ("max", U32, NONE, 0), ("min", U32, NONE, 2**32 - 1),
        ("any", "?", NONE, False), ("all", "?", NONE, True), ("mean", F64, NONE, NAN),
        ("argmax", F64, NONE, -1), ("argmin", I32, NONE, -1), ("logsumexp", F64, NONE, -INF),
        # NaN and infinities (BL070, BL072)
        ("max", F64, [1.0, NAN, 2.0], NAN), ("max", F64, [NAN, 1.0], NAN),
        ("min", F64, [1.0, NAN], NAN), ("sum", F64, [INF, -INF], NAN),
        ("max", F64, [-0.0, 0.0, -0.0], 0.0), ("max", F64, [-0.0, -0.0], -0.0),
        ("min", F64, [0.0, -0.0, 0.0], -0.0), ("min", F64, [0.0, 0.0], 0.0),
        ("max", F64, [-INF, -INF], -INF), ("mean", F64, [1.0, 2.0, 6.0], 3.0),
        ("sum", F64, [-0.0, -0.0], -0.0), ("sum", F64, [-0.0, 0.0], 0.0),  # BL039
        ("prod", F64, [2.0, 0.0, INF], NAN),
        # First extreme, first NaN (BL074)
        ("argmax", F64, [3.0, 1.0, 3.0], 0), ("argmin", F64, [3.0, 1.0, 3.0], 1),
        ("argmax", F64, [1.0, NAN, 5.0, NAN], 1), ("argmin", F64, [1.0, NAN, -5.0], 1),
        ("argmax", F64, [-INF, -INF], 0), ("argmax", I32, [-3, -3], 0),  # BL068: ~[2, 2]
        ("argmin", I32, [-(2**31), 5], 0), ("argmax", F64, [-0.0, 0.0], 0),
        # logsumexp
        ("logsumexp", F64, [0.0, 0.0], math.log(2)), ("logsumexp", F64, [1e308, 1e308], 1e308),
        ("logsumexp", F64, [-INF, -INF], -INF), ("logsumexp", F64, [INF, 1.0], INF),
        ("logsumexp", F64, [INF, -INF], INF), ("logsumexp", F64, [INF, NAN], NAN),
        ("logsumexp", F64, [-INF, 1.0], 1.0), ("logsumexp", F64, [-1e5], -1e5),
        # Integers wrap in the accumulator, bools count (BL066)
        ("sum", "i1", [100, 100, 100], 44), ("sum", I64, [100, 100, 100], 300),
        ("sum", I64, [1, 1, 1], 3), ("prod", I32, [65536, 65536], 0),
        ("any", "?", [0, 1], True), ("all", "?", [0, 1], False), ("max", I32, [-5, -7], -5),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)  # fmt: skip
def test_value(name: str, dtype: str, body: list[float], right: float, ordered: bool) -> None:
    """The value of a column, and of the same column among unselected elements."""
    column = np.array(body, dtype=dtype).reshape(-1, 1)
    got = reduce(name, column, None, ordered)
    _same(got, right)
    junk = np.array({"f": [NAN, INF, -INF], "b": [True, False]}.get(column.dtype.kind, [7, 77]))
    junk = junk.astype(dtype).reshape(-1, 1)
    every = np.concatenate([column, junk])
    chosen = np.arange(len(every)).reshape(-1, 1) < len(column)
    _same(reduce(name, every, chosen, ordered), right)


def _same(got: Any, right: float) -> None:
    assert got.shape == (1,)
    value = got[0]
    if isinstance(right, float) and math.isnan(right):
        assert np.isnan(value)
    else:
        assert value == right or math.isclose(value, right, rel_tol=1e-15)
        assert not isinstance(right, float) or np.signbit(value) == np.signbit(right)


def test_softmax() -> None:
    rows = np.array(
        [[0.0, 0.0, 5.0], [-INF, 0.0, 1.0], [INF, 0.0, 1.0], [NAN, 0.0, 1.0], [-INF] * 3]
    )
    got = reduce("softmax", rows.T, None, False).T
    np.testing.assert_allclose(got[0], np.exp([-5, -5, 0]) / (1 + 2 * math.exp(-5)))
    assert got[1, 0] == 0 and np.isfinite(got[1]).all()
    assert np.isnan(got[2:]).all()  # any +inf, any NaN, all -inf
    far = reduce("softmax", np.array([[1e308], [1e308]]), None, False)
    assert far.tolist() == [[0.5], [0.5]]


def test_softmax_rows_that_select_nothing_are_zero() -> None:
    """Nothing selected gives zeros, and what is masked cannot show (BL080, BL084, BL086)."""
    rows = np.array([[1.0, 2.0, NAN], [NAN, INF, -INF], [-INF, -INF, 3.0]])
    chosen = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 0]], bool)
    got = reduce("softmax", rows.T, chosen.T, False).T
    assert got[1].tolist() == [0, 0, 0] and got[0, 2] == 0 and got[2, 2] == 0
    np.testing.assert_allclose(got[0, :2], [1 / (1 + math.e), math.e / (1 + math.e)])
    assert np.isnan(got[2, :2]).all()
    lse = reduce("logsumexp", rows.T, chosen.T, False)
    assert lse[1] == -INF and lse[2] == -INF and math.isclose(lse[0], 2 + math.log1p(1 / math.e))


def test_ordered_sums_round_at_every_step() -> None:
    """An f16 accumulator stalls at 2048 and overflows through the sum; f32 does neither
    (BL090, BL092)."""
    ones = np.ones((3000, 1), np.float16)
    assert reduce("sum", ones, None, True)[0] == 2048
    assert reduce("sum", ones.astype(np.float32), None, True)[0] == 3000
    many = np.ones((65520, 1), np.float64)
    assert reduce("mean", many, None, False)[0] == 1
    big = np.full((3, 1), 2.0**24, np.float32)
    big[1:] = 1
    assert reduce("sum", big, None, True)[0] == 2.0**24  # 1 is half a unit, twice
    assert reduce("sum", big[::-1], None, True)[0] == 2.0**24 + 2
    bf16 = np.ones((300, 1), numpy_dtype(T.BF16))
    assert float(reduce("sum", bf16, None, True)[0]) == 256


def test_unselected_elements_broadcast() -> None:
    body = np.arange(6.0).reshape(3, 2)
    chosen = np.array([[True], [False], [True]])
    assert reduce("sum", body, chosen, False).tolist() == [4.0, 6.0]
    assert reduce("mean", body, chosen, False).tolist() == [2.0, 3.0]
    assert reduce("argmax", body, chosen, False).tolist() == [2, 2]
    assert reduce("argmax", body, ~chosen, False).tolist() == [1, 1]
