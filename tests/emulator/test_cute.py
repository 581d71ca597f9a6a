"""Layouts and descriptors against CuTe's headers, where they are: operands laid out by CuTe, with
CuTe's descriptors, must multiply right in the emulator, and fragments must be where CuTe has them.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorc.codegen.emulator_build import find_compiler
from tests.emulator.running import Array
from tests.emulator.snippets import Out, clean
from tests.emulator.test_tcgen05 import KERNEL as UMMA
from tests.emulator.test_wgmma import Placed, check
from tests.requirements import cutlass_include, need

CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"


@functools.cache
def oracle() -> dict[str, list[int]]:
    """CuTe's tables by label."""
    include = cutlass_include()
    assert include is not None
    source = Path(__file__).with_name("cute_oracle.cpp")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "oracle"
        includes = [f"-I{path}" for path in (include, CUDA, CUDA / "cccl")]
        command = [*find_compiler().command, "-std=c++17", "-O0", "-w", *includes]
        subprocess.run([*command, str(source), "-o", str(program)], check=True, timeout=600)
        text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in text.splitlines() if not line.startswith("ERROR")]
    return {label: list(map(int, numbers)) for label, *numbers in lines}


def needed() -> None:
    need("cxx")
    need("cutlass")
    if not (CUDA / "cuda_fp16.h").exists():
        need("nvcc")
        pytest.skip(f"CuTe's headers need CUDA's, and {CUDA} has none")


def placed(matrix: Array, label: str) -> Placed:
    """A matrix [rows, k] where CuTe puts it; more rows than the table's follow its row groups."""
    descriptor, *offsets = oracle()[label]
    rows, k = matrix.shape
    table = np.array(offsets).reshape(-1, k)
    assert rows <= table.shape[0]
    size = matrix.dtype.itemsize
    raw = np.zeros(-(-(int(table.max()) + size) // 1024) * 1024, np.uint8)
    source = np.ascontiguousarray(matrix).view(np.uint8).reshape(rows, k, size)
    raw[table[:rows, :, None] + np.arange(size)] = source
    return Placed(raw, descriptor)


NAMES: dict[str, tuple[str, Any]] = {
    "16": ("f16", np.float16),
    "8": ("s8", np.int8),
    "32": ("tf32", np.float32),
}
K_MAJOR = ["k16_0", "k16_32", "k16_64", "k16_128", "k8_0", "k8_128", "k32_32", "k32_128"]


@pytest.mark.parametrize("label", K_MAJOR)
def test_wgmma_takes_cutes_k_major_operands(label: str) -> None:
    needed()
    name, dtype = NAMES[label[1:].split("_")[0]]
    place = partial(placed, label=label)
    check(name, dtype, 64, place, place)


@pytest.mark.parametrize("label", ["mn16_0", "mn16_32", "mn16_64", "mn16_128"])
def test_wgmma_takes_cutes_mn_major_operands(label: str) -> None:
    needed()
    place = partial(placed, label=label)
    n = 128 if label == "mn16_128" else 64
    check("f16", np.float16, n, place, place, ", 1, 1")


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_tcgen05_takes_cutes_operands(span: int) -> None:
    needed()
    rng = np.random.default_rng(0)
    a, b = ((rng.integers(-8, 9, (rows, 16)) / 4).astype(np.float16) for rows in (128, 64))
    left, right = placed(a, f"u16_{span}"), placed(b, f"u16_{span}")
    (instruction,) = oracle()["instruction_f16_64"]
    raw = np.concatenate([left.raw, right.raw])
    arguments = [
        raw.view(np.uint32),
        Out((128, 64)),
        np.uint64(left.descriptor),
        np.uint64(right.descriptor + (left.raw.size >> 4)),
        np.uint32(instruction),
    ]
    text = UMMA.format(bytes=raw.size, n=64, width=32)
    (got,) = clean("sm_100a", text, arguments, threads=128, shared=raw.size + 16)
    expected = 2 * (a.astype(np.float64) @ b.astype(np.float64).T)
    np.testing.assert_array_equal(got, expected.astype(np.float32))


def test_instruction_descriptors() -> None:
    needed()
    for label, code, n in (("f16_64", 0, 64), ("bf16_256", 1, 256)):
        mine = 1 << 4 | code << 7 | code << 10 | n // 8 << 17 | 128 // 16 << 24
        assert oracle()[f"instruction_{label}"] == [mine]


def table(label: str, threads: int, rows: int) -> tuple[Array, Array]:
    """(row, column) of each thread's values: CuTe numbers an element row + column * rows."""
    codes = np.array(oracle()[label]).reshape(threads, -1)
    return codes % rows, codes // rows


@pytest.mark.parametrize("n", [8, 192, 256])
def test_accumulators(n: int) -> None:
    needed()
    row, column = table(f"accumulator_{n}", 128, 64)
    t, i = np.mgrid[0:128, 0 : n // 2]
    np.testing.assert_array_equal(row, (t >> 5) * 16 + (t >> 2 & 7) + (i >> 1 & 1) * 8)
    np.testing.assert_array_equal(column, (i >> 2) * 8 + (t & 3) * 2 + (i & 1))


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_register_operands_of_wgmma(bits: int) -> None:
    needed()
    row, column = table(f"operand_{bits}", 128, 64)
    per = 32 // bits  # elements of a register
    t, i = np.mgrid[0:128, 0 : 4 * per]
    register, part = i // per, i % per
    np.testing.assert_array_equal(row, (t >> 5) * 16 + (t >> 2 & 7) + (register & 1) * 8)
    np.testing.assert_array_equal(column, ((register >> 1) * 4 + (t & 3)) * per + part)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_fragments_of_mma_sync(bits: int) -> None:
    needed()
    per = 32 // bits
    row, column = table(f"mma{bits}_a", 32, 16)
    t, i = np.mgrid[0:32, 0 : 4 * per]
    np.testing.assert_array_equal(row, (t >> 2) + (i // per & 1) * 8)
    np.testing.assert_array_equal(column, ((i // per >> 1) * 4 + (t & 3)) * per + i % per)
    row, column = table(f"mma{bits}_b", 32, 8)
    t, i = np.mgrid[0:32, 0 : 2 * per]
    np.testing.assert_array_equal(row, t >> 2)
    np.testing.assert_array_equal(column, (i // per * 4 + (t & 3)) * per + i % per)
    row, column = table(f"mma{bits}_c", 32, 16)
    t, i = np.mgrid[0:32, 0:4]
    np.testing.assert_array_equal(row, (t >> 2) + (i >> 1) * 8)
    np.testing.assert_array_equal(column, (t & 3) * 2 + (i & 1))
