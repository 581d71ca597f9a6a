"""A search with ends is told from its ends: the same truth at every point, empty rows included."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Reduce
from tensorc.passes.tiling.exists import exists
from tests.passes.test_tile_product import program

ENDED = [
    "n <= m + |n| - |m|",
    "n <= m and m < n + 3",
    "n < len[m]",
    "n >= len[m] and n <= m",
    "m <= n",
    "2 * m < n + 1",
    "not n < m",
]
OTHERS = ["2 * n == m", "n % 3 == m", "x[m, n] > 0.0", "n < m or n > 3", "n != 2"]


def text(condition: str) -> str:
    return (
        "op f(x: f32[m, n], len: i32[m]) -> y: bool[m]\n"
        f"  y[m] = any[n]({condition}) and len[m] >= -9 and x[m, 0] == x[m, 0]\n"
    )


@pytest.mark.parametrize("condition", ENDED)
def test_a_search_is_told_from_its_ends(condition: str) -> None:
    item = program(text(condition).replace(" and x[m, 0] == x[m, 0]", ""))
    (search,) = [n for n in postorder([item.equations[0].body]) if isinstance(n, Reduce)]
    told = exists(search, dict(item.extents))
    assert told is not None and not any(isinstance(n, Reduce) for n in postorder([told]))
    equation = item.equations[0]
    changed = replace(item, equations=(replace(equation, body=told),))
    for m, n in itertools.product([1, 3, 6], [0, 1, 4, 9]):
        lengths = np.random.default_rng(m + n).integers(-2, n + 3, m).astype(np.int32)
        arrays = {"x": np.zeros((m, n), np.float32), "len": lengths}
        sizes = {"m": m, "n": n}
        wanted = interpret(item, arrays, sizes)["y"]
        np.testing.assert_array_equal(interpret(changed, arrays, sizes)["y"], wanted)


@pytest.mark.parametrize("condition", OTHERS)
def test_others_stay_searches(condition: str) -> None:
    item = program(text(condition))
    for node in postorder([item.equations[0].body]):
        if isinstance(node, Reduce):
            assert exists(node, dict(item.extents)) is None
