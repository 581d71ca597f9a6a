"""Grids of more blocks than one launch can have run in several launches."""

from __future__ import annotations

import numpy as np
import pytest

import tensorc as tc
from tensorc.cuda_levels import levels, request
from tensorc.devices import run
from tensorc.ir import launch
from tensorc.ir.accept import Outcome
from tensorc.prepare import prepare
from tensorc.verify import judge, worst
from tests.requirements import need

OPS = tc.loads("""
op scale(x: f32[m, n]) -> y: f32[m, n]
  y[m, n] = 3 * x[m, n] + m

op product(a: f16[m, k], b: f16[k, n]) -> o: f16[m, n]
  o[m, n] = sum[k](a[m, k] * b[k, n])
""")


@pytest.mark.parametrize("name", ["scale", "product"])
def test_a_grid_in_several_launches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need("cxx")
    monkeypatch.setattr(launch, "LARGEST_GRID", 2)
    random = np.random.default_rng(5)
    shapes = {"scale": {"x": (5, 300)}, "product": {"a": (300, 40), "b": (40, 300)}}[name]
    arrays = {
        key: random.standard_normal(shape).astype(np.float32 if name == "scale" else np.float16)
        for key, shape in shapes.items()
    }
    call = prepare(getattr(OPS, name).program, arrays)
    assert worst(judge(call, run(call, "emulator", "sm_80"))) is Outcome.PASS


def test_a_grid_that_fits_one_launch_has_no_first_block() -> None:
    small, large = {"m": 64, "n": 64}, {"m": 1 << 33, "n": 4}
    for name, sizes, begins in (
        ("scale", small, False), ("scale", {}, True), ("scale", large, True),
        ("product", {**small, "k": 16}, False), ("product", {}, True),
    ):  # fmt: skip
        found = levels(getattr(OPS, name).program, request("sm_80", sizes, {}))
        slots = [slot.kind for slot in found.module.kernels[0].entry.slots]
        assert ("begin" in slots) == begins
