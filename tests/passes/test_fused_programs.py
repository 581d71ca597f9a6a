"""Fused kernels of whole collections of programs mean what level 1 means: every example at its
tiny size, and random programs with masks, data subscripts, special values and mixed types."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tensorc as tc
from examples.sizes import EXAMPLES, Example
from tensorc.errors import ArgumentError, NotationError, OutOfRange
from tensorc.fuzz.case import of_generated
from tensorc.fuzz.generate import generate
from tensorc.fuzz.oracle import arrays_of
from tensorc.ir.accept import Outcome, accept
from tensorc.ir.bound import bound
from tensorc.ir.choose import RandomChooser
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.rounding import round_to
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.lang import read
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.fusion.inline import Unfused
from tensorc.prepare import prepare
from tests.examples import test_examples as examples
from tests.passes.fused import Array, arguments, fused

FOLDER = Path(__file__).parents[2] / "examples"


def every_extent(program: Program, sizes: dict[str, int]) -> dict[str, int]:
    """The extents of the indices that passes have added too."""
    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    return {name: evaluate(size, known) for name, size in program.extents} | sizes


def same(found: Array, wanted: Array, item: Program, name: str, tolerance: float) -> None:
    """Equal where not finite, and close relative to the largest element elsewhere."""
    (dtype,) = (o.tensor.dtype for o in item.outputs if o.tensor.name == name)
    kind = np.complex128 if dtype.complex else np.float64
    a, b = found.astype(kind), round_to(wanted, dtype).astype(kind)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    finite = np.isfinite(b)
    scale = max(1.0, float(np.abs(b[finite]).max(initial=0)))
    np.testing.assert_allclose(a[finite], b[finite], atol=tolerance * scale, rtol=tolerance)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_examples(example: Example) -> None:
    (op,) = tc.load(FOLDER / f"{example.name}.tc")
    arrays = examples.arrays_of(example, op.program)
    call = prepare(op.program, arrays, example.tiny)
    item = canonicalise(op.program)
    sizes = every_extent(item, dict(call.extents))
    wanted = interpret(item, call.arrays, sizes)
    found = interpret_tile(fused(item, sizes), call.arrays, sizes)
    for name, value in found.items():
        same(value, wanted[name], item, name, 1e-2)  # some round to bf16 on the way


def right(
    item: Program, made: TileProgram, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> None:
    """Level 2 of a program is within the bound that is derived from it."""
    with np.errstate(all="ignore"):
        wanted = interpret(item, arrays, sizes, extended=True)
        twin = interpret(item, arrays, sizes, rounded=True)
        found, limits = interpret_tile(made, arrays, sizes), bound(made, arrays, sizes)
    for output in item.outputs:
        name, dtype = output.tensor.name, output.tensor.dtype
        verdict = accept(found[name], wanted[name], twin[name], limits[name].error, dtype)
        assert verdict.outcome is not Outcome.FAIL, f"{name}: {verdict}"


def ran(seed: int) -> bool:
    """Whether a random program is one that runs and is fused; if so, it is right."""
    case = of_generated(generate(RandomChooser(seed)))
    try:
        (program,) = read(case.text)
        call = prepare(program, arrays_of(program, case), dict(case.sizes))
        item = canonicalise(program)
        sizes = every_extent(item, dict(call.extents))
        interpret(item, call.arrays, sizes)
        made = fused(item, sizes)
    except (NotationError, ArgumentError, OutOfRange, Unfused):
        return False  # no such call, or the plain lowering's part
    right(program, made, call.arrays, sizes)
    return True


SEEDS = 5000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 60


def test_random_programs() -> None:
    assert sum(map(ran, range(SEEDS))) >= 0.8 * SEEDS


WRONG_ONCE: dict[str, tuple[str, dict[str, int]]] = {
    "a guard with a guarded reduction": (
        "op f(x: f32[i], v: i32[n], w: f32[j]) -> y: f32[n]\n"
        "  t[i] = prod[j](w[j] + x[i])\n"
        "  y[n] = select(select(3 * n + 1 < |i|, t[3 * n + 1], 0) != 0,\n"
        "                sum[j](w[j] + x[v[n] % |i|]), 1)\n",
        {"i": 4, "j": 3, "n": 4},
    ),
    "a condition that binds the same name": (
        "op f(x: f32[l, j], a: i32) -> y: i32[i=3]\n"
        "  y[i] = select(i < 1, argmax[l](x[l, a % |j|]), 7)\n",
        {"l": 5, "j": 4},
    ),
    "a guard that uses an index of the same extent": (
        "op f(x: f32[j, k]) -> y: f32\n"
        "  t[k] = sum[j](x[j, k])\n"
        "  y = logsumexp[j](sum[k](select(3 * k + 1 < |k|, t[3 * k + 1], 0) where j <= 5))\n",
        {"j": 8, "k": 8},
    ),
    "a guard that never holds and reads under another": (
        "op f(x: f32[i], u: i32[j]) -> y: f32[j]\n"
        "  t[j] = select(u[j] > u[j], logsumexp[i](x[i] * u[j]), 3)\n"
        "  y[j] = select(2 * j < |j|, t[2 * j], 0)\n",
        {"i": 14, "j": 14},
    ),
    "an output that lacks the index of an empty grid": (
        "op f(w: f32[j], x: f32[i]) -> s: f32, y: f32[i]\n"
        "  s = max[j](w[j])\n"
        "  y[i] = x[i] + max[j](w[j])\n",
        {"i": 0, "j": 16},
    ),
    "a movable rounding inside a condition": (
        "op f(x: f32[j]) -> y: f32[k=3]\n"
        "  t: f16[j] = 0.125 / (x[j] + 9)\n"
        "  y[k] = select(3 * k < |j|, t[3 * k], 0)\n",
        {"j": 3},
    ),
    "a movable rounding of a wider type around a guarded read": (
        "op f(a: f64, x: f32[i, k]) -> y: f64[k]\n"
        "  t: bf16[k] = select(7 < |i|, x[7, k], 0) + a\n"
        "  y[k] = t[k] + 1\n",
        {"i": 9, "k": 14},
    ),
    "a constant with the type of its name": (
        "op f(x: u8[k]) -> y: i64[k], z: f64[k]\n"
        "  t[k] = 300\n"
        "  u[k] = rsqrt(log2(3))\n"
        "  y[k] = x[k] + t[k]\n"
        "  z[k] = u[k]\n",
        {"k": 14},
    ),
    "a name of a wider type than its body": (
        "op f(x: f32[k]) -> y: f64[k]\n  t: f64[k] = x[k]\n  y[k] = sqrt(abs(t[k] + x[k]))\n",
        {"k": 70},
    ),
    "a movable rounding of a constant": (
        "op f(x: f32[k]) -> y: f32[k]\n  t: bf16[k] = exp(0.7)\n  y[k] = x[k] * t[k]\n",
        {"k": 14},
    ),
}


@pytest.mark.parametrize("name", WRONG_ONCE)
def test_programs_that_were_wrong(name: str) -> None:
    text, extents = WRONG_ONCE[name]
    (source,) = read(text)
    item = canonicalise(source)
    sizes = every_extent(item, extents)
    right(source, fused(item, sizes), arguments(item, sizes, 1), sizes)


NEAREST = """
op nearest(x: f32[p, d], c: f32[k, d]) -> a: i64[p], least: f32[p]
  r[p, k] = sum[d]((x[p, d] - c[k, d]) ** 2)
  a[p] = argmin[k](r[p, k])
  least[p] = min[k](r[p, k])

op inline(x: f32[p, d], c: f32[k, d]) -> a: i64[p]
  a[p] = argmin[k](sum[d]((x[p, d] - c[k, d]) ** 2))

op masked(x: f32[p, d], c: f32[k, d]) -> a: i64[p]
  r[p, k] = sum[d](x[p, d] * c[k, d])
  a[p] = sum[k](1 where r[p, k] >= max[j=|k|](r[p, j]))
"""


@pytest.mark.parametrize("cuts", ["cost", "none", "all"])
def test_values_that_are_compared_are_computed_once(cuts: str) -> None:
    """An argmin finds the element that is the minimum, to the last bit."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((200, 16)).astype(np.float32)
    c = draw.standard_normal((10, 16)).astype(np.float32)
    for op in tc.loads(NEAREST):
        got, want = op.on("cpu", cuts=cuts)(x, c), op.on("interpreter")(x, c)
        got, want = (item[0] if isinstance(item, tuple) else item for item in (got, want))
        np.testing.assert_array_equal(got, want)
