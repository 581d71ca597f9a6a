"""Candidates are few, those that do not fit are dropped, and the least estimate wins; a small grid
is cut into parts that run side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tensorc.ir.tile import Kernel
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.choose_tile import PRODUCTS, Candidate, Wanted, candidates, chosen
from tensorc.passes.tiling.estimate import estimate
from tensorc.passes.tiling.tile_gpu import tile_for
from tests.passes.test_tile_chain import CHAINS
from tests.passes.test_tile_product import GEMM, GPUS, compare, products, program, tiled

LARGE = {"m": 4096, "n": 4096, "k": 4096}


def options(text: str, machine: str, sizes: Mapping[str, int]) -> list[Candidate]:
    """Every candidate of a text with one kernel."""
    item = program(text)
    plan = fuse(item, sizes, "none")
    wanted = Wanted(machine, Widths(128), {}, sizes, {})
    (kernel,) = plan.kernels
    return list(candidates(kernel, wanted.scene(item, plan), wanted))


@pytest.mark.parametrize("machine", GPUS)
def test_candidates_fit_and_the_least_estimate_wins(machine: str) -> None:
    product = load_product(PRODUCTS[machine])
    found = options(GEMM, machine, LARGE)
    assert 4 <= len(found) <= 64
    assert len({show_grid(item.kernel) for item in found}) == len(found)
    for item in found:
        assert item.estimate is not None and not item.estimate.misfit(product)
    best = min(found, key=lambda item: item.estimate.seconds if item.estimate else 0)
    (kernel,) = tiled(GEMM, machine, LARGE).program.kernels
    assert kernel.grid == best.kernel.grid


def show_grid(kernel: Kernel) -> str:
    return ", ".join(f"{block.index} by {block.size}" for block in kernel.grid)


def test_an_estimate_counts_what_units_do() -> None:
    (item,) = [
        option
        for option in options(GEMM, "sm_90a", LARGE)
        if show_grid(option.kernel) == "m by 128, n by 256"
    ]
    found, product = item.estimate, load_product("h100")
    assert found is not None and found.blocks == 32 * 16
    assert found.units["mma_f16"] == 128 * 256 * 4096 / float(product["rate.mma_f16"])
    loads = (128 + 256) * 64 * 2 * 64
    stores = 128 * 256 * 2
    bias = 128 * 256 * 4
    assert found.units["copy"] == (loads + stores + bias) / float(product["rate.copy"])
    assert found.shared == 2 * (128 + 256) * 64 * 2 + 128 * 256 * 2


def test_masked_blocks_are_not_counted() -> None:
    sizes = {"b": 4, "h": 8, "m": 4096, "n": 4096, "d": 128, "e": 128}
    plain, causal = (
        min(option.estimate.seconds for option in options(CHAINS[name], "sm_90a", sizes) if (
            option.estimate))
        for name in ("attention", "causal")
    )  # fmt: skip
    assert 0.45 < causal / plain < 0.65


def test_small_products_get_small_tiles() -> None:
    (kernel,) = tiled(GEMM, "sm_90a", {"m": 512, "n": 512, "k": 512}).program.kernels
    assert show_grid(kernel) == "m by 64, n by 64"


def test_a_kernel_without_a_tile_says_what_does_not_fit() -> None:
    text = CHAINS["attention"]
    sizes = {"b": 1, "h": 1, "m": 4096, "n": 4096, "d": 256, "e": 4096}
    item = program(text)
    plan = fuse(item, sizes, "none")
    wanted = Wanted("sm_80", Widths(128), {}, sizes, {})
    (kernel,) = plan.kernels
    with pytest.raises(Unfused, match="its other products are computed again"):
        chosen(kernel, wanted.scene(item, plan), wanted)


def test_what_cannot_become_code_is_no_candidate() -> None:
    sizes = {"m": 4096, "n": 4096, "k": 4096}

    def refused(kernel: Kernel) -> str:
        return "too wide" if any(block.size > 64 for block in kernel.grid) else ""

    wanted = Wanted("sm_90a", Widths(128), {}, sizes, {}, refused=refused)
    made = tile_for(program(GEMM), wanted)
    assert show_grid(made.program.kernels[0]) == "m by 64, n by 64"

    def never(kernel: Kernel) -> str:
        return "no place"

    nothing = tile_for(program(GEMM), replace(wanted, refused=never))
    assert nothing.reasons == {"o": "no place"} and not products(nothing)


@pytest.mark.parametrize("machine", GPUS)
def test_long_keys_of_few_rows_are_cut_into_parts(machine: str) -> None:
    sizes = {"b": 1, "h": 2, "m": 16, "n": 7_001, "d": 64, "e": 64}
    made = tiled(CHAINS["attention"], machine, sizes)
    first, *rest = made.program.kernels
    assert rest and first.grid[0].index == "part" and made.program.workspaces
    assert len(products(made)) == 2
    small = tiled(CHAINS["attention"], machine, {**sizes, "n": 300})
    assert len(small.program.kernels) == 1
    compare(program(CHAINS["attention"]), made, sizes)


@pytest.mark.parametrize("machine", GPUS)
def test_a_long_sum_is_cut_into_parts(machine: str) -> None:
    text = (
        "op f(a: f16[m, k], b: f16[k, n]) -> c: f32[m, n]\n  c[m, n] = sum[k](a[m, k] * b[k, n])\n"
    )
    sizes = {"m": 40, "n": 72, "k": 9_001}
    made = tiled(text, machine, sizes)
    assert len(made.program.kernels) == 2 and len(products(made)) == 1
    compare(program(text), made, sizes)


def test_all_processors_at_work_stay_whole() -> None:
    sizes = {"b": 4, "h": 32, "m": 128, "n": 40_000, "d": 64, "e": 64}
    made = tiled(CHAINS["attention"], "sm_90a", sizes)
    assert len(made.program.kernels) == 1
    (kernel,) = made.program.kernels
    found = estimate(
        kernel, MACHINES["sm_90a"], load_product("h100"), made.program.extent_of, sizes
    )  # fmt: skip
    assert found.blocks >= 128
