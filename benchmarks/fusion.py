"""What fusing and tiling cost, and how stable one pass is: `python -m benchmarks.fusion`.

Figures beside their bars: CPU time from a canonical program to its level 2, for each kind of
machine, of a product and of a decoder block; the relative error of a variance made in one pass, the
worst of 20 seeds; and softmax of rows with the largest, the smallest and no finite numbers. Exits
with 1 if a bar is not met.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.problems.blocks import SIZES, blocks
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.lang import read
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.choose_plan import Setting, choose_plan
from tensorc.passes.tiling.lower import lower
from tensorc.passes.tiling.tile_fused import tile_fused
from tensorc.passes.tiling.tile_gpu import tile_gpu
from tests.codegen.tile_kernels import emit, emulated

CPU, GPUS = "avx512", ("sm_80", "sm_90a")
WIDTHS = Widths(16, 4, 6)
Array = npt.NDArray[Any]
GEMM_BAR, BLOCK_BAR = 15.0, 150.0  # ms of CPU time
ELEMENTS, SEEDS = 16_384, 20
STABLE = {0.0: 1e-5, 1e3: 1e-5, 1e4: 5e-5}  # mean to the bar of the relative error
GEMM = """op gemm(a: bf16[m, k], w: bf16[k, n], b: f32[n]) -> o: bf16[m, n]
  z[m, n] = sum[k](a[m, k] * w[k, n]) + b[n]
  o[m, n] = z[m, n] * sigmoid(z[m, n])
"""
VARIANCE = """op f(x: f32[m, n]) -> v: f32[m]
  v[m] = mean[n]((x[m, n] - mean[n](x[m, n])) ** 2)
"""
SOFTMAX = "op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = softmax[n](x[m, n])\n"


def main() -> int:
    """Print every table."""
    met: list[bool] = []
    print("CPU ms from canonical to level 2 (first, then the least of four)")
    texts = ((GEMM, dict(m=4096, n=4096, k=4096), GEMM_BAR), (blocks(1), SIZES, BLOCK_BAR))
    for text, sizes, bar in texts:
        for machine in (CPU, *GPUS):
            name, first, best, kernels = _time(text, machine, sizes)
            met.append(best <= bar)
            print(f"  {name:12} {machine:7} {first:6.0f} {best:6.1f}  bar {bar:4.0f}"
                  f"  {kernels} kernels  {_word(met[-1])}")  # fmt: skip
    print(f"variance of {ELEMENTS:,} numbers in one pass, sigma 1: worst of {SEEDS} seeds")
    for machine in (CPU, "sm_90a"):
        for mean, bar in STABLE.items():
            worst = _variance(machine, mean)
            met.append(worst <= bar)
            print(f"  mean {mean:7.0f}  {machine:7} {worst:.1e}  bar {bar:.0e}  {_word(met[-1])}")
    print("softmax in one pass: values that are not finite where the reference is")
    for machine in (CPU, "sm_90a"):
        bad, finite = _softmax(machine)
        met.append(bad == 0)
        print(f"  {machine:7} {bad} of {finite:,}  {_word(met[-1])}")
    return 0 if all(met) else 1


def _word(met: bool) -> str:
    return "met" if met else "MISSED"


def _time(text: str, machine: str, sizes: Mapping[str, int]) -> tuple[str, float, float, int]:
    """The operator's name, milliseconds at first and at best, and the kernels."""
    times: list[float] = []
    (source,) = read(text)
    kernels = 0
    for _ in range(5):
        item = canonicalise(source)
        start = time.process_time()
        kernels = len(_tiled(item, machine, sizes).kernels)
        times.append(1e3 * (time.process_time() - start))
    return source.name, times[0], min(times[1:]), kernels


def _tiled(item: Program, machine: str, sizes: Mapping[str, int]) -> TileProgram:
    """Level 2 as the driver chooses it."""
    if machine != CPU:
        return tile_gpu(item, machine, Widths(128), {}, sizes).program
    plan = choose_plan(item, Setting(WIDTHS, {}, machine, sizes), "cost").plan
    if plan is None:
        return lower(item, WIDTHS, {}, machine, sizes)
    return tile_fused(item, plan, 16, {}, machine, sizes)


def _run(item: Program, machine: str, x: Array) -> dict[str, Array]:
    """The outputs of kernels that read rows in blocks, for extents of which nothing is known: on
    the CPU as level 2 means it, on a GPU in the emulator, which adds up as a GPU does."""
    if machine == CPU:
        made = tile_fused(item, fuse(item, {}, "none"), 16, {}, machine, {})
        return interpret_tile(made, {"x": x}, _extents(item, x))
    made = tile_gpu(item, machine, Widths(128), {}, {}).program
    return emulated(made, emit(made), {"x": x}, _extents(item, x), arch=machine)


def _extents(item: Program, x: Array) -> dict[str, int]:
    """Every index's extent."""
    known = {Symbol("m", "extent"): x.shape[0], Symbol("n", "extent"): x.shape[1]}
    return {name: evaluate(size, known) for name, size in item.extents}


def _variance(machine: str, mean: float) -> float:
    (source,) = read(VARIANCE)
    item = canonicalise(source)
    rows = [np.random.default_rng(seed).standard_normal(ELEMENTS) for seed in range(SEEDS)]
    x = (mean + np.array(rows)).astype(np.float32)
    found = _run(item, machine, x)["v"]
    exact = x.astype(np.float64).var(axis=1)
    return float((np.abs(found - exact) / exact).max())


def _softmax(machine: str) -> tuple[int, int]:
    """Values that are not finite where the reference is, and how many it has that are."""
    (source,) = read(SOFTMAX)
    item = canonicalise(source)
    x = np.stack(list(_rows(9000)))
    wanted = interpret(item, {"x": x}, _extents(item, x))["y"]
    found = _run(item, machine, x)["y"]
    finite = np.isfinite(wanted)
    return int((~np.isfinite(found[finite])).sum()), int(finite.sum())


def _rows(n: int) -> Iterator[Array]:
    """Rows in which something overflows, vanishes, or is infinite."""
    draw = np.random.default_rng(0)
    numbers = draw.standard_normal(n).astype(np.float32)
    yield numbers
    yield numbers * np.float32(1e37)
    yield numbers * np.float32(1e-38)
    yield np.full(n, 3.4e38, np.float32)
    yield np.full(n, -3.4e38, np.float32)
    masked = np.full(n, -np.inf, np.float32)
    yield masked
    late = masked.copy()
    late[-1] = -3e38
    yield late
    early = masked.copy()
    early[:300] = numbers[:300]
    yield early


if __name__ == "__main__":
    sys.exit(main())
