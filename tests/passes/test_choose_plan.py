"""The choice between a plan's kernels and one for each equation; plans are verified and shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tensorc as tc
from tensorc.ir.plan import Plan, Planned
from tensorc.ir.tensor import Program, Value
from tensorc.ir.verify_plan import verify
from tensorc.pipeline import explained, planned, run_passes
from tensorc.request import Request, Target
from tests.passes.fused import ONE_KERNEL, attention

CPU = Target("avx512", 16, 4, 6)
SOFTMAX = "op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = softmax[n](x[m, n])\n"


def program(text: str) -> Program:
    """The only operator of a text."""
    return tc.loads(text).f.program


def asked(text: str, cuts: str = "cost", policy: str = "fast", **sizes: int) -> Planned:
    """What the passes plan for a text."""
    return planned(program(text), Request(CPU, sizes, policy=policy, cuts=cuts))


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel_where_one_is_asked_for(name: str) -> None:
    sizes = {"e": 64} if name == "with the logarithm of its sums" else {}  # e might be empty
    tiles = run_passes(program(ONE_KERNEL[name]), Request(CPU, sizes, cuts="none"))
    assert len(tiles.kernels) == 1 and not tiles.workspaces


def test_memory_decides_where_rows_are_long() -> None:
    text = (
        "op f(x: f32[m, n]) -> y: f32[m, n]\n"
        "  c[m, n] = x[m, n] - mean[n](x[m, n])\n"
        "  y[m, n] = c[m, n] * rsqrt(mean[n](c[m, n] ** 2) + 1e-5)\n"
    )
    assert asked(text, m=1024, n=4096).plan is not None


def test_products_of_matrices_stay_apart() -> None:
    text = (
        "op f(x: f32[i, j], y: f32[j, k], z: f32[k, l]) -> o: f32[i, l]\n"
        "  t[i, k] = sum[j](x[i, j] * y[j, k])\n"
        "  o[i, l] = sum[k](t[i, k] * z[k, l])\n"
    )
    found = asked(text, i=512, j=512, k=512, l=512)
    assert found.plan is None or found.plan.stored == ("t",)


@pytest.mark.parametrize(
    ("text", "cuts", "policy", "reason"),
    [
        (SOFTMAX, "all", "fast", "a kernel for each equation was asked for"),
        (SOFTMAX, "cost", "strict", "reductions stay apart, as written"),
        (
            "op f(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]\n"
            "  c[m, n] = sum[k](a[m, k] * b[k, n])\n",
            "cost", "fast", "nothing to fuse",
        ),
        (
            "op f(x: f32[m], u: i32[m]) -> y: f32\n"
            "  t[m] = exp(x[m])\n"
            "  y = t[max[m](u[m]) % |m|]\n",
            "none", "fast", "not fused: t is read at reduced positions",
        ),
    ],
)  # fmt: skip
def test_why_there_is_no_plan(text: str, cuts: str, policy: str, reason: str) -> None:
    found = asked(text, cuts, policy, m=8)
    assert found.plan is None
    assert reason in found.reasons[0]
    request = Request(CPU, {}, policy=policy, cuts=cuts)
    assert reason in str(explained(program(text), request))


def test_explanations_have_the_plan_and_what_was_estimated() -> None:
    request = Request(CPU, {"m": 64, "n": 4096}, cuts="none")
    report = explained(program(SOFTMAX), request)
    text = str(report)
    assert "s1 = sum[n_2, f32](exp(" in text and "from s1 * exp(h1 - h1')" in text
    assert "one kernel was asked for; estimated" in text
    (section,) = (item for item in report.sections if item.title == "fusion")
    assert isinstance(section.data, dict)
    assert section.data["kernels"] == [
        {
            "stores": ["y"], "grid": ["m", "n"],
            "passes": [{"over": ["n_2"], "states": [
                {"name": "r1", "reducer": "max", "moved": None},
                {"name": "s1", "reducer": "sum", "moved": "s1 * exp(h1 - h1')"},
            ]}],
        }
    ]  # fmt: skip


def test_plans_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORC_DUMP", str(tmp_path))
    run_passes(program(SOFTMAX), Request(CPU, {}, cuts="none"))
    (dumped,) = tmp_path.glob("*-fuse.txt")
    assert dumped.read_text().startswith("kernel 1 -> y: grid m, n\n")


# --- the verifier of plans ----------------------------------------------------------------------


def causal() -> tuple[Planned, Plan]:
    """Causal attention with its plan."""
    found = asked(attention(where="n <= m"), "none")
    assert found.plan is not None and not verify(found)
    return found, found.plan


def faults(found: Planned, plan: Plan) -> list[str]:
    """What the verifier says of another plan, numbers only."""
    return [fault.partition(":")[0] for fault in verify(replace(found, plan=plan))]


def test_p1_outputs_are_planned_once() -> None:
    found, plan = causal()
    assert faults(found, replace(plan, kernels=())) == ["P1"]
    assert faults(found, replace(plan, kernels=plan.kernels * 2)) == ["P1"]


def test_p2_kernels_read_what_is_stored() -> None:
    found, plan = causal()
    without = replace(found.program, parameters=found.program.parameters[1:])
    assert [f[:2] for f in verify(replace(found, program=without))] == ["P2"]
    assert plan.kernels


def test_p3_grids_are_those_of_outputs() -> None:
    found, plan = causal()
    (kernel,) = plan.kernels
    other = replace(plan, kernels=(replace(kernel, grid=kernel.grid[1:]),))
    assert "P3" in faults(found, other)
    assert "P3" in faults(found, replace(plan, extents=plan.extents[:-1]))


def test_p4_reductions_are_in_one_pass_over_their_extents() -> None:
    found, plan = causal()
    (kernel,) = plan.kernels
    twice = replace(plan, kernels=(replace(kernel, passes=kernel.passes * 2),))
    assert set(faults(found, twice)) == {"P4"}
    (walk,) = kernel.passes
    over_d = replace(kernel, passes=(replace(walk, indices=("d",)),))
    assert "P4" in faults(found, replace(plan, kernels=(over_d,)))


def test_p5_rules_speak_of_their_own_pass() -> None:
    found, plan = causal()
    (kernel,) = plan.kernels
    (walk,) = kernel.passes
    moved = next(state for state in walk.states if state.moved is not None)
    assert moved.moved is not None
    dtype = next(s.reduce.dtype for s in walk.states if s.reduce.dtype is not None)
    stranger = replace(moved, moved=Value("s9", (), dtype))
    states = tuple(stranger if state is moved else state for state in walk.states)
    other = replace(kernel, passes=(replace(walk, states=states),))
    assert faults(found, replace(plan, kernels=(other,))) == ["P5"]


def test_what_is_compared_is_stored_and_the_rest_fused() -> None:
    """The distances go through memory once; their minimum and where it is share a kernel."""
    text = (
        "op f(x: f32[p, d], c: f32[k, d]) -> a: i64[p], least: f32[p]\n"
        "  r[p, k] = sum[d]((x[p, d] - c[k, d]) ** 2)\n"
        "  a[p] = argmin[k](r[p, k])\n"
        "  least[p] = min[k](r[p, k])\n"
    )
    plan = asked(text, "none", p=4000, k=64, d=16).plan
    assert plan is not None and plan.stored == ("r",)
    assert [[o.tensor.name for o in kernel.outputs] for kernel in plan.kernels] == [
        ["r"], ["a", "least"],
    ]  # fmt: skip
