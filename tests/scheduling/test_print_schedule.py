"""Schedules as text, chart and trace: what is printed reads back, and what is drawn is there."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from benchmarks.problems.attention import attention_hopper
from benchmarks.problems.random_problems import random_problem
from tensorc.codegen.gantt import gantt
from tensorc.codegen.trace import trace
from tensorc.errors import ArgumentError
from tensorc.ir.print_schedule import headline, print_schedule
from tensorc.ir.read_schedule import read_schedule
from tensorc.ir.schedule import LoopProblem, Schedule, Sensitivity
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.list_schedule import list_schedule
from tensorc.passes.scheduling.schedule import schedule
from tensorc.passes.scheduling.simulate import simulate


@cache
def attention() -> tuple[LoopProblem, Schedule]:
    problem = attention_hopper(load_product("h100"))
    return problem, schedule(problem)


def test_text_reads_back_to_the_same_schedule() -> None:
    _, made = attention()
    change = Sensitivity("rate.copy", Fraction(1, 2), None, ())
    proof = replace(made.certificate, sensitivity=(change,), note="two words")
    for item in (made, replace(made, certificate=proof)):
        assert read_schedule(print_schedule(item)) is item


def test_random_schedules_read_back() -> None:
    count = 0
    for seed in range(80):
        made = list_schedule(random_problem(seed))
        if made is not None:
            proof = replace(made.certificate, limit="unit u")
            made = replace(made, certificate=proof)
            assert read_schedule(print_schedule(made)) is made
            count += 1
    assert count > 20


BAD_LINES = {
    "first line": ("schedule attention", "plan attention"),
    "negative cycle": ("t.0        consumer0  1      0 ", "t.0        consumer0  1      -1"),
    "no number": ("load       1      24", "load       one    24"),
    "order": ("mma 1\n", "mma 2\n"),
    "header": ("  role  ", "  roles "),
    "source": ("published\n", "hearsay\n"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_text_is_refused_with_its_line(case: str) -> None:
    old, new = BAD_LINES[case]
    text = print_schedule(attention()[1])
    assert old in text
    with pytest.raises(ArgumentError, match="TC-E407 at mine.txt:[0-9]+:1: line [0-9]+"):
        read_schedule(text.replace(old, new, 1), "mine.txt")


def test_very_long_text_is_refused() -> None:
    with pytest.raises(ArgumentError, match="TC-E407"):
        read_schedule("x" * (1 << 21))


def test_headline_has_interval_bound_roles_and_assumptions() -> None:
    line = headline(attention()[1])
    for part in (
        "II 2048 = bound 2048 (unit mma)",
        "consumer1 (4 warps, ",
        "cost.copy_latency 900",
    ):
        assert part in line
    assert "load (1 warp, 24 registers)" in line


def test_chart_shows_roles_and_units_to_scale() -> None:
    problem, made = attention()
    chart = gantt(problem, made, 100).split("\n")
    rows = {line.split()[0]: line for line in chart[2:] if line}
    assert {"load", "consumer0", "consumer1", "[mma]", "[exp]"} <= set(rows)
    assert all(len(line) <= 100 for line in chart[1:])
    tensor = rows["[mma]"].split()[1]
    assert "=." not in tensor and ".=" not in tensor and tensor.startswith("t.0=")


def test_trace_has_every_operation_of_every_iteration() -> None:
    problem, made = attention()
    document = json.loads(trace(problem, made, simulate(problem, made, 5)))
    bars = [event for event in document["traceEvents"] if event["ph"] == "X"]
    issued = [event for event in bars if event["pid"] == 1]
    assert document["schema"] == 1 and len(issued) == 5 * len(problem.operations)
    assert {event["args"]["iteration"] for event in issued} == set(range(5))
    on_tensor_core = sum(
        event["dur"] for event in bars if event["pid"] == 2 and event["name"][0] in "ta"
    )
    assert on_tensor_core == 5 * 2048
