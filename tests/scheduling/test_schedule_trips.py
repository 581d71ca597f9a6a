"""Few iterations, and the loop around the loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.gemm import gemm
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.schedule import schedule
from tensorc.passes.scheduling.schedule_outer import outer_problem
from tensorc.passes.scheduling.schedule_search import Effort
from tensorc.passes.scheduling.schedule_short import shortest_span, total_cycles

H100 = load_product("h100")
QUICK = Effort(4.0, 2.0, 0.1, 3)


@pytest.mark.parametrize("trip", [0, 1, 4])
def test_few_iterations_take_no_longer_than_at_the_smallest_interval(trip: int) -> None:
    problem = attention_hopper(H100)
    usual = schedule(problem, QUICK, "span")
    made = schedule(replace(problem, trip=trip), QUICK)
    assert check_schedule(replace(problem, trip=trip), made) == []
    assert total_cycles(problem, made, trip) <= total_cycles(problem, usual, trip)
    assert f"{trip} iterations take {total_cycles(problem, made, trip)}" in made.certificate.note
    if trip:
        assert total_cycles(problem, made, trip) >= shortest_span(problem)


def test_epilogues_run_under_the_main_loop_of_the_other_group() -> None:
    """Two groups with a tile each: copies never stop while a main loop covers the epilogue."""
    inner = gemm(H100, m=64)
    made = schedule(inner)
    assert made.ii == 640 == (64 + 256) * 64 * 2 // 64
    outer = outer_problem(inner, made, trip=16, epilogue=3000, groups=2)
    whole = schedule(outer, QUICK)
    assert whole.ii == 2 * 16 * 640 and whole.certificate.limit == "unit copy"
    alone = schedule(outer_problem(inner, made, 16, 3000, 1), QUICK)
    assert alone.ii == 16 * 640 + 3000
    long = schedule(outer_problem(inner, made, 16, 12000, 2), QUICK)
    assert long.ii == 16 * 640 + 12000 and long.certificate.proof == "closed form"
