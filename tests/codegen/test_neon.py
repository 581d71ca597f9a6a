"""Code for NEON: products in registers of four floats, sums, functions and masks, compiled to
assembly for aarch64. Nothing here runs it."""

from __future__ import annotations

import re

import pytest

from tensorc.codegen.llvm import Options, emit
from tensorc.codegen.llvm_jit import Cpu, assembly, object_code
from tensorc.lang import read
from tensorc.pipeline import run_passes
from tensorc.request import NEON, Request

AARCH64 = Cpu("aarch64-unknown-linux-gnu", "neoverse-n1", "")
OPS: dict[str, tuple[str, dict[str, int]]] = {
    "product": (
        "op f(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n  c[m, n] = sum[k](a[m, k] * b[k, n])\n",
        {"m": 48, "n": 64, "k": 32},
    ),
    "softmax": (
        "op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = softmax[n](x[m, n])\n",
        {"m": 9, "n": 101},
    ),
    "columns": ("op f(x: f64[m, n]) -> y: f64[n]\n  y[n] = sum[m](x[m, n])\n", {}),
    "half": ("op f(x: f16[n]) -> y: f16[n]\n  y[n] = tanh(x[n]) * 2\n", {}),
}


def assembled(name: str) -> str:
    text, sizes = OPS[name]
    (program,) = read(text)
    tiles = run_passes(program, Request(NEON, sizes))
    assert tiles.machine == "neon"
    code = emit(tiles, Options(sizes, {})).text
    assert object_code(code, AARCH64)[18:20] == b"\xb7\x00"  # EM_AARCH64 of an ELF header
    return assembly(code, AARCH64)


def test_products_stay_in_registers() -> None:
    lines = assembled("product").splitlines()
    adds = [n for n, line in enumerate(lines) if "\tfmla\t" in line and ".4s" in line]
    assert len(adds) >= 16
    inner = lines[adds[0] : adds[15]]
    assert not any(re.search(r"\tstr\tq\d+, \[sp", line) for line in inner)


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_kind_of_kernel_compiles(name: str) -> None:
    found = assembled(name)
    assert "kernel_0" in found and "zmm" not in found
