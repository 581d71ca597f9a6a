"""Copies, choices and constants round nothing; arithmetic does."""

from __future__ import annotations

import pytest

from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.representable import representable
from tensorc.ir.tensor import Round
from tensorc.lang import read


@pytest.mark.parametrize(
    ("body", "dtype", "right"),
    [
        ("h[i]", "f16", True), ("x[i]", "f16", False), ("h[i]", "bf16", False),
        ("h[i]", "f32", True), ("-h[i]", "f16", True), ("max(h[i], 0)", "f16", True),
        ("max(h[i], 0.1)", "f16", False), ("max(h[i], 0.5)", "f16", True),
        ("select(i > 2, h[i], -1)", "f16", True), ("select(i > 2, h[i], x[i])", "f16", False),
        ("f16(x[i])", "f16", True), ("f16(x[i])", "f32", True), ("h[i] + h[i]", "f16", False),
        ("floor(h[i])", "f16", True), ("n[i]", "f16", False), ("x[i] * 2", "f32", True),
        ("f8e5m2(x[i])", "f16", True), ("f8e4m3(x[i])", "f8e5m2", False),
    ],
)  # fmt: skip
def test_representable(body: str, dtype: str, right: bool) -> None:
    text = f"op p(h: f16[i], x: f32[i], n: i8[i]) -> y: {dtype}[i]\n  y[i] = {body}\n"
    (program,) = read(text)
    expr = program.equations[0].body
    inner = expr.arg if isinstance(expr, Round) else expr
    assert representable(inner, BY_NAME[dtype], {"i": 4}) is right
