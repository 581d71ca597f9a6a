"""No kernel touches what lies behind its arrays: operands and outputs end where memory ends."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.fuzz.walls import walled

Array = npt.NDArray[Any]

OPS = tc.loads("""
op both(x: f32[n], y: f32[n]) -> s: f32[n], d: f32[n]
  s[n] = x[n] * y[n] + x[n]
  d[n] = x[n] - y[n] * x[n]

op rows(x: f32[m, n], y: f32[m, n]) -> s: f32[m, n], d: f32[m, n]
  s[m, n] = x[m, n] * y[m, n] + x[m, n]
  d[m, n] = x[m, n] - y[m, n] * x[m, n]

op narrow(x: f16[n], y: i8[n]) -> s: f16[n], d: i8[n]
  s[n] = x[n] * 2 + y[n]
  d[n] = y[n] // 2

op norm(x: f32[m, n], g: f32[n]) -> y: f32[m, n], r: f32[m]
  r[m] = rsqrt(mean[n](x[m, n] * x[m, n]) + 1e-5)
  y[m, n] = x[m, n] * r[m] * g[n]

op columns(x: f32[m, n]) -> s: f32[n], t: f32[n]
  s[n] = sum[m](x[m, n])
  t[n] = max[m](x[m, n])

op product(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]
  c[m, n] = sum[k](a[m, k] * b[k, n])

op turned(a: f32[m, k], b: f32[n, k]) -> c: f32[m, n]
  c[m, n] = sum[k](a[m, k] * b[n, k])

op mix(v: f32[n, e], s: f32[m, n]) -> o: f32[m, e]
  p[m, n] = softmax[n](s[m, n])
  o[m, e] = sum[n](p[m, n] * v[n, e])
""")


def drawn(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    draw = np.random.default_rng(7)
    if dtype.kind == "i":
        return draw.integers(-8, 8, shape, dtype)
    return draw.standard_normal(shape).astype(dtype)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called by its name")
@pytest.mark.parametrize("cuts", ["cost", "none", "all"])
@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_nothing_behind_the_last_element_is_touched(name: str, cuts: str) -> None:
    op = getattr(OPS, name)
    program = op.program
    for size in (1, 5, 15, 17, 31, 65):
        extents = dict.fromkeys(program.extent_of, size) | {"m": 7}

        def shape(item: Any, extents: dict[str, int] = extents) -> tuple[int, ...]:
            return tuple(extents[dim] for dim in item.dims)

        kinds = {"f32": "f4", "f16": "f2", "i8": "i1"}
        operands = [
            drawn(shape(i), np.dtype(kinds[i.tensor.dtype.name])) for i in program.parameters
        ]
        outputs = [np.zeros(shape(i), kinds[i.tensor.dtype.name]) for i in program.outputs]
        want = op.on("interpreter")(*operands)
        given, results = (
            [walled(array, "behind") for array in some] for some in (operands, outputs)
        )
        op.on("cpu", cuts=cuts, specialize=False).into(*results)(*given)
        for got, right in zip(results, want if len(outputs) > 1 else [want], strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-3, atol=1e-3)
