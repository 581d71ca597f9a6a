"""Extrema of integers beside products on tensor cores: exact, on both architectures, also where
values would have to pass between roles and the kernels are made another way."""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.cuda_levels import levels, request
from tensorc.cuda_ways import first
from tensorc.devices import run
from tensorc.lang import read
from tensorc.prepare import prepare
from tests.requirements import need

TEXT = """op found(x: f16[p, d], c: f16[k, d]) -> a: {kind}[p]
  r[p, k] = sum[d](x[p, d] * c[k, d])
  a[p] = {body}
"""
LAST = TEXT.format(kind="i64", body="max[k](select(r[p, k] > 0, k, -1))")
FIRST = TEXT.format(kind="i32", body="min[k](select(r[p, k] > 0, i32(k), i32(|k|)))")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("text", [LAST, FIRST], ids=["last", "first"])
def test_extrema_of_integers(text: str, arch: str) -> None:
    need("cxx")
    (program,) = read(text)
    random = np.random.default_rng(1)
    x, c = (random.integers(-3, 4, (rows, 64)).astype(np.float16) for rows in (70, 100))
    call = prepare(program, {"x": x, "c": c})
    source = levels(program, first(program, request(arch, call.extents, {}))).source
    assert "mma_" in source and "tcs_other(" in source
    positive = x.astype(np.float32) @ c.astype(np.float32).T > 0
    places = np.arange(100)
    want = np.where(positive, places, -1).max(1)
    if text is FIRST:
        want = np.where(positive, places, 100).min(1)
    np.testing.assert_array_equal(run(call, "emulator", arch)["a"], want)
