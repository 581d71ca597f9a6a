"""What stands in a loop that is not entered is not read, wherever it is computed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tensorc as tc
from tensorc.fuzz.walls import walled
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.lower import lower

INNER = "sum[i](x[clamp(2 * j + 1, 0, |l| - 1)] + i)"  # needs no l, but that there is one
HEAD = "op f(x: f32[l], w: f32[j, k], v: f32[i]) -> "
OPS = tc.loads(f"""
{HEAD.replace("f(", "stored(")}t: f32[j, k, l]
  t[j, k, l] = {INNER}

{HEAD.replace("f(", "summed(")}t: f32[j, k]
  t[j, k] = sum[l](x[l] * {INNER})

{HEAD.replace("f(", "both(")}t: f32[j, k, l], u: f32[j]
  t[j, k, l] = {INNER}
  u[j] = sum[k](w[j, k])
""")
EMPTY = np.zeros(0, np.float32), np.ones((2, 3), np.float32), np.ones(4, np.float32)


@pytest.mark.filterwarnings("ignore::tensorc.NotationWarning")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("op", list(OPS), ids=lambda op: op.name)
def test_the_emulator_sees_no_read_of_nothing(op: tc.Op, arch: str) -> None:
    found = op.on("emulator", arch=arch)(*EMPTY)
    want = op.on("interpreter")(*EMPTY)
    for got, right in zip(np.atleast_1d(*found), np.atleast_1d(*want), strict=True):
        np.testing.assert_array_equal(got, right)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect is called by its name")
@pytest.mark.parametrize("specialize", [True, False])
@pytest.mark.parametrize("cuts", ["cost", "none", "all"])
@pytest.mark.parametrize("op", list(OPS), ids=lambda op: op.name)
def test_the_cpu_reads_nothing_of_nothing(op: tc.Op, cuts: str, specialize: bool) -> None:
    x, *others = EMPTY
    found = op.on("cpu", cuts=cuts, specialize=specialize)(walled(x, "before"), *others)
    want = op.on("interpreter")(*EMPTY)
    for got, right in zip(np.atleast_1d(*found), np.atleast_1d(*want), strict=True):
        np.testing.assert_array_equal(got, right)


def test_only_loops_that_may_be_empty_are_asked() -> None:
    """And none where every read stays in range by itself."""
    program = OPS.stored.program

    def text(static: dict[str, int]) -> str:
        from tensorc.observe import show

        return show(lower(program, Widths(128), {}, "sm_80", static))

    assert "0 < |k|" in text({}) and "0 < |l|" in text({})
    assert "0 < |k|" not in text({"k": 3}) and "0 < |l|" in text({"k": 3})
    assert "0 < |" not in text({"k": 3, "l": 5})
