"""Programs made from the left sides of rules, through the whole compiler with rewriting on."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tensorc.pipeline
import tensorc.request
from tensorc.fuzz.case import of_generated
from tensorc.fuzz.from_rules import generate
from tensorc.fuzz.oracle import examine
from tensorc.ir.choose import RandomChooser
from tensorc.ir.print_tensor import show_program
from tensorc.lang import read
from tensorc.passes.algebra.saturate import rewrite
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise
from tensorc.prepare import interpreted, prepare, run_prepared
from tensorc.verify import judge

COUNT = 500 if os.environ.get("TENSORC_PROFILE") == "campaign" else 40
COMPILED = 200 if os.environ.get("TENSORC_PROFILE") == "campaign" else 10


def test_rewritten_programs_are_equal() -> None:
    changed = 0
    for seed in range(COUNT):
        made = generate(RandomChooser(seed))
        program = canonicalise(read(show_program(made.program), "case.tc")[0])
        result = rewrite(program, made.sizes).program
        changed += result is not program
        found = validate(program, result, made.sizes)
        assert found.passed, f"seed {seed}: {found}\n{show_program(program)}"
    assert changed > COUNT // 5


def test_rewritten_programs_run_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorc.request, "REWRITE", True)
    monkeypatch.setattr(tensorc.pipeline, "WORTH", 1.0)
    for seed in range(COMPILED):
        case = of_generated(generate(RandomChooser(seed)))
        found = examine(case)
        if found.outcome == "fail":  # ours only if the program as written runs right
            monkeypatch.setattr(tensorc.request, "REWRITE", False)
            assert examine(case).outcome == "fail", f"seed {seed}: {found}\n{case.text}"
            monkeypatch.setattr(tensorc.request, "REWRITE", True)


def test_a_rewritten_form_decides_where_the_source_is_not_finite() -> None:
    text = (
        "op f(a: f32[k], b: f32[k, l], x: f32[l]) -> o: f32\n"
        "  o = tanh(sum[k, l](a[k] * b[k, l] * x[l]))\n"
    )
    (program,) = read(text, "case.tc")
    a, x = np.ones(33, np.float32), np.ones(17, np.float32)
    a[1], x[3] = -0.5, np.inf  # as written inf - inf, factored 32 inf
    call = prepare(program, {"a": a, "b": np.ones((33, 17), np.float32), "x": x})
    outputs = run_prepared(call)
    assert np.isnan(interpreted(program, call.arrays, call.extents)["o"])
    assert outputs["o"] == 1
    assert judge(call, outputs)["o"].passed
