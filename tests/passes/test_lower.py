"""The first lowering: five operators whose inner loops run at the vector width, and equality of
level 2 and the CPU with the meaning on programs with every kind of reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.codegen.llvm import Options, emit
from tensorc.compiler import compile_cpu
from tensorc.ir.accept import Outcome, accept
from tensorc.ir.bound_tensor import bound_tensor
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.sizes import bind
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.pipeline import run_passes
from tensorc.request import Request, Target, cpu_target

Array = npt.NDArray[Any]
CPU = Target("avx512", 16)


def llvm_of(text: str, static: dict[str, int]) -> str:
    """The LLVM IR of a one-operator text, a kernel for each equation."""
    (program,) = read(text)
    return emit(run_passes(program, Request(CPU, static, cuts="all")), Options(static, {})).text


def test_small_powers_are_products() -> None:
    text = "op f(x: f32[m], i: i32[m]) -> y: f32[m]\n  y[m] = x[m] ** 3 + i[m] ** 2\n"
    assert "pow" not in llvm_of(text, {}) and llvm_of(text, {}).count("mul") < 20
    x, i = np.array([-2, 0.5, 3], np.float32), np.array([3, -4, 0], np.int32)
    assert tc.loads(text).f(x, i).tolist() == (x**3 + i**2).tolist()


VECTORISED = {
    "dot products along rows": (
        "op f(a: f32[m, k], x: f32[k]) -> y: f32[m]\n  y[m] = sum[k](a[m, k] * x[k])\n",
        ["load <16 x float>", "fmul contract <16 x float>", "fadd contract <16 x float>"],
    ),
    "sums of columns": (
        "op f(a: f32[m, n]) -> y: f32[n]\n  y[n] = sum[m](a[m, n])\n",
        ["load <16 x float>", "fadd contract <16 x float>", "store <16 x float>"],
    ),
    "elementwise with a broadcast": (
        "op f(a: f32[m, n], b: f32[m]) -> y: f32[m, n]\n  y[m, n] = a[m, n] * b[m]\n",
        ["load <16 x float>", "fmul contract <16 x float>", "store <16 x float>"],
    ),
    "a matrix product": (
        "op f(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n  c[m, n] = sum[k](a[m, k] * b[k, n])\n",
        ["load <16 x float>", "fmul contract <16 x float>", "store <16 x float>"],
    ),
    "softmax": (
        "op f(x: f32[m, n]) -> p: f32[m, n]\n  p[m, n] = softmax[n](x[m, n])\n",
        ["load <16 x float>", "@llvm.maximum.v16f32", "fdiv contract <16 x float>"],
    ),
}


@pytest.mark.parametrize("name", VECTORISED)
def test_contiguous_axes_run_at_the_vector_width(name: str) -> None:
    text, expected = VECTORISED[name]
    code = llvm_of(text, {"m": 64, "n": 64, "k": 64})
    for instruction in expected:
        assert instruction in code, f"{instruction} is missing:\n{code}"
    assert "masked" not in code  # 64 is a whole number of vectors
    assert "gather" not in llvm_of(text, {})


def test_rows_share_a_vector_that_is_loaded_once() -> None:
    text, _ = VECTORISED["a matrix product"]
    (program,) = read(text)
    static = {"m": 12, "n": 128, "k": 64}
    tiles = run_passes(program, Request(Target("avx512", 16, 4, 6), static))
    code = emit(tiles, Options(static, {})).text
    assert code.count("phi <64 x float>") == 6
    assert code.count("load <64 x float>") == 1
    assert code.count("store <64 x float>") == 6


@pytest.mark.parametrize(("vectors", "rows"), [(4, 4), (2, 8), (3, 8), (6, 2), (2, 12), (1, 14)])
def test_register_tiles_of_every_shape(vectors: int, rows: int) -> None:
    text, _ = VECTORISED["a matrix product"]
    (program,) = read(text)
    arrays, extents = drawn(program, sizes := {"m": 29, "n": 200, "k": 9}), sizes
    for static in (extents, {}):
        request = Request(Target(cpu_target().machine, cpu_target().lanes, vectors, rows), static)
        compiled = compile_cpu(program, request)
        judged(program, arrays, extents, compiled.run(arrays, extents))
        if vectors in (1, 2, 4):  # other numbers of lanes are stored in parts
            assert "alloca" not in compiled.llvm


PROGRAMS = {
    "rows and their rest": (
        "op f(a: f32[b, m, k], w: f32[k, n], v: f16[n, k]) -> y: f32[b, m, n], z: f64[m, n]\n"
        "  y[b, m, n] = sum[k](a[b, m, k] * w[k, n]) * max[k](a[b, m, k] + w[k, n])\n"
        "  z[m, n] = sum[k, b](a[b, m, k] * v[n, k])\n"
    ),
    "nested reductions": (
        "op f(a: f32[m, k], b: f32[k, n]) -> y: f32[m]\n"
        "  y[m] = max[k](a[m, k] * sum[n](b[k, n] * a[m, k])) + a[m, 0]\n"
    ),
    "a name bound twice": (
        "op f(x: f32[m, n]) -> y: f32[m, n]\n"
        "  y[m, n] = x[m, n] - mean[n](x[m, n]) + sum[m](x[m, n])\n"
    ),
    "a guarded reduction": (
        "op f(x: f32[m, n]) -> y: f32[m, n]\n"
        "  y[m, n] = select(m + 1 < |m|, sum[r=|n|](x[m + 1, r + 0]), -1) * x[m, n]\n"
    ),
    "padding": (
        "op f(x: f32[n], w: f32[r]) -> y: f32[n]\n"
        "  y[n] = sum[r](x[n + r - 1] * w[r] where inside(n + r - 1, |n|))\n"
    ),
    "every reducer": (
        "op f(x: f32[m, n]) -> a: f32[m], b: f32[m], c: i64[m], d: i64[m], e: bool[m], g: f32[m]\n"
        "  a[m] = logsumexp[n](x[m, n] where n > m)\n"
        "  b[m] = mean[n](x[m, n] where n > m)\n"
        "  c[m] = argmax[n](x[m, n] where n > m)\n"
        "  d[m] = argmin[n](x[m, n])\n"
        "  e[m] = any[n](x[m, n] > 1) and all[n](x[m, n] < 2)\n"
        "  g[m] = min[n](x[m, n]) * prod[n](x[m, n] where n < 3) - max[n](x[m, n])\n"
    ),
    "transposed and diagonal": (
        "op f(x: f32[n, n]) -> y: f32[n, n], d: f32[n]\n"
        "  y[i=|n|, j=|n|] = x[j + 0, i + 0]\n  d[n] = x[n, n]\n"
    ),
    "narrow types": (
        "op f(x: f16[m, n], w: bf16[n], k: u8[m]) -> y: f16[m, n], z: bf16[m], s: i8[m]\n"
        "  t: bf16[m, n] = x[m, n] * w[n]\n"
        "  y[m, n] = t[m, n] + k[m] * 0.1\n"
        "  z[m] = sum[n](t[m, n])\n"
        "  s[m] = i8(sum[n](x[m, n] * 3)) + k[m]\n"
    ),
    "integers": (
        "op f(x: i32[m, n], y: i32[n]) -> z: i32[m, n], c: i64[m]\n"
        "  z[m, n] = x[m, n] // y[n] + x[m, n] % y[n] - (x[m, n] << 3) ^ (y[n] >> 1)\n"
        "  c[m] = sum[n](x[m, n] * y[n])\n"
    ),
    "a guard that no lane changes": (
        "op f(x: f32[m, n]) -> y: f32[m]\n  y[m] = mean[n](x[m, n] where m >= 3) + x[m, 0]\n"
    ),
    "gathers": (
        "op f(e: f32[v, n], t: i32[m]) -> y: f32[m, n]\n  y[m, n] = e[t[m] % |v|, n]\n"
    ),
    "a scalar": "op f(x: f32[n]) -> y: f32\n  y = sum[n](x[n] ** 2)\n",
}  # fmt: skip


def drawn(program: Program, sizes: dict[str, int]) -> dict[str, Array]:
    """Small random inputs."""
    from tensorc.commands.run import drawn as draw

    return draw(program, {}, sizes, 7)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 33])
def test_every_level_agrees(name: str, n: int) -> None:
    (program,) = read(PROGRAMS[name])
    every = {"m": 13, "n": n, "k": 4, "r": 3, "v": 6, "b": 2}
    used = {index for index, size in program.extents if str(size) == f"|{index}|"}
    sizes = {index: size for index, size in every.items() if index in used}
    arrays = drawn(program, sizes)
    extents = bind(program, {name: a.shape for name, a in arrays.items()}, sizes)
    for static in (extents, {}):
        compiled = compile_cpu(program, Request(cpu_target(), static))
        judged(program, arrays, extents, compiled.run(arrays, extents))
    tiles = interpret_tile(compiled.tiles, arrays, compiled.every_extent(extents))
    judged(program, arrays, extents, tiles)


def judged(
    program: Program, arrays: dict[str, Array], extents: dict[str, int], got: dict[str, Array]
) -> None:
    """Every output passes the three-part rule against the meaning."""
    want = interpret(program, arrays, extents)
    twin = interpret(program, arrays, extents, rounded=True)
    limits = bound_tensor(program, arrays, extents)
    for name, array in got.items():
        dtype = next(o.tensor.dtype for o in program.outputs if o.tensor.name == name)
        verdict = accept(array, want[name], twin[name], limits[name].error, dtype)
        assert verdict.outcome is not Outcome.FAIL, f"{name}: {verdict}"
