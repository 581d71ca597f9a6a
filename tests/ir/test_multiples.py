"""Extents that are multiples of a number: floors that become exact, at every such size."""

from __future__ import annotations

import pytest

from tensorc.ir.multiples import whole_blocks
from tensorc.ir.polynomial import Polynomial, Symbol, bound, evaluate, extent

M, N = extent("m"), extent("n")


@pytest.mark.parametrize(
    ("item", "want"),
    [
        (N // 16 * 16, N),
        (N // 64 * 64, N),
        (N * N // 64 * 64 + M, N * N + M),
        ((N + 63) // 64 * 64, N),
        ((N * M) // 32 * 32, N * M),
        (N // 128 * 128, N // 128 * 128),
        (N // 64, N // 64),
        (M // 64 * 64, M // 64 * 64),
        (bound("min", (N, M)), bound("min", (N, M))),
        (N, N),
    ],
)
def test_floors_that_are_exact_go(item: Polynomial, want: Polynomial) -> None:
    made = whole_blocks(item, {"n": 64})
    assert made is want
    for n in (64, 128, 6400):
        sizes = {Symbol("n", "extent"): n, Symbol("m", "extent"): 77}
        assert evaluate(made, sizes) == evaluate(item, sizes)
    assert whole_blocks(item, {}) is item
