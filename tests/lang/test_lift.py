"""Deep and shared traced expressions: same meaning, bounded statements, linear work."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from types import FrameType

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.sizes import bind
from tensorc.ir.syntax import height
from tensorc.ir.tensor import Program
from tensorc.lang import lift
from tensorc.lang.headers import header
from tensorc.lang.spot import Spot
from tensorc.lang.surface import Operator
from tensorc.lang.trace import trace

i, j = tc.indices("i j")
CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"
X = np.array([0.25, -1.5, 3.0], np.float32)

Body = Callable[[tc.Tensor], tc.Expr]


def op_of(body: Body) -> tc.Op:
    def function(x: tc.Tensor) -> tc.Expr:
        return body(x)

    return tc.op("x: f32[i] -> y: f64[i]", name="f")(function)


def surface(body: Body) -> Operator:
    def function(x: tc.Tensor) -> tc.Expr:
        return body(x)

    return trace(header("x: f32[i] -> y: f64[i]", "f", function, Spot(())), function)


def value(op: tc.Op) -> npt.NDArray[np.float64]:
    return interpret(op.program, {"x": X}, {"i": 3})["y"]


def repeated(times: int, step: Callable[[tc.Expr], tc.Expr]) -> Body:
    def body(x: tc.Tensor) -> tc.Expr:
        value = x[i]
        for _ in range(times):
            value = step(value)
        return value

    return body


def read_back(op: tc.Op) -> None:
    (again,) = tc.loads(op.text)
    assert again.program == op.program


def test_ten_thousand_additions() -> None:
    op = op_of(repeated(10_000, lambda v: v + 1))
    np.testing.assert_array_equal(value(op), X + 10_000.0)
    assert len(op.program.equations) < 10
    read_back(op)


def test_a_chain_that_is_no_sum() -> None:
    op = op_of(repeated(1_000, lambda v: tc.abs(v) * 0.5 + 1))
    np.testing.assert_allclose(value(op), 2.0)
    read_back(op)


def test_sixty_doublings() -> None:
    op = op_of(repeated(60, lambda v: v + v))
    np.testing.assert_array_equal(value(op), X * 2.0**60)
    assert len(op.text) < 10_000
    read_back(op)


def test_sharing_that_grows_faster_than_doubling() -> None:
    op = op_of(repeated(60, lambda v: tc.max(v - 1, v / 2, tc.min(v, 0.5))))
    wanted = X.astype(np.float64)
    for _ in range(60):
        wanted = np.maximum(np.maximum(wanted - 1, wanted / 2), np.minimum(wanted, 0.5))
    np.testing.assert_array_equal(value(op), wanted)
    assert len(op.text) < 20_000
    read_back(op)


def test_every_statement_is_within_the_bounds() -> None:
    def body(x: tc.Tensor) -> tc.Expr:
        parts = [x[i]]
        for n in range(500):
            parts.append(tc.sin(parts[-1]) * parts[n // 2] + tc.sum[i](parts[n // 3]))
        return tc.max(*parts)

    for statement in surface(body).statements:
        assert height(statement.body) <= lift.NESTED + 2


def test_what_is_small_is_not_named() -> None:
    op = op_of(repeated(10, lambda v: v * v))
    assert len(op.program.equations) == 1


def test_reads_by_bare_indices_are_named_under_a_guard_and_others_are_not() -> None:
    def chain(start: tc.Expr) -> tc.Expr:
        for _ in range(300):
            start = tc.sin(start)
        return start

    def guarded(x: tc.Tensor) -> tc.Expr:
        return tc.select(i > 0, chain(x[i]), 0)

    def shifted(x: tc.Tensor) -> tc.Expr:
        return tc.select(i > 0, chain(x[i - 1]), 0)

    assert len(op_of(guarded).program.equations) > 1
    with pytest.raises(tc.NotationError, match="TC-E104 at .*: nested 201 deep"):
        op_of(shifted).program  # noqa: B018


def test_weak_values_are_never_named() -> None:
    def body(x: tc.Tensor) -> tc.Expr:
        return tc.f64(x[i]) * deep_index(75)  # computed in f64, the type that it meets

    op = op_of(body)
    assert len(op.program.equations) == 1
    read_back(op)
    with pytest.raises(tc.NotationError, match="TC-E104"):
        op_of(lambda x: tc.f64(x[i]) * deep_index(300)).program  # noqa: B018


def deep_index(times: int) -> tc.Expr:
    number = i * 0.125
    for _ in range(times):
        number = tc.sqrt(number + 0.1)
    return number


def test_a_part_named_for_one_statement_serves_the_next() -> None:
    def body(x: tc.Tensor) -> tc.Expr:
        deep = repeated(300, tc.sin)(x)
        first = tc.let[i](deep + 1)
        return first[i] * deep

    names = [item.tensor.name for item in op_of(body).program.equations]
    assert names == ["t2", "t3", "t4", "t1", "y"]


def calls(body: Body) -> int:
    """Python calls that tracing makes: what costs time, whatever the machine does."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        surface(body)
    finally:
        sys.setprofile(None)
    return count


STEPS: dict[str, Callable[[tc.Expr], tc.Expr]] = {
    "a sum": lambda v: v + 1,
    "no sum": lambda v: tc.sin(v) * 0.5,
    "shared": lambda v: v * v - v,
}


@pytest.mark.parametrize("name", STEPS)
def test_work_is_linear(name: str) -> None:
    step = STEPS[name]
    surface(repeated(10, step))  # imports
    once, twice = calls(repeated(500, step)), calls(repeated(1_000, step))
    assert twice < 2.1 * once


def drawn(seed: int) -> Body:
    """A random graph of expressions over i and j with sharing, guards, sums and named tensors."""

    def body(x: tc.Tensor) -> tc.Expr:
        draw = random.Random(seed)
        wide = [x[i], x[j] * 0.5, tc.f32(i) + j]
        for _ in range(12):
            wide.append(_step(draw, x, wide))
        return tc.sum[j](wide[-1] + wide[-2] * wide[-3] + x[j])

    return body


def _step(draw: random.Random, x: tc.Tensor, wide: list[tc.Expr]) -> tc.Expr:
    a, b, c = (draw.choice(wide[-6:]) for _ in range(3))
    match draw.randrange(8):
        case 0:
            return a + b + c
        case 1:
            return a * b - c
        case 2:
            return tc.max(a, b, c * 0.5)
        case 3:
            return tc.select(j + 1 < j.size, x[j + 1] * a, b)
        case 4:
            return a - tc.sum[j](b + x[j], where=c > 0) / j.size
        case 5:
            return tc.select((j > 0) & (a > b), x[j - 1], c)
        case 6:
            return tc.let[i, j](a * 0.25 + b)[i, j]
        case _:
            return tc.mean[i](a * x[i]) - tc.abs(b)


@pytest.mark.parametrize("seed", range(300 if CAMPAIGN else 40))
def test_naming_parts_changes_no_value(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(name: str) -> Program:
        def function(x: tc.Tensor) -> tc.Expr:
            return drawn(seed)(x)

        op = tc.op("x: f32[i=|j|], z: f32[j] -> y: f64[i]", name=name)
        made = op(lambda x, z: function(x) + z[i] * 0)  # type: ignore[misc]  # pyright: ignore
        read_back(made)
        return made.program

    x = np.random.default_rng(seed).normal(size=5).astype(np.float32)
    arrays = {"x": x, "z": x}
    whole = program("whole")
    for name, bound in (("NESTED", 3), ("TERMS", 6), ("_SHARED", 3), ("_WORTH", 2)):
        monkeypatch.setattr(lift, name, bound)
    parts = program("parts")
    assert len(parts.equations) > len(whole.equations)
    extents = bind(whole, {"x": (5,), "z": (5,)})
    wanted, found = interpret(whole, arrays, extents), interpret(parts, arrays, extents)
    np.testing.assert_array_equal(found["y"], wanted["y"])
