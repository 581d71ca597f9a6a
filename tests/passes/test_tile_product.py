"""Products of every shape reach the tensor cores of both GPUs: their level-2 text verifies, reads
back, keeps the machine's rules, and means what the equations say at the edges of its tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.rounding import numpy_dtype
from tensorc.ir.sizes import bind
from tensorc.ir.tensor import Program
from tensorc.ir.tile import Let
from tensorc.ir.verify_tile import verify
from tensorc.ir.walk_tile import statements
from tensorc.lang import read
from tensorc.machine import verify_uses
from tensorc.machine.machines import MACHINES
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.tile_gpu import Tiled, tile_gpu

Array = npt.NDArray[Any]
GPUS = ("sm_80", "sm_90a")

GEMM = """op gemm(a: f16[m, k], w: f16[k, n], bias: f32[n]) -> o: f16[m, n]
  z[m, n] = sum[k](a[m, k] * w[k, n]) + bias[n]
  o[m, n] = z[m, n] * sigmoid(z[m, n])
"""
PRODUCTS = {
    "with an epilogue": GEMM,
    "of transposed factors": (
        "op f(a: f16[k, m], b: f16[n, k]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[k](a[k, m] * b[n, k])\n"
    ),
    "with a transposed result": (
        "op f(a: bf16[m, k], b: bf16[k, n]) -> c: bf16[n, m]\n"
        "  c[n, m] = sum[k](a[m, k] * b[k, n])\n"
    ),
    "batched, factors exchanged": (
        "op f(a: f16[m, b, k], w: f16[b, k, n]) -> c: f32[b, m, n]\n"
        "  c[b, m, n] = sum[k](w[b, k, n] * a[m, b, k]) / sqrt(|k|)\n"
    ),
    "over two indices": (
        "op f(a: f16[m, j, k], b: f16[j, k, n]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[j, k](a[m, j, k] * b[j, k, n])\n"
    ),
    "with two row indices": (
        "op f(a: f16[k, x, y], b: f16[k, n]) -> c: f32[x, y, n]\n"
        "  c[x, y, n] = sum[k](a[k, x, y] * b[k, n])\n"
    ),
    "strided": (
        "op f(a: f16[p, k], b: f16[r, n]) -> c: f32[m=|p| // 2, n]\n"
        "  c[m, n] = sum[k](a[2 * m, k] * b[3 * k + 1, n])\n"
    ),
    "reversed and beyond": (
        "op f(a: f16[m, k], b: f16[r, n]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[k](a[|m| - 1 - m, |k| - 1 - k] * b[k + 2, n])\n"
    ),
    "under a condition": (
        "op f(a: f16[m, k], b: f16[k, n], len: i32[m]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[k](a[m, k] * b[k, n] where k < len[m] and k != 3)\n"
    ),
    "two at a time": (
        "op f(x: f16[m, k], g: f16[k, n], u: f16[k, n]) -> y: f16[m, n]\n"
        "  a[m, n] = sum[k](x[m, k] * g[k, n])\n"
        "  b[m, n] = sum[k](x[m, k] * u[k, n])\n"
        "  y[m, n] = a[m, n] * sigmoid(a[m, n]) * b[m, n]\n"
    ),
    "of a value that is rounded": (
        "op f(x: f32[m, k], g: f32[k], w: bf16[k, n]) -> y: f32[m, n]\n"
        "  y[m, n] = sum[k](bf16(x[m, k] * g[k]) * w[k, n])\n"
    ),
}  # fmt: skip


def tiled(text: str, machine: str, static: Mapping[str, int] | None = None) -> Tiled:
    """The level 2 of a text with one operator; verified, and equal to its text read back."""
    made = tile_gpu(program(text), machine, Widths(128), {}, static or {})
    assert not [*verify(made.program), *verify_uses.verify(made.program)], show(made.program)
    assert show(read_tile(show(made.program))) == show(made.program)
    return made


def program(text: str) -> Program:
    """The canonical program of a text with one operator."""
    (found,) = read(text)
    return canonicalise(found)


def drawn(item: Program, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Normal numbers, and small integers."""
    random = np.random.default_rng(sum(sizes.values()))
    extents = bind(item, {}, dict(sizes))
    known = {Symbol(name, "extent"): size for name, size in extents.items()}
    found: dict[str, Array] = {}
    for parameter in item.parameters:
        tensor = parameter.tensor
        shape = tuple(evaluate(size, known) for size in tensor.shape)
        values = random.standard_normal(shape) if tensor.dtype.floating else (
            random.integers(0, 20, shape))  # fmt: skip
        found[tensor.name] = values.astype(numpy_dtype(tensor.dtype))
    return found


def compare(item: Program, made: Tiled, sizes: Mapping[str, int]) -> None:
    """Level 2 against level 1: half a unit of the output's type and what f32 sums lose."""
    arrays = drawn(item, sizes)
    extents = bind(item, {}, dict(sizes))
    wanted = interpret(item, arrays, extents)
    found = interpret_tile(made.program, arrays, extents)
    for output in item.outputs:
        name, bits = output.tensor.name, output.tensor.dtype.name
        bar = {"f16": 2.0**-10, "bf16": 2.0**-7}.get(bits, 2.0**-19)
        got, exact = found[name].astype(np.float64), wanted[name].astype(np.float64)
        assert np.abs(got - exact).max(initial=0) <= bar * max(1, np.abs(exact).max(initial=0))


def products(made: Tiled) -> list[str]:
    """The instructions of a program that multiply matrices."""
    tensor_core = set(MACHINES[made.program.machine].products)
    return [
        item.by.instruction
        for kernel in made.program.kernels
        for item in statements(kernel.body)
        if isinstance(item, Let) and item.by.instruction in tensor_core
    ]


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_done_by_tensor_cores(name: str, machine: str) -> None:
    item, made = program(PRODUCTS[name]), tiled(PRODUCTS[name], machine)
    assert made.reasons == {}
    assert len(products(made)) == (2 if name == "two at a time" else 1)
    small = {"m": 37, "n": 20, "k": 33, "b": 2, "j": 3, "x": 3, "y": 21, "p": 75, "r": 104}
    used = {index for index, size in item.extents if str(size) == f"|{index}|"}
    compare(item, made, {index: size for index, size in small.items() if index in used})


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("by", [-1, 0, 1])
def test_edges_of_tiles(by: int, machine: str) -> None:
    block = 64 if machine == "sm_90a" else 32
    compare(program(GEMM), tiled(GEMM, machine), {"m": 128 + by, "n": 128 + by, "k": block + by})


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("k", [0, 1, 16])
def test_sums_of_little_or_nothing(k: int, machine: str) -> None:
    compare(program(GEMM), tiled(GEMM, machine), {"m": 1, "n": 1, "k": k})


@pytest.mark.parametrize("machine", GPUS)
def test_known_extents_shape_the_tile(machine: str) -> None:
    sizes = {"m": 24, "n": 40, "k": 48}
    made = tiled(GEMM, machine, sizes)
    assert made.reasons == {}
    compare(program(GEMM), made, sizes)


CONVOLUTIONS = {
    "channels first": (
        "op f(X: f16[n, c, h, w], K: f16[o, c, r, s])\n"
        "    -> Y: f16[n, o, y=(|h| + 2 - |r|) // 2 + 1, x=(|w| + 2 - |s|) // 2 + 1]\n"
        "  Y[n, o, y, x] = sum[c, r, s](X[n, c, 2 * y + r - 1, 2 * x + s - 1] * K[o, c, r, s]\n"
        "      where inside(2 * y + r - 1, |h|) and inside(2 * x + s - 1, |w|))\n"
    ),
    "channels last": (
        "op f(X: f16[n, h, w, c], K: f16[r, s, c, o])\n"
        "    -> Y: f16[n, y=(|h| + 2 - |r|) // 2 + 1, x=(|w| + 2 - |s|) // 2 + 1, o]\n"
        "  Y[n, y, x, o] = sum[c, r, s](X[n, 2 * y + r - 1, 2 * x + s - 1, c] * K[r, s, c, o]\n"
        "      where inside(2 * y + r - 1, |h|) and inside(2 * x + s - 1, |w|))\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("size", [13, 17])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_are_implicit_products(name: str, size: int, machine: str) -> None:
    text = CONVOLUTIONS[name]
    sizes = {"n": 2, "h": size, "w": size, "c": 40, "o": 24, "r": 3, "s": 3}
    made = tiled(text, machine, sizes)
    assert made.reasons == {} and len(products(made)) == 1
    compare(program(text), made, sizes)
    by = {"sm_80": "cp.async", "sm_90a": "tma"}[machine]
    copies = [item for item in statements(made.program.kernels[0].body) if isinstance(item, Let)]
    copied = [item.by.instruction == by for item in copies].count(True)
    assert copied == (2 if name == "channels last" else 0)


UNFIT = {
    "f32 factors": (
        "op f(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[k](a[m, k] * b[k, n])\n",
        "a factor is f32; declare it f16 or bf16 to use the tensor core",
    ),
    "different factors": (
        "op f(a: f16[m, k], b: bf16[k, n]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[k](a[m, k] * b[k, n])\n",
        "the factors are f16 and bf16",
    ),
    "a vector": (
        "op f(a: f16[k, m], b: f16[k]) -> c: f32[m]\n  c[m] = sum[k](a[k, m] * b[k])\n",
        "no index is shared by d and b alone",
    ),
    "the greatest product": (
        "op f(a: f16[m, k], b: f16[k, n]) -> c: f32[m, n]\n"
        "  c[m, n] = max[k](a[m, k] * b[k, n])\n",
        "max is no sum of products",
    ),
    "three factors": (
        "op f(a: f16[m, k], b: f16[k, n], g: f16[k]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[k](a[m, k] * g[k] * b[k, n])\n",
        "products of 3 factors; name all but one of them as one intermediate of type f16 or bf16",
    ),
    "f64 sums": (
        "op f(a: f16[m, k], b: f16[k, n]) -> c: f64[m, n]\n"
        "  c[m, n] = sum[k, f64](a[m, k] * b[k, n])\n",
        "sums are f64",
    ),
    "a mask over rows and columns": (
        "op f(a: f16[m, k], b: f16[k, n]) -> c: f32[m, n]\n"
        "  c[m, n] = sum[k](a[m, k] * b[k, n] where m < n)\n",
        "a condition joins indices of both factors",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_what_is_no_product_is_plain_and_says_why(name: str) -> None:
    text, reason = UNFIT[name]
    made = tiled(text, "sm_80")
    assert not products(made)
    (said,) = made.reasons.values()
    assert reason in said
    compare(program(text), made, {"m": 5, "k": 7, **({"n": 6} if "n]" in text else {})})


@pytest.mark.parametrize("machine", GPUS)
def test_texts(machine: str, golden: Callable[[str, str], None]) -> None:
    golden(f"gemm_{machine}.txt", show(tiled(GEMM, machine).program))
