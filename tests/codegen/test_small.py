"""The 8-bit floats on the CPU: every pattern read, every rounding case stored, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.rounding import numpy_dtype, round_to

Array = npt.NDArray[Any]
TYPES = ("f8e4m3", "f8e5m2")


def same(got: Array, want: Array) -> None:
    """Equal, NaN with NaN, -0 with -0."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    wrong = np.flatnonzero(
        ~((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b))
    )
    assert not len(wrong), [(a[i], b[i]) for i in wrong[:5]]


def patterns(name: str) -> Array:
    return np.arange(256, dtype=np.uint8).view(numpy_dtype(BY_NAME[name]))


@pytest.mark.parametrize("name", TYPES)
def test_every_pattern_is_read_and_stored(name: str) -> None:
    ops = tc.loads(
        f"op f(x: {name}[n]) -> y: f32[n], z: {name}[n], b: u8[n], c: {name}[n]\n"
        "  y[n] = x[n]\n  z[n] = x[n]\n"
        f"  b[n] = bitcast(u8, x[n])\n  c[n] = bitcast({name}, b[n])\n"
    )
    x = patterns(name)
    for count in (256, 1):
        y, z, b, c = ops.f(x[-count:])
        same(y, x[-count:].astype(np.float32))
        for narrow in (z, c):
            assert narrow.dtype == x.dtype
            same(narrow, x[-count:])
    bits = ops.f(x)[2]
    assert (bits == np.arange(256))[~np.isnan(x.astype(np.float32))].all()
    assert b.dtype == np.uint8


def edges(name: str) -> Array:
    """Values, halves between neighbours, and what lies next to those, of both signs."""
    values = np.unique(np.abs(patterns(name).astype(np.float64)))
    values = values[np.isfinite(values)]
    top = values[-1]
    halves = (values[1:] + values[:-1]) / 2
    beyond = [top * 1.03, top + (top - values[-2]) / 2, top * 1.1, 1e30, np.inf, np.nan, 1e-30]
    exact = np.concatenate([values, halves, np.array(beyond)])
    near = [exact, np.nextafter(exact, 0), np.nextafter(exact, np.inf)]
    narrow = exact.astype(np.float32)
    near += [np.nextafter(narrow, np.float32(0)), np.nextafter(narrow, np.float32(np.inf))]
    every = np.concatenate([item.astype(np.float64) for item in near])
    return np.concatenate([every, -every])


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("source", ["f32", "f64", "i32", "i64"])
def test_rounding_is_once_to_nearest_even(name: str, source: str) -> None:
    op = tc.loads(
        f"op f(x: {source}[n]) -> y: {name}[n], z: f32[n]\n"
        f"  y[n] = {name}(x[n])\n  z[n] = {name}(x[n])\n"
    ).f
    dtype = numpy_dtype(BY_NAME[source])
    if source[0] == "f":
        with np.errstate(over="ignore"):
            x = edges(name).astype(dtype)
    else:
        x = np.concatenate([np.arange(-5000, 5000), [2**31 - 1, -(2**31)]]).astype(dtype)
        if source == "i64":
            x = np.concatenate([x, np.array([2**63 - 1, 2**53 + 1, -(2**62)])])
    want = round_to(x, BY_NAME[name])
    y, z = op(x)
    same(y, want)
    same(z, want.astype(np.float32))
