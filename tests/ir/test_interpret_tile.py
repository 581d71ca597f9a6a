"""Level 2 means what it says, block by block; what must not happen is found out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tensorc.errors import BrokenInvariant
from tensorc.ir.dtypes import F32, INTEGER
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.polynomial import extent
from tensorc.ir.tensor import Apply, Declaration, Literal, Position, Read, Tensor
from tensorc.ir.tile import Block, Kernel, Store, TileProgram, Use

A = Tensor("a", F32, (extent("m"),))
Y = Tensor("y", F32, (extent("m"),))


def doubling() -> TileProgram:
    """y[m] = 2 * a[m], 16 lanes at a time."""
    two = Literal(Fraction(2), INTEGER)
    value = Apply(FUNCTIONS["mul"], (two, Read(A, (Position("m"),))))
    store = Store(Y, (Position("m"),), value, None, (), Use("vector"), ())
    kernel = Kernel("y", (A,), (Y,), (Block("m", 16),), (store,))
    return TileProgram(
        "doubling", "avx512", (Declaration(A, ("m",)),), (Declaration(Y, ("m",)),), (),
        (("m", extent("m")),), (kernel,),
    )  # fmt: skip


@pytest.mark.parametrize("m", [0, 1, 15, 16, 17, 40])
def test_only_lanes_inside_the_domain_are_stored(m: int) -> None:
    a = np.arange(m, dtype=np.float32)
    found = interpret(doubling(), {"a": a}, {"m": m}, np.random.default_rng(0))
    np.testing.assert_array_equal(found["y"], 2 * a)


def test_an_element_that_no_block_stores_is_found() -> None:
    program = doubling()
    (kernel,) = program.kernels
    half = replace(kernel, body=())
    with pytest.raises(BrokenInvariant, match="some of y was never stored"):
        interpret(replace(program, kernels=(half,)), {"a": np.ones(3)}, {"m": 3})
