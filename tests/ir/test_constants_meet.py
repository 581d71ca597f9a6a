"""Constants beside data: exact until they meet a type, rounded to it once, then like any value.

The same on the interpreter, the CPU and the emulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.ir.interpret_tensor import interpret
from tensorc.prepare import prepare
from tensorc.verify import Outcome, judge, worst

Array = npt.NDArray[Any]
TYPES = {"f32": np.float32, "f64": np.float64, "complex64": np.complex64, "i32": np.int32}
BIG = 2.0**63


def results(dtype: str, body: str, x: list[Any], out: str = "") -> list[Array]:
    """`y[i] = body` on every device."""
    text = f"op p(x: {dtype}[i]) -> y: {out or dtype}[i]\n  {body}\n"
    (op,) = tc.loads(text)
    array = np.array(x, TYPES[dtype])
    return [op.on(device)(array) for device in ("interpreter", "cpu", "emulator")]


@pytest.mark.parametrize(
    ("dtype", "body", "right"),
    [
        # An integer has no width until it meets one: beside a float it is rounded to the float.
        ("f64", "y[i] = x[i] * 2**63", [BIG, 2 * BIG]),
        ("f64", "y[i] = x[i] + 2**64", [2 * BIG, 2 * BIG]),
        ("f32", "y[i] = x[i] * 2**100", [2.0**100, 2.0**101]),
        ("f32", "y[i] = floor(x[i] * 0 + 2**70)", [2.0**70] * 2),
        ("f64", "y[i] = x[i] * (2**63 + |i|)", [BIG, 2 * BIG]),
        ("f64", "y[i] = max(x[i], 2**63)", [BIG, BIG]),
        ("f64", "y[i] = min(x[i], -2**63)", [-BIG, -BIG]),
        ("f64", "y[i] = select(x[i] < 2**63, 1, 0)", [1.0, 1.0]),
        ("f32", "y[i] = select(x[i] > 2**200, 1., 2.)", [2.0, 2.0]),  # inf in f32
        ("f64", "y[i] = select(i == 0, 2**64, x[i])", [2 * BIG, 2.0]),
        ("complex64", "y[i] = x[i] * 2**63", [BIG, 2 * BIG]),
        ("i32", "y[i] = x[i] + (2**70 // 2**68)", [5, 6]),
        # With a position it is an i64, which wraps.
        ("f64", "y[i] = x[i] * 0 + (2**62 * (i + 1))", [BIG / 2, -BIG]),
    ],
)
def test_large_integers(dtype: str, body: str, right: list[float]) -> None:
    for found in results(dtype, body, [1, 2]):
        np.testing.assert_array_equal(found, np.array(right, TYPES[dtype]))


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = select(x[i] == 0.1, 1, 0)",
        "y[i] = select(x[i] <= 0.1 and 0.1 <= x[i], 1, 0)",
        "y[i] = select(min(x[i] + 5, 0.1) == 0.1, 1, 0)",
        "y[i] = select(max(0.1, x[i] - 5) == x[i], 1, 0)",
        "y[i] = select(select(i >= 0, 0.1, x[i] + 1) == x[i], 1, 0)",
        "y[i] = select(clamp(x[i], 0.1, 3) == 0.1, 1, 0)",
        "y[i] = select(min[j=3](select(j == 1, 0.1, x[i] + 1)) == 0.1, 1, 0)",
        "t: DTYPE[i] = 0.1\n  y[i] = select(t[i] == x[i], 1, 0)",
        "y[i] = select(x[i] // 0.1 == 1, 1, 0)",
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_constant_that_comes_out_is_rounded(dtype: str, body: str) -> None:
    """0.1 of the type, as the data hold it, is equal to 0.1 of the program."""
    for found in results(dtype, body.replace("DTYPE", dtype), [0.1]):
        assert found.tolist() == [1]


def test_a_complex_constant_is_of_its_type() -> None:
    for found in results("complex64", "y[i] = x[i] == 0.1 + 0.3j", [0.1 + 0.3j], "bool"):
        assert found.tolist() == [True]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_checks_know_it(dtype: str) -> None:
    """Constants that are picked have no error, so that comparisons with them are decided."""
    text = (
        f"op p(x: {dtype}[i]) -> y: {dtype}[i]\n"
        "  m[i] = min(x[i], 1e-5)\n  y[i] = select(m[i] == 1e-5, x[i] * 2, 7)\n"
    )
    (op,) = tc.loads(text)
    x = np.array([1e-5, 1, 1e-7] * 40, TYPES[dtype])
    call = prepare(op.program, {"x": x})
    found = {"y": op(x)}
    assert worst(judge(call, found)) is Outcome.PASS
    found["y"][0] = 7
    assert worst(judge(call, found)) is Outcome.FAIL


@pytest.mark.parametrize(
    ("constant", "right"),
    [("0.1", 0.1), ("0.1 + 0.3j", 0.1 + 0.3j), ("0.1 * 0.1j", 0.01j), ("1 / 3", 1 / 3)],
)
def test_a_complex_cast_rounds_a_constant_as_a_real_one_does(constant: str, right: complex) -> None:
    """Exactly there: the meaning has the rounded number, and a result may not be off it."""
    (op,) = tc.loads(f"op p(x: f32[i]) -> y: complex64[i]\n  y[i] = x[i] + complex64({constant})\n")
    zero = np.zeros(2, np.float32)
    meaning = interpret(op.program, {"x": zero}, {"i": 2})["y"]
    assert meaning.tolist() == [complex(np.complex64(right))] * 2
    call = prepare(op.program, {"x": zero})
    for device in ("interpreter", "cpu", "emulator"):
        found = op.on(device)(zero)
        assert found.tolist() == [complex(np.complex64(right))] * 2
        assert worst(judge(call, {"y": found})) is Outcome.PASS


def test_rewritten_complex_operands_are_judged() -> None:
    """The algebra drops a sum that decides nothing: what is left still reads a complex operand."""
    text = (
        "op f(x: complex64[i, l], w: i32[j, k]) -> y: f32[j]\n"
        "  t[i] = sum[l, k](select(k < 1, x[i, l], 1.0))\n"
        "  y[j] = select(w[1, 1] <= 1, select(t[0] == 1j, 1.0, 0.1), 1.0)\n"
    )
    (op,) = tc.loads(text)
    arrays = {"x": np.ones((1, 3), np.complex64), "w": np.zeros((2, 3), np.int32)}
    call = prepare(op.program, arrays)
    found = {"y": op(*arrays.values())}
    assert worst(judge(call, found)) is Outcome.PASS
    found["y"][1] = 1
    assert worst(judge(call, found)) is Outcome.FAIL


def test_an_imaginary_literal_that_no_part_can_hold_is_refused() -> None:
    """As a real one beside f32 is; a cast of it is an infinity."""
    text = "op f(x: complex64[i]) -> y: complex64[i]\n  y[i] = x[i] + {}\n"
    with pytest.raises(tc.NotationError, match=r"E107.*1e\+200j is not representable in"):
        _ = tc.loads(text.format("1e200j")).f
    for found in results("complex64", "y[i] = x[i] + complex64(1e39j)", [1]):
        assert str(complex(found[0])) == "(1+infj)"
