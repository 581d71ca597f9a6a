"""Reductions along rows on GPUs: one kernel that reads every row once where it fits into registers,
and means what the equations say, at the edges of rows and of blocks of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import tensorc as tc
from tensorc.ir.print_tile import show
from tensorc.ir.sizes import bind
from tensorc.ir.tile import Blocked, Kernel, Let, Loop, TileProgram
from tensorc.ir.walk_tile import statements, tensors_in, tiles
from tensorc.passes.tiling.audit import audit
from tests.passes.test_tile_product import GPUS, compare, program, tiled

ROWS = {
    "softmax": "op f(x: f32[t, i]) -> y: f32[t, i]\n  y[t, i] = softmax[i](x[t, i])\n",
    "RMS norm": (
        "op f(x: bf16[t, i], g: f32[i]) -> y: bf16[t, i]\n"
        "  y[t, i] = x[t, i] * rsqrt(mean[i](x[t, i] ** 2) + 1e-6) * g[i]\n"
    ),
    "layer norm": (
        "op f(x: bf16[t, i], g: f32[i], b: f32[i]) -> y: bf16[t, i]\n"
        "  z[t, i] = x[t, i] - mean[i](x[t, i])\n"
        "  y[t, i] = z[t, i] * rsqrt(mean[i](z[t, i] ** 2) + 1e-5) * g[i] + b[i]\n"
    ),
    "cross-entropy": (
        "op f(z: f32[t, i], label: i32[t]) -> l: f32[t]\n"
        "  l[t] = logsumexp[i](z[t, i]) - z[t, label[t] % |i|]\n"
    ),
    "softmax of lengths": (
        "op f(x: f16[b, t, i], len: i32[b]) -> y: f16[b, t, i], l: f32[b, t]\n"
        "  y[b, t, i] = softmax[i](x[b, t, i] where i < len[b])\n"
        "  l[b, t] = logsumexp[i](x[b, t, i] where i < len[b])\n"
    ),
    "moments": (
        "op f(x: f64[t, i]) -> v: f64[t], w: f64[t]\n"
        "  c[t, i] = x[t, i] - mean[i](x[t, i])\n"
        "  v[t] = mean[i](c[t, i] ** 2)\n"
        "  w[t] = mean[i](c[t, i] ** 3)\n"
    ),
    "whole numbers": (
        "op f(x: i8[t, i]) -> s: i32[t], m: i32[t], a: bool[t]\n"
        "  s[t] = sum[i, i32](i32(x[t, i]))\n"
        "  m[t] = max[i](i32(x[t, i]))\n"
        "  a[t] = any[i](x[t, i] > 18)\n"
    ),
    "the largest and where": (
        "op f(x: f32[t, i]) -> m: f32[t], a: i64[t]\n"
        "  m[t] = max[i](x[t, i])\n"
        "  a[t] = argmax[i](x[t, i])\n"
    ),
}  # fmt: skip
FORMER = ("softmax", "RMS norm", "layer norm")


def sizes_for(text: str, **changed: int) -> dict[str, int]:
    """Extents of the indices of a text."""
    known = {"t": 9, "i": 100, "b": 2, **changed}
    free = {name for name, size in program(text).extents if str(size) == f"|{name}|"}
    return {name: size for name, size in known.items() if name in free}


def deal(made: TileProgram) -> Blocked:
    """How the rows of a program's only kernel are dealt."""
    (kernel,) = made.kernels
    layouts = (tile.layout for tile in tiles(kernel).values())
    return next(item for item in layouts if isinstance(item, Blocked))


def copies(kernel: Kernel) -> list[str]:
    """The tensors that statements of a kernel read, once for each statement."""
    lets = [item for item in statements(kernel.body) if isinstance(item, Let)]
    return [read.tensor.name for item in lets for read in tensors_in((item.body,))]


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("i", [2, 8, 100, 1000, 1024])
def test_one_kernel_reads_rows_once(name: str, i: int, machine: str) -> None:
    text = ROWS[name]
    sizes = sizes_for(text, i=i)
    made = tiled(text, machine, sizes)
    assert made.reasons == {}
    (kernel,) = made.program.kernels
    assert not any(isinstance(item, Loop) for item in statements(kernel.body))
    assert copies(kernel).count("x") <= 1
    compare(program(text), made, sizes)


@pytest.mark.parametrize("t", [0, 1, 127, 128, 129])
@pytest.mark.parametrize("name", FORMER)
def test_edges_of_blocks_of_rows(name: str, t: int) -> None:
    sizes = sizes_for(ROWS[name], i=8, t=t)
    made = tiled(ROWS[name], "sm_80", {"i": 8})
    compare(program(ROWS[name]), made, sizes)


@pytest.mark.parametrize("name", FORMER)
@pytest.mark.parametrize("i", [0, 1, 4095, 4096, 4097])
def test_rows_of_any_length_are_walked_in_blocks(name: str, i: int) -> None:
    """One kernel for all extents; one more walk for what lies along rows."""
    made = tiled(ROWS[name], "sm_80")
    (kernel,) = made.program.kernels
    loops = [item for item in statements(kernel.body) if isinstance(item, Loop)]
    assert len(loops) == 2
    compare(program(ROWS[name]), made, sizes_for(ROWS[name], i=i, t=3))


@pytest.mark.parametrize("name", FORMER)
def test_bytes_moved_are_the_least(name: str) -> None:
    """Each operand is read once and each result written once, and no thread adds up much alone."""
    sizes = {"t": 8192, "i": 4096}
    made = tiled(ROWS[name], "sm_90a", sizes).program
    item = program(ROWS[name])
    extents = bind(item, {}, dict(sizes))
    rows = {"bf16": 2, "f32": 4}
    least = sum(
        rows[one.tensor.dtype.name] * sizes["i"] * (sizes["t"] if len(one.dims) == 2 else 1)
        for one in item.parameters
    ) + rows[item.outputs[0].tensor.dtype.name] * sizes["i"] * sizes["t"]  # fmt: skip
    counted = audit(made, extents)
    assert (counted.kernels, counted.bytes, counted.temporaries) == (1, least, 0)
    found = deal(made)
    assert found.threads * found.vector * 16 >= sizes["i"]


@pytest.mark.parametrize("i", [4, 33, 128, 513, 2048, 32768])
def test_threads_have_neighbours_and_few_elements(i: int) -> None:
    found = deal(tiled(ROWS["softmax"], "sm_80", {"i": i}).program)
    assert found.threads & (found.threads - 1) == 0 and 1 <= found.threads <= 1024
    assert i <= 32 * found.threads
    assert found.vector == (1 if i % 2 else 4)


def test_longer_rows_are_walked() -> None:
    made = tiled(ROWS["cross-entropy"], "sm_90a", {"i": 128256}).program
    (kernel,) = made.kernels
    (loop,) = (item for item in statements(kernel.body) if isinstance(item, Loop))
    found = deal(made)
    assert -(-128256 // loop.block) * loop.block // found.threads <= 1024


def test_what_is_compared_in_another_walk_is_not_computed_twice() -> None:
    text = (
        "op f(x: f32[t, i], g: f32[i]) -> a: i64[t]\n"
        "  y[t, i] = x[t, i] * g[i] + 0.1\n"
        "  a[t] = argmax[i](y[t, i])\n"
    )
    for static, kernels in (({"i": 100}, 1), (dict[str, int](), 2)):
        made = tiled(text, "sm_80", static)
        compare(program(text), made, {"t": 3, "i": 100})
        assert len(made.program.kernels) == kernels


def test_columns_and_unread_rows_stay_plain() -> None:
    text = "op f(x: f32[i, t]) -> y: f32[t]\n  y[t] = sum[i](x[i, t])\n"
    made = tiled(text, "sm_80", {"i": 64, "t": 64})
    assert made.reasons and not any(
        isinstance(tile.layout, Blocked)
        for kernel in made.program.kernels
        for tile in tiles(kernel).values()
    )


@pytest.mark.parametrize("name", FORMER)
def test_texts(name: str, golden: Callable[[str, str], None]) -> None:
    sizes = {"t": 8192, "i": 4096}
    golden(f"{name.replace(' ', '_')}.txt", show(tiled(ROWS[name], "sm_90a", sizes).program))


def test_a_deal_that_does_not_come_out_is_refused() -> None:
    from tensorc.ir.verify_tile import verify

    made = tiled(ROWS["softmax"], "sm_80", {"i": 64}).program
    (kernel,) = made.kernels
    first = kernel.body[0]
    assert isinstance(first, Let) and isinstance(first.tile.layout, Blocked)
    wrong = Blocked(first.tile.layout.threads, 5, first.tile.layout.axis)
    tile = dataclasses.replace(first.tile, layout=wrong)
    body = (dataclasses.replace(first, tile=tile), *kernel.body[1:])
    broken = dataclasses.replace(made, kernels=(dataclasses.replace(kernel, body=body),))
    assert any("T24" in fault and "are not dealt to" in fault for fault in verify(broken))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_rows_are_not_an_index_that_their_own_sum_has(arch: str) -> None:
    """Extents of one constant are one row only where no sum needs both indices."""
    (op,) = tc.loads(
        "op f(q: f32[8, 2, 8], k: f32[8, 2, 8]) -> p: f32[2, 8, 8]\n"
        "  p[h=2, t=8, v=8] = sum[d=8](q[t, h, d] * k[v, h, d])\n"
    )
    draw = np.random.default_rng(2)
    q, k = (draw.integers(-4, 5, (8, 2, 8)).astype(np.float32) for _ in range(2))
    found = op.on("emulator", arch=arch)(q, k)
    np.testing.assert_array_equal(found, np.einsum("thd,vhd->htv", q, k))
