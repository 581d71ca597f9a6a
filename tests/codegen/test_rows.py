"""Rows dealt to the threads of a block, as CUDA C++: clean in the emulator, equal to their level-2
text whatever the interleaving, and 16 bytes an access in what nvcc makes of them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tensorc.ir.interpret_tile import interpret
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.sizes import bind
from tests.codegen.tile_kernels import close, emit, emulated
from tests.passes.test_tile_product import drawn, program, tiled
from tests.passes.test_tile_rows import FORMER, ROWS, sizes_for
from tests.requirements import need

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
LENGTHS = (3, 8, 100, 513, 1000, 1024, 3000) if CAMPAIGN else (8, 100, 1000)


def check(text: str, sizes: dict[str, int], static: dict[str, int], arch: str) -> None:
    """Equal in every interleaving, and what the level-2 text means."""
    item, made = program(text), tiled(text, arch, static).program
    module = emit(made, static)
    assert '#include "rows.cuh"' in module.text
    arrays = drawn(item, sizes)
    extents = bind(item, {}, dict(sizes))
    known = {Symbol(name, "extent"): size for name, size in extents.items()}
    full = {**extents, **{n: evaluate(s, known) for n, s in made.extents}}
    wanted = interpret(made, arrays, full)
    runs = [emulated(made, module, arrays, full, n, arch) for n in range(8 if CAMPAIGN else 2)]
    for output in item.outputs:
        name = output.tensor.name
        assert len({run[name].tobytes() for run in runs}) == 1
        if output.tensor.dtype.floating:
            close(runs[0][name], wanted[name], output.tensor, 4.0, sizes)
        else:
            np.testing.assert_array_equal(runs[0][name], wanted[name])


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    need("cxx")
    for i in LENGTHS:
        sizes = sizes_for(ROWS[name], i=i, t=5)
        check(ROWS[name], sizes, sizes, "sm_80")


@pytest.mark.parametrize("name", [*FORMER, "cross-entropy"])
def test_rows_of_any_length(name: str) -> None:
    need("cxx")
    for i in (1, 4096, 4099) if CAMPAIGN else (4099,):
        check(ROWS[name], sizes_for(ROWS[name], i=i, t=2), {}, "sm_90a")
