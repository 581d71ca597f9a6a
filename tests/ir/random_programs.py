"""Random float programs over two indices, built from nodes: for tests of rounding errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir import dtypes as T
from tensorc.ir.dtypes import DType
from tensorc.ir.functions import FUNCTIONS, REDUCERS
from tensorc.ir.polynomial import polynomial
from tensorc.ir.rounding import round_to
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
