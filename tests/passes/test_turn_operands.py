"""Operands of products that run along the summed index are turned first, where that pays; and
copies that turn rows into columns move whole squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.compiler import compile_cpu
from tensorc.ir.print_tensor import show_program
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.tiling.turn_operands import turn_operands
from tensorc.pipeline import run_passes
from tensorc.request import Request, Target, cpu_target

Array = npt.NDArray[Any]
PRODUCT = (
    "op f(a: f32[m, k], b: f32[n, k]) -> y: f32[m, n]\n  y[m, n] = sum[k](a[m, k] * b[n, k])\n"
)


def program(text: str) -> Program:
    """The canonical program of one operator."""
    (found,) = read(text)
    return canonicalise(found)


def test_a_shared_operand_is_turned() -> None:
    made = turn_operands(program(PRODUCT), {}, {"m": 64, "n": 64, "k": 64})
    text = show_program(made)
    assert "b_turned: f32[k, n]" in text or "b_turned[k, n] = b[n, k]" in text
    assert "a[m, k] * b_turned[k, n]" in text


@pytest.mark.parametrize(
    ("text", "static"),
    [
        (PRODUCT, {"m": 1, "n": 64, "k": 64}),  # nobody shares the copy
        (PRODUCT, {"m": 64, "n": 64, "k": 4}),
        (PRODUCT, {}),
        (PRODUCT.replace("b: f32[n, k]", "b: f32[k, n]").replace("b[n, k]", "b[k, n]"),
         {"m": 64, "n": 64, "k": 64}),
        (PRODUCT.replace("sum[k]", "max[k]"), {"m": 64, "n": 64, "k": 64}),
    ],
)  # fmt: skip
def test_others_are_left(text: str, static: dict[str, int]) -> None:
    item = program(text)
    assert turn_operands(item, {}, static) is item


def normal(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (33, 70, 100), (100, 32, 37)])
def test_turned_products_on_the_cpu(m: int, n: int, k: int) -> None:
    (item,) = read(
        "op f(a: f32[b, m, k], w: f16[b, n, k]) -> y: f32[b, m, n], z: f32[n, m]\n"
        "  y[b, m, n] = sum[k](a[b, m, k] * w[b, n, k]) + a[b, m, 0]\n"
        "  z[n, m] = sum[k](a[0, m, k] * w[1, n, k])\n"
    )
    a, w = normal(2, m, k), normal(2, n, k).astype(np.float16)
    extents = {"b": 2, "m": m, "n": n, "k": k}
    got = compile_cpu(item, Request(cpu_target(), extents)).run({"a": a, "w": w}, extents)
    want = a.astype(float) @ w.astype(float).transpose(0, 2, 1) + a[:, :, :1]
    np.testing.assert_allclose(got["y"], want, rtol=0, atol=1e-4)
    want = w[1].astype(float) @ a[0].astype(float).T
    np.testing.assert_allclose(got["z"], want, rtol=0, atol=1e-4)


TRANSPOSE = "op f(x: {type}[m, n], s: f32[n]) -> y: {type}[n, m]\n  y[n, m] = x[m, n]\n"


@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "f16", "bool"])
@pytest.mark.parametrize(("m", "n"), [(64, 64), (128, 192), (100, 70), (31, 64), (5, 7), (0, 9)])
def test_transposes(kind: str, m: int, n: int) -> None:
    (item,) = read(TRANSPOSE.format(type=kind))
    x = (100 * normal(m, n)).astype(_NAMES[kind])
    arrays = {"x": x, "s": normal(n)}
    for static in ({"m": m, "n": n}, {}):
        got = compile_cpu(item, Request(cpu_target(), static)).run(arrays, {"m": m, "n": n})
        np.testing.assert_array_equal(got["y"], x.T)


_NAMES = {"f32": "float32", "f64": "float64", "i32": "int32", "f16": "float16", "bool": "bool"}


def test_squares_are_exchanged_in_registers() -> None:
    from tensorc.codegen.llvm import Options, emit

    (item,) = read(TRANSPOSE.format(type="f32"))
    static = {"m": 64, "n": 64}
    code = emit(run_passes(item, Request(Target("avx512", 16), static)), Options(static, {})).text
    assert code.count("shufflevector") == 64  # four exchanges of sixteen vectors
    assert "gather" not in code and "scatter" not in code
