"""Register tiles fit the registers, and the prediction prefers what wastes least."""

from __future__ import annotations

import pytest

from tensorc.machine.machines import MACHINES
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.register_tiles import ranked, register_tiles
from tests.passes.test_tile_product import program

PRODUCT = (
    "op f(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n  c[m, n] = sum[k](a[m, k] * b[k, n])\n"
)
FIRST = Widths(16, 4, 6)


@pytest.mark.parametrize("machine", ["avx512", "avx2", "generic"])
def test_tiles_fit(machine: str) -> None:
    found = register_tiles(MACHINES[machine], FIRST if machine == "avx512" else Widths(8, 2, 6))
    assert len(set(found)) == len(found) <= 64
    assert all(t.rows * t.vectors + t.vectors + 1 <= MACHINES[machine].registers for t in found)


def test_the_prediction_counts_edges_loads_and_caches() -> None:
    def first(m: int, n: int, k: int) -> Widths:
        tiles = register_tiles(MACHINES["avx512"], FIRST)
        found = ranked(program(PRODUCT), tiles, {}, {"m": m, "n": n, "k": k})
        assert [item.seconds for item in found] == sorted(item.seconds for item in found)
        assert all(item.registers <= 32 for item in found)
        return found[0].widths

    assert first(8, 16, 4096).vectors == 1  # no columns for more
    assert first(8, 64, 256).rows in (4, 8)  # six rows would leave two to be done one by one
    assert not first(512, 500, 64).packed  # a panel lies in the second cache as it is
    assert first(2048, 2048, 2048).packed  # rows 8 KiB apart share few sets of it


def test_extents_that_follow_count() -> None:
    text = (
        "op f(x: f32[c, w], g: f32[o, c, s]) -> y: f32[o, q=|w| - |s| + 1]\n"
        "  y[o, q] = sum[c, s](x[c, q + s] * g[o, c, s])\n"
    )
    tiles = register_tiles(MACHINES["avx512"], FIRST)
    found = ranked(program(text), tiles, {}, {"c": 64, "w": 18, "o": 16, "s": 3})
    assert found[0].widths.vectors == 1 and found[0].seconds > 0


def test_without_products_the_first_stays_first() -> None:
    text = "op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = exp(x[m, n])\n"
    tiles = register_tiles(MACHINES["avx512"], FIRST)
    found = ranked(program(text), tiles, {}, {"m": 9, "n": 9})[0]
    assert (found.seconds, found.widths) == (0.0, FIRST)
