"""Solvers in the worker: the same answers as here, and what happens when one is stopped."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.problems.gemm import gemm
from tensorc import worker
from tensorc.compiler import compile_cpu
from tensorc.errors import BrokenInvariant, Infeasible
from tensorc.ir.schedule import Dependence, LoopProblem, Operation, Role, Unit, Use
from tensorc.ir.strict_json import Json, canonical, read
from tensorc.ir.tensor import Program
from tensorc.lang import read as read_text
from tensorc.machine.product import load_product
from tensorc.passes.algebra import wire
from tensorc.passes.algebra.saturate import rewrite
from tensorc.passes.jobs import here, scheduled
from tensorc.passes.scheduling.schedule import JIT, schedule
from tensorc.pipeline import in_worker
from tensorc.request import Request, cpu_target
from tensorc.worker import JobFailed

SIZES = {"m": 300, "k": 200, "n": 100}
TEXTS = {
    "chain": "  o[m] = sum[k, n](x[m, k] * y[k, n] * z[n])\n",
    "softmax": "  s[m, n] = sum[k](x[m, k] * y[k, n])\n"
    "  o[m] = sum[n](exp(s[m, n] - max[n](s[m, n])) / 3)\n",
    "masked": "  o[m] = sum[k](select(k < m, x[m, k], 0) * 3) / 7\n",
}


def program_of(body: str) -> Program:
    head = "op f(x: f32[m, k], y: f32[k, n], z: f32[n]) -> o: f32[m]\n"
    (program,) = read_text(head + body)
    return program


@pytest.fixture(scope="module", autouse=True)
def ended() -> Iterator[None]:
    yield
    worker.shared().stop()


def through_text(name: str, data: Json) -> Json:
    """A job of this process whose question and answer pass through text, as on a pipe."""
    answer = here(name, read(canonical(data)))
    return read(canonical(answer))


@pytest.mark.parametrize("name", TEXTS)
def test_saturation_answers_the_same_over_the_wire(name: str) -> None:
    program = program_of(TEXTS[name])
    direct, wired = rewrite(program, SIZES), rewrite(program, SIZES, run=through_text)
    assert wired.program == direct.program and wired.fired == direct.fired
    assert wired.graph == direct.graph and wired.extracted == direct.extracted
    if direct.extracted is not None:
        terms = direct.extracted.terms
        assert wire.terms_from_json(wire.terms_to_json(terms)) == terms


def test_the_worker_answers_as_this_process_does() -> None:
    program = program_of(TEXTS["chain"])
    assert rewrite(program, SIZES, run=in_worker).program == rewrite(program, SIZES).program
    assert not worker.shared().why_in_process()


def two_turns() -> LoopProblem:
    """u -> w -> u, once a turn, each 5 cycles on one unit."""
    operations = tuple(Operation(name, name, None, (Use("unit", 2),), 1, 5, 5) for name in "uw")
    edges = (Dependence("u", "w", 0, 5), Dependence("w", "u", 1, 5))
    return LoopProblem("chain", "paper", operations, edges, (Unit("unit"),), (Role("r", 1, 8),))


def test_schedules_come_back_checked() -> None:
    problem = two_turns()
    assert scheduled(problem, JIT, run=in_worker) == schedule(problem, JIT)
    with pytest.raises(Infeasible, match="E403") as caught:
        scheduled(gemm(load_product("h100"), k=320), JIT, run=in_worker)
    assert caught.value.need > caught.value.limit


@pytest.mark.parametrize("reason", ["limit", "memory", "crash", "garbage"])
def test_what_was_stopped_leaves_the_program_and_is_not_kept(
    reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def stopped(name: str, data: Json, seconds: float) -> Json:
        raise JobFailed(reason, "for a test")

    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path))
    program = program_of(TEXTS["chain"])
    request = Request(cpu_target(), SIZES, rewrite=True)
    with monkeypatch.context() as within:
        within.setattr(worker, "run", stopped)
        with caplog.at_level(logging.WARNING, "tensorc"):
            made = compile_cpu(program, request)
        assert "its solver was stopped" in str(made.report)
    assert [item.getMessage() for item in caplog.records][0] == (
        f"TC-N401 saturate: the solver was stopped ({reason}: for a test); "
        "the program stays as it is"
    )
    assert not list(tmp_path.glob("*.kernel"))
    plain = compile_cpu(program, replace(request, rewrite=False))
    assert made.tile == plain.tile
    assert compile_cpu(program, request).tile != plain.tile  # the next one finds the answer
    assert len(list(tmp_path.glob("*.kernel"))) == 2


def test_a_job_that_raises_is_a_bug_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(name: str, data: Json, seconds: float) -> Json:
        raise JobFailed("error", "ValueError: no such thing")

    monkeypatch.setattr(worker, "run", wrong)
    with pytest.raises(BrokenInvariant, match="saturate failed: ValueError"):
        rewrite(program_of(TEXTS["chain"]), SIZES, run=in_worker)
