"""The pass in a child, and its answers kept in files: what happens when something goes wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.gemm import gemm
from benchmarks.problems.random_problems import random_problem
from tensorc.errors import Infeasible
from tensorc.ir.problem_json import problem_from_json, problem_to_json
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.schedule import JIT, PROVE, schedule
from tensorc.passes.scheduling.schedule_apart import schedule_apart
from tensorc.passes.scheduling.schedule_cache import cached_schedule, schedule_key
from tensorc.passes.scheduling.schedule_polish import Aim
from tensorc.passes.scheduling.schedule_search import Effort

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


def test_a_child_gives_the_same_schedule() -> None:
    assert schedule_apart(GEMM) is schedule(GEMM)


def test_a_child_says_what_is_infeasible() -> None:
    with pytest.raises(Infeasible, match="TC-E403") as caught:
        schedule_apart(gemm(H100, k=320))
    assert caught.value.resource == "shared memory" and caught.value.need > caught.value.limit


LOST = {
    "abort": ("import os; os.abort()", "the solver died of SIGABRT"),
    "exit": ("raise SystemExit(7)", "the solver ended with exit code 7"),
    "hang": ("import time; time.sleep(60)", "the solver took more than 0.3 s and was killed"),
    "noise": ("print('x')", "the solver's answer cannot be read"),
    "illegal": ('print(\'{"schedule": ""}\')', "the solver's answer cannot be read"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_lost_child_leaves_a_list_schedule_with_the_reason(case: str) -> None:
    script, reason = LOST[case]
    wall = 0.3 if case == "hang" else 30.0
    made = schedule_apart(GEMM, wall=wall, command=(sys.executable, "-c", script))
    assert made.certificate.note == f"TC-E404 {reason}: list schedule"
    assert check_schedule(GEMM, made) == []


def test_an_illegal_answer_is_not_believed() -> None:
    from dataclasses import replace

    from tensorc.ir.print_schedule import print_schedule

    good = schedule(GEMM)
    bad = replace(good, rings=tuple(replace(plan, depth=1) for plan in good.rings))
    script = f"print({json.dumps(json.dumps({'schedule': print_schedule(bad)}))})"
    made = schedule_apart(GEMM, command=(sys.executable, "-c", script))
    assert "the solver's answer is no legal schedule" in made.certificate.note


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
