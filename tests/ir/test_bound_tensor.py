"""No evaluation that keeps to the value types exceeds the level-1 bound, and the bound is useful.

The adversary computes in float64 and errs by one unit of the value type at every operation, always
upwards, always downwards or at random, and adds in a random order; and float32 itself computes in
ascending, descending and random order.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.ir import dtypes as T
from tensorc.ir import interpret_tensor, propagate, reductions
from tensorc.ir.bound_tensor import bound_tensor
from tensorc.ir.dtypes import DType
from tensorc.ir.evaluate import Evaluator
from tensorc.ir.functions import FUNCTIONS, REDUCERS
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.polynomial import polynomial
from tensorc.ir.rounding import round_to
from tensorc.ir.scopes import Found, Scope
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Declaration,
    Equation,
    Expr,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    Tensor,
    value_type,
)

Array = npt.NDArray[Any]
SIZE = {"i": 5, "k": 7}
INPUTS = {
    "x": (T.F32, ("i", "k")), "h": (T.F16, ("k",)), "b": (T.BF16, ("i", "k")),
    "f": (T.F32, ("k",)), "n": (T.I32, ("i", "k")),
}  # fmt: skip
TENSORS = {
    name: Tensor(name, dtype, tuple(polynomial(SIZE[d]) for d in dims))
    for name, (dtype, dims) in INPUTS.items()
}


def call(name: str, *args: Expr) -> Apply:
    return Apply(FUNCTIONS[name], args)


def num(value: float) -> Literal:
    return Literal(Fraction(str(value)), T.REAL)


class Generator:
    """Random float programs over two indices; every function and reduction of reals occurs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, *items: str) -> str:
        return str(self.rng.choice(items))

    def leaf(self, free: str) -> Expr:
        fitting = [n for n, (_, dims) in INPUTS.items() if set(dims) <= set(free)]
        if not fitting or self.rng.random() < 0.2:
            return num(round(float(self.rng.uniform(-3, 3)), 2))
        name = self.pick(*fitting)
        return Read(TENSORS[name], tuple(Position(d) for d in INPUTS[name][1]))

    def real(self, depth: int, free: str) -> Expr:
        if depth == 0:
            return self.leaf(free)
        kind = self.pick("one", "two", "two", "two", "reduce", "select", "cast", "edge")
        a = self.real(depth - 1, free)
        match kind:
            case "one":
                return self.one(a)
            case "two":
                return self.two(a, self.real(depth - 1, free))
            case "reduce":
                return self.reduce(depth, free)
            case "select":
                return Select(self.test(depth - 1, free), a, self.real(depth - 1, free))
            case "cast":
                return Cast([T.F16, T.BF16, T.F8E5M2, T.F32][int(self.rng.integers(4))], a)
            case _:
                return call(self.pick("floor", "ceil", "round", "sign"), a)

    def one(self, a: Expr) -> Expr:
        name = self.pick(
            "neg", "abs", "exp", "exp2", "tanh", "sigmoid", "erf", "sin", "cos", "sqrt", "rsqrt",
            "log", "log2", "log1p", "expm1",
        )  # fmt: skip
        if name in ("sqrt", "rsqrt", "log", "log2", "log1p"):
            a = call("add", call("abs", a), num(0.1))
        if name in ("exp", "exp2", "expm1"):
            a = call("min", a, num(8.0))
        return call(name, a)

    def two(self, a: Expr, b: Expr) -> Expr:
        name = self.pick("add", "sub", "mul", "mul", "div", "min", "max", "pow", "mod", "floordiv")
        if name in ("div", "mod", "floordiv"):
            b = call("add", call("abs", b), num(0.5))
        if name == "pow":
            a, b = (
                call("add", call("abs", a), num(0.2)),
                call("min", call("max", b, num(-3)), num(3)),
            )
            if self.rng.random() < 0.5:
                b = num(float(self.rng.integers(0, 4)))
        return call(name, a, b)

    def test(self, depth: int, free: str) -> Expr:
        name = self.pick("lt", "le", "gt", "ge")
        return call(name, self.real(depth, free), self.real(depth, free))

    def reduce(self, depth: int, free: str) -> Expr:
        name = self.pick("sum", "sum", "sum", "mean", "max", "min", "prod", "logsumexp", "softmax")
        body = self.real(depth - 1, free if "k" in free else free + "k")
        body = call("add", body, call("mul", self.leaf("k"), num(0.5)))
        where = None if self.rng.random() < 0.7 else call("lt", Position("k"), num(4.5))
        dtype = T.F16 if name == "sum" and self.rng.random() < 0.2 else None
        reduced = Reduce(REDUCERS[name], ("k",), body, where, dtype)
        if name == "softmax" and "k" not in free:
            return Reduce(REDUCERS["sum"], ("k",), call("mul", reduced, self.leaf("k")), None, None)
        return reduced

    def program(self) -> Program:
        """An intermediate of any type, read back by the output's equation."""
        first, narrow = self.real(3, "ik"), self.pick("f16", "bf16", "f32")
        middle = Tensor("t", T.BY_NAME[narrow], (polynomial(SIZE["i"]), polynomial(SIZE["k"])))
        again = Read(middle, (Position("i"), Position("k")))
        body = self.two(Reduce(REDUCERS["sum"], ("k",), again, None, None), self.real(2, "i"))
        out = Tensor("y", T.F32, (polynomial(SIZE["i"]),))
        equations = (
            Equation(middle, ("i", "k"), _rounded(first, middle.dtype)),
            Equation(out, ("i",), _rounded(body, T.F32)),
        )
        parameters = tuple(Declaration(t, (None,) * len(t.shape)) for t in TENSORS.values())
        extents = tuple((name, polynomial(size)) for name, size in SIZE.items())
        return Program("p", parameters, (Declaration(out, ("i",)),), equations, extents)

    def arrays(self) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name, (dtype, dims) in INPUTS.items():
            shape = [SIZE[d] for d in dims]
            values = self.rng.standard_normal(shape) * 10.0 ** self.rng.integers(-2, 2)
            if dtype.integral or self.rng.random() < 0.3:
                values = self.rng.integers(-4, 5, shape).astype(float)
            found[name] = round_to(values, dtype)
        return found


def _rounded(body: Expr, dtype: DType) -> Expr:
    return body if T.settled(value_type(body)) is dtype else Round(dtype, body)


class Adversary(Evaluator):
    """Errs by 0.9 units at every operation: upwards (1), downwards (-1) or at random (0)."""

    def __init__(self, extents: dict[str, int], side: int, seed: int) -> None:
        super().__init__({}, extents, rounded=False)
        self.side, self.rng = side, np.random.default_rng(seed)

    def off(self, values: Array, dtype: DType, units: float = 0.9) -> Array:
        side = self.rng.choice([-1, 1], values.shape) if self.side == 0 else self.side
        return values * (1 + side * units * propagate.UNIT[dtype])

    def _node(self, expr: Expr, own: DType, args: Sequence[Found], scope: Scope) -> Found:
        found = super()._node(expr, own, args, scope)
        value = found.value
        if isinstance(expr, Apply) and own.floating:
            relative, _, slope = propagate.ACCURACY.get(expr.function.name, (1.0, 0.0, 0.0))
            if expr.function.name in ("neg", "abs", "sign", "floor", "ceil", "round", "min", "max"):
                return found
            if slope:
                relative += float(slope) * float(np.min(np.abs(args[0].value)))
            value = self.off(value, own, 0.9 * relative)
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
            added = self.off(total + values[place], work.stored or T.F32)
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
