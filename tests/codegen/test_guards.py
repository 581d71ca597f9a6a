"""Guarded reads inside selects inside selects: code grows with what is distinct."""

from __future__ import annotations

import numpy as np
import pytest

import tensorc as tc
from tensorc.codegen.llvm_guards import Guards
from tensorc.ir.tensor import Select

(i,) = tc.indices("i")


def nested(levels: int, dtype: str) -> tc.Op:
    """Each level uses the one below in the condition and on both sides of a select."""

    @tc.op(f"x: {dtype}[i] -> y: {dtype}[i]")
    def f(x: tc.Tensor) -> tc.Expr:
        value = tc.select(i > 0, x[i - 1], 0.5)
        for _ in range(levels):
            if dtype == "f32":
                value = tc.select(value > 1, value / 2, value + 1)
            else:
                value = value / (abs(value) + 1) + 2
        return value

    return f


@pytest.mark.parametrize("dtype", ["f32", "complex64"])
def test_code_is_linear_in_the_levels(dtype: str) -> None:
    lengths = [len(nested(n, dtype).compile().llvm.splitlines()) for n in (1, 2, 3)]
    assert lengths[2] - lengths[1] <= 1.2 * (lengths[1] - lengths[0])


@pytest.mark.parametrize("dtype", ["f32", "complex64"])
def test_values_are_those_of_the_meaning(dtype: str) -> None:
    op = nested(3, dtype)
    x = np.linspace(-3, 3, 37).astype({"f32": "f4", "complex64": "c8"}[dtype])
    np.testing.assert_allclose(op(x), op.on("interpreter")(x), rtol=1e-6)


def test_only_what_both_sides_need_on_every_path_is_shared() -> None:
    text = (
        "op f(x: f32[i], c: bool[i]) -> y: f32[i]\n"
        "  y[i] = select(c[i], x[i - 1] + select(i > 3, x[i - 4], 0), x[i - 1] * x[i - 4])"
    )
    guarded = text.replace("= select", "= select(i < 4, 0, select") + ")\n"
    (op,) = tc.loads(guarded)
    body = op.program.equations[0].body
    assert isinstance(body, Select) and isinstance(body.no, Select)
    guards = Guards(op.program.extent_of)
    shared = guards.shared(body.no.yes, body.no.no)
    assert len(shared) == 1  # x[i - 1]; x[i - 4] is guarded once more on one side
    x, c = np.arange(9, dtype=np.float32), np.arange(9) % 2 == 0
    np.testing.assert_array_equal(op(x, c), op.on("interpreter")(x, c))
