"""Fused kernels of whole collections of programs mean what level 1 means: every example at its
tiny size, and random programs with masks, data subscripts, special values and mixed types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorc as tc
from examples.sizes import EXAMPLES, Example
from tensorc.errors import ArgumentError, NotationError, OutOfRange
from tensorc.fuzz.case import of_generated
from tensorc.fuzz.generate import generate
from tensorc.fuzz.oracle import arrays_of
from tensorc.ir.choose import RandomChooser
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.rounding import round_to
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.fusion.inline import Unfused
from tensorc.prepare import prepare
from tests.examples import test_examples as examples
from tests.passes.fused import Array, fused

FOLDER = Path(__file__).parents[2] / "examples"


def every_extent(program: Program, sizes: dict[str, int]) -> dict[str, int]:
    """The extents of the indices that passes have added too."""
    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    return {name: evaluate(size, known) for name, size in program.extents} | sizes


def same(found: Array, wanted: Array, item: Program, name: str, tolerance: float) -> None:
    """Equal where not finite, and close relative to the largest element elsewhere."""
    (dtype,) = (o.tensor.dtype for o in item.outputs if o.tensor.name == name)
    kind = np.complex128 if dtype.complex else np.float64
    a, b = found.astype(kind), round_to(wanted, dtype).astype(kind)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    finite = np.isfinite(b)
    scale = max(1.0, float(np.abs(b[finite]).max(initial=0)))
    np.testing.assert_allclose(a[finite], b[finite], atol=tolerance * scale, rtol=tolerance)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples(example: Example) -> None:
    (op,) = tc.load(FOLDER / f"{example.name}.tc")
    arrays = examples.arrays_of(example, op.program)
    call = prepare(op.program, arrays, example.tiny)
    item = canonicalise(op.program)
    sizes = every_extent(item, dict(call.extents))
    wanted = interpret(item, call.arrays, sizes)
    found = interpret_tile(fused(item, sizes), call.arrays, sizes)
    for name, value in found.items():
        same(value, wanted[name], item, name, 1e-2)  # some round to bf16 on the way


def ran(seed: int) -> bool:
    """Whether a random program is one that runs and is fused; if so, it is right."""
    case = of_generated(generate(RandomChooser(seed)))
    try:
        (program,) = read(case.text)
        call = prepare(program, arrays_of(program, case), dict(case.sizes))
        item = canonicalise(program)
        sizes = every_extent(item, dict(call.extents))
        wanted = interpret(item, call.arrays, sizes)
        made = fused(item, sizes)
    except (NotationError, ArgumentError, OutOfRange, Unfused):
        return False  # no such call, or the plain lowering's part
    with np.errstate(all="ignore"):
        for name, value in interpret_tile(made, call.arrays, sizes).items():
            same(value, wanted[name], item, name, 2e-2)
    return True


def test_random_programs() -> None:
    assert sum(map(ran, range(25))) >= 20
