"""BL021: what else is computed beside an element may change its last bits; `deterministic` forbids.

Also that `strict` adds in the order written, on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorc as tc

Array = npt.NDArray[Any]

# One operator a line; its first parameter has the batch as its first dimension, and so have the
# outputs. In each the other extents decide, without the option, how the reductions are vectorised.
OPS = tc.loads("""
op report(x: f32[n, b], w: f32[d, h, b]) -> y: f32[n, d, h]
  y[n, d, h] = sum[b](w[d, h, b] * x[n, b])
op product(x: f16[n, k], w: f16[k, m]) -> y: f32[n, m]
  y[n, m] = sum[k](x[n, k] * w[k, m])
op transposed(x: bf16[n, k], w: bf16[m, k], c: f32[m]) -> y: bf16[n, m]
  y[n, m] = sum[k](x[n, k] * w[m, k]) + c[m]
op rows(x: f64[n, k]) -> y: f64[n], z: f64[n]
  y[n] = mean[k](x[n, k])
  z[n] = logsumexp[k](x[n, k])
op norm(x: f32[n, k], w: f32[k]) -> y: f32[n, k]
  u[n] = mean[k](x[n, k])
  y[n, k] = (x[n, k] - u[n]) * rsqrt(mean[k]((x[n, k] - u[n]) ** 2) + 1e-5) * w[k]
op attend(x: f16[n, d], k: f16[m, d], v: f16[m, e]) -> o: f32[n, e]
  s[n, m] = sum[d](x[n, d] * k[m, d]) / sqrt(|d|)
  p: f16[n, m] = softmax[m](s[n, m])
  o[n, e] = sum[m](p[n, m] * v[m, e])
op conv(x: f32[n, c, w], f: f32[o, c, r]) -> y: f32[n, o, v=|w| - |r| + 1]
  y[n, o, v] = sum[c, r](x[n, c, v + r] * f[o, c, r])
op waves(x: complex64[n, k], w: complex64[k, m]) -> y: complex64[n, m]
  y[n, m] = sum[k](x[n, k] * w[k, m])
op counted(x: f32[n, k]) -> y: f32[n]
  y[n] = sum[k](x[n, k] * (1 + k) / (3 * |k|)) ** 0.3
""")
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
         "complex64": np.complex64}  # fmt: skip


def drawn(op: tc.Op, sizes: dict[str, int], seed: int) -> list[Array]:
    """Normal numbers for every parameter."""
    generator = np.random.default_rng(seed)

    def array(dims: tuple[int, ...], dtype: str) -> Array:
        found: Any = generator.standard_normal(dims)
        if dtype.startswith("complex"):
            found = found + 1j * generator.standard_normal(dims)
        return found.astype(TYPES[dtype])

    return [
        array(tuple(sizes[str(dim)] for dim in item.dims), str(item.tensor.dtype))
        for item in op.program.parameters
    ]


def outputs(op: tc.Op, operands: list[Array]) -> list[Array]:
    found = op.on("cpu", deterministic=True)(*operands)
    return [*cast("tuple[Array, ...]", found)] if isinstance(found, tuple) else [found]


def layouts(array: Array) -> Iterator[Array]:
    """The same elements in other places."""
    yield np.asfortranarray(array)
    yield np.ascontiguousarray(array[::-1])[::-1]
    wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
    wide[..., ::2] = array
    yield wide[..., ::2]


def same(found: list[Array], wanted: list[Array]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.tobytes() == np.ascontiguousarray(other).tobytes()


EXTENT = st.sampled_from([1, 2, 3, 6, 7, 15, 16, 17, 33, 64, 65, 70])


@pytest.mark.parametrize("op", list(OPS), ids=lambda op: op.name)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_row_has_the_same_bits_in_every_company(op: tc.Op, data: st.DataObject) -> None:
    """BL021."""
    sizes = {name: data.draw(EXTENT, name) for name in op.program.extent_of}
    if op.name == "conv":
        sizes["w"] += sizes["r"]
    operands = drawn(op, sizes, data.draw(st.integers(0, 9)))
    wanted = outputs(op, operands)
    row = data.draw(st.integers(0, sizes["n"] - 1))
    count = data.draw(st.integers(1, sizes["n"] - row))
    x, *others = operands
    same(outputs(op, [x[row : row + count], *others]), [y[row : row + count] for y in wanted])
    for other in layouts(x):
        same(outputs(op, [other, *others]), wanted)
    for other in layouts(others[0]) if others and others[0].ndim > 1 else ():
        same(outputs(op, [x, other, *others[1:]]), wanted)


def test_repeated_elements_are_as_copies_of_them() -> None:
    """BL021: of operands with stride 0 no copy is made."""
    for op in (OPS.product, OPS.transposed, OPS.norm):
        x, w, *others = drawn(op, {"n": 7, "k": 33, "m": 18}, 3)
        repeated = np.broadcast_to(x[:1], x.shape)
        same(outputs(op, [repeated, w, *others]), outputs(op, [repeated.copy(), w, *others]))
        if w.ndim > 1:
            repeated = np.broadcast_to(w[:1], w.shape)
            same(outputs(op, [x, repeated, *others]), outputs(op, [x, repeated.copy(), *others]))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_it_holds_on_the_emulator(arch: str) -> None:
    """BL021."""
    on = OPS.report.on("emulator", arch=arch, deterministic=True)
    x, w = drawn(OPS.report, {"n": 5, "b": 37, "d": 2, "h": 3}, 1)
    assert on(x[3:4], w).tobytes() == on(x, w)[3:4].tobytes()
    assert on(np.asfortranarray(x), w).tobytes() == on(x, w).tobytes()


def test_a_deterministic_kernel_serves_all_sizes() -> None:
    kernel = OPS.report.compile(sizes={"b": 6}, deterministic=True)
    assert repr(kernel).startswith("<kernel report[n, b, d, h] for ")
    assert repr(kernel).endswith("fast, deterministic>")
    assert "deterministic: no choice by sizes or layouts" in str(kernel.report)
    x, w = drawn(OPS.report, {"n": 33, "b": 2, "d": 2, "h": 3}, 1)
    same([kernel(x, w)[:2]], [kernel(x[:2], w)])
    with pytest.raises(ValueError, match="deterministic=1: there are True and False"):
        OPS.report.on("cpu", deterministic=1)


def in_order(rows: Array) -> Array:
    """Sums along the last axis, one rounding a step."""
    total = np.zeros(rows.shape[:-1], rows.dtype)
    for k in range(rows.shape[-1]):
        total = total + rows[..., k]
    return total


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strict_adds_in_the_order_written(device: str, dtype: type[np.floating[Any]]) -> None:
    """Ascending, the last index fastest; no fused multiply-add."""
    name = np.dtype(dtype).name.replace("float", "f")
    ops = tc.loads(
        f"op f(x: {name}[m, n, k], w: {name}[n, k]) -> y: {name}[m], z: {name}\n"
        "  y[m] = sum[n, k](x[m, n, k] * w[n, k])\n  z = sum[m, n, k](x[m, n, k])\n"
    )
    generator = np.random.default_rng(2)
    x: Array = generator.standard_normal((3, 20, 37)).astype(dtype)
    w: Array = generator.standard_normal((20, 37)).astype(dtype)
    y, z = ops.f.on(device, policy="strict")(x, w)
    np.testing.assert_array_equal(y, in_order((x * w).reshape(3, -1)))
    np.testing.assert_array_equal(z, in_order(x.reshape(-1)))
    if device == "cpu":
        assert ops.f(x, w)[1] != z
