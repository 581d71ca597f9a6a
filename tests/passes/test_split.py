"""Parts of a split pass are combined by the rule that moves its running states."""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.verify_tensor import verify
from tensorc.passes.fusion.fuse import fuse, sizes_of
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.fusion.split import split
from tests.passes.fused import ONE_KERNEL, arguments, program, tiled

SIZES = {"b": 2, "h": 2, "m": 3, "d": 5, "e": 9, "x": 2, "y": 3, "z": 2, "i": 40, "o": 9, "t": 3}


@pytest.mark.parametrize("n", [1, 7, 130])
@pytest.mark.parametrize(
    "name",
    ["attention", "causal attention", "ragged", "entropy", "moments", "layer norm and product"],
)
def test_parts_are_combined_by_the_rule_of_the_pass(name: str, n: int) -> None:
    source = program(ONE_KERNEL[name])
    sizes = sizes_of(source, {**SIZES, "n": n} if name != "layer norm and product" else SIZES)
    item, stored = split(source, fuse(source, sizes, "none"), 4)
    assert not verify(item, accesses=False)
    sizes = sizes_of(item, sizes)
    plan = fuse(item, sizes, "none", stored)
    parts, _ = plan.kernels  # and their combination
    assert len(parts.passes) == 1
    arrays = arguments(source, sizes, n)
    wanted = interpret(source, arrays, sizes)
    found = interpret_tile(tiled(item, plan, sizes), arrays, sizes)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=2e-5)


def test_split_variance_far_from_zero_is_stable() -> None:
    source = program(ONE_KERNEL["moments"])
    sizes = sizes_of(source, {"m": 2, "n": 16384})
    item, stored = split(source, fuse(source, sizes, "none"), 8)
    x = (1e4 + np.random.default_rng(0).standard_normal((2, 16384))).astype(np.float32)
    sizes = sizes_of(item, sizes)
    made = tiled(item, fuse(item, sizes, "none", stored), sizes)
    found = interpret_tile(made, {"x": x}, sizes)["v"]
    np.testing.assert_allclose(found, x.astype(np.float64).var(axis=1), rtol=5e-5)


def test_what_has_no_single_pass_is_not_split() -> None:
    source = program(
        "op f(x: f32[m, n]) -> o: f32[m]\n  o[m] = mean[n](abs(x[m, n] - mean[n](x[m, n])))\n"
    )
    with pytest.raises(Unfused, match="one kernel with one pass"):
        split(source, fuse(source, {}, "none"), 4)
