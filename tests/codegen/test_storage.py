"""What kernels read and store: f8, shapes made of `const` integers, complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.ir.dtypes import F8E4M3, F8E5M2, DType
from tensorc.ir.rounding import numpy_dtype, round_to
from tests.requirements import need

F8 = (F8E4M3, F8E5M2)
DEVICES = ("cpu", "emulator")


def every(dtype: DType) -> npt.NDArray[Any]:
    """All 256 patterns."""
    return np.arange(256, dtype=np.uint8).view(numpy_dtype(dtype))


def neighbours(dtype: DType) -> npt.NDArray[np.float64]:
    """Every finite f8, the middle between each two, what is just beside it, and the extremes."""
    known = every(dtype).astype(np.float64)
    exact = np.unique(known[np.isfinite(known)])
    middle = (exact[1:] + exact[:-1]) / 2
    beside = [middle * (1 + sign * 2.0**-bits) for sign in (1, -1) for bits in (20, 40)]
    ends = [459.0, 464.0, 464.001, 480.0, 61439.0, 61440.0, 65536.0, 3e38, 1e-45, np.inf, np.nan]
    return np.concatenate([exact, middle, *beside, ends, np.negative(ends)])


@pytest.mark.parametrize("dtype", F8, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_f8_reads_exactly_and_rounds_once(device: str, dtype: DType) -> None:
    if device == "emulator":
        need("cxx")
    (read,) = tc.loads(f"op read(x: {dtype}[i]) -> y: f32[i]\n  y[i] = x[i]\n")
    patterns = every(dtype)
    np.testing.assert_array_equal(read.on(device)(patterns), patterns.astype(np.float32))
    for source in ("f32", "f64"):
        (store,) = tc.loads(f"op store(x: {source}[i]) -> y: {dtype}[i]\n  y[i] = x[i]\n")
        x = neighbours(dtype).astype(np.float32 if source == "f32" else np.float64)
        got: npt.NDArray[Any] = store.on(device)(x)
        want = round_to(x, dtype)
        same = (got.view(np.uint8) == want.view(np.uint8)) | (x != x)
        assert not list(zip(x[~same], got[~same], want[~same], strict=True))
        assert np.isnan(got.astype(np.float32)[np.isnan(x)]).all()


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_complex_products_in_the_emulator(kind: str) -> None:
    need("cxx")
    (product,) = tc.loads(
        f"op product(A: {kind}[m, k], B: {kind}[k, n], s: {kind}) -> C: {kind}[n, m], r: f64[m]\n"
        "  C[n, m] = s * sum[k](A[m, k] * conj(B[k, n]))\n"
        "  r[m] = sum[k](abs(A[m, k]) * k)\n"
    )
    rng = np.random.default_rng(1)
    parts = rng.integers(-9, 9, (4, 7, 7))
    a = (parts[0] + 1j * parts[1]).astype(kind)[::-1, 2:]
    b = (parts[2] + 1j * parts[3]).astype(kind).T[:5]
    c, r = product.on("emulator")(a, b, 2 - 1j)
    np.testing.assert_array_equal(c, ((2 - 1j) * (a @ b.conj())).T)
    np.testing.assert_allclose(r, abs(a.astype(complex)) @ np.arange(5), 1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["i64", "u8"])
def test_shapes_made_of_a_const_integer(device: str, kind: str) -> None:
    if device == "emulator":
        need("cxx")
    (segments,) = tc.loads(
        f"op segments(x: f32[e], at: i32[e], w: const {kind}) -> y: f32[d, s=w], z: f32[s, d=2]\n"
        "  t[s, d] = (d + 1) * sum[e](x[e] where at[e] == s)\n"
        "  y[d, s] = t[s, d]\n"
        "  z[s, d] = t[s, d] + sum[u=w](u)\n"
    )
    x, at = np.arange(1, 8, dtype=np.float32), np.array([0, 2, 2, 4, 0, 1, 9], np.int32)
    for size in (5, 3, 1):
        sums = np.array([x[at == s].sum() for s in range(size)])
        y, z = segments.on(device)(x, at, size)
        np.testing.assert_array_equal(y, [sums, 2 * sums])
        np.testing.assert_array_equal(z, np.stack([sums, 2 * sums], 1) + sum(range(size)))


@pytest.mark.parametrize("device", DEVICES)
def test_many_subscripts_out_of_range_at_once(device: str) -> None:
    if device == "emulator":
        need("cxx")
    (gather,) = tc.loads("op gather(x: f32[n], i: i32[m]) -> y: f32[m]\n  y[m] = x[i[m]]\n")
    x, i = np.ones(3, np.float32), np.full(300, -1, np.int32)
    with pytest.raises(tc.OutOfRange, match=r"i\[0\] = -1, x has 3 rows"):
        gather.on(device)(x, i)
