"""Kernels printed by TileLang, where it is installed, run clean and right: our semantics agree with
a compiler that was written for the hardware by others.

One thing is formally wrong with its warp-specialised kernels: warps 1 to 3 of the loading group
wait on every empty barrier although nobody waits for them. Such a warp that falls a whole round of
the ring behind misses its parity and waits forever. Seeds that starve a warp show it; it is the
only report allowed here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensorc.codegen.driver import Parameter
from tensorc.codegen.emulator import Mode
from tensorc.codegen.emulator_report import Outcome
from tests.emulator.profiles import count
from tests.emulator.running import BF16, Arrays, emulator, judge
from tests.requirements import need

SIZE = 256
PRINTER = """
import sys
import tilelang
import tilelang.language as T
import tvm

arch, size, depth = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

@T.prim_func
def main(
    A: T.Tensor((size, size), "bfloat16"),
    B: T.Tensor((size, size), "bfloat16"),
    C: T.Tensor((size, size), "bfloat16"),
):
    with T.Kernel(size // 128, size // 128, threads=128) as (x, y):
        a = T.alloc_shared((128, depth), "bfloat16")
        b = T.alloc_shared((depth, 128), "bfloat16")
        c = T.alloc_fragment((128, 128), "float")
        T.clear(c)
        for k in T.Pipelined(size // depth, num_stages=3):
            T.copy(A[y * 128, k * depth], a)
            T.copy(B[k * depth, x * 128], b)
            T.gemm(a, b, c)
        T.copy(c, C[y * 128, x * 128])

target = tvm.target.Target({"kind": "cuda", "arch": arch})
with target:
    print(tilelang.lower(main, target=target).kernel_source)
"""


def printed(arch: str, depth: int, folder: Path) -> str:
    """TileLang's C = A B in bf16 as a source for the emulator; its headers become our shim."""
    script = folder / "printer.py"
    script.write_text(PRINTER)
    command = [sys.executable, str(script), arch, str(SIZE), str(depth)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr[-2000:]
    start = answer.stdout.index('extern "C" __global__ void __launch_bounds__')
    text = answer.stdout[start:]
    shim = Path(__file__).with_name("tilelang_shim.h").read_text()
    text = re.sub(
        r'extern "C" __global__ void __launch_bounds__(\(\d+, \d+\))', r"TC_KERNEL\1", text
    )
    text = re.sub(r"extern __shared__ \S+ uchar (\w+)\[\];", r"TC_DYN_SMEM(\1);", text)
    text = re.sub(
        r"__shared__ \S+ uint64_t (\w+)\[\d+\];",
        r"uint64_t* \1 = (uint64_t*)(buf_dyn_shmem + BARRIERS);",
        text,
    )
    return shim.replace("#pragma once\n", "") + text.replace("__grid_constant__ ", "")


def fell_behind(outcome: Outcome) -> bool:
    """Only idle warps of the loading group are stuck, on a phase that nobody will complete."""
    return bool(outcome.reports) and all(
        report.kind == "deadlock"
        and 32 <= report.thread[0] < 128
        and "which misses 128 of 128 arrivals" in report.text
        for report in outcome.reports
    )


@pytest.mark.parametrize(("arch", "depth", "shared"), [("sm_80", 32, 49152), ("sm_90a", 64, 98304)])
def test_gemm(arch: str, depth: int, shared: int, tmp_path: Path) -> None:
    need("cxx")
    need("tilelang")
    device = emulator(arch)
    image = device.compile(printed(arch, depth, tmp_path), "tilelang.cu", [f"BARRIERS={shared}"])
    kernel = device.load(image).function("main_kernel")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE)).astype(BF16) for _ in range(2))
    threads = 256 if arch == "sm_90a" else 128
    for seed in range(count(50)):
        with Arrays(device) as arrays:
            pa, pb, pc = arrays.put(a), arrays.put(b), arrays.empty(a.nbytes)
            parameters: list[Parameter] = [np.uint64(p) for p in (pa, pb, pc)]
            if arch == "sm_90a":
                parameters[:2] = [arrays.map(pa, a, (64, 128)), arrays.map(pb, b, (64, 64))]
            grid, block = (SIZE // 128, SIZE // 128, 1), (threads, 1, 1)
            outcome = device.run(kernel, grid, block, shared + 64, parameters, Mode(seed=seed))
            got = arrays.get(pc, (SIZE, SIZE), BF16)
        if not (seed > 3 and fell_behind(outcome)):
            assert outcome.clean, f"seed {seed}\n{outcome}"
            assert judge(got, a.astype(np.float64) @ b.astype(np.float64)) < 8e-3
