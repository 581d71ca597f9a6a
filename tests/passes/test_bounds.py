"""Ranges of loops under conditions, by brute force: no block that holds something is left out, no
lane of a full block fails, and where one condition bounds a loop, nothing else is visited, save one
block at most where nothing is selected at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, polynomial
from tensorc.ir.tensor import Expr, Reduce
from tensorc.passes.fusion.bounds import Range, bounding, limits
from tests.passes.test_tile_product import program

Lanes = npt.NDArray[np.int64]
Truth = Callable[[Lanes, Lanes, int, int], npt.NDArray[np.bool_]]
ONE: dict[str, Truth] = {
    "n <= m + |n| - |m|": lambda m, n, rows, columns: n <= m + columns - rows,
    "n < m": lambda m, n, _rows, _columns: n < m,
    "m <= n": lambda m, n, _rows, _columns: m <= n,
    "m < n + 5": lambda m, n, _rows, _columns: m < n + 5,
    "n >= 3 - m": lambda m, n, _rows, _columns: n >= 3 - m,
    "n <= 2 * m": lambda m, n, _rows, _columns: n <= 2 * m,
    "n + 2 * m < 9": lambda m, n, _rows, _columns: n + 2 * m < 9,
    "n >= 4": lambda m, n, _rows, _columns: (n >= 4) & (m >= 0),
    "n < 7 - m": lambda m, n, _rows, _columns: n < 7 - m,
    "not n <= m + 1": lambda m, n, _rows, _columns: n > m + 1,
}
SEVERAL: dict[str, Truth] = {
    "n <= m and m < n + 4": lambda m, n, _rows, _columns: (n <= m) & (m < n + 4),
    "n >= m and n <= m + 2 and n < 11": lambda m, n, _rows, _columns: (
        (n >= m) & (n <= m + 2) & (n < 11)
    ),
    "n >= 2 and n <= 3 * m": lambda m, n, _rows, _columns: (n >= 2) & (n <= 3 * m),
}
NONE = ["(n + m) % 3 == 1", "2 * n <= m", "n <= m * m", "n <= m or n > 8"]


def condition(text: str) -> tuple[Expr, dict[str, Polynomial]]:
    """A condition on m and n, and their extents."""
    item = program(
        f"op f(x: f32[m, n]) -> y: f32[m]\n  y[m] = sum[n](x[m, n] where {text})\n"
    )  # fmt: skip
    body = item.equations[0].body
    assert isinstance(body, Reduce) and body.where is not None
    return body.where, dict(item.extents)


def holds(text: str, m: Lanes, n: Lanes, sizes: Mapping[str, int]) -> npt.NDArray[np.bool_]:
    """The condition at every m and n."""
    return {**ONE, **SEVERAL}[text](m[:, None], n[None], sizes["m"], sizes["n"])


CASES = list(itertools.product([1, 3, 8], [1, 4], [(6, 6), (9, 17), (13, 5), (16, 16)]))


def blocks(found: Range, block: int, known: dict[Symbol, int]) -> set[int]:
    """The bases that a loop visits."""
    low, high = evaluate(found.lower, known), evaluate(found.upper, known)
    assert low >= 0 and low % block == 0 and high <= known[Symbol("n", "extent")]
    return set(range(low, high, block))


@pytest.mark.parametrize("text", [*ONE, *SEVERAL])
def test_ranges_hold_what_conditions_select(text: str) -> None:
    where, extents = condition(text)
    parts = list(where.args) if text in SEVERAL else [where]  # type: ignore[union-attr]
    for rows, block, (m, n) in CASES:
        sizes = {"m": m, "n": n}
        found = limits(parts, "n", block, {"m": rows}, extents)
        assert bounding(parts, "n", {"m": rows}, extents) == parts
        assert found.first is not None or found.last is not None
        for base in range(0, m, rows):
            known = {Symbol("m", "extent"): m, Symbol("n", "extent"): n, Symbol("m", "base"): base}
            lanes, inside = np.arange(base, base + rows), np.arange(base, min(m, base + rows))
            visited = blocks(found, block, known)
            wanted = {
                k for k in range(0, n, block)
                if holds(text, inside, np.arange(k, min(n, k + block)), sizes).any()
            }  # fmt: skip
            assert wanted <= visited
            if text in ONE and base + rows <= m:  # else a block more for lanes that are not there
                assert visited == wanted or (not wanted and len(visited) == 1)
            first = evaluate(found.first or polynomial(0), known)
            last = evaluate(found.last or polynomial(n), known)
            for k in visited:
                if first <= k and k + block <= last:
                    assert holds(text, lanes, np.arange(k, k + block), sizes).all()


@pytest.mark.parametrize("text", NONE)
def test_other_conditions_bound_nothing(text: str) -> None:
    where, extents = condition(text)
    found = limits([where], "n", 4, {"m": 8}, extents)
    assert (found.lower, found.upper) == (polynomial(0), extents["n"])
    assert bounding([where], "n", {"m": 8}, extents) == []
