"""Level-2 texts for tensor cores as CUDA C++: clean in the emulator at the edges of tiles, equal to
what the text means, accepted by nvcc without spills, and readable."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tensorc.errors import Infeasible, KernelError
from tensorc.ir.placement import Placement
from tensorc.ir.read_tile import read
from tensorc.ir.rounding import round_to
from tensorc.ir.tile import TileProgram
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.place_warps import place_warps
from tests.codegen.tile_kernels import Array, check, compiled, emit, emulated
from tests.conftest import Golden
from tests.requirements import need

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
SEEDS = 8 if CAMPAIGN else 2
TEXTS = Path(__file__).parents[1] / "golden" / "tile"
GEMM = (TEXTS / "gemm_sm80.txt").read_text()
ATTENTION = (TEXTS / "attention_sm80.txt").read_text()

# Changes of the text of GEMM: what the copies, operands and stores are asked to do.
VARIANTS: dict[str, tuple[tuple[str, str], ...]] = {
    "plain": (),
    "bf16": ((": f16[", ": bf16["), (" f16 ", " bf16 ")),
    "f32 out": (("output o: f16[m, n]", "output o: f32[m, n]"),),
    "first operand by columns": (
        ("input a: f16[m, k]", "input a: f16[k, m]"),
        ("As[m, k] = a[m, k]            f16 shared swizzle 64 ",
         "As[k, m] = a[k, m]            f16 shared swizzle 128"),
        ("by ldmatrix (m: m x 8", "by ldmatrix.trans (m: m x 8"),
    ),
    "second operand by columns": (
        ("input w: f16[k, n]", "input w: f16[n, k]"),
        ("Ws[k, n] = w[k, n]            f16 shared swizzle 128",
         "Ws[n, k] = w[n, k]            f16 shared swizzle 64 "),
        ("by ldmatrix.trans (m: n x 8", "by ldmatrix (m: n x 8"),
    ),
    "transposed while copying": (
        ("input a: f16[m, k]", "input a: f16[k, m]"),
        ("As[m, k] = a[m, k]", "As[m, k] = a[k, m]"),
    ),
    "batched": (
        ("index m, n, k", "index b, m, n, k"),
        ("f16[m, k]", "f16[b, m, k]"), ("f16[k, n]", "f16[b, k, n]"),
        ("f16[m, n]", "f16[b, m, n]"), ("grid m by", "grid b, m by"),
        (" a[m, k]", " a[b, m, k]"), (" w[k, n]", " w[b, k, n]"), (" o[m, n]", " o[b, m, n]"),
    ),
}  # fmt: skip


def variant(name: str, text: str = GEMM) -> TileProgram:
    """The text with its changes."""
    for old, new in VARIANTS[name]:
        assert old in text, old
        text = text.replace(old, new)
    return read(text)


def arrays_of(program: TileProgram, extents: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Normal numbers of every parameter's type."""
    draw = np.random.default_rng(seed).standard_normal
    found: dict[str, Array] = {}
    for item in program.parameters:
        shape = tuple(extents[dim or ""] for dim in item.dims)
        found[item.tensor.name] = round_to(draw(shape), item.tensor.dtype)
    return found


def sizes(program: TileProgram, **given: int) -> dict[str, int]:
    """The extents of a program's indices: given ones, those the text fixes, and 2."""
    fixed = {name: size.constant for name, size in program.extents}
    return {name: given.get(name) or fixed[name] or 2 for name in fixed}


EDGES = [(127, 127, 31), (128, 128, 32), (129, 136, 40), (1, 1, 1), (40, 8, 200)]


@pytest.mark.parametrize("name", VARIANTS)
def test_products_are_clean_and_right(name: str) -> None:
    need("cxx")
    program = variant(name)
    module = emit(program)
    for m, n, k in EDGES if CAMPAIGN or name == "plain" else EDGES[2:4]:
        extents = sizes(program, m=m, n=n, k=k)
        check(program, module, arrays_of(program, extents), extents, SEEDS)


def test_empty_extents_touch_nothing() -> None:
    need("cxx")
    program = variant("plain")
    module = emit(program)
    for m, n, k in [(0, 8, 8), (8, 0, 8), (5, 6, 0)]:
        extents = {"m": m, "n": n, "k": k}
        check(program, module, arrays_of(program, extents), extents, 1)


def test_static_extents_give_the_same() -> None:
    need("cxx")
    program = variant("plain")
    extents = {"m": 128, "n": 256, "k": 96}
    module = emit(program, extents)
    assert "extent" not in module.text
    check(program, module, arrays_of(program, extents), extents, SEEDS)


@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(1, 4, 2), (4, 1, 3), (2, 4, 4), (8, 1, 2), (1, 2, 2)]
)
def test_every_placement_gives_the_same(rows: int, columns: int, depth: int) -> None:
    need("cxx")
    program = variant("plain")
    module = emit(program, placement=Placement(rows, columns, depth))
    extents = {"m": 130, "n": 136, "k": 104}
    check(program, module, arrays_of(program, extents), extents, SEEDS)


KEYS = [(127, 127), (1, 1), (129, 300), (300, 40)]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_attention_is_clean_and_right(dtype: str) -> None:
    need("cxx")
    text = ATTENTION if dtype == "f16" else ATTENTION.replace("f16", "bf16")
    program = read(text)
    module = emit(program)
    for m, n in KEYS if CAMPAIGN or dtype == "f16" else KEYS[2:3]:
        extents = sizes(program, m=m, n=n, b=1)
        check(program, module, arrays_of(program, extents), extents, SEEDS)


# What holds a ring together; without any one of them the emulator reports a race on some seed.
PARTS = ["tc_cp_async_wait<2>();", "tc_syncthreads();"]


@pytest.mark.parametrize("part", PARTS)
def test_a_kernel_without_its_waits_is_reported(part: str) -> None:
    need("cxx")
    program = variant("plain")
    module = emit(program)
    assert part in module.text
    broken = type(module)(module.text.replace(part, ""), module.kernels)
    extents = {"m": 64, "n": 64, "k": 264}
    arrays = arrays_of(program, extents)
    with pytest.raises(KernelError):
        for seed in range(8):
            emulated(program, broken, arrays, extents, seed)


@pytest.mark.parametrize("name", VARIANTS if CAMPAIGN else ["plain"])
def test_products_fit_into_registers(name: str, tmp_path: Path) -> None:
    need("nvcc")
    found = compiled(emit(variant(name)).text, tmp_path)
    assert (found.spills, found.stack, found.remarks) == (0, 0, ())
    assert found.registers <= 255


def test_attention_fits_into_registers(tmp_path: Path) -> None:
    need("nvcc")
    found = compiled(emit(read(ATTENTION)).text, tmp_path)
    assert (found.spills, found.stack, found.remarks) == (0, 0, ())


def test_source_for_people(golden: Golden) -> None:
    for name, text in (("gemm_sm80.cu", GEMM), ("attention_sm80.cu", ATTENTION)):
        source = emit(read(text)).text
        golden(name, source)
        assert source.count("\n") <= 250
        for copy in re.findall(r"\w+\[\w, \w\] = \w+\[.*?\]", text):
            assert f"// {copy}" in source


def test_placements() -> None:
    product = load_product("a100")
    (gemm,), (attention,) = read(GEMM).kernels, read(ATTENTION).kernels
    assert place_warps(gemm, product) == Placement(2, 2, 4)
    assert place_warps(attention, product) == Placement(4, 1, 3)
    (wide,) = read(ATTENTION.replace("n by 32", "n by 64").replace("n x 2", "n x 4").replace(
        "n x 4, k: d", "n x 8, k: d")).kernels  # fmt: skip
    assert place_warps(wide, product) == Placement(8, 1, 4)


def test_a_placement_that_does_not_exist_is_refused() -> None:
    product = load_product("a100")
    text = GEMM.replace("m by 128, n by 128", "m by 512, n by 512").replace("m x 8", "m x 32")
    (large,) = read(text.replace("n x 8", "n x 32").replace("n x 16", "n x 64")).kernels
    with pytest.raises(Infeasible, match="registers"):
        place_warps(large, product)


def test_a_plain_kernel_has_no_placement() -> None:
    text = (
        "program p for sm_80\nindex m\ninput a: f32[m]\noutput o: f32[m]\n\n"
        "kernel p(a) -> o\n  grid m by 128\n  store o[m] = a[m]  by simt\n"
    )
    (kernel,) = read(text).kernels
    assert place_warps(kernel, load_product("a100")) is None
