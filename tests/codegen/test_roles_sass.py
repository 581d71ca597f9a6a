"""What ptxas makes of tiled programs for sm_90a: nothing spilled or repaired, as few instructions
as in kernels written by hand, and the order of the schedule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.sass import Instruction, instructions, listing, loop_codes, loops
from benchmarks.sass_order import Step, flight_faults, order_faults, steps
from tensorc.cuda_levels import levels, request, with_roles
from tensorc.ir.channel import Role
from tensorc.lang import read
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.place_groups import place_groups
from tensorc.passes.scheduling.extract_problem import LoopText, extract
from tests.codegen.tile_kernels import Compiled, compiled
from tests.requirements import need

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAD = {"d": 128, "e": 128}
KERNELS = {"gemm": {}, "attention": HEAD, "causal_attention": HEAD}


@dataclass(frozen=True)
class Built:
    """An example from its equations to its cubin."""

    source: str
    text: LoopText
    role: Role
    image: Compiled
    folder: TemporaryDirectory[str]  # of the image, as long as it is used


@cache
def built(name: str) -> Built:
    """Tiles, schedule, source and image of an example."""
    (item,) = read((EXAMPLES / f"{name}.tc").read_text())
    made = levels(item, with_roles(request("sm_90a", KERNELS[name], {})))
    (kernel,) = made.tiles.kernels
    text = extract(kernel, MACHINES["sm_90a"], load_product("h100"))
    placed = place_groups(kernel, "sm_90a", "h100")
    assert placed is not None
    role = next(role for role in placed.roles.roles if role.name == "consumer0")
    folder = TemporaryDirectory()
    image = compiled(made.source, Path(folder.name), "sm_90a")
    return Built(made.source, text, role, image, folder)


def steady(image: Compiled) -> list[list[Instruction]]:
    """The loops of the consumers."""
    return loop_codes(instructions(image.cubin))


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_spilled_or_repaired(name: str) -> None:
    need("nvcc")
    image = built(name).image
    assert (image.spills, image.stack, image.remarks) == (0, 0, ())
    assert image.registers <= 168


def test_instructions_beside_a_tiled_product() -> None:
    """Of a product with bias and activation: at most 19 others for a wgmma of 64 by 256 by 16."""
    need("nvcc")
    need("cuobjdump")
    for item in loops(built("gemm").image.cubin):
        assert item.products == 4 and item.others <= 19


# Of 16 rows and 128 keys in a warp's steady state: a thread has 64 scores and 64 outputs.
LEAST = {
    "HGMMA": 8 + 8,  # of 16 along d = 128, and along the keys
    "MUFU": 64 + 2,  # the scores and the factors of two rows
    "FMA": 64 + 64 + 64 + 4,  # exponents, sums, outputs rescaled; two rows' maxima and sums
}


@pytest.mark.parametrize("name", ["attention", "causal_attention"])
def test_instructions_of_tiled_attention(name: str) -> None:
    """Of a warp for 16 rows and 128 keys at d = 128: a kernel written by hand has 475."""
    need("nvcc")
    need("cuobjdump")
    for item in loops(built(name).image.cubin):
        assert item.instructions <= 490
        fma = item.mix["FFMA"] + item.mix["FADD"] + item.mix["FMUL"]
        counts = {"HGMMA": item.products, "MUFU": item.mix["MUFU"], "FMA": fma}
        assert all(least <= counts[k] <= 1.05 * least for k, least in LEAST.items()), counts


@pytest.mark.parametrize("name", KERNELS)
def test_the_order_is_the_schedules(name: str) -> None:
    need("nvcc")
    need("cuobjdump")
    found = built(name)
    wanted = steps(found.role.steady, found.text)
    for code in steady(found.image):
        assert order_faults(wanted, code) == []
        assert flight_faults(code) == []


def test_a_wait_that_ptxas_moves_is_told(tmp_path: Path) -> None:
    """Without the ends of blocks that hold it in its place, and without a word from ptxas."""
    need("nvcc")
    need("cuobjdump")
    found = built("attention")
    lines = found.source.split("\n")
    kept = [line for line in lines if not line.endswith("// still: what is above stays there")]
    assert len(kept) < len(lines)
    image = compiled("\n".join(kept), tmp_path, "sm_90a")
    assert image.remarks == ()
    wanted = steps(found.role.steady, found.text)
    assert any("MUFU before step" in fault for fault in order_faults(wanted, steady(image)[0]))


LOOP = """\
/*0010*/ SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR26+0x38400], R14 ;
/*0020*/ @!P0 BRA 0x900 ;
/*0030*/ HGMMA.64x16x16.F32 R24, gdesc[UR8], R24 ;
/*0040*/ HGMMA.64x16x16.F32 R24, gdesc[UR8], R24, gsb0 ;
/*0050*/ HGMMA.64x16x16.F32 R40, R80, gdesc[UR8].tnspB, R40, gsb0 ;
/*0060*/ {one} ;
/*0070*/ WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
/*0080*/ {two} ;
/*0090*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
/*00a0*/ {three} ;
/*00b0*/ @!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR26+0x38418], RZ ;
/*00c0*/ @!P0 BRA 0x10 ;
"""
IDLE = {"one": "NOP", "two": "FMUL R24, R24, R2", "three": "FADD R80, R40, R3"}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"one": "FMUL R24, R90, R91"}, "0x60 FMUL touches R24 "),  # a sum is overwritten
        ({"one": "FADD R90, R31, R91"}, "0x60 FADD touches R31 "),  # a sum is read
        ({"two": "MUFU.EX2 R83, R24"}, "0x80 MUFU.EX2 touches R83 "),  # a factor is overwritten
        ({"two": "FADD R90, R82, R24"}, ""),  # a factor may be read
        ({"two": "STS.64 [R90], R46"}, "0x80 STS.64 touches R46 "),
        ({"two": "SHFL.BFLY PT, R47, R1, 0x1, 0x1f"}, "0x80 SHFL.BFLY touches R47 "),
        ({"one": "LDS.128 R20, [R90]"}, ""),
        ({"one": "LDS.128 R22, [R90]"}, "0x60 LDS.128 touches R24 "),
    ],
)
def test_registers_of_products_in_flight(change: dict[str, str], fault: str) -> None:
    found = flight_faults(listing(LOOP.format(**{**IDLE, **change})))
    assert bool(found) == bool(fault) and (not fault or found[0].startswith(fault)), found


WANTED = ["get", "product", "product", "wait 1", "wait 0", "done", "end"]


def test_steps_in_another_order_are_told() -> None:
    wanted = [Step(name, Counter()) for name in WANTED]
    assert order_faults(wanted, listing(LOOP.format(**IDLE))) == []
    text = LOOP.format(**IDLE).replace("gsb0, 0x1", "gsb0, 0x0", 1)
    (fault,) = order_faults(wanted, listing(text))
    assert "the code get, product, product, wait 0, wait 0" in fault
