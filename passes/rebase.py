"""Move a running reduction from the old values of the states it depends on to the new ones.

A pass carries states S_s = op over x of b_s(x, h), where h are shifts: values made of states of the
same pass, a mean or a running maximum. When a block changes h to h', a sum moves by the linear
ansatz b(x, h') = sum_s c_s(h, h') b_s(x, h): both sides are expanded into products of a part that
depends on x and one that does not, and the c_s solve one linear equation for each x-part. Then
S' = sum_s c_s S_s. A maximum moves by b(x, h') - b(x, h) where that is free of x. Conditions
`select(c, y, 0)` are symbols with c * c = c; the sum of 1 is the number of elements seen.

    sum[n](exp(x - r))       exp(r - r') * S
    sum[n]((x - m) ** 2)     S + N * (m - m') ** 2          with m = sum[n](x) / N

There is no solution for |x - m|, and none is accepted that could lose what it carries: a power may
only shrink (its shift must move away monotonically), a polynomial's shift must be a mean of what
was seen, and nothing is divided by a partial sum other than a count.

Solved in sympy, from nodes and never from strings; the same c_s combine the parts of a split sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tensorc.ir.dtypes import REAL, settled
from tensorc.ir.functions import FUNCTIONS, MAX, MIN, SUM
from tensorc.ir.node import postorder
from tensorc.ir.plan import Shift, State
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Literal,
    Reduce,
    Round,
    Seen,
    Select,
    Value,
    free_indices,
    value_type,
)
from tensorc.passes.canonicalise import call, integer

Term = dict[Any, Any]  # x-part to r-part, sympy expressions


class Mixed(Exception):
    """An expression that is no finite sum of products of an x-part and an r-part."""


@dataclass
class Rebase:
    """The solver of one pass over `index`: its states so far, its shifts and their symbols."""

    index: str
    extents: Mapping[str, Polynomial]
    first: int = 0
    states: list[State] = field(default_factory=list[State])
    shifts: list[Shift] = field(default_factory=list[Shift])
    leaves: dict[Expr, Any] = field(default_factory=dict[Expr, Any])
    masks: set[Any] = field(default_factory=set[Any])

    # --- what is asked --------------------------------------------------------------------------

    def depends(self, expr: Expr) -> bool:
        """Whether a state of the pass is inside."""
        return any(state.reduce in _nodes(expr) for state in self.states)

    def moved(self, state: State) -> tuple[State | None, tuple[Reduce, ...]]:
        """The state with its rule, or None where it has to wait for another pass; or reductions
        that the pass would have to carry too for a rule to exist."""
        if not self.depends(state.body) and (state.where is None or not self.depends(state.where)):
            return state, ()
        if state.where is not None and self.depends(state.where):
            return None, ()
        known = len(self.shifts)
        try:
            if state.reduce.reducer in (MAX, MIN):
                return self._extreme(state), ()
            if state.reduce.reducer is SUM and value_type(state.reduce).floating:
                return self._sum(state)
        except Mixed:
            pass
        del self.shifts[known:]
        return None, ()

    # --- rules ----------------------------------------------------------------------------------

    def _extreme(self, state: State) -> State:
        import sympy

        old, new = self._expanded(state.body, None, ""), self._expanded(state.body, None, "'")
        change: Any = sympy.Integer(0)
        for key in {*old, *new}:
            part = sympy.simplify(new.get(key, 0) - old.get(key, 0))
            if part != 0 and key != 1:
                raise Mixed
            change = change + part
        self._check(change, state)
        formula = self._expr(self._related(change + self._symbol(_old(state))))
        return self._guarded(state, formula, state.body)

    def _sum(self, state: State) -> tuple[State | None, tuple[Reduce, ...]]:
        target = self._expanded(state.body, state.where, "'")
        basis: list[tuple[Any, Term]] = [
            (self._symbol(_old(state)), self._expanded(state.body, state.where, ""))
        ]
        for other in self.states:
            if other.reduce.reducer is SUM and other is not state:
                try:
                    term = self._expanded(other.body, other.where, "")
                except Mixed:
                    continue
                basis.append((self._symbol(_old(other)), term))
        basis.append((self._symbol(Seen(self.index, False)), {1: 1}))
        solution = _solved(target, [term for _, term in basis])
        if solution is None:
            return None, self._missing(state, target, [term for _, term in basis])
        import sympy

        total: Any = sympy.Integer(0)
        for (symbol, _), factor in zip(basis, solution, strict=True):
            total = total + factor * symbol
        self._check(total, state)
        formula = self._expr(self._related(total))
        return self._guarded(state, formula, state.body), ()

    def _missing(self, state: State, target: Term, basis: Sequence[Term]) -> tuple[Reduce, ...]:
        """Sums of the derivatives by a shift, the terms of Taylor's formula."""
        import sympy

        found: list[Reduce] = []
        whole = self._sympy(state.body, "")
        for shift in self._shifts_in(state.body):
            slope = sympy.diff(whole, self._symbol(_value(shift, "")))
            if slope == 0 or slope.has(sympy.exp):
                continue
            lead, rest = sympy.factor(slope).as_coeff_Mul()
            body = self._expr(rest, {self._symbol(_value(shift, "")): shift.value})
            if value_type(body).weak:
                body = Cast(value_type(state.reduce), body)
            where = state.where
            found.append(
                Reduce(SUM, (self.index,), body, where, state.reduce.dtype)
            )
        return tuple(found)

    def _guarded(self, state: State, formula: Expr, body: Expr) -> State:
        used = [s for s in self.shifts if s in self._shifts_in(body)]
        divisors = dict.fromkeys(d for s in used for d in _divisors(s.value))
        empty = tuple(d for d in divisors if self.depends(d) or _counts(d, self))
        for item in empty:
            self._must_count(item, state)
        tops = [t for s in used for t in self._bare(s.value)]
        return State(
            state.name, state.reduce, state.body, state.where, formula, empty,
            tuple(dict.fromkeys(tops)),
        )  # fmt: skip

    # --- soundness of partial values ------------------------------------------------------------

    def _must_count(self, divisor: Expr, state: State) -> None:
        """While a divisor is 0, nothing may have been added to the state."""
        plain = _uncast(divisor)
        if isinstance(plain, Extent):
            return
        own = {} if state.where is None else dict.fromkeys(_conjuncts(state.where))
        for other in self.states:
            if other.reduce is plain and isinstance(_uncast(other.body), Literal):
                counted = () if other.where is None else _conjuncts(other.where)
                if set(counted) <= set(own):
                    return
        raise Mixed

    def _check(self, formula: Any, state: State) -> None:
        """Powers only shrink; what is no power is made of means."""
        import sympy

        powers = [p for p in formula.atoms(sympy.Pow, sympy.exp) if _exponential(p)]
        for shift in self._shifts_in(state.body):
            old, new = self._symbol(_value(shift, "")), self._symbol(_value(shift, "'"))
            inside = [p for p in powers if p.has(old) or p.has(new)]
            if inside:
                grows = _direction(shift.value)
                for power in inside:
                    exponent = sympy.expand(power.exp)
                    slope = exponent.coeff(old)
                    if exponent.coeff(new) != -slope or not slope.is_number:
                        raise Mixed
                    if not grows or not (slope * grows).is_positive:
                        raise Mixed
                bare = formula.subs({p: sympy.Dummy() for p in powers})
                if bare.has(old) or bare.has(new):
                    raise Mixed
            elif not self._is_mean(shift.value):
                raise Mixed
        if self._tops(state.body) and state.where is not None:
            raise Mixed

    def _tops(self, body: Expr) -> list[Reduce]:
        return [t for s in self._shifts_in(body) for t in self._bare(s.value)]

    def _bare(self, value: Expr) -> list[Reduce]:
        """Maxima and minima of the pass that may be infinite while nothing was selected."""
        match value:
            case Reduce(reducer) if reducer in (MAX, MIN):
                return [value] if value_type(value).floating else []
            case Reduce():
                return []
            case Apply(function, args) if function.name in ("max", "min") and any(
                isinstance(a, Literal) and not isinstance(a.value, str) for a in args
            ):
                return []
            case _:
                return [t for child in _arguments(value) for t in self._bare(child)]

    def _is_mean(self, value: Expr) -> bool:
        """An affine function of means of what was seen."""
        match value:
            case _ if not self.depends(value):
                return True
            case Apply(function, (a, b)) if function.name == "div" and self.depends(b):
                return isinstance(_uncast(a), Reduce) and isinstance(_uncast(b), Reduce)
            case Apply(function, (a, b)) if function.name == "div" and _counts(b, self):
                return isinstance(_uncast(a), Reduce) and _uncast(a).reducer is SUM  # type: ignore[union-attr]
            case Apply(function, args) if function.name in ("add", "sub", "neg"):
                return all(map(self._is_mean, args))
            case Apply(function, args) if function.name == "mul":
                return sum(map(self.depends, args)) == 1 and all(map(self._is_mean, args))
            case Cast(_, arg):
                return self._is_mean(arg)
            case _:
                return False

    # --- to sympy -------------------------------------------------------------------------------

    def _shifts_in(self, expr: Expr) -> list[Shift]:
        nodes = _nodes(expr)
        return [shift for shift in self.shifts if shift.value in nodes]

    def _shift(self, expr: Expr) -> Shift:
        for shift in self.shifts:
            if shift.value is expr:
                return shift
        self.shifts.append(Shift(f"h{self.first + len(self.shifts) + 1}", expr))
        return self.shifts[-1]

    def _symbol(self, leaf: Expr) -> Any:
        import sympy

        if leaf not in self.leaves:
            number = len(self.leaves)
            self.leaves[leaf] = sympy.Symbol(f"v{number:03d}", real=True)
        return self.leaves[leaf]

    def _expanded(self, body: Expr, where: Expr | None, version: str) -> Term:
        """A sum of products as x-part to r-part."""
        import sympy

        whole = self._sympy(body, version)
        for condition in _conjuncts(where) if where is not None else ():
            whole = whole * self._mask(condition)
        varying = {s for leaf, s in self.leaves.items() if self.index in free_indices(leaf)}
        varying |= self.masks
        found: Term = {}
        for term in sympy.Add.make_args(sympy.expand(whole)):
            inner: Any = sympy.Integer(1)
            outer: Any = sympy.Integer(1)
            for factor in sympy.Mul.make_args(term):
                names = factor.free_symbols
                if not names & varying:
                    outer = outer * factor
                elif names & self._moving():
                    raise Mixed
                else:
                    base = factor.base if isinstance(factor, sympy.Pow) else factor
                    inner = inner * (base if base in self.masks else factor)
            found[inner] = found.get(inner, 0) + outer
        return found

    def _moving(self) -> set[Any]:
        values = [_value(shift, version) for shift in self.shifts for version in ("", "'")]
        return {self.leaves[value] for value in values if value in self.leaves}

    def _mask(self, condition: Expr) -> Any:
        if self.depends(condition):
            raise Mixed
        symbol = self._symbol(condition)
        self.masks.add(symbol)
        return symbol

    def _sympy(self, expr: Expr, version: str) -> Any:
        """An expression with the shifts' values before ("") or after ("'") the block."""
        import sympy

        if self.depends(expr) and self.index not in free_indices(expr):
            return self._symbol(_value(self._shift(expr), version))
        match expr:
            case Literal(value) if not isinstance(value, str):
                return sympy.Rational(value.numerator, value.denominator)
            case Cast(dtype, arg) if value_type(arg) is dtype or value_type(arg).weak:
                return self._sympy(arg, version)
            case Round(_, arg):
                return self._sympy(arg, version)
            case Select(condition, yes, no) if _is_zero(no):
                return self._mask(condition) * self._sympy(yes, version)
            case Apply(function, args) if function.name in _ALGEBRA:
                return self._algebra(function.name, args, version, expr)
            case _ if self.depends(expr):
                raise Mixed
            case _:
                return self._symbol(expr)

    def _algebra(self, name: str, args: tuple[Expr, ...], version: str, expr: Expr) -> Any:
        import sympy

        if name == "pow" and not _natural(args[1]):
            if self.depends(expr):
                raise Mixed
            return self._symbol(expr)
        known = [self._sympy(arg, version) for arg in args]
        match name:
            case "add":
                return sympy.Add(*known)
            case "mul":
                return sympy.Mul(*known)
            case "sub":
                return known[0] - known[1]
            case "neg":
                return -known[0]
            case "div":
                return known[0] / known[1]
            case "pow":
                return known[0] ** known[1]
            case "exp":
                return sympy.exp(known[0])
            case _:
                return sympy.Pow(2, known[0])

    # --- and back -------------------------------------------------------------------------------

    def _related(self, formula: Any) -> Any:
        """Sums written as mean times count, which cancels exactly, and factored."""
        import sympy

        for shift in self.shifts:
            match shift.value:
                case Apply(function, (above, below)) if function.name == "div":
                    total, count = _uncast(above), _uncast(below)
                    symbol = self._placeholder(total)
                    number = (
                        Seen(self.index, False)
                        if isinstance(count, Extent)
                        else self._placeholder(count)
                    )
                    if symbol is not None and number is not None:
                        mean = self._symbol(_value(shift, ""))
                        product = mean * self._symbol(number)
                        formula = formula.subs(self._symbol(symbol), product)
                case _:
                    pass
        parts = sympy.Add.make_args(sympy.expand(formula, power_exp=False))
        shifts = {shift.name + version for shift in self.shifts for version in ("", "'")}
        values = {k: v for k, v in self.leaves.items() if isinstance(k, Value)}
        states = {symbol for leaf, symbol in values.items() if leaf.tile not in shifts}
        grouped: dict[Any, Any] = {}
        for part in parts:
            names = tuple(sorted(part.free_symbols & states, key=str))
            grouped[names] = grouped.get(names, 0) + part
        done = [sympy.powsimp(sympy.factor(part)) for part in grouped.values()]
        return sympy.Add(*done, evaluate=False) if len(done) > 1 else done[0]

    def _placeholder(self, reduce: Expr) -> Value | None:
        return next((_old(s) for s in self.states if s.reduce is reduce), None)

    def _expr(self, formula: Any, more: Mapping[Any, Expr] | None = None) -> Expr:
        import sympy

        known = {symbol: leaf for leaf, symbol in self.leaves.items()} | dict(more or {})
        if formula in known:
            return known[formula]
        if formula.is_Rational:
            return _number(Fraction(int(formula.p), int(formula.q)))
        if isinstance(formula, sympy.Add):
            return _add([self._expr(item, more) for item in formula.args])
        if isinstance(formula, sympy.Mul):
            return self._product(formula, more)
        if isinstance(formula, sympy.exp):
            return call("exp", self._expr(formula.exp, more))
        if isinstance(formula, sympy.Pow):
            return self._power(formula, more)
        raise Mixed

    def _product(self, formula: Any, more: Mapping[Any, Expr] | None) -> Expr:
        import sympy

        rest = formula
        if formula.could_extract_minus_sign():
            return call("neg", self._expr(-rest, more))
        above, below = sympy.fraction(rest)
        if below != 1 and not below.has(sympy.exp):
            return call("div", self._expr(above, more), self._expr(below, more))
        factors = [self._expr(item, more) for item in rest.args]
        return Apply(FUNCTIONS["mul"], tuple(factors))

    def _power(self, formula: Any, more: Mapping[Any, Expr] | None) -> Expr:
        if formula.base == 2 and not formula.exp.is_Integer:
            return call("exp2", self._expr(formula.exp, more))
        if not formula.exp.is_Integer:
            raise Mixed
        count = abs(int(formula.exp))
        base = self._expr(formula.base, more)
        made = base if count == 1 else Apply(FUNCTIONS["mul"], (base,) * count)
        return made if formula.exp > 0 else call("div", integer(1), made)


_ALGEBRA = frozenset("add sub mul neg div pow exp exp2".split())


def _solved(target: Term, basis: Sequence[Term]) -> list[Any] | None:
    """The c_s of the ansatz, 0 where they are free."""
    import sympy

    unknown = [sympy.Symbol(f"c{place}") for place in range(len(basis))]
    keys = list(dict.fromkeys(key for term in (*basis, target) for key in term))
    equations = [
        sum((c * term.get(key, 0) for c, term in zip(unknown, basis, strict=True)), sympy.Integer(0))
        - target.get(key, 0)
        for key in keys
    ]
    found = list(sympy.linsolve([sympy.expand(item) for item in equations], unknown))
    if not found:
        return None
    free = dict.fromkeys(unknown, 0)
    return [sympy.simplify(item.subs(free)) for item in found[0]]


def _exponential(power: Any) -> bool:
    import sympy

    return isinstance(power, sympy.exp) or (
        isinstance(power, sympy.Pow) and power.base == 2 and not power.exp.is_number
    )


def _direction(value: Expr) -> int:
    """1 for a shift that only grows along the pass, -1 for one that only falls, else 0."""
    match value:
        case Reduce(reducer) if reducer is MAX:
            return 1
        case Reduce(reducer) if reducer is MIN:
            return -1
        case Apply(function, args) if function.name in ("max", "min", "add"):
            found = {_direction(arg) for arg in args if _reduces(arg)}
            return found.pop() if len(found) == 1 else 0
        case Apply(function, args) if function.name == "mul":
            moving = [arg for arg in args if _reduces(arg)]
            others = [arg for arg in args if not _reduces(arg)]
            positive = all(_positive(arg) for arg in others)
            return _direction(moving[0]) if len(moving) == 1 and positive else 0
        case Apply(function, (a,)) if function.name == "neg":
            return -_direction(a)
        case Cast(_, arg):
            return _direction(arg)
        case _:
            return 0


def _positive(expr: Expr) -> bool:
    return isinstance(expr, Literal) and not isinstance(expr.value, str) and expr.value > 0


def _reduces(expr: Expr) -> bool:
    return any(isinstance(node, Reduce) for node in postorder([expr]))


def _counts(expr: Expr, pass_: Rebase) -> bool:
    plain = _uncast(expr)
    return isinstance(plain, Extent) and (
        pass_.extents[plain.index] is pass_.extents[pass_.index]
    )


def _divisors(value: Expr) -> Iterable[Expr]:
    """What a shift divides by, except numbers."""
    for node in postorder([value]):
        match node:
            case Apply(function, (_, below)) if function.name == "div":
                if not isinstance(_uncast(below), Literal):
                    yield below
            case _:
                pass


def _arguments(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Apply(_, args):
            return args
        case Cast(_, arg) | Round(_, arg):
            return (arg,)
        case Select(_, yes, no):
            return (yes, no)
        case _:
            return ()


def _nodes(expr: Expr) -> frozenset[Any]:
    return frozenset(postorder([expr]))


def _conjuncts(condition: Expr) -> tuple[Expr, ...]:
    match condition:
        case Apply(function, args) if function.name == "and":
            return tuple(part for arg in args for part in _conjuncts(arg))
        case _:
            return (condition,)


def _uncast(expr: Expr) -> Expr:
    while isinstance(expr, Cast):
        expr = expr.arg
    return expr


def _is_zero(expr: Expr) -> bool:
    plain = _uncast(expr)
    return isinstance(plain, Literal) and plain.value == 0


def _natural(expr: Expr) -> bool:
    plain = _uncast(expr)
    if not isinstance(plain, Literal) or isinstance(plain.value, str):
        return False
    return plain.value.denominator == 1 and 0 < plain.value <= 8


def _number(value: Fraction) -> Literal:
    return integer(value.numerator) if value.denominator == 1 else Literal(value, REAL)


def _add(items: list[Expr]) -> Expr:
    """A sum, with differences written as such."""
    if len(items) == 2:
        for one, other in (items, items[::-1]):
            match other:
                case Apply(function, (arg,)) if function.name == "neg":
                    return call("sub", one, arg)
                case _:
                    pass
    return items[0] if len(items) == 1 else Apply(FUNCTIONS["add"], tuple(items))


def _old(state: State) -> Value:
    return Value(state.name, (), settled(value_type(state.reduce)))


def _value(shift: Shift, version: str) -> Value:
    return Value(shift.name + version, (), settled(value_type(shift.value)))
