"""Scalar functions: language.md section 4 line by line, with the right value for each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tensorc.ir.elementwise import TABLE, apply, unbounded
from tensorc.ir.functions import FUNCTIONS

NAN, INF = math.nan, math.inf
I32, I64, U32, U64, F64 = "i4", "i8", "u4", "u8", "f8"
MIN32, MAX32 = -(2**31), 2**31 - 1


def same(got: Any, right: Any) -> bool:
    """Equal as values, NaN equal to NaN, -0 different from +0."""
    a, b = np.asarray(got), np.asarray(right, dtype=np.asarray(got).dtype)
    nan = (a != a) & (b != b)
    signed = a.dtype.kind != "f" or bool((nan | (np.signbit(a) == np.signbit(b))).all())
    return signed and bool((nan | (a == b)).all())


def test_table_has_every_function() -> None:
    assert set(TABLE) == set(FUNCTIONS)


@pytest.mark.parametrize(
    ("name", "dtype", "args", "right"),
    [
        # Integer division and remainder: floor, 0 by 0, MIN // -1 wraps
        # (BL052, BL054, BL056, BL058)
        ("floordiv", I32, [[7, -7, 7, -7], [2, 2, -2, -2]], [3, -4, -4, 3]),
        ("mod", I32, [[7, -7, 7, -7], [2, 2, -2, -2]], [1, 1, -1, -1]),
        ("floordiv", I32, [[0, 15, -8, MIN32], [0, 0, 0, -1]], [0, 0, 0, MIN32]),
        ("mod", I32, [[0, 15, -8, MIN32], [0, 0, 0, -1]], [0, 15, -8, 0]),
        ("floordiv", I64, [[-(2**63), -(2**63)], [-1, 1]], [-(2**63), -(2**63)]),
        ("floordiv", U64, [[2**64 - 1, 5], [2, 0]], [2**63 - 1, 0]),
        ("mod", U64, [[2**64 - 1, 5], [2, 0]], [1, 5]),
        ("floordiv", I32, [[110, 110, -239], [55, 3, 16]], [2, 36, -15]),
        ("mod", I32, [[110, 15, -8], [55, 4, 4]], [0, 3, 0]),
        # Float // and %: as Python's divmod; by 0 as IEEE divides (BL050)
        ("floordiv", F64, [[1.0, 0.5, 6.0, -1.0], [0.1, 0.1, 0.2, 0.1]], [9, 4, 29, -10]),
        ("floordiv", F64, [[1.0, -1.0, 0.0, 5.0], [0.0, 0.0, 0.0, INF]], [INF, -INF, NAN, 0.0]),
        ("floordiv", F64, [[-5.0, INF], [INF, 2.0]], [-1.0, NAN]),
        ("mod", F64, [[-1.0, 1.0, 5.0, 1.0], [3.0, -3.0, INF, 0.0]], [2.0, -2.0, 5.0, NAN]),
        # Powers: integer to a negative power truncates to 0, 1 or -1; x ** 0 is 1
        ("pow", I32, [[2, 1, -1, -1, 0, 3], [-1, -5, -3, -4, -1, 4]], [0, 1, -1, 1, 0, 81]),
        ("pow", I32, [[0, 7, 3, 46341], [0, 0, 21, 2]], [1, 1, 3**21 - 2**33, 46341**2 - 2**32]),
        ("pow", U32, [[2, 2, 3], [31, 32, 0]], [2**31, 0, 1]),
        ("pow", F64, [[NAN, INF, 0.0, -2.0, 2.0], [0.0, 0.0, 0.0, 0.5, -1.0]], [1, 1, 1, NAN, 0.5]),
        ("pow", F64, [[0.0, -0.0, 0.0], [-1.0, -1.0, 3.0]], [INF, -INF, 0.0]),
        # Wrapping
        ("add", I32, [[MAX32, MIN32], [1, -1]], [MIN32, MAX32]),
        ("mul", I32, [[65536, MAX32], [65536, 2]], [0, -2]),
        ("sub", U32, [[0, 5], [1, 7]], [2**32 - 1, 2**32 - 2]),
        ("neg", I32, [[MIN32, 5]], [MIN32, -5]), ("abs", I32, [[MIN32, -5]], [MIN32, 5]),
        ("neg", U64, [[1, 0]], [2**64 - 1, 0]),
        # Shifts by >= width give 0 or the sign; >> is arithmetic on signed
        ("shl", I32, [[1, 1, 1, -1, 3], [31, 32, 40, 4, -1]], [MIN32, 0, 0, -16, 0]),
        ("shr", I32, [[-8, -8, 8, 8, -8], [1, 40, 40, 1, -1]], [-4, -1, 0, 4, -1]),
        ("shr", U32, [[2**32 - 1, 2**32 - 1], [31, 32]], [1, 0]),
        ("shl", U64, [[1, 1], [63, 64]], [2**63, 0]),
        ("bitand", I32, [[-1, 12], [10, 10]], [10, 8]), ("bitor", I32, [[8, -4], [1, 1]], [9, -3]),
        ("bitxor", I32, [[-1, 5], [5, 5]], [-6, 0]), ("invert", I32, [[0, -1, 5]], [-1, 0, -6]),
        ("invert", U32, [[0]], [2**32 - 1]),
        # min, max: NaN propagates from either side, +0 > -0 (BL070, BL072)
        ("max", F64, [[NAN, 1.0], [1.0, NAN]], [NAN, NAN]),
        ("max", F64, [[0.0, -0.0, -0.0], [-0.0, 0.0, -0.0]], [0.0, 0.0, -0.0]),
        ("min", F64, [[NAN, 1.0], [1.0, NAN]], [NAN, NAN]),
        ("min", F64, [[0.0, -0.0, 0.0], [-0.0, 0.0, 0.0]], [-0.0, -0.0, 0.0]),
        ("max", I32, [[3, MIN32], [-3, MAX32]], [3, MAX32]),
        ("max", F64, [[1.0], [NAN], [2.0]], [NAN]), ("min", F64, [[3.0], [1.0], [2.0]], [1.0]),
        # Rounding
        ("round", F64, [[0.5, 1.5, 2.5, -0.5, -1.5, NAN]], [0.0, 2.0, 2.0, -0.0, -2.0, NAN]),
        ("floor", F64, [[-0.5, 0.5, -0.0, INF]], [-1.0, 0.0, -0.0, INF]),
        ("ceil", F64, [[-0.5, 0.5]], [-0.0, 1.0]), ("round", I32, [[7, MIN32]], [7, MIN32]),
        ("sign", F64, [[-0.0, 0.0, NAN, -3.0, INF]], [0.0, 0.0, NAN, -1.0, 1.0]),
        ("sign", I32, [[MIN32, 0, 9]], [-1, 0, 1]),
        ("abs", F64, [[-0.0, -INF, NAN]], [0.0, INF, NAN]),
        # Signed zero in sums (BL039)
        ("add", F64, [[-0.0, -0.0], [0.0, -0.0]], [0.0, -0.0]),
        ("sub", F64, [[0.0, -0.0], [-0.0, 0.0]], [0.0, -0.0]),
        ("mul", F64, [[-0.0], [1.0]], [-0.0]), ("neg", F64, [[0.0]], [-0.0]),
        # Functions at their edges
        ("div", F64, [[1.0, -1.0, 0.0, 1.0], [0.0, 0.0, 0.0, -0.0]], [INF, -INF, NAN, -INF]),
        ("sqrt", F64, [[4.0, -1.0, -0.0]], [2.0, NAN, -0.0]),
        ("rsqrt", F64, [[4.0, 0.0, -0.0, INF, -1.0]], [0.5, INF, -INF, 0.0, NAN]),
        ("exp", F64, [[-INF, INF, NAN, -0.0]], [0.0, INF, NAN, 1.0]),
        ("exp2", F64, [[-1074.0, 3.0, -INF]], [5e-324, 8.0, 0.0]),
        ("log", F64, [[0.0, -1.0, INF, 1.0]], [-INF, NAN, INF, 0.0]),
        ("log2", F64, [[8.0, 0.125, -0.0]], [3.0, -3.0, -INF]),
        ("tanh", F64, [[INF, -INF, 1000.0, NAN]], [1.0, -1.0, 1.0, NAN]),  # BL088
        ("sigmoid", F64, [[INF, -INF, 0.0, -800.0, NAN]], [1.0, 0.0, 0.5, 0.0, NAN]),
        ("erf", F64, [[INF, -INF, 0.0, NAN]], [1.0, -1.0, 0.0, NAN]),
        ("expm1", F64, [[1e-20, -INF]], [1e-20, -1.0]),
        ("log1p", F64, [[1e-20, -1.0]], [1e-20, -INF]),
        ("exponent", F64, [[8.0, 0.3, -5.0, 0.0, 5e-324, 1.0]], [3, -2, 2, MIN32, -1074, 0]),
        ("exponent", F64, [[INF, NAN, -0.0]], [MAX32, 0, MIN32]),
        ("popcount", I32, [[-1, 0, 7, MIN32]], [32, 0, 3, 1]),
        ("popcount", U64, [[2**64 - 1]], [64]),
        ("isnan", F64, [[NAN, INF, 0.0]], [True, False, False]), ("isnan", I32, [[0]], [False]),
        ("isinf", F64, [[NAN, -INF, 0.0]], [False, True, False]), ("isinf", I32, [[5]], [False]),
        # Comparison with NaN is false, != true
        ("lt", F64, [[NAN, 1.0], [1.0, 2.0]], [False, True]), ("ge", F64, [[NAN], [NAN]], [False]),
        ("eq", F64, [[NAN, 0.0], [NAN, -0.0]], [False, True]), ("ne", F64, [[NAN], [NAN]], [True]),
        ("le", I32, [[MIN32], [MAX32]], [True]), ("gt", U64, [[2**64 - 1], [0]], [True]),
        ("and", "?", [[1, 1, 0], [1, 0, 1], [1, 1, 1]], [True, False, False]),
        ("or", "?", [[0, 1], [0, 0]], [False, True]), ("not", "?", [[0, 1]], [True, False]),
        ("xor", "?", [[0, 1, 1], [1, 1, 0]], [True, False, True]),
        ("real", F64, [[2.5]], [2.5]), ("imag", F64, [[2.5]], [0.0]), ("conj", F64, [[2.5]], [2.5]),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)  # fmt: skip
def test_value(name: str, dtype: str, args: list[list[float]], right: list[float]) -> None:
    got = apply(name, [np.array(arg, dtype=dtype) for arg in args])
    assert same(got, right), got


def test_result_types() -> None:
    assert apply("exponent", [np.array([2.0])]).dtype == np.int32
    assert apply("popcount", [np.array([2])]).dtype == np.int32
    for name in ("sigmoid", "erf", "exp2", "tanh", "max", "sign", "round", "rsqrt"):
        args = [np.array([0.5], "f4")] * FUNCTIONS[name].least
        assert apply(name, args).dtype == np.float32, name
    for name in ("floordiv", "mod", "pow", "max", "sub", "shl", "shr"):
        assert apply(name, [np.array([3], "u4"), np.array([2], "u4")]).dtype == np.uint32, name


def test_ldexp() -> None:
    power = np.array([3, -1074, 10**9, -(10**9), 5, 0])
    got = apply("ldexp", [np.array([0.75, 1.0, 1.0, 1.0, 0.0, NAN]), power])
    assert same(got, [6.0, 5e-324, INF, 0.0, 0.0, NAN])


def test_division_agrees_with_pythons_for_every_pair_of_small_integers() -> None:
    a, b = np.meshgrid(np.arange(-20, 21, dtype="i4"), np.arange(-20, 21, dtype="i4"))
    quotient, rest = apply("floordiv", [a, b]), apply("mod", [a, b])
    for x, y, q, r in zip(*(v.ravel().tolist() for v in (a, b, quotient, rest)), strict=True):
        assert (q, r) == (divmod(x, y) if y else (0, x))
        assert r == x - y * q


def test_float_division_agrees_with_pythons() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(2000) * 10.0 ** rng.integers(-3, 4, 2000)
    b = np.round(rng.standard_normal(2000), 2)
    b[b == 0] = 0.5
    quotient, rest = apply("floordiv", [a, b]), apply("mod", [a, b])
    for x, y, q, r in zip(a, b, quotient, rest, strict=True):
        assert (q, r) == divmod(float(x), float(y))


def test_integers_without_width_never_wrap() -> None:
    big = np.array([2**62, -(2**62)])
    assert unbounded("add", [big, big, big]).tolist() == [3 * 2**62, -3 * 2**62]
    assert unbounded("mul", [big, big]).tolist() == [2**124, 2**124]
    assert unbounded("neg", [np.array([-(2**63)])]).tolist() == [2**63]
    assert unbounded("floordiv", [np.array([-(2**63)]), np.array([-1])]).tolist() == [2**63]
    assert unbounded("pow", [np.array([3]), np.array([50])]).tolist() == [3**50]
    assert unbounded("shl", [np.array([1]), np.array([100])]).tolist() == [2**100]
    huge = np.array([2**100, 7], dtype=object)
    assert unbounded("mod", [huge, np.array([0, 4])]).tolist() == [2**100, 3]
    assert unbounded("floordiv", [huge, np.array([2**40, 0])]).tolist() == [2**60, 0]
    assert unbounded("lt", [huge, np.array([5, 8])]).tolist() == [False, True]
    assert unbounded("max", [huge, np.array([5, 8])]).tolist() == [2**100, 8]
    small = unbounded("mul", [np.array([3, 4]), np.array([5, 6])])
    assert small.dtype == np.int64 and small.tolist() == [15, 24]


def test_complex_functions() -> None:
    z = np.array([3 + 4j])
    assert apply("abs", [z]).tolist() == [5.0] and apply("conj", [z]).tolist() == [3 - 4j]
    assert apply("real", [z]).tolist() == [3.0] and apply("imag", [z]).tolist() == [4.0]
    assert apply("mul", [z, z]).tolist() == [(3 + 4j) ** 2]
    assert apply("eq", [z, z]).tolist() == [True]
    np.testing.assert_allclose(apply("exp", [1j * np.array([np.pi])]), [-1], atol=1e-15)
