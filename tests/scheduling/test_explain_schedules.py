"""What `explain` says of a schedule beside its headline."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import tensorc as tc
from tensorc.cuda_levels import levels, request, with_roles
from tensorc.explain.schedules import schedules
from tensorc.ir.schedule import Sensitivity
from tensorc.lang import read
from tensorc.machine.product import load_product
from tensorc.passes.pipelining.scheduled import Pipelined, of_problem
from tensorc.passes.scheduling.schedule import JIT, schedule
from tensorc.schedules import tiled
from tensorc.solving import pipelines_of
from tests.scheduling.texts import loop


def test_assumed_numbers_that_change_the_answer_are_told() -> None:
    found = of_problem(loop("gemm").problem, lambda problem: schedule(problem, JIT))
    assert found.schedule
    roles = tuple(plan.role for plan in found.schedule.roles)
    half, more = Fraction(1, 2), Fraction(3, 2)
    table = (
        Sensitivity("cost.copy_latency", half, 1024, roles),
        Sensitivity("rate.copy", half, 1536, roles),
        Sensitivity("register.base", more, None, ()),
        Sensitivity("cost.mma_issue", more, 1024, roles[:2]),
    )
    proof = replace(found.schedule.certificate, sensitivity=table)
    told = replace(found, schedule=replace(found.schedule, certificate=proof))
    lines = schedules([(told, "", ("a chart",))]).lines
    assert [line.strip() for line in lines[2:]] == [
        "with rate.copy x0.5: II 1536, 3 roles",
        "with register.base x1.5: no schedule",
        "with cost.mma_issue x1.5: II 1024, 2 roles",
        "4 changes of assumed numbers tried",
        "a chart",
    ]


def test_a_kernel_without_a_pipeline_has_a_line_and_its_reason_as_data() -> None:
    section = schedules([(Pipelined("y", "it has no loop"), "it is plain", ())])
    assert section.lines == ("y: no pipeline: it is plain",)
    assert section.data == [{"kernel": "y", "reason": "it is plain"}]


GEMM = "op f(a: f16[m, k], w: f16[k, n]) -> o: f16[m, n]\n  o[m, n] = sum[k](a[m, k] * w[k, n])\n"
COPY = "op f(a: f32[m]) -> o: f32[m]\n  o[m] = 2 * a[m]\n"


def test_the_report_of_a_kernel_has_its_schedule_and_so_has_its_source() -> None:
    (item,) = read(GEMM)
    made = levels(item, with_roles(request("sm_90a", {}, {})))
    said = made.report.sections[-1]
    assert said.title == "schedules"
    (told,) = (line for line in made.source.splitlines() if line.startswith("// o.k on h100: II "))
    assert any(line.startswith(f"{told.removeprefix('// ')}; load (") for line in said.lines)
    assert "// load, stage:cycle of each operation: " in made.source


def test_a_kernel_of_threads_alone_has_no_section_on_schedules() -> None:
    (item,) = read(COPY)
    made = levels(item, with_roles(request("sm_90a", {}, {})))
    assert "schedules" not in [section.title for section in made.report.sections]


def test_what_is_explained_is_the_tile_that_fits() -> None:
    """At these sizes the first choice, 64 by 256 scores, has no place in four warps."""
    (op,) = tc.load("examples/attention.tc")
    sizes = {"b": 1, "h": 1, "m": 130, "n": 200, "d": 64, "e": 64}
    found = tiled(op.program, "sm_80", sizes)
    (item,) = pipelines_of(found.program, load_product("a100"))
    assert item.schedule is not None and item.channel is not None, item.reason
    assert {plan.warps for plan in item.schedule.roles} == {4}
