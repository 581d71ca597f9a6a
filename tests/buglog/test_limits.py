"""Rows of limits, odd widths and accumulators: BL017, BL043, BL064, BL114."""

from __future__ import annotations

import numpy as np
import pytest

import tensorc as tc
from tensorc.ir.interpret_tensor import interpret
from tensorc.passes.algebra.egraph import Limits
from tensorc.passes.algebra.saturate import rewrite
from tensorc.passes.canonicalise import canonicalise
from tests.buglog.running import run


def test_an_output_over_an_input_is_as_if_the_input_was_copied() -> None:
    """BL017: einsum's `out` may overlap; `.into` refuses it with both names."""
    p = np.array([1.0, 2, 3])
    a = np.arange(1, 28, dtype=float).reshape(3, 3, 3)
    view = a[:, 1:, :]
    wanted = np.einsum("j,ijk->ijk", p[:2], view.copy())
    tc.einsum("j,ijk->ijk", p[:2], view, out=view)
    np.testing.assert_array_equal(view, wanted)
    (op,) = tc.loads("op f(x: f64[n]) -> y: f64[n]\n  y[n] = x[n] * 2\n")
    with pytest.raises(tc.ArgumentError, match="TC-E208") as caught:
        op.into(p[:2])(p[1:])
    assert "x" in str(caught.value) and "y" in str(caught.value)
    assert p.tolist() == [1, 2, 3]


@pytest.mark.parametrize("limits", [Limits(steps=1), Limits(rows=20), Limits(matches=5)])
def test_a_run_of_rules_that_ends_early_leaves_an_equal_program(limits: Limits) -> None:
    """BL043: sums of three and more terms, exponentials and products; never an error."""
    text = (
        "op f(a: f32[n], b: f32[n], c: f32[n]) -> y: f32\n"
        "  y = sum[n]((a[n] + b[n] + c[n]) * exp(a[n] + b[n]) / exp(b[n] + c[n]) * 2 + a[n] * 3)\n"
    )
    (op,) = tc.loads(text)
    program = canonicalise(op.program)
    made = rewrite(program, {"n": 64}, limits=limits).program
    draw = np.random.default_rng(0)
    arrays = {name: draw.integers(-3, 4, 64).astype(np.float32) for name in "abc"}
    found, wanted = (interpret(item, arrays, {"n": 64})["y"] for item in (made, program))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("width", [3, 12, 48, 96, 100])
@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_widths_that_are_no_powers_of_two(width: int, device: str) -> None:
    """BL064."""
    (op,) = tc.loads(
        "op f(x: f16[m, n], w: f16[n, k]) -> y: f32[m, k], s: f32[m]\n"
        "  y[m, k] = sum[n](x[m, n] * w[n, k])\n  s[m] = max[n](x[m, n])\n"
    )
    x = (np.arange(5 * width).reshape(5, width) % 7).astype(np.float16)
    w = (np.arange(width * width).reshape(width, width) % 5).astype(np.float16)
    y, s = op.on(device)(x, w)
    np.testing.assert_array_equal(y, x.astype(float) @ w.astype(float))
    np.testing.assert_array_equal(s, x.max(1))


def test_long_sums_of_halves_are_kept_in_f32() -> None:
    """BL114: the same value in every version and on every machine."""
    x = np.full((8, 2949, 3, 3), 0.1, np.float16)
    exact = float(np.float16(0.1)) * 2949 * 9
    for found in (tc.einsum("bijk->b", x), run(
        "op f(x: f16[b, i, j, k]) -> y: f32[b]\n  y[b] = sum[i, j, k](x[b, i, j, k])\n", x=x
    )):  # fmt: skip
        np.testing.assert_allclose(np.asarray(found, float), exact, rtol=2e-3)
    y = tc.loads("op f(x: f16[b, i]) -> y: f32[b]\n  y[b] = sum[i](x[b, i])\n").f
    np.testing.assert_allclose(y(x.reshape(8, -1)), exact, rtol=1e-6)
