"""Level-2 texts whose loops are scheduled in tests, with their products and sizes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tensorc.ir.channel import Kernel
from tensorc.ir.read_tile import read
from tensorc.ir.tile import TileProgram
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.pipeline import pipeline
from tensorc.passes.scheduling.extract_problem import LoopText, extract
from tensorc.passes.scheduling.schedule import JIT, schedule

TEXTS = Path(__file__).parents[1] / "golden" / "tile"
PRODUCTS = {"sm_80": "a100", "sm_90a": "h100"}

GEMM = """\
program gemm for sm_90a
index m, k, n
input a: f16[m, k]
input w: f16[n, k]
output o: f32[m, n]

kernel gemm(a, w) -> o
  grid m by 128, n by 256
  loop k by 64
    carry c[m, n] = 0             f32 register wgmma(m; n)
    A[m, k] = a[m, k]             f16 shared swizzle 128            by tma fill 0
    B[n, k] = w[n, k]             f16 shared swizzle 128            by tma fill 0
    c'[m, n] = c + sum[k](A * B)  f32 register wgmma(m; n)  into c  by wgmma.m64n256k16 (m: m x 2, \
n: n, k: k x 4)
  store o[m, n] = c                                                 by simt
"""

STAGED = GEMM.replace("output o: f32", "output o: f16").replace(
    "  store o[m, n] = c                                                 by simt\n",
    "  O[m, n] = c                     f16 shared swizzle 128            by simt\n"
    "  store o[m, n] = O                                                 by tma.store\n",
)


@cache
def program(name: str) -> TileProgram:
    """A program of this module or of the folder of level-2 texts."""
    texts = {"gemm": GEMM, "staged": STAGED}
    return read(texts[name] if name in texts else (TEXTS / f"{name}.txt").read_text())


@cache
def loop(name: str) -> LoopText:
    """The loop problem of a program on the first product of its machine."""
    found = program(name)
    return extract(found.kernels[0], MACHINES[found.machine], load_product(PRODUCTS[found.machine]))


@cache
def pipelined(name: str, persistent: bool = True) -> Kernel:
    """The level-3 kernel of a program, by the schedule of a first call."""
    return pipeline(loop(name), schedule(loop(name).problem, JIT), persistent)
