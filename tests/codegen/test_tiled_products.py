"""Products that the tiler puts on tensor cores of sm_80, as CUDA C++: clean in the emulator, equal
to their level-2 text, and accepted by nvcc without spills."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tensorc.ir.interpret_tile import interpret
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.sizes import bind
from tests.codegen.tile_kernels import close, compiled, emit, emulated
from tests.passes.test_tile_product import CONVOLUTIONS, PRODUCTS, drawn, program, tiled
from tests.requirements import need

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
SMALL = {"m": 37, "n": 20, "k": 33, "b": 2, "j": 3, "x": 3, "y": 21, "p": 75, "r": 104}
ALIGNED = {"m": 129, "n": 136, "k": 72, "b": 3, "j": 2, "x": 8, "y": 16, "p": 258, "r": 300}
IMAGE = {"n": 2, "h": 13, "w": 13, "c": 40, "o": 24, "r": 3, "s": 3}


def check(text: str, sizes: Mapping[str, int], static: Mapping[str, int] | None = None) -> None:
    """Equal in every interleaving, and what the level-2 text means."""
    item, made = program(text), tiled(text, "sm_80", static)
    assert made.reasons == {}
    module = emit(made.program, static)
    arrays = drawn(item, sizes)
    extents = bind(item, {}, dict(sizes))
    wanted = interpret(made.program, arrays, extents)
    known = {Symbol(name, "extent"): size for name, size in extents.items()}
    added = {n: evaluate(s, known) for n, s in made.program.extents if n not in extents}
    full = {**extents, **added}
    runs = [emulated(made.program, module, arrays, full, n) for n in range(8 if CAMPAIGN else 2)]
    for output in item.outputs:
        name = output.tensor.name
        assert len({run[name].tobytes() for run in runs}) == 1
        close(runs[0][name], wanted[name], output.tensor, 2.0, sizes)


def used(text: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of the free indices of a text."""
    free = {index for index, size in program(text).extents if str(size) == f"|{index}|"}
    return {index: size for index, size in sizes.items() if index in free}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    need("cxx")
    for sizes in (SMALL, ALIGNED) if CAMPAIGN else (SMALL,):
        check(PRODUCTS[name], used(PRODUCTS[name], sizes))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    need("cxx")
    check(CONVOLUTIONS[name], IMAGE, IMAGE)
    if CAMPAIGN:
        check(CONVOLUTIONS[name], IMAGE)


@pytest.mark.parametrize("name", PRODUCTS if CAMPAIGN else ["two at a time"])
def test_products_fit_into_registers(name: str, tmp_path: Path) -> None:
    need("nvcc")
    found = compiled(emit(tiled(PRODUCTS[name], "sm_80").program).text, tmp_path)
    assert (found.spills, found.stack, found.remarks) == (0, 0, ())
