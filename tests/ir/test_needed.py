"""What no output needs is neither computed nor checked, whichever way a program runs."""

from __future__ import annotations

import numpy as np
import pytest

import tensorc as tc
from tensorc.ir.needed import needed

TEXT = """
op f(x: i64[i], w: f32[k]) -> y: f32[i]
  t[i] = w[x[i]]
  u[i] = t[i] + 1
  y[i] = x[i] * 2.0
"""


@pytest.mark.filterwarnings("ignore::tensorc.NotationWarning")
@pytest.mark.parametrize("device", ["cpu", "interpreter", "emulator"])
@pytest.mark.parametrize(
    "options",
    [{}, {"cuts": "all"}, {"cuts": "none"}, {"policy": "strict"}, {"deterministic": True}],
    ids=str,
)
def test_a_subscript_in_an_idle_equation_is_not_looked_at(
    device: str, options: dict[str, object]
) -> None:
    op = tc.loads(TEXT).f
    beyond, w = np.array([-4, 7]), np.zeros(3, np.float32)
    assert op.on(device, **options)(beyond, w).tolist() == [-8, 14]


def test_equations_and_checks_that_no_output_needs_go() -> None:
    with pytest.warns(tc.NotationWarning, match="W203"):
        program = tc.loads(TEXT).f.program
    assert [item.tensor.name for item in needed(program).equations] == ["y"]
    assert len(program.checks) == 1 and needed(program).checks == ()
    used = tc.loads(TEXT.replace("x[i] * 2.0", "x[i] * 2.0 + u[i]")).f.program
    assert needed(used) is used
