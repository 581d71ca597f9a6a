"""The invariants of problems and schedules: each numbered rule refuses what breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tensorc.ir.capacity import pool, sharing
from tensorc.ir.schedule import (
    Certificate,
    Dependence,
    LoopProblem,
    Memory,
    Operation,
    Placement,
    Ring,
    RingPlan,
    Role,
    RolePlan,
    Schedule,
    Unit,
    UnitOrder,
    Use,
    Value,
    program,
    span,
    stages,
)
from tensorc.ir.verify_schedule import verify_problem, verify_schedule

LOAD = Operation("A", "A", None, (Use("copy", 40),), 5, 100, 100, variable=True)
WORK = Operation("c", "c", None, (Use("mma", 64),), 8, 70, 64, warps=4)
PROBLEM = LoopProblem(
    "toy",
    "paper",
    (LOAD, WORK),
    (Dependence("A", "c", 0, 100, "A"), Dependence("c", "c", 1, 64, "acc")),
    (Unit("copy"), Unit("mma", ordered=True)),
    (Role("load", 1, 24, variable=True), Role("compute", 4, 24)),
    (Ring("A", "shared", 4096, "A", "copy"),),
    (Value("acc", "c", 64, resident=True),),
    (Memory("shared", 16384),),
)
SCHEDULE = Schedule(
    "toy",
    "paper",
    64,
    (RolePlan("load", 1, 24), RolePlan("compute", 4, 96)),
    (Placement("A", "load", 0, 0), Placement("c", "compute", 1, 36)),
    (UnitOrder("copy", ("A",)), UnitOrder("mma", ("c",))),
    (RingPlan("A", 3, 0, 1, 4096, 1),),
    Certificate(64, "mma", "closed form", 2),
)


def test_well_formed() -> None:
    assert verify_problem(PROBLEM) == []
    assert verify_schedule(PROBLEM, SCHEDULE) == []


def test_derived_facts() -> None:
    assert stages(SCHEDULE) == 2
    assert span(PROBLEM, SCHEDULE) == 64 + 36 + 70
    assert [place.operation for place in program(SCHEDULE, "compute")] == ["c"]
    assert sharing(PROBLEM) == ((PROBLEM.roles[0],), (PROBLEM.roles[1],))


@pytest.mark.parametrize("groups, each", [(1, 248), (2, 248), (3, 168), (4, 128)])
def test_pool_is_what_a_launch_gives(groups: int, each: int) -> None:
    assert pool(PROBLEM.registers, groups) == each * 128 * groups


BAD_PROBLEMS = {
    "S1": replace(PROBLEM, operations=(LOAD, WORK, WORK)),
    "S2": replace(PROBLEM, dependences=(Dependence("A", "d", 0, 1),)),
    "S3": replace(PROBLEM, dependences=(Dependence("A", "c", -1, 1),)),
    "S4": replace(PROBLEM, dependences=(Dependence("c", "c", 1, 1, "A"),)),
    "S5": replace(PROBLEM, dependences=(Dependence("A", "c", 0, 1), Dependence("c", "A", 0, 1))),
}

BAD_SCHEDULES = {
    "S6": replace(SCHEDULE, problem="other"),
    "S7": replace(SCHEDULE, placements=(Placement("A", "load", 0, 64), SCHEDULE.placements[1])),
    "S8": replace(SCHEDULE, rings=()),
    "S9": replace(SCHEDULE, orders=(UnitOrder("copy", ()), UnitOrder("mma", ("c",)))),
}


@pytest.mark.parametrize("rule", BAD_PROBLEMS)
def test_bad_problem(rule: str) -> None:
    faults = verify_problem(BAD_PROBLEMS[rule])
    assert faults and all(fault.startswith(f"{rule}: ") for fault in faults), faults


@pytest.mark.parametrize("rule", BAD_SCHEDULES)
def test_bad_schedule(rule: str) -> None:
    faults = verify_schedule(PROBLEM, BAD_SCHEDULES[rule])
    assert faults and all(fault.startswith(f"{rule}: ") for fault in faults), faults
