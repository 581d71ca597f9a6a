"""Level 3 as CUDA C++ for sm_90a: warp groups with roles, clean in the emulator at the edges of
tiles, equal to what the level-2 text means, and accepted by nvcc as written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tensorc.codegen.cuda as cuda
from benchmarks.sass import loops
from tensorc.codegen.cuda import CudaModule
from tensorc.cuda_levels import levels, request, with_roles
from tensorc.errors import KernelError
from tensorc.ir.placement import Pipelined
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.print_channel import print_channel
from tensorc.ir.read_channel import read_channel
from tensorc.lang import read
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.place_groups import place_groups
from tensorc.passes.scheduling.extract_problem import extract
from tests.codegen.test_warps import arrays_of, sizes
from tests.codegen.tile_kernels import check, compiled, emit, emulated
from tests.conftest import Golden
from tests.passes.test_tile_chain import CHAINS
from tests.passes.test_tile_product import GEMM, PRODUCTS, drawn, tiled
from tests.passes.test_tile_product import program as text_program
from tests.requirements import need
from tests.scheduling.texts import loop, pipelined, program

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
SEEDS = 8 if CAMPAIGN else 2
BLOCKS = 2  # fewer than tiles of the grid, so that blocks take several


def module(name: str) -> CudaModule:
    """The source of a text, by the schedule of its loop."""
    return emit(program(name), placement=Pipelined(loop(name).kernel, pipelined(name), BLOCKS))


EDGES = [(128, 256, 64), (127, 264, 72), (256, 512, 384), (1, 8, 8), (129, 248, 320), (40, 8, 0)]


@pytest.mark.parametrize("name", ["gemm", "staged"])
def test_products_are_clean_and_right(name: str) -> None:
    need("cxx")
    found = module(name)
    for m, n, k in EDGES if CAMPAIGN else EDGES[1:4]:
        extents = {"m": m, "n": n, "k": k}
        arrays = arrays_of(program(name), extents)
        check(program(name), found, arrays, extents, SEEDS, arch="sm_90a")


KEYS = [(128, 128), (127, 129), (200, 300), (1, 1), (300, 40), (64, 520)]


def test_attention_is_clean_and_right() -> None:
    need("cxx")
    found, text = module("attention_sm90"), program("attention_sm90")
    for m, n in KEYS if CAMPAIGN else KEYS[2:5]:
        extents = sizes(text, b=1, h=2, m=m, n=n)
        check(text, found, arrays_of(text, extents), extents, SEEDS, arch="sm_90a")


# Without any one of them some interleaving reads what is not there, or waits for ever.
PARTS = ["get A[step]", "get B[step]", "turn mma", "done A[step - 1]"]


@pytest.mark.parametrize("part", PARTS if CAMPAIGN else PARTS[:1])
def test_a_kernel_without_its_meetings_is_reported(part: str) -> None:
    need("cxx")
    found = module("gemm")
    lines = found.text.split("\n")
    places = [n for n, line in enumerate(lines) if line.strip() == f"// {part}"]
    assert places
    for place in places:
        lines[place + 1] = ""
    broken = CudaModule("\n".join(lines), found.kernels)
    extents = {"m": 128, "n": 256, "k": 640}
    arrays = arrays_of(program("gemm"), extents)
    with pytest.raises(KernelError):
        for seed in range(8):
            emulated(program("gemm"), broken, arrays, extents, seed, "sm_90a")


@pytest.mark.parametrize("name", ["gemm", "staged"])
def test_nvcc_repairs_nothing(name: str, tmp_path: Path) -> None:
    """No spill, no stack, no wait or fence that ptxas had to put in."""
    need("nvcc")
    found = compiled(module(name).text, tmp_path, "sm_90a")
    assert (found.spills, found.stack, found.remarks) == (0, 0, ())
    assert found.registers <= 168


HEAD = {"d": 64, "e": 64}
TILED: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "gemm": (GEMM, {}, {"m": 130, "n": 136, "k": 200}),
    "two at a time": (PRODUCTS["two at a time"], {}, {"m": 136, "n": 136, "k": 72}),
    "grouped queries": (
        CHAINS["grouped queries"], HEAD, {"b": 1, "h": 4, "g": 2, "m": 200, "n": 300, **HEAD},
    ),
    "causal": (CHAINS["causal"], HEAD, {"b": 1, "h": 2, "m": 200, "n": 300, **HEAD}),
    "window": (CHAINS["window"], HEAD, {"b": 1, "h": 2, "m": 130, "n": 200, **HEAD}),
    "ragged": (CHAINS["ragged"], HEAD, {"b": 2, "h": 1, "m": 130, "n": 200, **HEAD}),
    "soft cap": (CHAINS["soft cap"], HEAD, {"b": 1, "h": 2, "m": 130, "n": 200, **HEAD}),
    "ALiBi": (CHAINS["ALiBi"], HEAD, {"b": 1, "h": 2, "m": 130, "n": 200, **HEAD}),
}  # fmt: skip


@pytest.mark.parametrize("name", TILED if CAMPAIGN else ["gemm", "grouped queries"])
def test_tiled_programs(name: str) -> None:
    """From the program alone: tiles, schedule, roles, source."""
    need("cxx")
    text, static, extents = TILED[name]
    made = tiled(text, "sm_90a", static).program
    placements = [place_groups(kernel, "sm_90a", "h100") for kernel in made.kernels]
    found = cuda.emit(made, static, {}, placements)
    assert "tc_wgmma" in found.text
    known = {Symbol(index, "extent"): size for index, size in extents.items()}
    full = {**{n: evaluate(s, known) for n, s in made.extents}, **extents}
    check(made, found, drawn(text_program(text), extents), full, SEEDS, arch="sm_90a")


def test_what_roles_cannot_do_yet_is_plain() -> None:
    (item,) = read(PRODUCTS["under a condition"])
    found = levels(item, with_roles(request("sm_90a", {}, {})))
    assert "tc_wgmma" not in found.source
    assert found.request.target.product == ""


def test_a_program_by_roles_in_one_step() -> None:
    (item,) = read(GEMM)
    found = levels(item, with_roles(request("sm_90a", {}, {})))
    assert "tc_wgmma" in found.source
    assert found.module.kernels[0].most == 132


EXAMPLES = Path(__file__).parents[2] / "examples"
ROLES = Path(__file__).parents[1] / "golden" / "roles"


@pytest.mark.parametrize("name", ["gemm", "attention"])
def test_source_for_people(name: str, golden: Golden) -> None:
    """Of a tiled example, by a schedule that is kept: a solver may find another one as good."""
    static = {"d": 128, "e": 128} if name == "attention" else {}
    (item,) = read((EXAMPLES / f"{name}.tc").read_text())
    made = levels(item, with_roles(request("sm_90a", static, {}))).tiles
    roles = read_channel((ROLES / f"{name}_sm90a.txt").read_text())
    golden(f"{name}_sm90a.txt", print_channel(roles))
    text = extract(made.kernels[0], MACHINES["sm_90a"], load_product("h100"))
    source = cuda.emit(made, static, {}, [Pipelined(text.kernel, roles, BLOCKS)]).text
    golden(f"{name}_sm90a.cu", source)
    assert source.count("\n") <= 250


def test_instructions_beside_a_product(tmp_path: Path) -> None:
    """At most 19 others for each wgmma of 64 by 256 by 16, in a loop of 4 of them."""
    need("nvcc")
    need("cuobjdump")
    found = loops(compiled(module("staged").text, tmp_path, "sm_90a").cubin)
    assert {item.products for item in found} == {4}  # one loop for both consumers
    assert max(item.others for item in found) <= 19
