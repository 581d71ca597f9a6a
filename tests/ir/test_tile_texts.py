"""Four kernels written by hand in the text of level 2: they verify, read back, and mean what the
same operator means at level 1, at sizes around the edges of their tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc import lang
from tensorc.errors import BrokenInvariant
from tensorc.ir import interpret_tensor
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read
from tensorc.ir.tile import TileProgram
from tensorc.ir.verify_tile import verify

Arrays = Mapping[str, npt.NDArray[Any]]
TEXTS = Path(__file__).parents[1] / "golden" / "tile"
NAMES = ("gemm_cpu", "gemm_sm80", "attention_sm80", "attention_sm90", "attention_cpu")
GEMM = """
op gemm(a: {type}[m, k], w: {type}[k, n], bias: f32[n]) -> o: {type}[m, n]
  z[m, n] = sum[k](a[m, k] * w[k, n]) + bias[n]
  o[m, n] = z[m, n] * sigmoid(z[m, n])
"""
ATTENTION = """
op attention(q: {type}[b, h, m, d], k: {type}[b, h, n, d], v: {type}[b, h, n, e])
    -> o: {type}[b, h, m, e]
  s[b, h, m, n] = sum[d](q[b, h, m, d] * k[b, h, n, d]) / sqrt(|d|)
  p[b, h, m, n] = softmax[n](s[b, h, m, n] where n <= m + |n| - |m|)
  o[b, h, m, e] = sum[n](p[b, h, m, n] * v[b, h, n, e])
"""


def text(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text()


def kernel(name: str, *changes: tuple[str, str]) -> TileProgram:
    """A program of the folder, with pieces of its text replaced."""
    found = text(name)
    for old, new in changes:
        assert found.count(old) == 1, f"{old} occurs {found.count(old)} times"
        found = found.replace(old, new)
    return read(found)


def gemm(m: int, n: int, k: int, dtype: str) -> Arrays:
    draw = np.random.default_rng(m + 1000 * n + k).standard_normal
    a, w = draw((m, k)).astype(dtype), draw((k, n)).astype(dtype)
    return {"a": a, "w": w, "bias": draw(n).astype(np.float32)}


def attention(m: int, n: int, d: int = 128, dtype: str = "float16") -> Arrays:
    draw = np.random.default_rng(m + 1000 * n).standard_normal
    shapes = {"q": (1, 2, m, d), "k": (1, 2, n, d), "v": (1, 2, n, d)}
    return {name: draw(shape).astype(dtype) for name, shape in shapes.items()}


def check(source: str, program: TileProgram, arrays: Arrays, sizes: Mapping[str, int]) -> None:
    """Level 2 against level 1: half a unit of the output's type, and what f32 sums lose."""
    (exact,) = lang.read(source)
    wanted = interpret_tensor.interpret(exact, arrays, sizes)["o"]
    found = interpret(program, arrays, sizes)["o"]
    again = interpret(program, arrays, sizes, np.random.default_rng(1))["o"]
    np.testing.assert_array_equal(found, again, "the order of blocks matters")
    largest = np.abs(wanted).max()
    unit = float(np.finfo(found.dtype).eps)
    bar = largest * (unit if found.dtype == np.float16 else 8 * unit)
    assert np.abs(found - wanted).max() <= bar


@pytest.mark.parametrize("name", NAMES)
def test_texts_verify_and_read_back(
    name: str, golden: Callable[[str, str], None]
) -> None:  # fmt: skip
    program = read(text(name))
    assert verify(program) == []
    assert read(show(program)) == program
    golden(f"tile/{name}.txt", show(program))


@pytest.mark.parametrize(
    ("m", "n", "k"), [(95, 255, 511), (96, 256, 512), (97, 257, 513), (1, 1, 1)]
)
def test_packed_gemm_on_the_cpu(m: int, n: int, k: int) -> None:
    sizes = {"m": m, "n": n, "k": k}
    check(GEMM.format(type="f32"), kernel("gemm_cpu"), gemm(m, n, k, "float32"), sizes)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(127, 127, 31), (128, 128, 32), (129, 129, 33), (1, 1, 1), (40, 8, 200)]
)
def test_gemm_on_tensor_cores(m: int, n: int, k: int) -> None:
    sizes = {"m": m, "n": n, "k": k}
    check(GEMM.format(type="f16"), kernel("gemm_sm80"), gemm(m, n, k, "float16"), sizes)


@pytest.mark.parametrize(
    ("m", "n"), [(127, 127), (128, 128), (129, 129), (1, 1), (129, 300), (200, 77), (300, 40)]
)
def test_causal_attention_with_and_without_empty_rows(m: int, n: int) -> None:
    sizes = {"b": 1, "h": 2, "m": m, "n": n, "d": 128, "e": 128}
    check(ATTENTION.format(type="f16"), kernel("attention_sm90"), attention(m, n), sizes)


@pytest.mark.parametrize(("m", "n"), [(47, 255), (48, 256), (49, 257), (1, 1), (100, 60)])
def test_the_same_operator_row_by_row_on_the_cpu(m: int, n: int) -> None:
    sizes = {"b": 1, "h": 2, "m": m, "n": n, "d": 64, "e": 64}
    arrays = attention(m, n, 64, "float32")
    check(ATTENTION.format(type="f32"), kernel("attention_cpu"), arrays, sizes)


MASK = "select(n <= m + |n| - |m|, log2(exp(1)) / sqrt(|d|) * t, -inf)"
BROKEN = [
    # a copy that leaves lanes beyond its tensor undefined, under a sum that takes whole tiles
    ("gemm_sm80", (97, 60, 33), "swizzle 64               by cp.async fill 0",
     "swizzle 64  by cp.async", "reduces lanes of k"),
    ("gemm_cpu", (97, 60, 33), " exact k", "", "reduces lanes of k"),
    # the block before the diagonal touches it
    ("attention_sm90", (129, 256), MASK, MASK.replace("<=", "<"), "a guard of n fails"),
    ("attention_sm90", (129, 255), "full 0..base(m) - |m| + |n| + 1",
     "full 0..base(m) - |m| + |n| + 2", "a guard of n fails in a full block: 1 lanes"),
    ("attention_sm90", (129, 129), "min(base(m) - |m| + |n| + 128, |n|)",
     "base(m) - |m| + |n| + 128", "loop n: 0 to 256 of 129"),
    ("attention_sm90", (129, 129), "store o[b, h, m, e]", "store o[b, 0, m, e]", "stored twice"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "size", "old", "new", "fault"), BROKEN)
def test_what_must_not_happen_is_found(
    name: str, size: tuple[int, ...], old: str, new: str, fault: str
) -> None:
    if name == "attention_sm90":
        m, n, *_ = size
        arrays, sizes = attention(m, n), {"b": 1, "h": 2, "m": m, "n": n}
    else:
        m, n, k = size
        arrays = gemm(m, n, k, "float16" if name == "gemm_sm80" else "float32")
        sizes = {"m": m, "n": n, "k": k}
    with pytest.raises(BrokenInvariant, match=fault):
        interpret(kernel(name, (old, new)), arrays, sizes)
