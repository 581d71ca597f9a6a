"""Level-3 kernels with bodies: they fit their level-2 text, read back, cannot block, and compute
its numbers bit by bit in every interleaving."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.errors import BrokenInvariant
from tensorc.ir.channel import Kernel
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.print_channel import print_channel
from tensorc.ir.read_channel import read_channel
from tensorc.ir.run_bodies import run_bodies
from tensorc.ir.schedule import Placement
from tensorc.ir.sizes import bind
from tensorc.ir.tile import Each, Let, Loop, TileProgram
from tensorc.ir.verify_bodies import verify_bodies
from tensorc.ir.verify_channel import verify_channel
from tensorc.ir.verify_tile import verify
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.check_protocol import check_protocol
from tensorc.passes.pipelining.pipeline import pipeline
from tensorc.passes.scheduling.extract_problem import extract
from tensorc.passes.scheduling.schedule import JIT, schedule
from tests.channel.profile import CAMPAIGN
from tests.passes.test_tile_chain import CHAINS
from tests.passes.test_tile_product import PRODUCTS, drawn, tiled
from tests.passes.test_tile_product import program as canonical
from tests.scheduling.texts import loop, pipelined, program

NAMES = ("gemm", "staged", "attention_sm90", "gemm_sm80")
SOME = {"d": 64, "e": 64}
SEEDS = range(20 if CAMPAIGN else 2)
ATTENTION = {"b": 1, "h": 1, "d": 128, "e": 128}
SIZES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "gemm": ({"m": 130, "n": 300, "k": 200}, {"m": 1, "n": 1, "k": 1}),
    "staged": ({"m": 130, "n": 300, "k": 70},),
    "gemm_sm80": ({"m": 130, "n": 129, "k": 200},),
    "attention_sm90": (
        {**ATTENTION, "m": 200, "n": 300},
        {**ATTENTION, "m": 300, "n": 40},  # rows without a key: loops of no iteration
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_kernels_fit_their_text_and_read_back(
    name: str, golden: Callable[[str, str], None]
) -> None:  # fmt: skip
    made = pipelined(name)
    assert verify_channel(made) == []
    assert verify_bodies(made, loop(name).kernel) == []
    assert read_channel(print_channel(made)) is made
    golden(f"{name}.txt", print_channel(made))


@pytest.mark.parametrize("name", NAMES)
def test_no_trip_count_blocks_them(name: str) -> None:
    assert check_protocol(pipelined(name)).outcome == "PASS"


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_interleaving_gives_the_numbers_of_level_2(name: str, persistent: bool) -> None:
    for sizes in SIZES[name]:
        arrays = numbers(program(name), sizes)
        same(pipelined(name, persistent), program(name), arrays, sizes)


FROM_EQUATIONS = (
    "causal", "ALiBi", "with the logarithm of its sums", "two at a time", "strided",
    "of a value that is rounded",
)  # fmt: skip


@pytest.mark.parametrize("name", FROM_EQUATIONS)
def test_what_is_tiled_from_equations_does_as_well(name: str) -> None:
    """The last two have operands that threads read and put into shared memory or registers."""
    source = CHAINS.get(name) or PRODUCTS[name]
    item = canonical(source)
    fixed = SOME if name in CHAINS else {}
    made = tiled(source, "sm_90a", fixed).program
    text = extract(made.kernels[0], MACHINES["sm_90a"], load_product("h100"))
    kernel = pipeline(text, schedule(text.problem, JIT))
    assert [*verify_channel(kernel), *verify_bodies(kernel, text.kernel)] == []
    known = {"b": 1, "h": 1, "m": 130, "n": 140, "k": 72, "p": 261, "r": 215, **SOME}
    sizes = {name: size for name, size in known.items() if name in dict(item.extents)}
    same(kernel, made, drawn(item, sizes), bind(item, {}, sizes))


def numbers(item: TileProgram, sizes: Mapping[str, int]) -> dict[str, npt.NDArray[Any]]:
    """Normal numbers for every parameter."""
    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    random = np.random.default_rng(sum(sizes.values()))
    types = {"f16": np.float16, "f32": np.float32}
    return {
        p.tensor.name: random.standard_normal(
            [evaluate(size, known) for size in p.tensor.shape]
        ).astype(types[p.tensor.dtype.name])
        for p in item.parameters
    }


def same(
    kernel: Kernel,
    text: TileProgram,
    arrays: Mapping[str, npt.NDArray[Any]],
    sizes: Mapping[str, int],
) -> None:
    """Some interleavings against level 2, bit by bit."""
    wanted = interpret(text, arrays, sizes)
    for seed in SEEDS:
        found = run_bodies(kernel, text, arrays, sizes, seed)
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, f"seed {seed}", strict=True)


def chunked() -> TileProgram:
    """Attention whose weights are computed 64 keys at a time, part of a part."""
    made = program("attention_sm90")
    (kernel,) = made.kernels
    operand, loop_, end = kernel.body
    assert isinstance(loop_, Loop)
    *copies, each = loop_.body
    assert isinstance(each, Each)
    apart = [i for i in each.body if isinstance(i, Let) and i.tile.name in ("y", "P")]
    body = [i for i in each.body if i not in apart]
    names = [i.tile.name for i in body if isinstance(i, Let)]
    body.insert(names.index("lx"), Each("n", 64, tuple(apart)))
    inner = replace(loop_, body=(*copies, replace(each, body=tuple(body))))
    return replace(made, kernels=(replace(kernel, body=(operand, inner, end)),))


def test_parts_of_parts_are_operations_of_their_own() -> None:
    made = chunked()
    assert verify(made) == []
    text = extract(made.kernels[0], MACHINES["sm_90a"], load_product("h100"))
    assert [name for name in text.instances if name[0] in "yP"] == [
        *(f"y.{p}" for p in range(4)), *(f"P.{p}" for p in range(4)),
    ]  # fmt: skip
    answer = schedule(text.problem, replace(JIT, wall=None))
    assert answer.ii == 2048
    kernel = pipeline(text, answer)
    assert [*verify_channel(kernel), *verify_bodies(kernel, text.kernel)] == []
    sizes = SIZES["attention_sm90"][0]
    same(kernel, made, numbers(made, sizes), sizes)
    half = read_channel(print_channel(kernel).replace("(P.0[i - 1], P.1[i - 1], ", "(P.0[i - 1], "))
    assert any("reads 4096 of the 8192 lanes of P" in f for f in verify_bodies(half, text.kernel))


# --- what does not fit ----------------------------------------------------------------------------

ATTENTION_FAULTS = [
    ("B1", "body t.0: t on m 0..64", "body t.0: t2 on m 0..64", "has no statement t2"),
    ("B1", "hold y.0: y", "hold y.0: z", "has no tile z"),
    ("B2", "body y.1: y on m 64..128", "body y.1: y on m 0..64", "is done on m 0..64; m 0..64"),
    ("B2", "body l.0: lx, l' on m 0..64", "body l.0: l' on m 0..64", "lx is done on m 64..128"),
    ("B3", "P.0[i] = P.0(y.0[i])", "P.0[i] = P.0(s.0[i])", "needs y"),
    ("B3", "P.0[i] = P.0(y.0[i])", "P.0[i - 1] = P.0(y.0[i - 1], x.0[i])", "reads x"),
    ("B3", "hold t.0: t", "hold t.0: s", "`s.0[i], r'.0[i], r.0[i], x.0[i] = r.0(t.0[i], "),
    ("B4", "hold x.0: x", "hold x.0: y", "fills x.0, which holds y"),
    ("B4", "      a.0[-1] = start()", "      P.0[-1] = start()", "P.0 holds no carry"),
    ("C14", "  body y.0: y on m 0..64\n", "", "operation y.0 has 0 bodies"),
    ("C14", "  body K: K\n", "  body K: K\n  body L: K\n", "operation L has 1 bodies"),
    ("C15", "  hold K: K\n", "", "K holds no tile"),
    ("C15", "  hold K: K\n", "  hold K: K\n  hold k: K\n", "k holds tiles 1 times"),
]


@pytest.mark.parametrize(("rule", "old", "new", "said"), ATTENTION_FAULTS)
def test_what_does_not_fit_is_told(rule: str, old: str, new: str, said: str) -> None:
    text = print_channel(pipelined("attention_sm90"))
    assert old in text
    planted = read_channel(text.replace(old, new))
    faults = [*verify_channel(planted), *verify_bodies(planted, loop("attention_sm90").kernel)]
    assert any(fault.startswith(rule) and said in fault for fault in faults), faults


def test_a_wrong_distance_gives_a_fault_not_wrong_numbers() -> None:
    """A consumer that reads the last scale instead of this one's."""
    text = print_channel(pipelined("attention_sm90", False))
    planted = read_channel(text.replace("ax.0(x.0[i - 1]", "ax.0(x.0[i]"))
    sizes = SIZES["attention_sm90"][0]
    arrays = numbers(program("attention_sm90"), sizes)
    with pytest.raises(BrokenInvariant, match=r"R3: x\.0\[\d\] of tile 0 is read"):
        run_bodies(planted, program("attention_sm90"), arrays, sizes)


def test_areas_take_no_byte_of_a_ring() -> None:
    made = pipelined("staged")
    (area,) = made.areas
    moved = replace(made, areas=(replace(area, offset=made.rings[0].offset),))
    assert any("C3: `area O` and `put A`" in f or "C3: `put A`" in f for f in verify_channel(moved))


def test_final_values_are_in_one_role() -> None:
    made = schedule(loop("attention_sm90").problem, JIT)
    homes: dict[str, Placement] = {p.operation: p for p in made.placements}
    assert all(homes[f"l.{p}"].role == homes[f"a.{p}"].role for p in (0, 1))
