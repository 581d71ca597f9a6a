"""The checker: planted faults are refused by rule and operations, and it shares no code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import tensorc.passes.scheduling.check_schedule as checker
from benchmarks.problems.attention import attention_hopper
from benchmarks.schedule_faults import PLANTED, Planted
from tensorc.errors import ArgumentError
from tensorc.ir.print_schedule import print_schedule
from tensorc.ir.schedule import LoopProblem, Schedule
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.check_schedule import check_schedule, schedule_from_text
from tensorc.passes.scheduling.schedule import schedule

CHECKS = "tensorc.passes.scheduling.check_"
ALLOWED = ("tensorc.errors", "tensorc.ir.", f"{CHECKS}period", f"{CHECKS}registers")
PASSES = Path(checker.__file__).parent


@cache
def attention() -> tuple[LoopProblem, Schedule]:
    problem = attention_hopper(load_product("h100"))
    return problem, schedule(problem)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted(planted: Planted) -> None:
    problem, good = attention()
    faults = check_schedule(problem, planted.plant(problem, good))
    named = [fault for fault in faults if fault.rule == planted.rule]
    assert named, [str(fault) for fault in faults]
    assert any(set(planted.operations) <= set(fault.operations) for fault in named), named
    assert all(str(fault).startswith(f"TC-E405 {fault.rule}: ") for fault in faults)


def test_a_text_changed_by_hand_is_refused_by_rule_and_operations() -> None:
    problem, good = attention()
    text = print_schedule(good)
    assert schedule_from_text(problem, text) is good
    lines = text.split("\n")
    row = next(i for i, line in enumerate(lines) if line.split()[:2] == ["K", "load"])
    lines[row] = lines[row].replace("load", "consumer0")
    with pytest.raises(ArgumentError) as caught:
        schedule_from_text(problem, "\n".join(lines), "mine.txt")
    assert "TC-E405: mine.txt breaks the rule role at K" in str(caught.value)
    assert "found: is of variable latency and may not be in consumer0" in str(caught.value)


@pytest.mark.parametrize("name", ["check_schedule", "check_period", "check_registers"])
def test_imports_nothing_of_the_solver(name: str) -> None:
    tree = ast.parse((PASSES / f"{name}.py").read_text("utf-8"))
    modules = [
        node.module if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    ours = [module for module in modules if module and module.startswith("tensorc")]
    assert ours and all(module.startswith(ALLOWED) for module in ours)
    assert not any(module and "ortools" in module for module in modules)
