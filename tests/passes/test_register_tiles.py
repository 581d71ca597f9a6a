"""Register tiles fit the registers, and the bound prefers what wastes least."""

from __future__ import annotations

import pytest

from tensorc.machine.machines import MACHINES
from tensorc.passes.tiling.lower import Widths
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


def test_the_bound_counts_edges_and_loads() -> None:
    def costs(m: int, n: int) -> dict[tuple[int, int], float]:
        tiles = register_tiles(MACHINES["avx512"], FIRST)
        found = ranked(program(PRODUCT), tiles, {}, {"m": m, "n": n, "k": 64})
        assert [cost for cost, _ in found] == sorted(cost for cost, _ in found)
        return {(tile.rows, tile.vectors): cost for cost, tile in found}

    assert next(iter(costs(600, 640))) == (6, 4)
    assert costs(4, 1024)[4, 4] == 1 and costs(4, 1024)[6, 4] == 1.5
    assert costs(512, 16)[8, 1] == 9 / 8 and costs(512, 16)[6, 4] == 4 * 516 / 512
    assert costs(600, 640)[1, 1] == 2


def test_without_products_the_first_stays_first() -> None:
    text = "op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = exp(x[m, n])\n"
    tiles = register_tiles(MACHINES["avx512"], FIRST)
    assert ranked(program(text), tiles, {}, {"m": 9, "n": 9})[0] == (0.0, FIRST)
