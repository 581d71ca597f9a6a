"""Rewriting within bounds: whatever a program is like, and whatever becomes of the solver, there is
a valid program in time, and a note says which limit was met."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping

import pytest

from benchmarks.problems.rewrites import DISCOVERIES
from tensorc import pipeline, worker
from tensorc.depth import deep
from tensorc.explain.subject import Step
from tensorc.ir.accept import Outcome
from tensorc.ir.tensor import Program
from tensorc.ir.verify_tensor import verify
from tensorc.lang import read
from tensorc.passes.algebra.parts import rewrite_in_parts
from tensorc.passes.algebra.rules import RULES
from tensorc.passes.algebra.saturate import rewrite
from tensorc.passes.algebra.validate import validate
from tensorc.passes.canonicalise import canonicalise
from tensorc.pipeline import run_passes
from tensorc.request import Request, cpu_target
from tensorc.worker import Worker

LOST = {
    "abort": r"crash: SIGABRT, at most \d+ MiB of memory",
    "exit": r"crash: exit code 7, at most \d+ MiB of memory",
    "memory": "memory: no memory left",
    "hang": "limit: no answer in time; the process was killed",
}
BUDGET = 6.0  # CPU seconds of rewriting and checking, of any program here


@pytest.mark.parametrize("way", LOST)
def test_a_lost_solver_leaves_the_program(
    way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOST_SOLVER", way)
    monkeypatch.setattr(pipeline, "SECONDS", 0.5)
    child = Worker("tests.passes.lost_rewriting")
    monkeypatch.setattr(worker, "run", child.run)
    (program,) = read(DISCOVERIES[0].text, "lost.tc")
    sizes = {name: DISCOVERIES[0].sizes[name] for name, _ in program.extents}
    request = Request(cpu_target(), sizes, rewrite=True)
    steps: list[Step] = []
    try:
        made = run_passes(program, request, steps)
    finally:
        child.stop()
    assert re.search(rf"TC-N401 saturate: the solver was stopped \({LOST[way]}\)", caplog.text)
    assert [bool(step.killed) for step in steps if step.name == "saturate"] == [True]
    assert made == run_passes(program, Request(cpu_target(), sizes, rewrite=False))


def _product_of_sums(count: int) -> tuple[str, Mapping[str, int]]:
    names = ", ".join(f"a{n}: f32[i], b{n}: f32[j]" for n in range(count))
    factors = " * ".join(f"(a{n}[i] + b{n}[j])" for n in range(count))
    return f"op f({names}) -> y: f32\n  y = sum[i, j]({factors})", dict(i=64, j=64)


def _chain(count: int) -> tuple[str, Mapping[str, int]]:
    names = ", ".join(f"A{n}: f32[x{n}, x{n + 1}]" for n in range(count))
    factors = " * ".join(f"A{n}[x{n}, x{n + 1}]" for n in range(count))
    inner = ", ".join(f"x{n}" for n in range(1, count))
    text = f"op f({names}) -> y: f32[x0, x{count}]\n  y[x0, x{count}] = sum[{inner}]({factors})"
    return text, {f"x{n}": 64 for n in range(count + 1)}


def _nest(depth: int) -> tuple[str, Mapping[str, int]]:
    body = "x[i]"
    for n in range(depth):
        body = f"exp({body} * 0.5 + w[i])" if n % 2 else f"log({body} + 2)"
    return f"op f(x: f32[i], w: f32[i]) -> y: f32\n  y = sum[i]({body})", dict(i=64)


def _products_of_all_pairs() -> tuple[str, Mapping[str, int]]:
    pairs = [f"sum[k=|n|]({a}[i, k] * {b}[k, j])" for a in "abcd" for b in "abcd"]
    names = ", ".join(f"{name}: f32[n, n]" for name in "abcd")
    text = f"op f({names}) -> y: f32[n, n]\n  y[i=|n|, j=|n|] = {' + '.join(pairs)}"
    return text, dict(n=64)


EXPLOSIONS = {
    "a product of 100 sums": (_product_of_sums(100), ""),
    "a chain of 30 matrices": (_chain(30), ""),
    "128 functions deep": (_nest(64), ""),
    "all pairs of products": (
        _products_of_all_pairs(),
        r"stopped before 4000 rows .* matched most",
    ),
}


@pytest.mark.parametrize("name", EXPLOSIONS)
def test_an_explosion_ends_in_time_with_a_valid_program(name: str) -> None:
    (text, sizes), note = EXPLOSIONS[name]
    start = time.process_time()
    with deep():
        program = canonicalise(read(text, "explosion.tc")[0])
        made = rewrite(program, sizes)
        assert not verify(made.program, accesses=False)
        found = validate(program, made.program, sizes)
    assert found.outcome is not Outcome.FAIL
    assert time.process_time() - start < BUDGET
    assert re.search(note, made.note) if note else not made.note


def test_the_limit_that_was_met_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tensorc")
    text, sizes = _products_of_all_pairs()
    program: Program = read(text, "explosion.tc")[0]
    steps: list[Step] = []
    run_passes(program, Request(cpu_target(), {**sizes, "i": 64, "j": 64, "k": 64}), steps)
    assert "TC-N401 saturate: stopped before 4000 rows" in caplog.text
    (step,) = (step for step in steps if step.name == "saturate")
    assert step.stopped.startswith("stopped before 4000 rows")


def test_every_rule_at_once_ends_by_matches() -> None:
    names = ", ".join(f"a{n}: f32[i], b{n}: f32[j]" for n in range(20))
    body = " * ".join(f"sum[i](exp(a{n}[i] - b{n}[j]))" for n in range(20))
    program = canonicalise(read(f"op f({names}) -> y: f32[j]\n  y[j] = {body}", "e.tc")[0])
    made = rewrite(program, dict(i=64, j=64), RULES)
    assert not verify(made.program, accesses=False)
    assert "stopped" in made.note and "matched most" in made.note


def test_a_value_of_too_many_indices_is_undecided() -> None:
    names = ", ".join(f"a{n}: f32[x{n}]" for n in range(40))
    left = ", ".join(f"x{n}" for n in range(40))
    body = " + ".join(f"a{n}[x{n}]" for n in range(40))
    text = f"op f({names}) -> y: f32[{left}]\n  y[{left}] = {body}"
    program = canonicalise(read(text, "large.tc")[0])
    found = validate(program, program, {f"x{n}": 2 for n in range(40)})
    assert found.outcome is Outcome.UNDECIDED and "40 indices" in found.reason
    assert rewrite_in_parts(program, {f"x{n}": 2 for n in range(40)}).parts == ()
