"""Expressions of a pass as finite sums of products, an x-part times an r-part, and back to nodes.

x is what varies along the pass: reads, and whatever else depends on its index. r is what does not:
shifts, states, extents. Conditions `select(c, y, 0)` are symbols with c * c = c. Functions other
than arithmetic and powers are symbols of their own, unless a shift stands inside: such an
expression has no finite rank. sympy sees symbols and numbers made from nodes, never text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tensorc.ir.dtypes import REAL, settled
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.node import postorder
from tensorc.ir.plan import Shift, State
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Literal,
    Round,
    Select,
    Value,
    free_indices,
    value_type,
)
from tensorc.libraries import library
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.fusion.reach import reductions

Term = dict[Any, Any]  # x-part to r-part, as sympy expressions
_ALGEBRA = frozenset("add sub mul neg div pow exp exp2".split())


class Mixed(Exception):
    """An expression that is no finite sum of products of an x-part and an r-part."""


def sympy() -> Any:
    """The library, loaded when the first rule is looked for."""
    return library("sympy", "'sympy>=1.13,<2'")


@dataclass
class Terms:
    """The algebra of one pass over `index`: its states and shifts, and the symbols of nodes."""

    index: str
    first: int = 0  # shifts that other passes have named
    states: list[State] = field(default_factory=list[State])
    shifts: list[Shift] = field(default_factory=list[Shift])
    leaves: dict[Expr, Any] = field(default_factory=dict[Expr, Any])
    masks: set[Any] = field(default_factory=set[Any])

    def depends(self, expr: Expr) -> bool:
        """Whether a state of the pass is inside."""
        return any(state.reduce in reductions(expr) for state in self.states)

    def shifts_in(self, expr: Expr) -> list[Shift]:
        """The shifts that an expression uses."""
        nodes = frozenset(postorder([expr]))
        return [shift for shift in self.shifts if shift.value in nodes]

    def symbol(self, leaf: Expr) -> Any:
        """The symbol that stands for a node."""
        if leaf not in self.leaves:
            self.leaves[leaf] = sympy().Symbol(f"v{len(self.leaves):03d}", real=True)
        return self.leaves[leaf]

    # --- to sympy -------------------------------------------------------------------------------

    def expanded(self, body: Expr, where: Expr | None, version: str) -> Term:
        """A sum of products as x-part to r-part, with shifts as before ("") or after ("'") the
        block. Raises Mixed where it has no finite rank."""
        sp = sympy()
        whole = self.formula(body, version)
        for condition in clauses(where) if where is not None else ():
            whole = whole * self._mask(condition)
        varying = {s for leaf, s in self.leaves.items() if self.index in free_indices(leaf)}
        found: Term = {}
        for term in sp.Add.make_args(sp.expand(whole)):
            inner, outer = self._divided(term, varying | self.masks)
            found[inner] = found.get(inner, 0) + outer
        return found

    def _divided(self, term: Any, varying: set[Any]) -> tuple[Any, Any]:
        """A product's x-part and r-part."""
        sp = sympy()
        inner, outer = sp.Integer(1), sp.Integer(1)
        for factor in sp.Mul.make_args(term):
            names = factor.free_symbols
            if not names & varying:
                outer = outer * factor
            elif names & self._moving():
                raise Mixed
            elif factor.is_Pow and factor.base in self.masks:
                inner = inner * factor.base
            else:
                inner = inner * factor
        return inner, outer

    def _moving(self) -> set[Any]:
        values = [placeholder(shift, version) for shift in self.shifts for version in ("", "'")]
        return {self.leaves[value] for value in values if value in self.leaves}

    def _mask(self, condition: Expr) -> Any:
        if self.depends(condition):
            raise Mixed
        symbol = self.symbol(condition)
        self.masks.add(symbol)
        return symbol

    def formula(self, expr: Expr, version: str) -> Any:
        """An expression in sympy. Raises Mixed for a function with a shift and x inside."""
        if self.depends(expr) and self.index not in free_indices(expr):
            return self.symbol(placeholder(self._shift(expr), version))
        match expr:
            case Literal(value) if not isinstance(value, str):
                return sympy().Rational(value.numerator, value.denominator)
            case Cast(dtype, arg) if value_type(arg) is dtype or value_type(arg).weak:
                return self.formula(arg, version)
            case Round(_, arg):
                return self.formula(arg, version)
            case Select(condition, yes, no) if is_zero(no):
                return self._mask(condition) * self.formula(yes, version)
            case Apply(function, args) if function.name in _ALGEBRA and (
                function.name != "pow" or _natural(args[1])
            ):
                return _applied(function.name, [self.formula(arg, version) for arg in args])
            case _ if self.depends(expr):
                raise Mixed
            case _:
                return self.symbol(expr)

    def _shift(self, expr: Expr) -> Shift:
        for shift in self.shifts:
            if shift.value is expr:
                return shift
        self.shifts.append(Shift(f"h{self.first + len(self.shifts) + 1}", expr))
        return self.shifts[-1]

    # --- and back -------------------------------------------------------------------------------

    def expr(self, formula: Any, more: Mapping[Any, Expr] | None = None) -> Expr:
        """The node of a formula; `more` has nodes for further symbols."""
        sp = sympy()
        known = {symbol: leaf for leaf, symbol in self.leaves.items()} | dict(more or {})
        if formula in known:
            return known[formula]
        if formula.is_Rational:
            return _number(Fraction(int(formula.p), int(formula.q)))
        if formula.is_Add:
            return _added([self.expr(item, more) for item in formula.args])
        if formula.is_Mul:
            return self._product(formula, more)
        if isinstance(formula, sp.exp):
            return call("exp", self.expr(formula.exp, more))
        if formula.is_Pow:
            return self._power(formula, more)
        raise Mixed

    def _product(self, formula: Any, more: Mapping[Any, Expr] | None) -> Expr:
        if formula.could_extract_minus_sign():
            return call("neg", self.expr(-formula, more))
        above, below = sympy().fraction(formula)
        if below != 1 and not below.has(sympy().exp):
            return call("div", self.expr(above, more), self.expr(below, more))
        factors = tuple(self.expr(item, more) for item in formula.args)
        return Apply(FUNCTIONS["mul"], factors)

    def _power(self, formula: Any, more: Mapping[Any, Expr] | None) -> Expr:
        if formula.base == 2 and not formula.exp.is_Integer:
            return call("exp2", self.expr(formula.exp, more))
        if not formula.exp.is_Integer:
            raise Mixed
        count = abs(int(formula.exp))
        base = self.expr(formula.base, more)
        made = base if count == 1 else Apply(FUNCTIONS["mul"], (base,) * count)
        return made if formula.exp > 0 else call("div", integer(1), made)


def solved(target: Term, basis: Sequence[Term]) -> list[Any] | None:
    """The c_s with target = sum of c_s * basis_s for every x-part, 0 where they are free; None if
    there are none."""
    sp = sympy()
    unknown = [sp.Symbol(f"c{place}") for place in range(len(basis))]
    keys = list(dict.fromkeys(key for term in (*basis, target) for key in term))
    equations = [
        sp.expand(sp.Add(*(c * t.get(key, 0) for c, t in zip(unknown, basis, strict=True)))
                  - target.get(key, 0))
        for key in keys
    ]  # fmt: skip
    found = _solution(tuple(equations), tuple(unknown))
    return None if found is None else list(found)


@lru_cache(256)
def _solution(equations: tuple[Any, ...], unknown: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A solution of linear equations, simplified, 0 where it is free. Plans of one program, and
    the levels after them, ask for the same ones again."""
    sp = sympy()
    found = list(sp.linsolve(list(equations), list(unknown)))
    if not found:
        return None
    free = dict.fromkeys(unknown, 0)
    return tuple(sp.simplify(item.subs(free)) for item in found[0])


def is_power(formula: Any) -> bool:
    """exp(...), or 2 to something that is no number."""
    sp = sympy()
    powers_of_two = formula.is_Pow and formula.base == 2 and not formula.exp.is_number
    return isinstance(formula, sp.exp) or bool(powers_of_two)


def placeholder(item: State | Shift, version: str = "") -> Value:
    """What stands in formulas for a state or shift, before ("") or after ("'") the block."""
    expr = item.reduce if isinstance(item, State) else item.value
    return Value(item.name + version, (), settled(value_type(expr)))


def clauses(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that all hold where `condition` does."""
    match condition:
        case Apply(function, args) if function.name == "and":
            return tuple(part for arg in args for part in clauses(arg))
        case _:
            return (condition,)


def uncast(expr: Expr) -> Expr:
    """`expr` without casts around it."""
    while isinstance(expr, Cast):
        expr = expr.arg
    return expr


def is_zero(expr: Expr) -> bool:
    """The number 0, cast or not."""
    plain = uncast(expr)
    return isinstance(plain, Literal) and plain.value == 0


def _applied(name: str, args: list[Any]) -> Any:
    sp = sympy()
    match name:
        case "add":
            return sp.Add(*args)
        case "mul":
            return sp.Mul(*args)
        case "sub":
            return args[0] - args[1]
        case "neg":
            return -args[0]
        case "div":
            return args[0] / args[1]
        case "pow":
            return args[0] ** args[1]
        case "exp":
            return sp.exp(args[0])
        case _:
            return sp.Pow(2, args[0])


def _natural(expr: Expr) -> bool:
    plain = uncast(expr)
    if not isinstance(plain, Literal) or isinstance(plain.value, str):
        return False
    return plain.value.denominator == 1 and 0 < plain.value <= 8


def _number(value: Fraction) -> Literal:
    return integer(value.numerator) if value.denominator == 1 else Literal(value, REAL)


def _added(items: list[Expr]) -> Expr:
    """A sum, with differences written as such."""
    if len(items) == 2:
        for one, other in (items, items[::-1]):
            match other:
                case Apply(function, (arg,)) if function.name == "neg":
                    return call("sub", one, arg)
                case _:
                    pass
    return items[0] if len(items) == 1 else Apply(FUNCTIONS["add"], tuple(items))
