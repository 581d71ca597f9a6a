"""Operators as Python objects: calling, devices, outputs of the caller's, compiling."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc

i, j = tc.indices("i j")
Array = npt.NDArray[Any]


@tc.op("x: f32[i, j], w: f32 -> y: f16[i, j], s: f32[i]")
def scaled(x: tc.Tensor, w: tc.Tensor) -> tuple[tc.Expr, tc.Expr]:
    return x[i, j] * w, tc.sum[j](x[i, j])


@tc.op("x: f32[i] -> y: f32[i]")
def twice(x: tc.Tensor) -> tc.Expr:
    return x[i] * 2


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_call_gives_one_array_or_a_tuple() -> None:
    y, s = scaled(X, w=0.5)
    np.testing.assert_array_equal(y, np.float16(X * 0.5), strict=True)
    np.testing.assert_array_equal(s, X.sum(1), strict=True)
    np.testing.assert_array_equal(twice(X[0]), X[0] * 2, strict=True)


def test_tools_see_the_function() -> None:
    assert inspect.signature(twice) == inspect.Signature(
        [inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="tc.Tensor")],
        return_annotation="tc.Expr",
    )
    assert inspect.unwrap(twice) is twice.function
    assert twice.__module__ == __name__


def test_devices_and_options_do_not_share_the_names_of_operands() -> None:
    other = twice.on("interpreter", policy="strict")
    np.testing.assert_array_equal(other(x=X[1]), X[1] * 2, strict=True)
    assert other.program is twice.program
    with pytest.raises(tc.Unavailable, match="device 'tpu'"):
        twice.on("tpu")(X[0])


def test_outputs_of_the_caller_are_filled_and_returned() -> None:
    y, s = np.zeros((2, 3), np.float16), np.zeros(4, np.float32)[::2]
    assert scaled.into(y, s)(X, 2)[0] is y
    np.testing.assert_array_equal(y, np.float16(X * 2))
    np.testing.assert_array_equal(s, X.sum(1))


def read_only() -> Array:
    array = np.zeros(2, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("code", "y", "s"),
    [
        ("E211", np.zeros((2, 3), np.float32), np.zeros(2, np.float32)),
        ("E201", np.zeros((3, 2), np.float16), np.zeros(2, np.float32)),
        ("E212", np.zeros((2, 3), np.float16), read_only()),
        ("E208", np.zeros((2, 3), np.float16), X[0, :2]),
    ],
)
def test_outputs_that_do_not_fit(code: str, y: Array, s: Array) -> None:
    with pytest.raises(tc.ArgumentError) as caught:
        scaled.into(y, s)(X, 2)
    assert [item.code for item in caught.value.diagnostics] == [code]
    assert not y.any()


def test_outputs_are_as_many_as_declared() -> None:
    with pytest.raises(TypeError, match="has the outputs y, s; 1 arrays given"):
        scaled.into(X)(X, 2)
    with pytest.raises(TypeError, match="y is written into an array, not a list"):
        twice.into([0.0])(X[0])


def test_compiling_fixes_the_sizes_that_are_given() -> None:
    kernel = twice.compile(sizes={"i": 4})
    assert "loop" in kernel.tile
    assert kernel.llvm.startswith("; ") or "define" in kernel.llvm
    with pytest.raises(ValueError, match="no index n"):
        twice.compile(sizes={"n": 4})
    with pytest.raises(tc.Unavailable, match="arch='sm_70': there are native, cpu, sm_80"):
        twice.compile(arch="sm_70")
    made = twice.compile(arch="sm_90a")
    assert "TC_KERNEL" in made.source and repr(made).endswith("for sm_90a, fast>")
    assert "numerics" in str(made.report) and "kernel y" in made.tile


def test_an_intermediate_over_the_limit_is_refused_before_anything_runs() -> None:
    """Inputs of a megabyte, an outer product of a terabyte."""
    ops = tc.loads(
        "op f(x: f32[n], y: f32[m]) -> z: f32[n]\n"
        "  t[n, m] = x[n] * y[m]\n  z[n] = sum[m](t[n, m])\n"
    )
    x = np.ones(1 << 18, np.float32)
    with pytest.raises(tc.ArgumentError, match="E302"):
        ops.f(x, x)


def test_notebooks_show_the_program_escaped() -> None:
    found = tc.loads("op f(x: f32[n]) -> y: f32[n]\n  y[i] = sum[n](x[n] where n < i)\n").f
    shown = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert shown.startswith("<pre>op f(") and "n &lt; i" in shown and shown.endswith("</pre>")

    @tc.op("x: f32[i] -> y: f32[i]")
    def wrong(x: tc.Tensor) -> tc.Expr:
        return x[j]

    assert "TC-E" in wrong._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_wrong_options_and_sizes_are_named() -> None:
    with pytest.raises(TypeError, match="polcy is no option; did you mean policy?"):
        twice.on("cpu", polcy="strict")
    with pytest.raises(TypeError, match="speed is no option; there are policy, arch, special"):
        twice.on("cpu", speed=9)
    with pytest.raises(ValueError, match="policy='slow': there are fast and strict"):
        twice.on("cpu", policy="slow")
    with pytest.raises(ValueError, match="policy='slow'"):
        twice.compile(policy="slow")
    for size in (-1, 2.5, True):
        with pytest.raises(ValueError, match=f"i = {size} is not an integer of at least 0"):
            twice.compile(sizes={"i": size})  # type: ignore[dict-item]
    assert twice.compile(sizes={"i": np.int64(3)}).run({"x": X[0]}, {"i": 3})  # type: ignore


def test_a_complex_scalar_does_not_lose_its_imaginary_part() -> None:
    with pytest.raises(tc.ArgumentError) as caught:
        scaled(X, 3j)
    assert (caught.value.code, caught.value.found) == ("E211", "3j")


def test_callers_may_guarantee_the_ranges_of_data() -> None:
    op = tc.loads("op f(x: f32[n], i: i32[m]) -> y: f32[m]\n  y[m] = x[i[m]]\n").f
    x, i = np.arange(5, dtype=np.float32), np.array([4, 0], np.int32)
    trusted = op.on("cpu", check="data-off")
    np.testing.assert_array_equal(trusted(x, i), [4, 0])
    checked, unchecked = op.compile(), op.compile(check="data-off")
    assert "check 1" in checked.tile and "check" not in unchecked.tile
    np.testing.assert_array_equal(unchecked(x, i), [4, 0])
    with pytest.raises(tc.OutOfRange):
        checked(x, i + 1)
    with pytest.raises(ValueError, match="check='off': there are all and data-off"):
        op.on("cpu", check="off")
