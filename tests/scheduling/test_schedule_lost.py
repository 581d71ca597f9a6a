"""The solver in the worker, and its answers kept in files: what happens when things go wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.gemm import gemm
from benchmarks.problems.random_problems import random_problem
from tensorc import solving, worker
from tensorc.errors import BrokenInvariant, Infeasible
from tensorc.ir.problem_json import problem_from_json, problem_to_json
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.schedule import JIT, PROVE, schedule
from tensorc.passes.scheduling.schedule_cache import cached_schedule, schedule_key
from tensorc.passes.scheduling.schedule_lost import without_solver
from tensorc.passes.scheduling.schedule_polish import Aim
from tensorc.passes.scheduling.schedule_search import Effort
from tensorc.worker import Worker

H100 = load_product("h100")
GEMM = gemm(H100)


def test_problems_go_through_json_unchanged() -> None:
    for problem in (GEMM, attention_hopper(H100), *map(random_problem, range(20))):
        assert problem_from_json(problem_to_json(problem)) is problem


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"is":"Path"}', '{"is":"Use","unit":"u"}', "1.5", "[" * 40 + "]" * 40],
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        problem_from_json(text)


LOST = {
    "abort": r"crash: SIGABRT, at most \d+ MiB of memory",
    "exit": r"crash: exit code 7, at most \d+ MiB of memory",
    "memory": "memory: no memory left",
    "hang": "limit: no answer in time; the process was killed",
}


@pytest.mark.parametrize("way", LOST)
def test_a_lost_solver_leaves_a_list_schedule_with_the_reason(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOST_SOLVER", way)
    monkeypatch.setenv("TENSORC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(solving, "_SECONDS", dict.fromkeys((True, False), 0.5))
    child = Worker("tests.scheduling.lost_jobs")
    monkeypatch.setattr(worker, "run", child.run)
    try:
        made = solving.solved(GEMM)
    finally:
        child.stop()
    wanted = rf"TC-E404 the solver was lost \({LOST[way]}\): list schedule"
    assert re.fullmatch(wanted, made.certificate.note)
    assert check_schedule(GEMM, made) == []
    assert not (tmp_path / "schedules").exists()  # not kept: the next process asks again
    (kept,) = (tmp_path / "lost").iterdir()
    assert problem_from_json(kept.read_text()) is GEMM and str(kept) in caplog.text


def test_a_solver_that_raises_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOST_SOLVER", "another")
    monkeypatch.setenv("TENSORC_CACHE_DIR", "off")
    child = Worker("tests.scheduling.lost_jobs")
    monkeypatch.setattr(worker, "run", child.run)
    try:
        with pytest.raises(BrokenInvariant, match="no such way"):
            solving.solved(GEMM)
    finally:
        child.stop()


def test_no_list_schedule_for_what_does_not_fit() -> None:
    with pytest.raises(Infeasible, match="TC-E404.* for a test, and no list schedule fits h100"):
        without_solver(gemm(H100, k=320), "for a test")


def test_kept_schedules_are_read_checked_and_replaced(tmp_path: Path) -> None:
    made = cached_schedule(GEMM, tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    assert cached_schedule(GEMM, tmp_path / "cache") is made
    text = file.read_text("utf-8")
    for damaged in (text[:100], text.replace("closed form", "none", 1).replace("K", "Q"), ""):
        file.write_text(damaged, "utf-8")
        assert cached_schedule(GEMM, tmp_path / "cache").ii == made.ii
    file.write_text(text.replace(" 1024, bound 1024", " 900, bound 900"), "utf-8")
    assert cached_schedule(GEMM, tmp_path / "cache") is made
    assert file.read_text("utf-8") == text


def test_keys_tell_problems_efforts_and_aims_apart() -> None:
    keys = {
        schedule_key(GEMM, PROVE, "slack"),
        schedule_key(GEMM, PROVE, "span"),
        schedule_key(GEMM, JIT, "slack"),
        schedule_key(gemm(H100, k=32), PROVE, "slack"),
    }
    assert len(keys) == 4


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cached_schedule(GEMM, tmp_path / "file" / "cache").ii == 1024


def test_another_solver_is_asked_once(tmp_path: Path) -> None:
    asked = list[str]()

    def solve(problem: LoopProblem, effort: Effort, aim: Aim) -> Schedule:
        asked.append(problem.name)
        return schedule(problem, effort, aim)

    for _ in range(2):
        assert cached_schedule(GEMM, tmp_path / "cache", JIT, "slack", solve).ii == 1024
    assert asked == [GEMM.name]
    assert cached_schedule(GEMM, None, JIT, "slack", solve).ii == 1024
    assert len(asked) == 2
