"""Long reductions in parts: the same program, with no long way for any thread, and no block that
does alone what a grid should do."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import pytest

from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.polynomial import known_extents
from tensorc.ir.sizes import bind
from tensorc.ir.tensor import Program
from tensorc.ir.tile import Kernel, Loop, Statement, TileProgram
from tensorc.ir.verify_tensor import verify
from tensorc.lang import read
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.long_reductions import MOST, split_long
from tensorc.passes.tiling.lower import lower

THREADS = 128
TEXTS = {
    "total": ("op f(x: f32[n]) -> s: f32\n  s = sum[n](x[n])", {"n": 4_000_003}),
    "even": ("op f(x: f32[n]) -> s: f32\n  s = sum[n](x[n])", {"n": 1 << 22}),
    "rows": ("op f(x: f16[m, n]) -> s: f32[m]\n  s[m] = max[n](x[m, n])", {"m": 3, "n": 700_000}),
    "columns": ("op f(x: f32[k, m]) -> s: f32[m]\n  s[m] = sum[k](x[k, m])", {"k": 9001, "m": 64}),
    "far columns": (
        "op f(x: f32[k, m]) -> s: f32[m]\n  s[m] = sum[k](x[k, m])", {"k": 5_000_000, "m": 8},
    ),
    "softmax": (
        "op f(x: f32[n]) -> y: f32[n]\n"
        "  y[n] = exp(x[n] - max[n](x[n])) / sum[n](exp(x[n] - max[n](x[n])))", {"n": 300_000},
    ),
    "mean": (
        "op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = x[m, n] - mean[n](x[m, n])",
        {"m": 2, "n": 50_000},
    ),
    "where": (
        "op f(x: i32[n]) -> s: i64, a: bool\n  s = sum[n](x[n] where x[n] > 3)\n"
        "  a = all[n](x[n] < 9)", {"n": 300_001},
    ),
    "two indices": ("op f(x: f32[m, n]) -> s: f32\n  s = sum[m, n](x[m, n])",
                    {"m": 3000, "n": 1001}),
    "product": (
        "op f(a: f32[m, k], b: f32[k, n]) -> o: f32[m, n]\n  o[m, n] = min[k](a[m, k] + b[k, n])",
        {"m": 100, "n": 300, "k": 5000},
    ),
}  # fmt: skip


def program(text: str) -> Program:
    (item,) = read(text)
    return canonicalise(item)


def blocks(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Blocks of the grid."""
    return prod(-(-sizes[block.index] // block.size) for block in kernel.grid)


def longest(body: tuple[Statement, ...], sizes: Mapping[str, int]) -> int:
    """The most elements that one thread reduces one after another."""
    found = 0
    for item in body:
        if isinstance(item, Loop):
            own = -(-sizes[item.index] // min(item.block, THREADS)) if item.carries else 1
            found = max(found, own * max(1, longest(item.body, sizes)))
    return found


def lowered(item: Program, sizes: Mapping[str, int]) -> TileProgram:
    return lower(item, Widths(THREADS), {}, "sm_80", sizes)


@pytest.mark.parametrize("name", TEXTS)
def test_no_thread_goes_a_long_way(name: str) -> None:
    text, sizes = TEXTS[name]
    made = lowered(program(text), sizes)
    known = known_extents(made.extents, sizes)
    for kernel in made.kernels:
        assert longest(kernel.body, known) <= MOST, kernel.name
    most = {"softmax": 5, "mean": 3, "where": 4, "far columns": 3}
    assert len(made.kernels) <= most.get(name, 2)


@pytest.mark.parametrize("name", TEXTS)
def test_the_parts_mean_the_whole(name: str) -> None:
    text, _ = TEXTS[name]
    item = program(text)
    sizes = {index: 11 + 3 * n for n, index in enumerate(item.extent_of) if "_" not in index}
    random = np.random.default_rng(3)
    arrays = {
        one.tensor.name: random.integers(-5, 9, [sizes[str(s)[1:-1]] for s in one.tensor.shape])
        .astype({"f16": np.float16, "f32": np.float32, "i32": np.int32}[one.tensor.dtype.name])
        for one in item.parameters
    }  # fmt: skip
    extents = bind(item, {name: array.shape for name, array in arrays.items()}, {})
    made = split_long(item, {}, extents, 1, most=4, least=2)
    assert not verify(made, accesses=False) and len(made.equations) > len(item.equations)
    shapes = {name: array.shape for name, array in arrays.items()}
    for name, value in interpret(item, arrays, extents).items():
        again = interpret(made, arrays, bind(made, shapes, {}))[name]
        np.testing.assert_allclose(again, value, rtol=1e-12)


def test_an_elementwise_kernel_has_a_grid() -> None:
    """What needs all of a row first does not make one block of all that follows."""
    made = lowered(program(TEXTS["softmax"][0]), TEXTS["softmax"][1])
    sizes = known_extents(made.extents, TEXTS["softmax"][1])
    assert [kernel.name for kernel in made.kernels][-1] == "y"
    assert blocks(made.kernels[-1], sizes) > 132


def test_short_or_unknown_ones_stay_whole() -> None:
    text = TEXTS["softmax"][0]
    for sizes in ({"n": 4096}, {}):
        item = program(text)
        assert split_long(item, {}, sizes, THREADS) is item
    guarded = (  # a read that its guard keeps inside
        "op f(x: f32[n], y: f32[p]) -> s: f32[p]\n"
        "  s[p] = select(p > 0, sum[n](x[n] * y[p - 1]), 0)"
    )
    compared = "op f(x: f32[p], at: i32[n]) -> s: f32\n  s = sum[n](x[at[n]])"
    for text in (guarded, compared):
        item = program(text)
        assert split_long(item, {}, {"p": 10, "n": 1 << 22}, THREADS) is item


def test_parts_take_no_more_memory_than_they_may() -> None:
    text, sizes = TEXTS["product"][0], {"m": 4096, "n": 4096, "k": 100_000}
    made = lowered(program(text), sizes)
    assert made.workspaces[0].shape[0].constant == 4  # of 64 MiB each
