"""Rows that lie whole in tiles, packed panels, unrolled windows: what the CPU's ways of tiling give
at extents on both sides of every block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.codegen.llvm import Options, emit
from tensorc.compiler import compile_cpu
from tensorc.ir.print_tile import show
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.pipeline import run_passes
from tensorc.request import Request, Target, cpu_target

Array = npt.NDArray[Any]
AVX512 = Target("avx512", 16, 4, 6)
ROWS = """
op soft(x: f32[m, n]) -> y: f32[m, n]
  y[m, n] = softmax[n](x[m, n])

op both(x: f32[m, n]) -> y: f32[m, n], s: f32[m]
  e[m, n] = exp(x[m, n] - max[n](x[m, n]))
  s[m] = sum[n](e[m, n] where n % 3 != 1)
  y[m, n] = e[m, n] * e[m, n] / sum[n](e[m, n])
"""
PRODUCT = (
    "op f(a: {0}[m, k], b: {0}[k, n]) -> c: f32[m, n]\n"
    "  c[m, n] = 2 * sum[k](a[m, k] * b[k, n]) + 1\n"
)
WINDOW = """
op window(x: f32[c, w], g: f32[o, c, s]) -> y: f32[o, q=|w|]
  y[o, q] = sum[c, s](x[c, q + s - 1] * g[o, c, s] where inside(q + s - 1, |w|))
"""


def drawn(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def one(text: str) -> Program:
    (found,) = read(text)
    return found


@pytest.mark.parametrize("n", [1, 7, 16, 33, 64, 100, 255, 1000])
def test_rows_of_any_length(n: int) -> None:
    x = drawn(5, n)
    x[1, : n // 2] = -np.inf
    x[2, n - 1] = 60
    e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    total = e.sum(1, keepdims=True)
    np.testing.assert_allclose(tc.loads(ROWS).soft(x), e / total, rtol=4e-6, atol=1e-37)
    y, s = tc.loads(ROWS).both(x)
    np.testing.assert_allclose(y, e * e / total, rtol=4e-6, atol=1e-37)
    np.testing.assert_allclose(s, e[:, np.arange(n) % 3 != 1].sum(1), rtol=4e-6)


def test_what_walks_share_is_computed_once() -> None:
    program = one(ROWS.strip().split("\n\n")[0])
    tiles = run_passes(program, Request(AVX512, {"m": 64, "n": 1000}))
    text = show(tiles)
    assert "whole n by 1008" in text and text.count("exp(") == 1
    code = emit(tiles, Options({"m": 64, "n": 1000}, {})).text
    assert "<64 x float>" in code and "masked.load.v16f32" in code
    assert "masked.load.v64f32" not in code
    assert "whole" not in show(run_passes(program, Request(AVX512, {"m": 64})))


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize(("m", "n"), [(48, 64), (49, 65), (101, 63), (48, 1)])
def test_packed_panels(dtype: str, m: int, n: int) -> None:
    k = 37
    program = one(PRODUCT.format(dtype))
    target = replace(cpu_target(), packed=True, settled=True)
    sizes = {"m": m, "n": n, "k": k}
    request = Request(target, sizes)
    assert "c1[k, n] = b[k, n]" in show(run_passes(program, request))
    a, b = (drawn(*shape).astype({"f32": "f4", "f16": "f2"}[dtype]) for shape in ((m, k), (k, n)))
    found = compile_cpu(program, request)(a=a, b=b)
    wanted = 2 * (a.astype(np.float64) @ b.astype(np.float64)) + 1
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("w", "s"), [(5, 3), (64, 3), (65, 3), (20, 11)])
def test_short_windows(w: int, s: int) -> None:
    x, g = drawn(3, w), drawn(7, 3, s)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, s)))
    wanted = sum(
        np.einsum("cq,oc->oq", padded[:, j : j + w] * (np.arange(w) + j - 1 < w), g[:, :, j])
        for j in range(s)
    )
    np.testing.assert_allclose(tc.loads(WINDOW).window(x, g), wanted, rtol=1e-4, atol=1e-4)


def test_windows_are_unrolled_up_to_a_limit() -> None:
    def adds(s: int) -> int:
        sizes = {"c": 16, "w": 64, "o": 6, "s": s}
        tiles = run_passes(one(WINDOW), Request(AVX512, sizes))
        return emit(tiles, Options(sizes, {})).text.count("fadd contract")

    assert adds(3) == 3 * adds(11)


def test_sums_are_fetched_ahead_where_they_are_long() -> None:
    text = "op f(x: f32[m, n]) -> y: f32[n]\n  y[n] = sum[m](x[m, n])\n"

    def fetches(m: int, n: int) -> int:
        sizes = {"m": m, "n": n}
        tiles = run_passes(one(text), Request(AVX512, sizes))
        return emit(tiles, Options(sizes, {})).text.count("call void @llvm.prefetch")

    assert fetches(4096, 256) == 16 and fetches(16, 256) == 0
    x = drawn(4096, 300)
    np.testing.assert_allclose(tc.loads(text).f(x), x.sum(0, dtype=np.float64), atol=1e-2)
