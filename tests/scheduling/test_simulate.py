"""The self-timed run: nominal speed, jitter, depths, and what a broken order does."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.gemm import gemm
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.schedule import schedule
from tensorc.passes.scheduling.schedule_polish import Aim
from tensorc.passes.scheduling.simulate import Jitter, simulate

H100 = load_product("h100")


@cache
def attention(aim: Aim) -> tuple[LoopProblem, Schedule]:
    problem = attention_hopper(H100)
    return problem, schedule(problem, aim=aim)


def mean(aim: Aim, threads: float) -> float:
    problem, made = attention(aim)
    runs = [simulate(problem, made, 100, Jitter(threads, seed=seed)).period for seed in range(3)]
    return sum(runs) / len(runs)


def test_nominal_period_is_the_interval() -> None:
    problem, made = attention("slack")
    run = simulate(problem, made, 32)
    assert run.period == made.ii
    assert all(len(starts) == 32 for starts in run.starts.values())


@pytest.mark.parametrize("threads", [0.05, 0.2, 0.5, 1.0])
def test_slack_is_worth_having(threads: float) -> None:
    slack, span = mean("slack", threads), mean("span", threads)
    assert slack <= span * 1.005 and (threads < 0.2 or slack < span)


def test_slack_is_what_it_says() -> None:
    """All work of threads stretched by the slack at once leaves the period as it is."""
    problem, made = attention("slack")
    assert (
        simulate(problem, made, 64, Jitter(float(made.certificate.slack))).period < 1.01 * made.ii
    )


def test_depth_hides_late_copies() -> None:
    problem = gemm(H100)
    made = schedule(problem)
    shallow = replace(made, rings=tuple(replace(plan, depth=3) for plan in made.rings))
    late = Jitter(0.0, tail_share=0.2, tail=3.0, seed=1)
    assert (
        simulate(problem, shallow, 200, late).period
        > 1.05 * simulate(problem, made, 200, late).period
    )


def test_the_same_seed_gives_the_same_run() -> None:
    problem, made = attention("slack")
    first, second = (simulate(problem, made, 16, Jitter(0.3, 0.2, 4.0, 7)) for _ in range(2))
    assert first == second


def test_a_program_that_waits_for_itself_is_told() -> None:
    problem, made = attention("slack")
    places = list(made.placements)
    late = next(i for i, place in enumerate(places) if place.operation == "t.0")
    places[late] = replace(places[late], stage=places[late].stage + 4)
    with pytest.raises(ValueError, match="wait for one another"):
        simulate(problem, replace(made, placements=tuple(places)), 8)
