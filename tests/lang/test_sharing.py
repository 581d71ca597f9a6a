"""Trees as traced loops make them: each of 60 levels uses the one below several times.

Written out they have 2**60 parts and more; checking takes time in the distinct ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from tensorc.errors import NotationError
from tensorc.ir import syntax as s
from tensorc.ir.dtypes import INTEGER
from tensorc.ir.source import Source
from tensorc.ir.tensor import Literal
from tensorc.ir.verify_tensor import verify
from tensorc.lang.check import check
from tensorc.lang.parse import parse_file
from tensorc.lang.surface import Module

LEVELS = 60
TEXT = "op f(x: f32[n], t: i32[n], m: bool[n]) -> y: f32[n]\n  y[n] = x[n] * t[n] * i32(m[n])"
(OPERATOR,) = parse_file(Source("shared.tc", TEXT)).operators
SPAN = OPERATOR.span
N: s.Syntax = s.Name("n", SPAN)
SIZE: s.Syntax = s.SizeOf("n", SPAN)

Level = Callable[[s.Syntax, int], s.Syntax]


def number(value: int) -> s.Syntax:
    """An integer literal."""
    return s.Constant(Literal(Fraction(value), INTEGER), SPAN)


def call(name: str, *args: s.Syntax) -> s.Syntax:
    """A function or operator."""
    return s.Call(name, args, SPAN)


def at(name: str, sub: s.Syntax) -> s.Syntax:
    """A vector at a subscript."""
    return s.Access(name, (sub,), SPAN)


def checked(body: s.Syntax) -> tuple[int, int]:
    """How many size conditions and checks the operator with this right side has.

    Not the program: a failing assertion would print it, and written out it has no end.
    """
    statement = replace(OPERATOR.statements[0], body=body)
    (program,) = check(Module((), (replace(OPERATOR, statements=(statement,)),)))
    faults = verify(program)
    assert not faults
    return len(program.conditions), len(program.checks)


def tower(level: Level, start: s.Syntax, levels: int = LEVELS) -> s.Syntax:
    """`level` applied to its own result."""
    for depth in range(levels):
        start = level(start, depth)
    return start


VALUES: dict[str, Level] = {
    "add": lambda e, d: call("add", e, e),
    "mul": lambda e, d: call("mul", e, call("add", e, number(1))),
    "select": lambda e, d: call("select", call("lt", e, number(d)), e, call("add", e, e)),
    "compare": lambda e, d: call("select", call("and", call("lt", e, e), call("ne", e, e)), e, e),
}
SUBSCRIPTS: dict[str, Level] = {
    "add": lambda e, d: call("add", e, e),
    "mul": lambda e, d: call("mul", call("add", e, number(1)), e),
    "floor": lambda e, d: call("add", e, call("floordiv", e, number(2))),
    "min": lambda e, d: call("min", e, call("add", e, number(d)), call("mod", e, number(7))),
    "select": lambda e, d: call("select", call("lt", e, number(3)), e, call("add", e, number(1))),
    "data": lambda e, d: call("add", at("t", call("mod", e, SIZE)), e),
}
CONDITIONS: dict[str, Level] = {
    "logic": lambda e, d: call("or", call("and", e, call("lt", N, number(d))), e),
    "bools": lambda e, d: call("not", call("xor", e, e)) if d % 2 else call("and", e, at("m", N)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    assert checked(tower(VALUES[name], at("x", N))) == (0, 0)


@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_subscripts(name: str) -> None:
    levels = 30 if name in ("floor", "data") else LEVELS
    assert sum(checked(at("x", tower(SUBSCRIPTS[name], N, levels)))) == 1


def test_remainders_of_remainders() -> None:
    level: Level = lambda e, d: call("mod", call("mul", e, number(3)), call("add", SIZE, number(d)))  # noqa: E731
    assert checked(at("x", tower(level, N, 20))) == (1, 0)


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(name: str) -> None:
    condition = tower(CONDITIONS[name], call("lt", N, number(5)))
    body = call("select", condition, at("x", call("add", N, number(1))), number(0))
    assert sum(checked(body)) == 1


def test_a_ladder_of_conditions() -> None:
    body = number(0)
    for depth in range(LEVELS):
        condition = call("eq", call("mod", N, number(depth + 2)), number(0))
        access = at("x", call("mod", call("add", N, number(depth)), SIZE))
        body = call("select", condition, access, body)
    assert checked(body) == (0, 0)


def test_a_fault_in_a_shared_tree_is_reported_once() -> None:
    with pytest.raises(NotationError) as caught:
        checked(tower(VALUES["add"], at("x", call("add", N, number(1)))))
    assert [item.code for item in caught.value.diagnostics] == ["E215"]
