"""No evaluation that keeps to the value types exceeds the level-1 bound, and the bound is useful.

The adversary computes in float64 and errs by one unit of the value type at every operation, always
upwards, always downwards or at random, and adds in a random order; and float32 itself computes in
ascending, descending and random order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.ir import bounded, interpret_tensor, propagate, reductions
from tensorc.ir import dtypes as T
from tensorc.ir.accept import Outcome
from tensorc.ir.bound_tensor import bound_tensor
from tensorc.ir.dtypes import DType
from tensorc.ir.evaluate import Evaluator
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.rounding import round_to
from tensorc.ir.scopes import Found, Scope
from tensorc.ir.tensor import Apply, Expr, Program, Reduce, Round
from tensorc.prepare import prepare
from tensorc.verify import judge
from tests.ir.random_programs import SIZE, Generator

Array = npt.NDArray[Any]


class Adversary(Evaluator):
    """Errs by 0.9 units at every operation: upwards (1), downwards (-1) or at random (0)."""

    def __init__(self, extents: dict[str, int], side: int, seed: int) -> None:
        super().__init__({}, extents, rounded=False)
        self.side, self.rng = side, np.random.default_rng(seed)

    def off(self, values: Array, dtype: DType, units: float = 0.9) -> Array:
        side = self.rng.choice([-1, 1], values.shape) if self.side == 0 else self.side
        return values * (1 + side * units * bounded.UNIT[dtype])

    def added(self, values: Array, dtype: DType) -> Array:
        """A sum, difference or product: right where its type holds it."""
        with np.errstate(all="ignore"):
            held = round_to(values, dtype).astype(np.float64) == values
        return np.where(held, values, self.off(values, dtype))

    def _node(self, expr: Expr, own: DType, args: Sequence[Found], scope: Scope) -> Found:
        found = super()._node(expr, own, args, scope)
        value = found.value
        if isinstance(expr, Apply) and own.floating:
            relative, _, slope = propagate.ACCURACY.get(expr.function.name, (1.0, 0.0, 0.0))
            if expr.function.name in ("neg", "abs", "sign", "floor", "ceil", "round", "min", "max"):
                return found
            if slope:
                relative += float(slope) * float(np.min(np.abs(args[0].value)))
            plain = expr.function.name in ("add", "sub", "mul", "pow")
            value = self.added(value, own) if plain else self.off(value, own, 0.9 * relative)
        if isinstance(expr, Round) and expr.dtype.floating and self.rng.random() < 0.8:
            value = round_to(value, expr.dtype).astype(np.float64)
        return Found(value, found.fault)

    def _reduce(self, expr: Reduce, scope: Scope) -> Found:
        work = self._reduction(expr, scope)
        values, name = self._operand(work), expr.reducer.name
        if name not in ("sum", "mean"):
            result = reductions.reduce(name, values, work.selected, False)
            inexact = name in ("prod", "logsumexp", "softmax")
            result = self.off(result, T.F32) if inexact else result
            return Found(self._placed(expr, work, result, scope), work.fault)
        chosen = np.ones(values.shape, bool) if work.selected is None else work.selected
        chosen = np.broadcast_to(chosen, values.shape)
        total, some = np.zeros(values.shape[1:]), np.zeros(values.shape[1:], bool)
        for place in self.rng.permutation(len(values)):
            added = self.added(total + values[place], work.stored or T.F32)
            added = np.where(some, added, values[place])
            total = np.where(chosen[place], added, total)
            some |= chosen[place]
        if name == "mean":
            count = chosen.sum(axis=0)
            total = self.off(total / count, T.F32)
        return Found(self._placed(expr, work, total, scope), work.fault)


def attack(program: Program, arrays: dict[str, Array], side: int, seed: int) -> Array:
    """The output as an adversary computes it, in float64."""
    machine = Adversary(SIZE, side, seed)
    interpret_tensor.load(machine, program, arrays)
    for equation in program.equations:
        made = interpret_tensor.empty(machine, equation)
        for part, found in interpret_tensor.solved(machine, equation, program):
            made[part] = found.value
        machine.tensors[equation.tensor.name] = made
    return machine.tensors["y"]


def ratio(got: Array, value: Array, error: Array) -> float:
    """The largest |got - value| over its bound; infinite if a special value is not covered."""
    with np.errstate(all="ignore"):
        same = (got == value) | (np.isnan(got) & np.isnan(value)) | np.isinf(error)
        apart = np.where(same, 0.0, np.abs(got - value))
        known = np.where(apart == 0, 0.0, apart / error)
    return float(np.max(np.where(np.isnan(known), np.inf, known)))


def test_no_evaluation_exceeds_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """200 random programs, 8 evaluations each; prints how tight the bound is."""
    tight: list[float] = []
    useful = 0
    for seed in range(200):
        generator = Generator(seed)
        program, arrays = generator.program(), generator.arrays()
        found = bound_tensor(program, arrays, SIZE)["y"]
        np.testing.assert_array_equal(found.value, interpret(program, arrays, SIZE)["y"])
        runs = [attack(program, arrays, side, seed) for side in (1, -1, 0, 0)]
        order = np.random.default_rng(seed).permutation(SIZE["k"])
        runs += [interpret(program, arrays, SIZE, rounded=True)["y"].astype(float)]
        runs += [_permuted(program, arrays, seed, order[::step]) for step in (1, -1)]
        worst = max(ratio(run, found.value, found.error) for run in runs)
        assert worst <= 1, (seed, worst, program.equations)
        if np.isfinite(found.error).all() and found.error.any():
            tight.append(worst)
            size = np.median(np.abs(found.value))
            useful += bool(np.median(found.error) <= 0.01 * size)
    with capsys.disabled():
        print(
            f"\nbound: {len(tight)} of 200 finite, {useful} under 1 % of the value; "
            f"largest error over bound: median {np.median(tight):.2f}, max {max(tight):.2f}"
        )
    assert len(tight) > 100 and useful > 60 and np.median(tight) > 0.02


def _permuted(program: Program, arrays: dict[str, Array], seed: int, order: Array) -> Array:
    """float32 with the elements of every sum in another order."""

    class Permuted(Evaluator):
        def _reduce(self, expr: Reduce, scope: Scope) -> Found:
            work = self._reduction(expr, scope)
            values, chosen = self._operand(work), work.selected
            if expr.reducer.name in ("sum", "mean", "prod"):
                values = values[order]
                if chosen is not None:
                    chosen = np.broadcast_to(chosen, (len(order), *chosen.shape[1:]))[order]
            result = reductions.reduce(expr.reducer.name, values, chosen, True)
            return Found(self._placed(expr, work, result, scope), work.fault)

    machine = Permuted({}, SIZE, rounded=True)
    interpret_tensor.load(machine, program, arrays)
    for equation in program.equations:
        made = interpret_tensor.empty(machine, equation)
        for part, found in interpret_tensor.solved(machine, equation, program):
            made[part] = round_to(found.value, equation.tensor.dtype)
        machine.tensors[equation.tensor.name] = made
    return machine.tensors["y"].astype(float)


@pytest.mark.parametrize("function", ["tanh", "sigmoid", "erf", "sin", "cos"])
def test_a_bounded_function_of_what_may_be_nan_may_be_nan(function: str) -> None:
    """f8e4m3 has no infinity: 3,000 is stored as NaN there, and is a number in the meaning."""
    (op,) = tc.loads(
        "op f(x: f32[i]) -> y: f8e4m3[i], z: f32[i]\n"
        f"  y[i] = x[i] * 1000\n  z[i] = {function}(y[i])\n"
    )
    x = np.array([3, 0.25], np.float32)
    found = op(x)[1]
    call = prepare(op.program, {"x": x})
    assert np.isnan(found[0]) and np.isfinite(found[1])
    verdicts = judge(call, dict(zip("yz", op(x), strict=True)))
    assert verdicts["z"].outcome is not Outcome.FAIL
    error = bound_tensor(op.program, {"x": x}, {"i": 2})["z"].error
    assert np.isinf(error).tolist() == [True, False]
