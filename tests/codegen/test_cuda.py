"""CUDA C++ of any program, run in the emulator against the meaning."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest

from examples.sizes import EXAMPLES, Example
from tensorc.codegen.cuda_functions import FUNCTIONS as EMITTED
from tensorc.codegen.cuda_parameters import Names
from tensorc.cuda_levels import levels, request
from tensorc.devices import run
from tensorc.errors import ArgumentError, OutOfRange, Unavailable
from tensorc.fuzz.case import of_generated
from tensorc.fuzz.generate import generate
from tensorc.fuzz.oracle import arrays_of
from tensorc.ir.accept import Outcome
from tensorc.ir.choose import RandomChooser
from tensorc.ir.dtypes import BOOL, F32, F64, I32, I64, U32, U64, DType
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.interpret_tensor import interpret
from tensorc.lang import read
from tensorc.prepare import prepare
from tensorc.verify import judge
from tests.codegen.test_functions import compare, pairs, programs
from tests.conftest import Golden
from tests.examples.test_examples import arrays_of as example_arrays
from tests.examples.test_examples import text_of
from tests.requirements import need

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
SEEDS = 200 if CAMPAIGN else 12
ARCHES = ("sm_80", "sm_90a")


@functools.cache
def compiler() -> None:
    """The emulator compiles kernels with the host's C++ compiler."""
    need("cxx")


@pytest.mark.parametrize("dtype", [BOOL, I32, I64, U32, U64, F32, F64], ids=str)
def test_every_function_computes_the_meaning(dtype: DType) -> None:
    compiler()
    program, functions = programs(dtype)
    left, right = pairs(dtype)
    call = prepare(program, {"a": left, "b": right})
    got = run(call, "emulator", "sm_80")
    want = interpret(program, call.arrays, call.extents)
    for name, function in functions.items():
        compare(function, got[name], want[name], left, right)


def test_the_table_has_every_function() -> None:
    assert set(EMITTED) == set(FUNCTIONS)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda item: item.name)
def test_every_example_is_clean_in_the_emulator(example: Example, arch: str) -> None:
    compiler()
    program = text_of(example)
    call = prepare(program, example_arrays(example, program), example.tiny)
    verdicts = judge(call, run(call, "emulator", arch))
    assert {v.outcome for v in verdicts.values()} == {Outcome.PASS}, verdicts


def test_generated_programs() -> None:
    compiler()
    for seed in range(SEEDS):
        case = of_generated(generate(RandomChooser(seed)))
        try:
            (program,) = read(case.text)
            call = prepare(program, arrays_of(program, case), case.sizes)
            interpret(program, call.arrays, call.extents)
        except (ArgumentError, ValueError):
            continue
        verdicts = judge(call, run(call, "emulator", "sm_80"))
        outcomes = {verdict.outcome for verdict in verdicts.values()}
        assert Outcome.FAIL not in outcomes, f"seed {seed}: {verdicts}\n{case.text}"


def test_data_out_of_range_is_reported() -> None:
    compiler()
    (program,) = read("op f(e: f32[v], t: i32[m]) -> y: f32[m]\n  y[m] = e[t[m]]\n")
    table, places = np.ones(5, np.float32), np.array([0, 4, 5], np.int32)
    with pytest.raises(OutOfRange, match="5"):
        run(prepare(program, {"e": table, "t": places}), "emulator")


def test_derived_names_are_all_different() -> None:
    """Also where a number makes one name of another's: the third `x` is not the first `x3`."""
    names = Names()
    made = [names.derived("v", name) for name in ("x3", "x", "x", "x", "x'", "x", "x5", "σ", "σ")]
    assert len(set(made)) == len(made)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(Unavailable, match="sm_80"):
        request("sm_35", {}, {})


def test_the_source_of_softmax(golden: Golden) -> None:
    """The text is for people: names of the program, one reduction over lanes for each sum."""
    (program,) = read("op softmax(x: f32[m, n]) -> p: f32[m, n]\n  p[m, n] = softmax[n](x[m, n])\n")
    golden("softmax.cu", levels(program, request("sm_90a", {}, {})).source)


def test_an_argmin_of_products_on_tensor_cores_or_not() -> None:
    """The element found is the minimum to the last bit."""
    compiler()
    (program,) = read(
        "op nearest(x: f16[p, d], c: f16[k, d]) -> a: i64[p], least: f32[p]\n"
        "  r[p, k] = sum[d](x[p, d] * c[k, d])\n"
        "  a[p] = argmin[k](r[p, k])\n"
        "  least[p] = min[k](r[p, k])\n"
    )
    draw = np.random.default_rng(0)
    x, c = (draw.standard_normal(shape).astype(np.float16) for shape in ((70, 32), (40, 32)))
    call = prepare(program, {"x": x, "c": c})
    want = interpret(program, call.arrays, call.extents)
    for arch in ARCHES:
        got = run(call, "emulator", arch)
        np.testing.assert_array_equal(got["a"], want["a"])
        np.testing.assert_allclose(got["least"], want["least"], rtol=1e-3, atol=1e-3)
