"""Kernels with loops one after another, or in one another: a problem for each innermost loop."""

from __future__ import annotations

import pytest

from tensorc.ir.schedule import LoopProblem
from tensorc.ir.verify_schedule import verify_problem
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.scheduled import pipelines
from tensorc.passes.scheduling.extract_loops import extract_loops
from tensorc.passes.scheduling.extract_problem import extract
from tensorc.passes.scheduling.schedule import JIT, schedule
from tests.passes.test_tile_chain import CHAINS
from tests.passes.test_tile_product import tiled

PRODUCTS = {"sm_80": load_product("a100"), "sm_90a": load_product("h100")}


def problems(text: str, machine: str) -> tuple[LoopProblem, ...]:
    (kernel,) = tiled(text, machine).program.kernels
    return extract_loops(kernel, MACHINES[machine], PRODUCTS[machine])


@pytest.mark.parametrize("machine", PRODUCTS)
@pytest.mark.parametrize(
    ("chain", "names"), [("MaxSim", ["S.k"]), ("RMS norm and product", ["y.i"])]
)
def test_every_innermost_loop_with_products_is_a_problem(
    chain: str, names: list[str], machine: str
) -> None:
    found = problems(CHAINS[chain], machine)
    assert [problem.name for problem in found] == names
    for problem in found:
        assert verify_problem(problem) == []
        made = schedule(problem, JIT)
        assert made.ii == made.certificate.bound


def test_what_lives_across_the_loop_takes_registers() -> None:
    """The maximum of a row is kept while the loop of k runs: one register for each of two rows
    that a thread has a part of."""
    (problem,) = problems(CHAINS["MaxSim"], "sm_90a")
    base = int(PRODUCTS["sm_90a"]["register.base"])
    (consumer, *_) = (role for role in problem.roles if not role.variable)
    assert base + 2 <= consumer.base <= base + 4


def test_a_kernel_of_one_loop_has_the_same_problem() -> None:
    (kernel,) = tiled(CHAINS["causal"], "sm_90a", {"d": 64, "e": 64}).program.kernels
    (mine,) = extract_loops(kernel, MACHINES["sm_90a"], PRODUCTS["sm_90a"])
    whole = extract(kernel, MACHINES["sm_90a"], PRODUCTS["sm_90a"]).problem
    assert mine.operations == whole.operations and mine.rings == whole.rings


def test_they_have_schedules_and_the_reason_why_there_is_no_level_3() -> None:
    made = tiled(CHAINS["MaxSim"], "sm_90a").program
    (item,) = pipelines(made, PRODUCTS["sm_90a"], lambda problem: schedule(problem, JIT))
    assert item.schedule is not None and item.channel is None
    assert item.reason.startswith("the loop of j lies in another one")
