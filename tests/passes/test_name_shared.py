"""Long expressions on GPUs: what stands in several places is computed once, where that is safe."""

from __future__ import annotations

import numpy as np
import pytest

import tensorc as tc
from tensorc.ir.node import written_out
from tensorc.ir.tensor import Expr, Extent, Position, Program, Select
from tensorc.passes.canonicalise import call
from tensorc.passes.tiling.name_shared import LONG, shared_parts


def program(body: str) -> Program:
    (op,) = tc.loads(f"op f(x: f32[n], i: i32[n]) -> y: f32[n]\n  y[n] = {body}\n")
    return op.program


def squared(start: Expr, times: int) -> Expr:
    """Text that doubles with each time; the graph has one node more."""
    for _ in range(times):
        start = call("mul", start, start)
    return start


def test_a_complex_power_is_a_short_text() -> None:
    (op,) = tc.loads(
        "op f(x: complex64[n], y: complex64[n]) -> z: complex64[n]\n  z[n] = x[n]**y[n]\n"
    )
    x = np.array([1 + 2j, 0.5j, -3, 2], np.complex64)
    y = np.array([2.5j, 1 - 1j, 0.5, 3], np.complex64)
    for arch in ("sm_80", "sm_90a"):
        kernel = op.compile(arch, sizes={"n": 4})
        assert len(kernel.source) < 10_000
        found = op.on("emulator", arch=arch)(x, y)
        np.testing.assert_allclose(found, x.astype(complex) ** y, rtol=1e-6, atol=1e-6)


def test_what_several_parts_use_is_named() -> None:
    start = program("x[n] + 0.5")
    whole = squared(start.equations[0].body, 12)
    parts = [item.part for item in shared_parts(whole, start.extent_of)]
    assert written_out(whole) > 2**12 and len(parts) == 12
    assert parts == sorted(parts, key=written_out)  # each after what it is made of
    assert shared_parts(squared(start.equations[0].body, 3), start.extent_of) == []
    assert written_out(squared(start.equations[0].body, 3)) <= LONG


OPEN = ["f32(x[i[n]])", "f32(n // i[n])"]  # a read by data, a quotient of integers


@pytest.mark.filterwarnings("ignore::tensorc.NotationWarning")
@pytest.mark.parametrize("body", OPEN)
def test_what_a_condition_makes_safe_is_named_under_it(body: str) -> None:
    start = program(f"select(i[n] > 0, {body} * 3, 2)")
    match start.equations[0].body:
        case Select(condition, yes, no):
            pass
        case other:
            raise AssertionError(other)
    long = squared(yes, 9)
    extents = start.extent_of

    def guards(expr: Expr) -> set[tuple[Expr, ...]]:
        return {item.guards for item in shared_parts(expr, extents)}

    assert guards(long) == {()}
    assert guards(Select(condition, long, no)) == {(condition,)}
    assert guards(Select(condition, no, long)) == {(call("not", condition),)}
    # On both sides it is computed in any case; beside a second condition only sometimes.
    assert guards(Select(condition, call("neg", long), long)) == {()}
    inner = call("gt", yes, no)
    twice = call("add", Select(inner, long, no), Select(call("not", inner), no, no))
    assert guards(Select(condition, twice, no)) == {(condition,), (condition, inner)}
    other = call("lt", Position("n"), Extent("n"))
    apart = call("add", Select(condition, long, no), Select(other, long, no))
    assert long not in {item.part for item in shared_parts(apart, extents)}


@pytest.mark.filterwarnings("ignore::tensorc.NotationWarning")
@pytest.mark.parametrize("times", [4, 9])
def test_guarded_parts_run_right(times: int) -> None:
    """A subscript and a divisor that only the guard keeps in range, in long texts and short."""
    lines = "".join(f"  t{k + 1}[n] = t{k}[n] * t{k}[n] + 0.25\n" for k in range(times))
    (op,) = tc.loads(
        "op f(x: f32[n], i: i32[n]) -> y: f32[n]\n"
        "  t0[n] = select(i[n] > 0, x[i[n] - 1] / (n // i[n] + 1), 0.5)\n"
        f"{lines}  y[n] = select(i[n] > 0, t{times}[n] * t{times}[n], t{times}[n])\n"
    )
    x, i = np.linspace(0, 0.5, 7).astype(np.float32), np.array([0, -3, 7, 1, 2, 0, 5], np.int32)
    want = op.on("interpreter")(x, i)
    for arch in ("sm_80", "sm_90a"):
        found = op.on("emulator", arch=arch, cuts="none")(x, i)
        np.testing.assert_allclose(found, want, rtol=1e-5)
