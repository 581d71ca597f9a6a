"""Judge a kernel's results against the meaning: the three-part rule on a whole program.

The reference is the level-1 interpreter in float64 (f64 in long double), its twin the same
interpreter rounding where the contract does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tensorc.ir.accept import Outcome, Verdict
from tensorc.prepare import Prepared

Array = npt.NDArray[Any]


def judge(prepared: Prepared, outputs: Mapping[str, Array]) -> dict[str, Verdict]:
    """A verdict for every output of a run that was prepared by `prepare.prepare`."""
    from tensorc.ir.accept import accept
    from tensorc.ir.bound_tensor import bound_tensor
    from tensorc.ir.interpret_tensor import interpret

    program, arrays, extents = prepared.program, prepared.arrays, prepared.extents
    want = interpret(program, arrays, extents, extended=True)
    twin = interpret(program, arrays, extents, rounded=True)
    limits = bound_tensor(program, arrays, extents)
    return {
        item.tensor.name: accept(
            outputs[item.tensor.name], want[item.tensor.name], twin[item.tensor.name],
            limits[item.tensor.name].error, item.tensor.dtype, strict=prepared.policy == "strict",
        )
        for item in program.outputs
    }  # fmt: skip


def worst(verdicts: Mapping[str, Verdict]) -> Outcome:
    """FAIL if any failed, else UNDECIDED if any is, else PASS."""
    found = {verdict.outcome for verdict in verdicts.values()}
    for outcome in (Outcome.FAIL, Outcome.UNDECIDED):
        if outcome in found:
            return outcome
    return Outcome.PASS
