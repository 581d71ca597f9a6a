"""Move a running reduction from the old values of the states it depends on to the new ones.

A pass carries states S_s = op over x of b_s(x, h), where h are shifts: values made of states of the
same pass, a mean or a running maximum. When a block changes h to h', a sum moves by the linear
ansatz b(x, h') = sum_s c_s(h, h') b_s(x, h): both sides are expanded into products of a part that
depends on x and one that does not, and the c_s solve one linear equation for each x-part. Then
S' = sum_s c_s S_s. A maximum moves by b(x, h') - b(x, h) where that is free of x. The sum of 1 is
the number of elements seen. Where sums are missing, those of the derivatives of b by a shift, the
terms of Taylor's formula, are carried too.

    sum[n](exp(x - r))       S' = exp(r - r') * S
    sum[n]((x - m) ** 2)     S' = S + N * (m - m') ** 2          with m = sum[n](x) / N

There is no solution for |x - m|, and none is accepted that could lose what it carries: a power may
only shrink (its shift moves one way), a polynomial's shift is a mean of what was seen, and nothing
is divided by a partial sum other than a count. The second rule is Chan, Golub and LeVeque's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tensorc.ir.functions import MAX, MIN, SUM
from tensorc.ir.plan import Shift, State
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Apply, Cast, Expr, Extent, Literal, Reduce, Seen, Value, value_type
from tensorc.passes.fusion.finite_rank import (
    Mixed,
    Term,
    Terms,
    clauses,
    is_power,
    placeholder,
    solved,
    sympy,
    uncast,
)
from tensorc.passes.fusion.reach import below, outside, reductions


class Rebase:
    """The rules of one pass over `index`; `terms` has the states that it carries so far."""

    def __init__(self, index: str, extents: Mapping[str, Polynomial], first: int = 0) -> None:
        self.index, self.extents = index, extents
        self.terms = Terms(index, first)

    def moved(self, state: State) -> tuple[State | None, tuple[Reduce, ...]]:
        """The state with its rule; or None where it has to wait for another pass, with the
        reductions that would have to be carried too for a rule to exist, if there are any."""
        depends = self.terms.depends
        if state.where is not None and depends(state.where):
            return None, ()
        if not depends(state.body):
            return state, ()
        known = len(self.terms.shifts)
        try:
            if state.reduce.reducer in (MAX, MIN):
                return self._extreme(state), ()
            if state.reduce.reducer is SUM and value_type(state.reduce).floating:
                return self._sum(state)
        except Mixed:
            pass
        del self.terms.shifts[known:]
        return None, ()

    # --- rules ----------------------------------------------------------------------------------

    def _extreme(self, state: State) -> State:
        sp = sympy()
        old, new = (self.terms.expanded(state.body, None, version) for version in ("", "'"))
        change = sp.Integer(0)
        for key in dict.fromkeys((*old, *new)):
            part = sp.simplify(new.get(key, 0) - old.get(key, 0))
            if part != 0 and key != 1:
                raise Mixed
            change = change + part
        self._must_keep(change, state)
        return self._ruled(state, change + self.terms.symbol(placeholder(state)))

    def _sum(self, state: State) -> tuple[State | None, tuple[Reduce, ...]]:
        target = self.terms.expanded(state.body, state.where, "'")
        basis = self._basis(state)
        factors = solved(target, [term for _, term in basis])
        if factors is None:
            return None, self._missing(state)
        total = sympy().Integer(0)
        for (symbol, _), factor in zip(basis, factors, strict=True):
            total = total + factor * symbol
        self._must_keep(total, state)
        return self._ruled(state, total), ()

    def _basis(self, state: State) -> list[tuple[Any, Term]]:
        """The sums at hand, each with its symbol and its body before the block."""
        found: list[tuple[Any, Term]] = []
        for other in (state, *self.terms.states):
            if other.reduce.reducer is SUM:
                try:
                    term = self.terms.expanded(other.body, other.where, "")
                except Mixed:
                    continue
                found.append((self.terms.symbol(placeholder(other)), term))
        return [*found, (self.terms.symbol(Seen(self.index, False)), {1: 1})]

    def _missing(self, state: State) -> tuple[Reduce, ...]:
        """The sums of the derivatives by each shift, numeric factors left out."""
        sp = sympy()
        found: list[Reduce] = []
        whole = self.terms.formula(state.body, "")
        for shift in self.terms.shifts_in(state.body):
            symbol = self.terms.symbol(placeholder(shift))
            slope = sp.diff(whole, symbol)
            if slope == 0 or any(map(is_power, sp.preorder_traversal(slope))):
                continue
            _, rest = sp.factor(slope).as_coeff_Mul()
            body = self.terms.expr(rest, {symbol: shift.value})
            if value_type(body).weak:
                body = Cast(value_type(state.reduce), body)
            found.append(Reduce(SUM, (self.index,), body, state.where, state.reduce.dtype))
        return tuple(found)

    def _ruled(self, state: State, formula: Any) -> State:
        """The state with its rule, and when that does not hold yet."""
        used = self.terms.shifts_in(state.body)
        divisors = dict.fromkeys(item for shift in used for item in _divisors(shift.value))
        empty = tuple(d for d in divisors if self.terms.depends(d) or self._counts_all(d))
        for item in empty:
            self._must_count(item, state)
        tops = dict.fromkeys(top for shift in used for top in bare(shift.value))
        moved = self.terms.expr(self._simplified(formula))
        return replace(state, moved=moved, empty=empty, poison=tuple(tops))

    def _simplified(self, formula: Any) -> Any:
        """Sums written as mean times count, which cancels exactly; factored state by state."""
        sp = sympy()
        for shift in self.terms.shifts:
            total, count = self._mean(shift.value)
            if total is not None and count is not None:
                mean = self.terms.symbol(placeholder(shift))
                product = mean * self.terms.symbol(count)
                formula = formula.subs(self.terms.symbol(total), product)
        names = {shift.name + version for shift in self.terms.shifts for version in ("", "'")}
        values = [(leaf, s) for leaf, s in self.terms.leaves.items() if isinstance(leaf, Value)]
        states = {symbol for leaf, symbol in values if leaf.tile not in names}
        grouped: dict[Any, Any] = {}
        for part in sp.Add.make_args(sp.expand(formula, power_exp=False)):
            key = tuple(sorted(part.free_symbols & states, key=str))
            grouped[key] = grouped.get(key, 0) + part
        done = [sp.powsimp(sp.factor(part)) for part in grouped.values()]
        return sp.Add(*done, evaluate=False) if len(done) > 1 else done[0]

    def _mean(self, value: Expr) -> tuple[Value | None, Expr | None]:
        """The state and the count of which a shift is the quotient."""
        match value:
            case Apply(function, (above, below_)) if function.name == "div":
                if self._counts_all(below_):
                    return self._state(above), Seen(self.index, False)
                return self._state(above), self._state(below_)
            case _:
                return None, None

    def _state(self, expr: Expr) -> Value | None:
        plain = uncast(expr)
        return next((placeholder(s) for s in self.terms.states if s.reduce is plain), None)

    # --- partial values -------------------------------------------------------------------------

    def _counts_all(self, expr: Expr) -> bool:
        plain = uncast(expr)
        if not isinstance(plain, Extent):
            return False
        return self.extents[plain.index] is self.extents[self.index]

    def _counted(self, expr: Expr) -> tuple[Expr, ...] | None:
        """The conditions under which a state counts; None: it is no count."""
        plain = uncast(expr)
        for state in self.terms.states:
            if state.reduce is plain and state.reduce.reducer is SUM and _is_one(state.body):
                return () if state.where is None else clauses(state.where)
        return None

    def _must_count(self, divisor: Expr, state: State) -> None:
        """While a divisor is 0, nothing may have been added to the state."""
        own = () if state.where is None else clauses(state.where)
        counted = self._counted(divisor)
        if not self._counts_all(divisor) and (counted is None or not set(counted) <= set(own)):
            raise Mixed

    def _must_keep(self, formula: Any, state: State) -> None:
        """Powers only shrink; what is no power moves with means."""
        powers = [item for item in sympy().preorder_traversal(formula) if is_power(item)]
        for shift in self.terms.shifts_in(state.body):
            symbols = {self.terms.symbol(placeholder(shift, version)) for version in ("", "'")}
            inside = [power for power in powers if power.free_symbols & symbols]
            if inside:
                self._must_shrink(shift, inside)
                plain = formula.subs({power: 1 for power in powers})
                if plain.free_symbols & symbols:
                    raise Mixed
            elif not self._is_mean(shift.value):
                raise Mixed
            if bare(shift.value) and state.where is not None:
                raise Mixed

    def _must_shrink(self, shift: Shift, powers: Iterable[Any]) -> None:
        """Exponents c * (h - h') with c > 0 for a growing shift, c < 0 for a falling one."""
        sp = sympy()
        old, new = (self.terms.symbol(placeholder(shift, version)) for version in ("", "'"))
        for power in powers:
            exponent = sp.expand(power.exp)
            slope = exponent.coeff(old)
            if exponent.coeff(new) != -slope or not slope.is_number:
                raise Mixed
            if not (slope * direction(shift.value)).is_positive:
                raise Mixed

    def _is_mean(self, value: Expr) -> bool:
        """An affine function of means of what was seen."""
        if not self.terms.depends(value):
            return True
        match value:
            case Apply(function, (above, below_)) if function.name == "div":
                plain = uncast(above)
                counts = self._counts_all(below_) or self._counted(below_) is not None
                if counts and isinstance(plain, Reduce):
                    return plain.reducer is SUM
                return not self.terms.depends(below_) and self._is_mean(above)
            case Apply(function, args) if function.name in ("add", "sub", "neg"):
                return all(map(self._is_mean, args))
            case Apply(function, args) if function.name == "mul":
                return sum(map(self.terms.depends, args)) == 1 and all(map(self._is_mean, args))
            case Cast(_, arg):
                return self._is_mean(arg)
            case _:
                return False


def bare(value: Expr) -> list[Reduce]:
    """Maxima and minima of floats that are infinite while nothing finite was selected, and not
    kept finite by a literal."""
    match value:
        case Reduce(reducer):
            return [value] if reducer in (MAX, MIN) and value_type(value).floating else []
        case Apply(function, args) if function.name in ("max", "min") and any(
            isinstance(arg, Literal) and not isinstance(arg.value, str) for arg in args
        ):
            return []
        case _:
            return [top for child in below(value) for top in bare(child)]


def direction(value: Expr) -> int:
    """1 for a shift that only grows along the pass, -1 for one that only falls, else 0."""
    match value:
        case Reduce(reducer):
            return 1 if reducer is MAX else -1 if reducer is MIN else 0
        case Apply(function, args) if function.name in ("max", "min", "add"):
            found = {direction(arg) for arg in args if reductions(arg)}
            return found.pop() if len(found) == 1 else 0
        case Apply(function, args) if function.name == "mul":
            moving = [arg for arg in args if reductions(arg)]
            positive = all(_positive(arg) for arg in args if not reductions(arg))
            return direction(moving[0]) if len(moving) == 1 and positive else 0
        case Apply(function, (arg,)) if function.name == "neg":
            return -direction(arg)
        case Cast(_, arg):
            return direction(arg)
        case _:
            return 0


def _positive(expr: Expr) -> bool:
    return isinstance(expr, Literal) and not isinstance(expr.value, str) and expr.value > 0


def _is_one(expr: Expr) -> bool:
    plain = uncast(expr)
    return isinstance(plain, Literal) and plain.value == 1


def _divisors(value: Expr) -> list[Expr]:
    """What a shift divides by, except numbers."""
    return [
        node.args[1]
        for node in outside(value)
        if isinstance(node, Apply)
        and node.function.name == "div"
        and not isinstance(uncast(node.args[1]), Literal)
    ]
