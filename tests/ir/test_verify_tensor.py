"""The invariants of level 1: texts give programs that keep them; each is broken by a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tensorc.ir import polynomial as p
from tensorc.ir.dtypes import BOOL, F16, F32, I32, INTEGER, REAL, U8
from tensorc.ir.functions import FUNCTIONS, MAX, SUM
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Check,
    Condition,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Table,
    Tensor,
    Value,
)
from tensorc.ir.verify_tensor import verify
from tensorc.lang import read

PROGRAMS = Path(__file__).parents[1] / "programs"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(PROGRAMS.glob("*.tc"))]

(PLAIN,) = read("""
const T: f32[2] = [1, 2]
op f(x: f32[n], t: i32[m], w: const i64) -> y: f16[m]
  a[m] = x[t[m]] + x[m * w] + T[0]
  y[m] = a[m] * 2
""")
X, T, _ = (item.tensor for item in PLAIN.parameters)
A, Y = (item.tensor for item in PLAIN.equations)
FREE = Position("m")


def literal(value: int) -> Expr:
    """An integer literal."""
    return Literal(Fraction(value), INTEGER)


def apply(name: str, *args: Expr) -> Expr:
    """A function of its arguments."""
    return Apply(FUNCTIONS[name], args)


def body(expr: Expr) -> Program:
    """PLAIN with another value for y, rounded as y is stored."""
    equation = Equation(Y, ("m",), Round(F16, expr))
    return replace(PLAIN, equations=(PLAIN.equations[0], equation))


def sized(*extents: tuple[str, p.Polynomial]) -> Program:
    """PLAIN with other extents."""
    return replace(PLAIN, extents=extents)


READ = Read(A, (FREE,))
NUMBER = Read(X, (literal(0),))
SUMMED = Reduce(SUM, ("n",), Read(X, (Position("n"),)), None, None)

BROKEN: list[tuple[str, Callable[[], Program]]] = [
    ("L1", lambda: replace(PLAIN, equations=PLAIN.equations[:1])),
    ("L1", lambda: replace(PLAIN, equations=(*PLAIN.equations, PLAIN.equations[1]))),
    ("L1", lambda: replace(PLAIN, parameters=(*PLAIN.parameters, PLAIN.parameters[0]))),
    ("L2", lambda: replace(PLAIN, equations=PLAIN.equations[::-1])),
    ("L2", lambda: body(Read(Tensor("x", F16, X.shape), (literal(0),)))),
    ("L2", lambda: replace(PLAIN, tables=())),
    ("L3", lambda: replace(PLAIN, equations=(PLAIN.equations[0], Equation(
        Tensor("y", F32, Y.shape), ("m",), READ)))),
    ("L4", lambda: body(apply("mul", READ, Extent("q")))),
    ("L4", lambda: sized(*PLAIN.extents, PLAIN.extents[0])),
    ("L5", lambda: sized(("n", p.extent("q")), ("m", p.extent("m")))),
    ("L5", lambda: sized(("n", p.of_atom(p.Symbol("m", "index"))), ("m", p.extent("m")))),
    ("L6 L7", lambda: replace(PLAIN, equations=(PLAIN.equations[0], replace(
        PLAIN.equations[1], indices=("n",))))),
    ("L2 L6 L13", lambda: replace(PLAIN, equations=(Equation(
        Tensor("a", F32, (p.extent("m"),) * 2), ("m", "m"), literal(1)), PLAIN.equations[1]))),
    ("L7", lambda: body(apply("mul", READ, Position("n")))),
    ("L8", lambda: body(Reduce(SUM, (), READ, None, None))),
    ("L8", lambda: body(Reduce(SUM, ("n", "n"), Read(X, (Position("n"),)), None, None))),
    ("L9", lambda: body(Read(A, (READ,)))),
    ("L9", lambda: body(Reduce(SUM, ("n",), Read(A, (Position("n"),)), None, None))),
    ("L10", lambda: replace(PLAIN, conditions=())),
    ("L10", lambda: replace(PLAIN, checks=())),
    ("L10", lambda: body(Read(A, (apply("add", Position("m"), literal(1)),)))),
    ("L11", lambda: body(apply("bitand", READ, literal(1)))),
    ("L11", lambda: body(Reduce(MAX, ("n",), Read(X, (Position("n"),)), None, F32))),
    ("L12", lambda: body(Select(literal(1), READ, READ))),
    ("L11", lambda: body(Select(apply("and", READ, READ), READ, READ))),
    ("L12", lambda: body(Reduce(SUM, ("n",), Read(X, (Position("n"),)), literal(1), None))),
    ("L13", lambda: body(apply("mul", READ, Round(F16, READ)))),
    ("L13", lambda: replace(PLAIN, equations=(PLAIN.equations[0], Equation(Y, ("m",), READ)))),
    ("L13", lambda: replace(PLAIN, equations=(PLAIN.equations[0], Equation(
        Y, ("m",), Round(F32, READ))))),
    ("L13", lambda: replace(PLAIN, equations=(replace(
        PLAIN.equations[0], body=Round(F32, PLAIN.equations[0].body)), PLAIN.equations[1]))),
    ("L13", lambda: replace(PLAIN, equations=(Equation(
        A, ("m",), Round(F32, Literal(Fraction(1), BOOL))), Equation(
        Tensor("b", I32, A.shape), ("m",), Round(I32, READ)), PLAIN.equations[1]))),
    ("L14", lambda: body(apply("mul", Value("s", ("m",), F32), READ))),
    ("L14", lambda: body(apply("mul", Seen("m", True), READ))),
    ("L15", lambda: body(Literal(Fraction(1, 2), INTEGER))),
    ("L15", lambda: body(Literal("zero", REAL))),
    ("L15", lambda: body(apply("add", Read(T, (FREE,)), literal(1 << 40)))),
    ("L16", lambda: body(Bitcast(U8, READ))),
    ("L17", lambda: replace(PLAIN, tables=(replace(PLAIN.tables[0], values=(literal(1),)),))),
    ("L17", lambda: replace(PLAIN, tables=(Table(
        PLAIN.tables[0].tensor, (literal(1), FREE)),))),
    ("L18", lambda: replace(PLAIN, checks=(*PLAIN.checks, Check(NUMBER, 0)))),
    ("L10 L18", lambda: replace(PLAIN, checks=(Check(PLAIN.checks[0].read, 4),))),
    ("L18", lambda: replace(PLAIN, conditions=(*PLAIN.conditions, Condition(
        p.of_atom(p.Symbol("n", "index")), p.extent("n"), ("m",), (), "x[n]")))),
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_programs_from_texts_are_right(text: str) -> None:
    for program in read(text):
        assert verify(program) == []


def test_the_plain_program_is_right() -> None:
    assert verify(PLAIN) == []
    assert verify(body(SUMMED)) == []
    assert len(PLAIN.conditions) == len(PLAIN.checks) == 1


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_each_invariant_refuses_what_breaks_it(number: int) -> None:
    names, program = BROKEN[number]
    faults = verify(program())
    codes = [fault.split(":")[0] for fault in faults]
    assert sorted(set(codes), key=lambda code: int(code[1:])) == names.split()


def test_every_invariant_is_tested() -> None:
    tested = {name for names, _ in BROKEN for name in names.split()}
    assert tested == {f"L{number}" for number in range(1, 19)}


def test_accesses_may_be_left_out() -> None:
    assert verify(replace(PLAIN, conditions=()), accesses=False) == []
