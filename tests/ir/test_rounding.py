"""Casts and stores: language.md section 4, "Store and cast", to the letter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tensorc.ir import dtypes as T
from tensorc.ir.dtypes import DType
from tensorc.ir.rounding import LARGEST, nearest, numpy_dtype, round_exact, round_to

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", T.STORAGE, ids=str)
def test_storage_has_the_declared_width(dtype: DType) -> None:
    assert 8 * numpy_dtype(dtype).itemsize == dtype.bits
    assert round_to([0, 1], dtype).dtype == numpy_dtype(dtype)


def test_weak_types_have_no_storage() -> None:
    with pytest.raises(ValueError, match="real is the type of a literal"):
        numpy_dtype(T.REAL)


@pytest.mark.parametrize(
    ("dtype", "value", "right"),
    [
        (T.F8E5M2, 9.0, 8.0),  # a tie goes to even, not away (BL102)
        (T.F8E5M2, 11.0, 12.0),
        (T.F8E5M2, 61439.0, 57344.0), (T.F8E5M2, 61440.0, INF), (T.F8E5M2, -1e9, -INF),
        (T.F8E4M3, 448.0, 448.0), (T.F8E4M3, 464.0, 448.0), (T.F8E4M3, 465.0, NAN),  # BL104
        (T.F8E4M3, 1000.0, NAN), (T.F8E4M3, -INF, NAN), (T.F8E4M3, 2.0**-10, 0.0),
        (T.F8E4M3, 1.5 * 2.0**-10, 2.0**-9),
        (T.BF16, 1 + 2**-8, 1.0), (T.BF16, 1 + 3 * 2**-8, 1.015625),  # not truncated (BL106)
        (T.BF16, 3.4e38, INF), (T.BF16, 3.39e38, LARGEST[T.BF16]), (T.BF16, 2.0**-134, 0.0),
        (T.BF16, 1 + 2**-8 + 2**-40, 1 + 2**-7),  # by way of f32 it would be 1
        (T.F16, 65519.0, 65504.0), (T.F16, 65520.0, INF), (T.F16, -65520.0, -INF),  # BL090
        (T.F16, 2.0**-25, 0.0), (T.F16, 3 * 2.0**-26, 2.0**-24), (T.F16, 2049.0, 2048.0),
        (T.F16, 1 + 2**-11 + 2**-40, 1 + 2**-10),
        (T.F32, 2.0**-149, 2.0**-149), (T.F32, 2.0**-150, 0.0), (T.F32, 1e39, INF),  # BL108
        (T.F32, 1 + 2**-24, 1.0), (T.F32, 1 + 2**-24 + 2**-50, 1 + 2**-23),
        (T.F64, 1e-310, 1e-310),  # subnormals are kept (BL110)
    ],
    ids=str,
)  # fmt: skip
def test_floats_round_once_to_nearest_even(dtype: DType, value: float, right: float) -> None:
    got = float(round_to(value, dtype))
    assert got == right or (np.isnan(got) and np.isnan(right))
    exact = nearest(Fraction(value), dtype) if abs(value) < INF else right
    assert exact == right or (np.isnan(exact) and np.isnan(right))


@pytest.mark.parametrize("dtype", [T.F16, T.BF16, T.F8E4M3, T.F8E5M2], ids=str)
def test_every_narrow_value_and_tie(dtype: DType) -> None:
    """Each value is its own rounding; midpoints go to the even neighbour, -0 stays -0."""
    bits = np.arange(2**dtype.bits, dtype=np.uint32).astype(f"u{dtype.bits // 8}")
    with np.errstate(invalid="ignore"):
        values = bits.view(numpy_dtype(dtype)).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    assert (round_to(values, dtype).astype(np.float64) == values).all()
    middle = (values[1:] + values[:-1]) / 2
    tied = round_to(middle, dtype)
    assert ((tied.view(f"u{dtype.bits // 8}") & 1) == 0).all()
    up, down = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
    assert (round_to(up, dtype).astype(np.float64) == values[1:]).all()
    assert (round_to(down, dtype).astype(np.float64) == values[:-1]).all()
    assert np.signbit(round_to(-0.0, dtype).astype(np.float64))


def test_float16_is_numpys_on_random_bits() -> None:
    values = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    values = np.concatenate([values, np.random.default_rng(1).standard_normal(100_000) * 1e-5])
    with np.errstate(all="ignore"):
        right = values.astype(np.float16)
    np.testing.assert_array_equal(round_to(values, T.F16), right)


def test_integers_round_to_floats_once() -> None:
    """2**31 + 2**23 + 1 is above the tie of bf16, but float64 and float32 could lose that."""
    value = (1 << 62) + (1 << 54) + 1
    up = float((1 << 62) + (1 << 55))
    for source in (np.int64(value), np.uint64(value), np.array(value, dtype=object)):
        assert float(round_to(source, T.BF16)) == up
    assert float(round_to(np.int64(-value), T.BF16)) == -up
    assert float(round_to(np.uint64(2**64 - 1), T.BF16)) == 2.0**64
    assert float(round_to(np.int64(2**63 - 1), T.F16)) == INF
    assert float(round_to(np.int64(16777217), T.F32)) == 16777216.0
    rng = np.random.default_rng(2)
    many = rng.integers(-(2**63), 2**63, 2000) >> rng.integers(0, 60, 2000)
    for dtype in (T.BF16, T.F16, T.F32, T.F64):
        right = [nearest(Fraction(int(v)), dtype) for v in many]
        assert round_to(many, dtype).astype(np.float64).tolist() == right


@pytest.mark.parametrize(
    ("dtype", "value", "right"),
    [
        (T.I8, 127.9, 127), (T.I8, 128.0, 127), (T.I8, -128.9, -128), (T.I8, -1e30, -128),
        (T.U8, -0.9, 0), (T.U8, -5.0, 0), (T.U8, 255.5, 255), (T.U8, 1e9, 255),
        (T.I32, 2147483647.5, 2**31 - 1), (T.I32, 3e9, 2**31 - 1), (T.I32, -INF, -(2**31)),
        (T.I64, 9.3e18, 2**63 - 1), (T.I64, -9.3e18, -(2**63)), (T.I64, 2.0**62, 2**62),
        (T.U64, 2.0**63, 2**63), (T.U64, INF, 2**64 - 1), (T.U64, -1.0, 0), (T.I64, NAN, 0),
        (T.I16, -2.7, -2), (T.U32, 4294967295.0, 2**32 - 1),
    ],
    ids=str,
)  # fmt: skip
def test_float_to_integer_truncates_and_saturates(dtype: DType, value: float, right: int) -> None:
    assert int(round_to(value, dtype)) == right
    assert int(round_to(np.float32(value), dtype)) == right or dtype.bits >= 32


def test_integers_wrap() -> None:
    assert round_to(np.array([300, -129, 128], "i4"), T.I8).tolist() == [44, 127, -128]
    assert round_to(np.array([-1, 2**32 + 5]), T.U32).tolist() == [2**32 - 1, 5]
    assert round_to(np.array([2**64 - 1], "u8"), T.I64).tolist() == [-1]
    huge = np.array([2**100 + 7, -(2**70) - 1], dtype=object)
    assert round_to(huge, T.I16).tolist() == [7, -1]


def test_bool_and_complex() -> None:
    assert round_to([0.0, -0.0, 0.5, NAN, -3], T.BOOL).tolist() == [False, False, True, True, True]
    assert round_to([True, False], T.F16).tolist() == [1.0, 0.0]
    assert round_to([1 + 2**-30 + 2j], T.COMPLEX64).tolist() == [1 + 2j]
    assert round_to([3.7 - 2j], T.I8).tolist() == [3] and round_to([2j], T.BOOL).tolist() == [True]
    assert round_to([complex(INF, -0.0)], T.COMPLEX64).dtype == np.complex64
    for dtype in (T.COMPLEX64, T.COMPLEX128):  # parts are rounded apart: no NaN beside an infinity
        for right in (complex(1, INF), complex(INF, 2), complex(-0.0, -INF), complex(3, NAN)):
            found = complex(round_to([right], dtype)[0])
            assert str(found) == str(right)


def test_exact_constants() -> None:
    third = Fraction(1, 3)
    assert float(round_exact(third, T.F16)) == 0.333251953125
    assert float(round_exact(Fraction(2) ** 200, T.F32)) == INF
    assert float(round_exact(-(Fraction(2) ** 2000), T.F64)) == -INF
    assert np.isnan(float(round_exact("inf", T.F8E4M3)))
    assert np.signbit(round_exact("-0", T.F32)) and int(round_exact("-0", T.I8)) == 0
    assert int(round_exact(Fraction(2**63), T.U64)) == 2**63
    with pytest.raises(ValueError, match="inf does not fit i32"):
        round_exact("inf", T.I32)
