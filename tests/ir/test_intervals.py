"""Ranges of integer expressions: exact where they are known, and never too narrow."""

from __future__ import annotations

from random import Random

import pytest

from tensorc.ir.intervals import LARGEST, interval, usual_interval
from tensorc.ir.tensor import Expr, Round
from tensorc.lang import read
from tests.ir.access_cases import Points, draw

WORD = (-(1 << 31), (1 << 31) - 1)


def value(text: str) -> Expr:
    """The right side of an equation over u8, i8, i32 and i64 vectors, without its rounding."""
    head = "op f(u: u8[n], b: i8[n], t: i32[n], w: i64[n], m: bool[n], x: f32[n]) -> y: i64[n]"
    (program,) = read(f"{head}\n  v[n] = {text}\n  y[n] = i64(v[n])")
    body = program.equations[0].body
    return body.arg if isinstance(body, Round) else body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u[n]", (0, 255)),
        ("b[n]", (-128, 127)),
        ("u[n] - u[n]", (-255, 255)),
        ("u[n] * b[n]", (-255 * 128, 255 * 127)),
        ("t[n] + 1", WORD),  # it may wrap
        ("t[n] + w[n]", (-(1 << 63), (1 << 63) - 1)),
        ("t[n] + n", (WORD[0], WORD[1] + LARGEST - 1)),
        ("clamp(t[n], -3, 7)", (-3, 7)),
        ("t[n] & 12", (0, 12)),
        ("t[n] % 10", (0, 9)),
        ("t[n] % u[n]", (WORD[0], WORD[1])),  # x % 0 is x
        ("u[n] >> 4", (0, 15)),
        ("u[n] << 2", (0, 1020)),
        ("u[n] // 16", (0, 15)),
        ("b[n] // -2", (-128, 128)),  # not followed: only the magnitude is
        ("abs(b[n])", (0, 128)),
        ("t[n] > 0", (0, 1)),
        ("m[n] + m[n]", (0, 2)),
        ("u8(t[n])", (0, 255)),
        ("u8(u[n] // 2)", (0, 127)),
        ("select(m[n], u[n], b[n])", (-128, 255)),
        ("popcount(t[n])", (0, 64)),
        ("argmax[k=|n|](x[k])", (-1, LARGEST - 1)),
        ("n", (0, LARGEST - 1)),
        ("|n|", (0, LARGEST)),
        ("7 // 2", (3, 3)),
    ],
)
def test_ranges(text: str, expected: tuple[int, int]) -> None:
    assert interval(value(text)) == expected


@pytest.mark.parametrize("text", ["n", "argmax[k=|n|](x[k])"])
def test_positions_usually_fit_an_i32(text: str) -> None:
    known, usual = interval(value(text)), usual_interval(value(text))
    assert known is not None and usual is not None
    assert (known[1], usual[1]) == (LARGEST - 1, (1 << 31) - 1)


def test_floats_have_none() -> None:
    assert interval(value("i64(x[n])")) == (-(1 << 63), (1 << 63) - 1)
    (program,) = read("op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n] * 2")
    assert interval(program.equations[0].body) is None


@pytest.mark.parametrize("seed", range(4))
def test_no_value_of_a_drawn_expression_is_outside(seed: int) -> None:
    random = Random(seed)
    for _ in range(50):
        case = draw(random)
        known = interval(case.subscript)
        values = Points(case).value(case.subscript)
        assert known is not None
        assert not len(values) or (known[0] <= values.min() and values.max() <= known[1])
