"""Lanes that are every other element: the parts of complex numbers, and `x[2 * i]`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.fuzz.walls import walled

Array = npt.NDArray[Any]
TEXT = """
op product(x: complex64[m, k], y: complex64[k, n]) -> z: complex64[m, n]
  z[m, n] = sum[k](x[m, k] * y[k, n])
op wide(x: complex128[n], y: complex128[n]) -> z: complex128[n]
  z[n] = x[n] * conj(y[n]) + x[n]
op evens(x: f32[p]) -> y: f32[n=|p| // 2]
  y[n] = x[2 * n]
op bytes(x: i8[p]) -> y: i8[n=|p| // 2]
  y[n] = x[2 * n]
"""
ops = tc.loads(TEXT)
DRAW = np.random.default_rng(1)
SIZES = (1, 2, 15, 16, 17, 63, 64, 65, 131)


def drawn(*shape: int, dtype: Any = np.complex64) -> Array:
    """Small whole numbers, so that sums are exact in any order."""
    parts = DRAW.integers(-8, 8, (2, *shape))
    return (parts[0] + 1j * parts[1]).astype(dtype)


@pytest.mark.parametrize("specialize", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_complex_products_at_edges(n: int, specialize: bool) -> None:
    product = ops.product.on("cpu", specialize=specialize)
    x = drawn(7, 5)
    for y in (drawn(5, n), drawn(n, 5).T, drawn(5, 2 * n)[:, ::2], drawn(5, n)[::-1, ::-1]):
        np.testing.assert_array_equal(product(x, y), x @ y, strict=True)


@pytest.mark.parametrize("n", SIZES)
def test_elementwise_at_edges(n: int) -> None:
    x, y = (drawn(n, dtype=np.complex128) for _ in range(2))
    np.testing.assert_array_equal(ops.wide(x, y), x * y.conj() + x, strict=True)
    z = DRAW.standard_normal(2 * n).astype(np.float32)
    np.testing.assert_array_equal(ops.evens(z), z[::2], strict=True)
    b = DRAW.integers(-128, 128, 2 * n).astype(np.int8)
    np.testing.assert_array_equal(ops.bytes(b), b[::2], strict=True)


def test_loads_are_no_gathers() -> None:
    for op, sizes in ((ops.product, {"m": 64, "k": 64, "n": 64}), (ops.evens, {"p": 128})):
        text = op.compile(sizes=sizes).llvm
        assert "masked.load.v128" in text or "masked.load.v32" in text
        assert "gather" not in text and "scatter" not in text
    assert "gather" in ops.bytes.compile(sizes={"p": 128}).llvm  # bytes have no masked loads


def test_a_product_takes_two_multiply_adds() -> None:
    """Under "strict" a product is rounded before it is added."""
    fast, strict = (ops.product.compile(policy=policy).tile for policy in ("fast", "strict"))
    assert "sum1 + x_re[m, k] * y_re[k, n] - x_im[m, k] * y_im[k, n]" in fast
    assert "sum1 + (x_re[m, k] * y_re[k, n] - x_im[m, k] * y_im[k, n])" in strict


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called by its name")
def test_nothing_behind_the_last_element_is_touched() -> None:
    """Operands and the output end where memory ends."""
    for n in SIZES:
        x, y, z = (walled(drawn(n).astype(np.complex128), "behind") for _ in range(3))
        for _ in range(2):
            assert ops.wide.into(z)(x, y) is z
        np.testing.assert_array_equal(z, x * y.conj() + x)
