"""The pass: known optima, what it refuses, determinism, and judges that share no code with it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest

from benchmarks.enumerate_schedules import best_interval
from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.attention_blackwell import attention_blackwell
from benchmarks.problems.gemm import gemm
from benchmarks.problems.random_problems import random_problem
from tensorc.errors import BrokenInvariant, Infeasible
from tensorc.ir.print_schedule import print_schedule
from tensorc.ir.schedule import (
    Dependence,
    LoopProblem,
    Operation,
    Role,
    Schedule,
    Unit,
    Use,
    placement_of,
    stages,
)
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.check_schedule import check_schedule
from tensorc.passes.scheduling.list_schedule import list_schedule
from tensorc.passes.scheduling.schedule import JIT, schedule
from tensorc.passes.scheduling.schedule_bounds import limits
from tensorc.passes.scheduling.schedule_search import Effort, Meter, search
from tensorc.passes.scheduling.schedule_symmetry import symmetries
from tensorc.passes.scheduling.simulate import on_time, simulate

CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
VALID = 500 if CAMPAIGN else 32
OPTIMAL = 200 if CAMPAIGN else 30
QUICK = Effort(5.0, 2.0, 0.2, 3)
H100 = load_product("h100")


def chain(latency: int, distance: int) -> LoopProblem:
    """u -> w -> u around a loop: II is at least 2 * latency / distance."""
    operations = tuple(
        Operation(name, name, None, (Use("unit", 2),), 1, latency, latency) for name in "uw"
    )
    edges = (Dependence("u", "w", 0, latency), Dependence("w", "u", distance, latency))
    return LoopProblem("chain", "paper", operations, edges, (Unit("unit"),), (Role("r", 1, 8),))


@pytest.mark.parametrize(
    "latency, distance, ii, limit, proof",
    [
        (1, 1, 4, "unit unit", "closed form"),
        (5, 1, 10, "recurrence u w", "closed form"),
        (5, 2, 7, "recurrence u w", "refuted below"),  # at 5 and 6 the two meet on the unit
        (5, 3, 4, "unit unit", "closed form"),
    ],
)
def test_small_loops(latency: int, distance: int, ii: int, limit: str, proof: str) -> None:
    made = schedule(chain(latency, distance))
    assert (made.ii, made.certificate.limit, made.certificate.proof) == (ii, limit, proof)


def test_gemm_is_at_the_tensor_core_bound_and_spare_memory_is_depth() -> None:
    problem = gemm(H100)
    made = schedule(problem)
    assert made.ii == 128 * 256 * 64 // 2048 and made.certificate.proof == "closed form"
    depth = {plan.ring: plan.depth for plan in made.rings}
    assert min(depth.values()) >= 4 and depth["A"] * 16384 + depth["B"] * 32768 == 7 * 32768
    registers = {plan.role: plan.registers for plan in made.roles}
    assert registers == {"load": 24, "consumer0": 152, "consumer1": 152}


def test_gemm_with_two_buffers_is_refused_at_the_bound() -> None:
    problem = gemm(H100, deepest=2)
    made = schedule(problem)
    assert made.ii > 1024 and made.certificate.proof in ("refuted below", "closed form")


def test_attention_overlaps_within_and_between_its_groups() -> None:
    """Ping-pong, and the next scores are computed before the last products are accumulated."""
    made = schedule(attention_hopper(H100))
    assert (made.ii, made.certificate.proof) == (2048, "closed form")
    assert [plan.role for plan in made.roles] == ["load", "consumer0", "consumer1"]
    turns = next(order for order in made.orders if order.unit == "mma")
    assert turns.operations == ("t.0", "a.0", "t.1", "a.1")
    assert [role for role, _ in turns.barriers] == ["consumer0", "consumer1"]
    place = placement_of(made)
    assert place["a.0"].stage == place["t.0"].stage + 1 and stages(made) == 3
    assert made.certificate.slack >= Fraction(1, 2)


def test_one_group_with_whole_tiles_has_too_few_registers() -> None:
    problem = attention_hopper(H100, parts=1, groups=1, rows=128)
    with pytest.raises(Infeasible) as caught:
        schedule(replace(problem, registers=replace(problem.registers, ceiling=240)))
    error = caught.value
    assert (error.resource, error.limit) == ("registers", 240) and error.need > 255
    assert "TC-E403" in str(error) and f"needs {error.need}, limit 240" in str(error)


def test_too_much_shared_memory_is_told() -> None:
    with pytest.raises(Infeasible) as caught:
        schedule(gemm(H100, k=320))
    assert caught.value.resource == "shared memory"
    assert caught.value.need == (128 + 256) * 320 * 2 > caught.value.limit == 232448 - 1024
    assert "do: smaller tiles" in str(caught.value)


def test_too_much_of_both_is_told() -> None:
    with pytest.raises(Infeasible) as caught:
        schedule(attention_hopper(H100, d=256, keys=256))
    message = str(caught.value)
    assert caught.value.resource == "registers and shared memory"
    assert "shared memory: the rings need 262144 bytes" in message and "registers: " in message


def test_blackwell_with_one_issuer_has_a_role_for_it() -> None:
    problem = attention_blackwell(load_product("b200"), 1, issuers=1)
    made = schedule(problem, Effort(3.0, 1.5, 0.1, 3))
    place = placement_of(made)
    assert {place[name].role for name in ("t.0", "t.1", "a.0", "a.1")} == {"issue"}
    assert {place["K"].role, place["V"].role} == {"load"} and len(made.roles) >= 4


def test_the_same_problem_gives_the_same_schedule() -> None:
    problem = attention_hopper(H100)
    assert schedule(problem) is schedule(problem)


@pytest.mark.parametrize("seed", ["0", "1"])
def test_another_process_with_another_hash_seed_gives_the_same_text(seed: str) -> None:
    script = (
        "from benchmarks.problems.attention import attention_hopper;"
        "from tensorc.ir.print_schedule import print_schedule;"
        "from tensorc.machine.product import load_product;"
        "from tensorc.passes.scheduling.schedule import schedule;"
        "print(print_schedule(schedule(attention_hopper(load_product('h100')))), end='')"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout == print_schedule(schedule(attention_hopper(H100)))


def test_out_of_effort_gives_a_list_schedule_with_its_gap() -> None:
    problem = attention_hopper(H100)
    made = schedule(problem, Effort(total=0.0))
    assert made.certificate.note.startswith("TC-N402 ")
    assert made.certificate.proof == "none" and made.ii > made.certificate.bound
    assert check_schedule(problem, made) == []


def test_the_clock_kills_and_says_so() -> None:
    made = schedule(attention_blackwell(load_product("b200"), 2), replace(JIT, wall=0.05))
    assert "stopped by the clock" in made.certificate.note


def test_a_malformed_problem_is_our_bug() -> None:
    with pytest.raises(BrokenInvariant, match="S2"):
        schedule(replace(chain(1, 1), dependences=(Dependence("u", "x", 0, 1),)))


def outcome(problem: LoopProblem, effort: Effort) -> Schedule | None:
    try:
        return schedule(problem, effort)
    except Infeasible:
        return None


@pytest.mark.parametrize("part", range(4))
def test_random_problems_are_valid_and_run_in_their_interval(part: int) -> None:
    """`schedule` raises if the checker objects; self-timed, nothing starts later than claimed."""
    made = 0
    for seed in range(part, VALID, 4):
        problem = random_problem(seed)
        answer = outcome(problem, QUICK)
        if answer is not None:
            made += 1
            assert check_schedule(problem, answer) == []
            assert on_time(answer, simulate(problem, answer, 32))
    assert made > VALID // 12


@pytest.mark.parametrize("part", range(4))
def test_tiny_problems_have_the_interval_that_enumeration_finds(part: int) -> None:
    found = 0
    for seed in range(part, OPTIMAL, 4):
        problem = random_problem(seed, most=5, longest=4, warp_groups=2)
        answer = search(problem, Meter(Effort(5.0, 2.0, 0.2, 1)))
        best = best_interval(problem, answer.stages, symmetries(problem).anchor, 6)
        ii = answer.model.ii if answer.model else None
        assert best == ii or (best is None and ii is not None and ii > 6), problem.name
        found += best is not None
    assert found


def test_list_schedules_are_legal_and_not_below_the_bound() -> None:
    made = 0
    for seed in range(60):
        problem = random_problem(seed)
        answer = list_schedule(problem)
        if answer is not None:
            made += 1
            assert check_schedule(problem, answer) == []
            assert answer.ii >= limits(problem)[0].cycles
    assert made >= 20
