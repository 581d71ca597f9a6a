"""What programs mean: types, guards and special values of language.md, read from text and run.

Each line of the language's tables that a scalar function's or a reduction's own test cannot show
stands here with the right value; BL numbers are public bug reports that must not be repeated.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.errors import OutOfRange
from tensorc.ir import sizes
from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.interpret_tensor import interpret, last_reads
from tensorc.ir.rounding import round_to
from tensorc.ir.tensor import Apply, Equation, Select
from tensorc.lang import read

Array = npt.NDArray[Any]
NAN, INF = math.nan, math.inf
MAX32, MIN32 = 2**31 - 1, -(2**31)


def run(text: str, *arrays: npt.ArrayLike, rounded: bool = False, **given: int) -> Array:
    """The first output of the program `op p(...)`; arrays in the order of the parameters."""
    (program,) = read(text)
    typed = zip(program.parameters, arrays, strict=True)
    named = {p.tensor.name: _stored(a, p.tensor.dtype.name) for p, a in typed}
    shapes = {name: array.shape for name, array in named.items()}
    const = [p.tensor.name for p in program.parameters if p.const and not p.dims]
    extents = sizes.bind(program, shapes, {**{n: int(named[n]) for n in const}, **given})
    return next(iter(interpret(program, named, extents, rounded).values()))


def _stored(values: npt.ArrayLike, dtype: str) -> Array:
    array = np.asarray(values)
    exact = array.astype(object) if array.dtype.kind in "iu" and "f" not in dtype else array
    return round_to(exact, BY_NAME[dtype])


def one(signature: str, body: str, *arrays: npt.ArrayLike, rounded: bool = False) -> list[Any]:
    """The elements of `y[i] = body`."""
    return run(f"op p({signature}\n  y[i] = {body}\n", *arrays, rounded=rounded).tolist()


@pytest.mark.parametrize(
    ("signature", "body", "arrays", "right"),
    [
        # A read widens: u8 - u8 may be negative, i8 * i8 does not wrap at 8 bits
        ("a: u8[i], b: u8[i]) -> y: i32[i]", "a[i] - b[i]", [[3], [5]], [-2]),
        ("a: i8[i]) -> y: i32[i]", "a[i] * a[i]", [[-128]], [16384]),
        ("a: i8[i]) -> y: i8[i]", "a[i] * a[i]", [[-128, 20]], [0, -112]),  # stores wrap
        ("a: u32[i], b: i32[i]) -> y: i64[i]", "a[i] - b[i]", [[0], [5]], [-5]),
        ("a: u32[i]) -> y: u32[i]", "a[i] - 1", [[0]], [2**32 - 1]),
        ("a: i32[i]) -> y: i32[i]", "a[i] + 1", [[MAX32]], [MIN32]),
        ("a: i32[i]) -> y: i64[i]", "a[i] + i", [[MAX32, MAX32]], [MAX32, MAX32 + 1]),
        ("a: i64[i]) -> y: i64[i]", "a[i] * 2", [[2**62]], [-(2**63)]),
        ("a: u64[i]) -> y: u64[i]", "a[i] // 3", [[2**64 - 1]], [(2**64 - 1) // 3]),
        ("a: i32[i]) -> y: i32[i]", "a[i] << 4", [[2**28, 1]], [0, 16]),
        ("a: i32[i]) -> y: i32[i]", "abs(a[i])", [[MIN32]], [MIN32]),
        ("a: i32[i]) -> y: f64[i]", "f64(a[i]) / 2", [[MAX32]], [MAX32 / 2]),
        # Integers divide as f32; float functions take them as f32
        ("a: i32[i], b: i32[i]) -> y: f32[i]", "a[i] / b[i]", [[1, 1, 0], [4, 0, 0]],
         [0.25, INF, NAN]),
        ("a: i32[i]) -> y: f32[i]", "sqrt(a[i])", [[16]], [4.0]),
        ("a: bool[i]) -> y: f32[i]", "exp(a[i])", [[False]], [1.0]),
        # bool in arithmetic is 0 or 1
        ("a: bool[i], b: bool[i]) -> y: i32[i]", "a[i] + b[i]", [[True], [True]], [2]),
        ("a: bool[i]) -> y: i32[i]", "-a[i]", [[True, False]], [-1, 0]),
        ("a: bool[i]) -> y: i32[i]", "max(a[i], a[i])", [[True]], [1]),
        ("a: bool[i], b: bool[i]) -> y: bool[i]", "~a[i] & b[i] | a[i] ^ b[i]",
         [[0, 0, 1, 1], [0, 1, 0, 1]], [False, True, True, False]),
        ("a: bool[i], b: bool[i]) -> y: bool[i]", "a[i] < b[i]", [[0, 1], [1, 1]], [True, False]),
        # Integer division (BL052 by an array and by a constant, BL054, BL056)
        ("a: i32[i], b: i32) -> y: i32[i]", "a[i] // b", [[7, -7], 3], [2, -3]),
        ("a: i32[i]) -> y: i32[i]", "a[i] // 3", [[7, -7]], [2, -3]),
        ("a: i32[i], b: i32[i]) -> y: i32[i]", "a[i] // b[i] + a[i] % b[i]",
         [[0, 15, -8, MIN32], [0, 4, 0, -1]], [0, 6, -8, MIN32]),
        ("a: i32[i]) -> y: i32[i]", "a[i] // 16", [[-239]], [-15]),  # BL058
        ("a: i32[i=20]) -> y: i32[i]", "i32(i % 20 // 2 * 2 % 4)", [np.zeros(20, int)],
         [i // 2 * 2 % 4 for i in range(20)]),  # BL060
        ("a: f64[i], b: f64[i]) -> y: f64[i]", "a[i] // b[i]",
         [[1.0, 0.5, 6.0, 1.0], [0.1, 0.1, 0.2, 0.0]], [9.0, 4.0, 29.0, INF]),  # BL050
        ("a: f64[i]) -> y: f64[i]", "a[i] // 0.1", [[1.0, 0.5]], [9.0, 4.0]),
        ("a: i32[i], b: i32[i]) -> y: i32[i]", "a[i] ** b[i]", [[2, -1, 1], [-1, -3, -9]],
         [0, -1, 1]),
        # A weak literal is as precise as what it meets
        ("a: f32[i]) -> y: bool[i]", "a[i] == 0.1", [[0.1]], [True]),
        ("a: f64[i]) -> y: bool[i]", "a[i] == 0.1", [[0.1]], [True]),
        ("a: f16[i]) -> y: bool[i]", "a[i] == 0.1", [[0.1]], [False]),
        ("a: f64[i]) -> y: f64[i]", "a[i] * 0.1", [[3.0]], [3.0 * 0.1]),
        ("a: f32[i]) -> y: f64[i]", "f64(1 / 3) + a[i]", [[0.0]], [1 / 3]),
        ("a: i32[i]) -> y: f32[i]", "a[i] + 0.5", [[3]], [3.5]),
        ("a: f64[i]) -> y: f64[i]", "a[i] + sin(pi)", [[0.0]], [0.0]),
        # Casts round there and then; declared stores of f32 values do not show in the meaning
        ("a: f32[i]) -> y: f32[i]", "f16(a[i])", [[1 + 2**-11, 1e6]], [1.0, INF]),
        ("a: f32[i]) -> y: f16[i]", "a[i]", [[1 + 2**-11]], [1 + 2**-11]),
        ("a: f32[i]) -> y: f32[i]", "f8e5m2(a[i])", [[9.0]], [8.0]),  # BL102
        ("a: f32[i]) -> y: f32[i]", "f8e4m3(clamp(a[i], -448, 448))", [[1e9, NAN]], [448.0, NAN]),
        ("a: f32[i]) -> y: i32[i]", "i8(a[i])", [[300.0, -300.0, NAN, -1.9]], [127, -128, 0, -1]),
        ("a: i32[i]) -> y: i32[i]", "i8(a[i])", [[300]], [44]),
        ("a: f32[i]) -> y: bool[i]", "bool(a[i])", [[0.0, -0.0, NAN]], [False, False, True]),
        ("a: i32[i]) -> y: f32[i]", "f32(a[i])", [[16777217]], [16777216.0]),
        ("a: f64[i]) -> y: f32[i]", "f32(a[i])", [[0.1]], [float(np.float32(0.1))]),
        ("a: f32[i]) -> y: i32[i]", "bitcast(i32, a[i])", [[1.0, -0.0]], [0x3F800000, MIN32]),
        ("a: f16[i]) -> y: i32[i]", "bitcast(u16, a[i])", [[1.0]], [0x3C00]),
        ("a: u32[i]) -> y: f32[i]", "bitcast(f32, a[i] << 23)", [[128]], [2.0]),
        # Bits
        ("a: i8[i]) -> y: i32[i]", "popcount(a[i])", [[-1]], [32]),
        ("a: u8[i]) -> y: i32[i]", "popcount(a[i]) + (a[i] >> 4)", [[0xF3]], [6 + 15]),
        ("a: f32[i]) -> y: i32[i]", "exponent(a[i])", [[0.3, 0.0, 2.0**-149]], [-2, MIN32, -149]),
        ("a: f32[i], n: i32[i]) -> y: f32[i]", "ldexp(a[i], n[i])", [[0.75, 0.0], [4, 99]],
         [12.0, 0.0]),
        # Signs and NaN (BL035, BL039, BL072, BL078)
        ("a: f32[i]) -> y: f32[i]", "1 / (a[i] + 0)", [[-0.0]], [INF]),
        ("a: f32[i]) -> y: f32[i]", "1 / (a[i] * 1)", [[-0.0]], [-INF]),
        ("a: f32[i]) -> y: f32[i]", "1 / (a[i] - 0)", [[-0.0]], [-INF]),
        ("a: f32[i]) -> y: f32[i]", "1 / sum[k=1](a[i] * (k + 1))", [[-0.0]], [-INF]),
        ("a: f32[i]) -> y: f32[i]", "max(a[i], 0)", [[NAN, -1.0]], [NAN, 0.0]),
        ("a: f32[i]) -> y: f32[i]", "clamp(a[i], -1, 1)", [[NAN, 5.0]], [NAN, 1.0]),
        ("a: f32[i]) -> y: f32[i]", "select(a[i] > 0, a[i], 0)", [[NAN]], [0.0]),
        ("a: f32[i]) -> y: f32[i]", "log(a[i] ** a[i])", [[-1.5]], [NAN]),  # BL037
        ("a: f64[i]) -> y: f64[i]", "log(exp(a[i])) + sqrt(a[i] * a[i])", [[800.0]], [INF]),
        ("a: f64[i]) -> y: f64[i]", "exp(a[i]) * exp(-a[i])", [[800.0]], [NAN]),  # BL031, BL033
        ("a: f64[i]) -> y: f64[i]", "a[i] * 1e100", [[1e-310]], [1e-310 * 1e100]),  # BL110
        ("a: f32[i]) -> y: f32[i]", "exp2(a[i])", [[-127.0, -149.0]], [2.0**-127, 2.0**-149]),
        ("a: f32[i]) -> y: f32[i]", "5 * tanh(a[i] / 5)", [[1e30, -1e30]], [5.0, -5.0]),  # BL088
        ("a: i32[i=12]) -> y: i32[i]", "a[i % 6 % 4]", [np.arange(12)],
         [i % 6 % 4 for i in range(12)]),  # BL062: divisors that do not nest
        ("a: f32[i]) -> y: f32[i]", "sum[j=2](softmax[j](log(-1.0) + j)) + a[i]", [[0.0]],
         [NAN]),  # BL078
        ("a: i32[i]) -> y: i32[i]", "a[i] ^ a[i]", [[7, -3]], [0, 0]),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)  # fmt: skip
def test_element(signature: str, body: str, arrays: list[Any], right: list[Any]) -> None:
    got = one(signature, body, *arrays)
    np.testing.assert_array_equal(got, right)
    assert isinstance(got[0], float) == isinstance(right[0], float)
    wanted = [isinstance(v, float) and math.copysign(1, v) < 0 for v in right if v == v]
    assert [isinstance(v, float) and math.copysign(1, v) < 0 for v in got if v == v] == wanted


@pytest.mark.parametrize(
    ("signature", "body", "arrays", "right"),
    [
        # Accumulators: i64 for narrow integers and bool, or as written (BL066)
        ("x: i8[n]) -> y: i64", "sum[n](x[n])", [[100, 100, 100]], 300),
        ("x: i8[n]) -> y: i32", "sum[n, i8](x[n])", [[100, 100, 100]], 44),
        ("x: bool[n]) -> y: i64", "sum[n](x[n])", [[True] * 300], 300),
        ("x: u32[n]) -> y: u64", "sum[n](x[n])", [[2**32 - 1] * 2], 2**33 - 2),
        ("x: i32[n]) -> y: i64", "prod[n](x[n])", [[MAX32, 2]], 2 * MAX32),
        ("x: i32[n]) -> y: i32", "sum[n, i32](x[n])", [[MAX32, 1]], MIN32),
        ("x: f32[n]) -> y: f32", "sum[n, f16](x[n])", [[2049.0, 1.0]], 2048.0),
        ("x: f32[n]) -> y: f32", "sum[n, f16](x[n])", [[60000.0, 60000.0]], INF),
        ("x: i32[n]) -> y: f32", "mean[n](x[n])", [[1, 2]], 1.5),
        ("x: f16[n]) -> y: f32", "mean[n](x[n])", [np.ones(70000)], 1.0),  # BL090
        ("x: f16[n]) -> y: f32", "sum[n](x[n])", [np.ones(3000)], 3000.0),  # BL092, BL094
        ("x: bool[n]) -> y: i32", "max[n](x[n])", [[False, True]], 1),
        ("x: i8[n]) -> y: i32", "max[n](x[n] where n > 5)", [[1, 2]], MIN32),
        ("x: i32[n]) -> y: i64", "argmax[n](~x[n])", [[2, 2]], 0),  # BL068
        ("x: f32[n]) -> y: i64", "argmax[n](x[n])", [[3.0, 1.0, 3.0]], 0),  # BL074
        ("x: f32[n]) -> y: i64", "argmin[n](x[n] where n > 0)", [[-5.0, 1.0, 1.0]], 1),
        ("x: f32[n]) -> y: i64", "argmax[n](x[n] where n < 0)", [[3.0]], -1),
        ("x: f32[m, n]) -> y: i64", "argmax[n, m](x[m, n])", [[[0.0, 1.0, 9.0], [2.0, 9.0, 3.0]]],
         1 * 2 + 1),  # row-major in the order written (BL076)
        ("x: f32[m, n]) -> y: i64", "argmax[m, n](x[m, n])", [[[0.0, 1.0, 9.0], [2.0, 9.0, 3.0]]],
         2),
        ("x: f32[n]) -> y: f32", "sum[n](x[n] where n > 7)", [[1.0]], 0.0),
        ("x: f32[n]) -> y: f32", "mean[n](x[n] where n > 7)", [[1.0]], NAN),
        ("x: f32[n]) -> y: f32", "mean[n](x[n] where n < 2)", [[1.0, 2.0, NAN]], 1.5),
        ("x: f32[n]) -> y: f32", "max[n](x[n] where n > 7)", [[1.0]], -INF),
        ("x: f32[n]) -> y: f32", "logsumexp[n](x[n] where n > 7)", [[1.0]], -INF),  # BL082
        ("x: f32[n]) -> y: f32", "logsumexp[n](x[n])", [[1000.0, 1000.0]], 1000 + math.log(2)),
        ("x: bool[n]) -> y: bool", "all[n](x[n] where n < 0)", [[False]], True),
        ("x: f32[n]) -> y: f32", "prod[n](x[n])", [[2.0, 3.0]], 6.0),
        ("x: f32[n]) -> y: f32", "sum[n, m=3](x[n] * m)", [[1.0, 2.0]], 9.0),
        ("x: f32[n]) -> y: f32", "sum[n](max[n](x[n]) * x[n])", [[1.0, 2.0]], 6.0),  # inner hides
        ("x: f32[n]) -> y: f32", "sum[n](softmax[n](x[n]) * n)", [[0.0, 0.0]], 0.5),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)  # fmt: skip
def test_reduction(signature: str, body: str, arrays: list[Any], right: Any) -> None:
    got = run(f"op p({signature}\n  y = {body}\n", *arrays)
    np.testing.assert_allclose(got, right, rtol=1e-15)
    assert (got.dtype.kind == "f") == isinstance(right, float) and got.shape == ()


def test_positions_have_no_width() -> None:
    """Subscripts and comparisons of positions never wrap."""
    far = "x[i * 4611686018427387904 // 4611686018427387904]"
    assert one("x: f32[i]) -> y: f32[i]", f"{far} * 2", [1.0, 2.0, 3.0]) == [2.0, 4.0, 6.0]
    test = "select(i * 4611686018427387904 >= 0, 1.0, x[i])"
    assert one("x: f32[i]) -> y: f32[i]", test, [5.0, 5.0, 5.0]) == [1.0, 1.0, 1.0]


def test_guards_keep_reads_inside_and_hide_values() -> None:
    x = [1.0, NAN, INF]
    assert one("x: f32[i]) -> y: f32[i]", "select(i < 1, x[i], 0)", x) == [1.0, 0.0, 0.0]
    assert one("x: f32[i]) -> y: f32[i]", "select(i > 0, x[max(i - 1, 0)], 7)", x)[:2] == [7.0, 1.0]
    text = "op p(x: f32[n]) -> y: f32\n  y = sum[i=9](x[i + 0] where i < 1 and i < |n|)\n"
    assert float(run(text, x)) == 1.0
    text = "op p(x: f32[n], t: i32[i]) -> y: bool[i]\n"
    text += "  y[i] = inside(t[i], |n|) and x[t[i]] > 0\n"
    assert run(text, x, [0, 3, -1, 2]).tolist() == [True, False, False, True]
    text = text.replace("inside(t[i], |n|) and", "not inside(t[i], |n|) or")
    assert run(text, x, [0, 3, -1, 1]).tolist() == [True, True, True, False]


def test_empty_domains_evaluate_nothing() -> None:
    text = "op p(x: f32[n], t: i32[i]) -> y: f32[i]\n  y[i] = x[t[i]]\n"
    assert run(text, np.ones(0), np.ones(0, int)).shape == (0,)
    assert run(text, np.ones(3), np.ones(0, int)).shape == (0,)
    with pytest.raises(OutOfRange, match=r"t\[0\] = 0, x has 0 rows \(nothing"):
        run(text, np.ones(0), [0])
    text = "op p(x: f32[n], t: i32, z: f32[k]) -> y: f32\n  y = sum[k](x[t] * z[k])\n"
    assert float(run(text, np.ones(3), 7, np.ones(0))) == 0.0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x[t[i], 1 + j]", r"t\[1\] = 9, x has 4 rows \(0\.\.3\)"),
        ("x[t[i] - 8, j + t[i] * 0]", r"x's subscript 0 at i = 0 = -6, x has 4 rows"),
        ("x[j + 0, t[i] + j]", r"x's subscript 1 at i = 0, j = 1 = 3, x has 3 along dimension 1"),
        (
            "sum[k=2](x[t[i] * k, j + 0] where k > 0 or t[i] > 2)",
            r"x's subscript 0 at i = 1, k = 1 = 9",
        ),
        ("x[u[t[i] - 2, j], j + 0]", r"u's subscript 0 at i = 1 = 7, u has 2 rows"),
        ("x[u[i, j], j + 0]", r"u\[1, 1\] = 7, x has 4 rows"),
        ("select(t[i] > 5, x[argmax[k=5](k), j + 0], 0)", r"x's subscript 0 = 4, x has 4 rows"),
    ],
)
def test_out_of_range_data(body: str, message: str) -> None:
    text = f"op p(x: f32[m, n], t: i32[i], u: i32[i, j=2]) -> y: f32[i, j]\n  y[i, j] = {body}\n"
    with pytest.raises(OutOfRange, match=f"TC-R704.*{message}"):
        run(text, np.ones((4, 3)), [2, 9], [[0, 1], [2, 7]])


def test_softmax_of_masked_rows() -> None:
    """Rows above a bottom-right causal mask are zero, their logsumexp -inf (BL080-BL086)."""
    text = """op p(s: f32[m, n], v: f32[n]) -> o: f32[m]
  p[m, n] = softmax[n](s[m, n] where n <= m + |n| - |m|)
  o[m] = sum[n](p[m, n] * v[n])
"""
    scores = np.full((4, 2), -INF)
    scores[2:] = [[0.0, NAN], [0.0, 0.0]]
    assert run(text, scores, [1.0, 3.0]).tolist() == [0.0, 0.0, 1.0, 2.0]


def test_layer_norm_of_large_rows_is_finite() -> None:
    """The meaning does not overflow where f32 statistics would (BL096)."""
    text = """op p(x: f32[i]) -> y: f32[i]
  u = mean[i](x[i])
  y[i] = (x[i] - u) * rsqrt(mean[i]((x[i] - u) ** 2) + 1e-5)
"""
    got = run(text, np.array([8.5e37, 8.6e37, 8.4e37]))
    np.testing.assert_allclose(got, [0, math.sqrt(1.5), -math.sqrt(1.5)], atol=1e-5)


def test_products_are_not_reduced_in_precision() -> None:
    """No 10-bit inputs behind the user's back (BL098)."""
    a = np.array([[1.1111111, 2.2222222], [3.3333333, 4.4444444]])
    text = (
        "op p(a: f32[m, k], b: f32[n, k]) -> y: f32[m, n]\n  y[m, n] = sum[k](a[m, k] * b[n, k])\n"
    )
    for rounded in (False, True):
        assert abs(float(run(text, a, a, rounded=rounded)[0, 0]) - 6.1728387) < 1e-6


def test_twin_rounds_where_the_contract_does() -> None:
    third = np.float32(1 / 3)
    got = run("op p(x: f32[i]) -> y: f32[i]\n  y[i] = x[i] * x[i] + 1\n", [third], rounded=True)
    assert got.dtype == np.float32 and got[0] == third * third + np.float32(1)
    text = "op p(x: f32[i]) -> y: f16[i]\n  t: f16[i] = x[i]\n  y[i] = t[i] + t[i] * 0.001\n"
    half = np.float32(np.float16(third))
    assert run(text, [third], rounded=True)[0] == np.float16(half + half * np.float32(0.001))
    assert run(text, [third])[0] == float(third) + float(third) * 0.001
    ones = "op p(x: f32[n]) -> y: f32\n  y = sum[n](x[n])\n"
    assert float(run(ones, [2.0**24, 1, 1, 1, 1], rounded=True)) == 2.0**24  # ascending
    bf16 = "op p(x: bf16[i]) -> y: bf16[i]\n  y[i] = exp(x[i])\n"  # BL112: exp in f32, then round
    got = run(bf16, [1.0], rounded=True).astype(float)
    assert got[0] == 2.71875
    mean = "op p(x: f32[n]) -> y: f32\n  y = mean[n, bf16](x[n])\n"  # BL100
    assert float(run(mean, np.ones(300), rounded=True)) == 0.8515625  # bf16(256 / 300)


def test_shared_expressions_are_computed_once() -> None:
    """Four hundred doublings inside selects: no copy for a guard, and no recursion."""
    (program,) = read("op p(x: f32[i]) -> y: f32[i]\n  y[i] = x[i]\n")
    (equation,) = program.equations
    source = body = equation.body
    for _ in range(400):
        more, less = (Apply(FUNCTIONS[name], (body, source)) for name in ("add", "sub"))
        body = Select(Apply(FUNCTIONS["gt"], (body, source)), less, more)
    deep = Equation(equation.tensor, equation.indices, body)
    arrays = {"x": np.array([1.5], np.float32)}
    got = interpret(dataclasses.replace(program, equations=(deep,)), arrays, {"i": 1})
    assert got["y"].tolist() == [1.5]


def test_f64_programs_have_a_wider_reference() -> None:
    """In long double, where the machine has one, the reference of f64 is not a float64 sum."""
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        pytest.skip("long double is float64 here")
    text = "op p(x: f64[n]) -> y: f64\n  y = sum[n](x[n] * (1 / 3)) + exp(1)\n"
    (program,) = read(text)
    x = np.random.default_rng(0).standard_normal(1000)
    got = interpret(program, {"x": x}, {"n": 1000}, extended=True)["y"]
    third, euler = Fraction(1, 3), Fraction(27182818284590452353602874713526625, 10**34)
    right = sum((Fraction(v) for v in x.tolist()), Fraction(0)) * third + euler
    high = Fraction(float(got)) + Fraction(float(got - float(got)))
    assert got.dtype == np.longdouble and abs(high - right) < Fraction(1, 2**58)
    plain = interpret(program, {"x": x}, {"n": 1000})["y"]
    assert plain.dtype == np.float64 and abs(float(plain) - float(right)) < 1e-13
    narrow = "op p(x: f64[i]) -> y: f64[i]\n  y[i] = bf16(x[i] + 2.0 ** -60)\n"
    (program,) = read(narrow)
    arrays = {"x": np.array([1 + 2.0**-8])}  # a tie that 2 ** -60 breaks
    assert interpret(program, arrays, {"i": 1}, extended=True)["y"][0] == 1 + 2.0**-7
    single = "op p(x: f32[i]) -> y: f32[i]\n  y[i] = exp(x[i])\n"
    (program,) = read(single)
    assert interpret(program, {"x": np.ones(1, "f4")}, {"i": 1}, extended=True)["y"].dtype == float


def test_tables_hold_their_type() -> None:
    text = """const T: f16[2, 2] = [[1, 0.1], [2.5, -1]]
op p(x: f32[i]) -> y: f32[i]
  y[i] = sum[j=2](T[i % 2, j] * x[i])
"""
    tenth = float(np.float16(0.1))
    assert run(text, [1.0, 1.0, 2.0]).tolist() == [1 + tenth, 1.5, 2 * (1 + tenth)]


def test_an_equation_frees_what_it_reads_last() -> None:
    text = """op p(x: f32[i]) -> y: f32[i], z: f32
  a[i] = x[i] + 1
  y[i] = a[i] * x[i]
  b[i] = a[i] + y[i]
  z = sum[i](b[i])
"""
    (program,) = read(text)
    assert last_reads(program) == [set(), {"x"}, {"a"}, {"b"}]
    found = interpret(program, {"x": np.array([1, 2], np.float32)}, {"i": 2})
    assert found["y"].tolist() == [2, 6] and float(found["z"]) == 13
