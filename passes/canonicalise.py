"""Canonicalise level 1: softmax, logsumexp, mean, argmax and argmin become sums, maxima and minima.

True afterwards: every reducer is sum, prod, max, min, any or all, special values are those of the
language's table of reductions, and no reduction binds a name that is bound around it (so that
conditions and factors may move into a reduction without capture).

    p[m, n] = softmax[n](s[m, n] where c)
    p[m, n] = select(c, exp(s[m, n] - r) / sum[n](exp(s[m, n] - r) where c), 0)
              with r = max(max[n](s[m, n] where c), lowest)

`lowest`, the lowest finite value of the type, keeps `-inf - r` from being `inf - inf`; a row whose
selected elements are all -inf then divides 0 by 0, which is the NaN that the table asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from tensorc.ir.affine import is_whole
from tensorc.ir.dtypes import BOOL, F64, INTEGER, REAL, DType
from tensorc.ir.functions import (
    ARGMAX,
    ARGMIN,
    FUNCTIONS,
    LOGSUMEXP,
    MAX,
    MEAN,
    MIN,
    SOFTMAX,
    SUM,
    Reducer,
    accumulator,
)
from tensorc.ir.node import Node, postorder, rebuild
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Check,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Select,
    free_indices,
    value_type,
)

# The largest finite value of a float accumulator, 2**e * (2 - 2**(1 - precision)).
_HIGHEST: dict[bool, Fraction] = {
    False: Fraction(2) ** 127 * (2 - Fraction(1, 2**23)),
    True: Fraction(2) ** 1023 * (2 - Fraction(1, 2**52)),
}
_ABSENT = 2**63 - 1  # the minimum of no i64 positions


def highest(dtype: DType) -> Fraction:
    """The largest finite value of a float accumulator."""
    return _HIGHEST[dtype is F64]


def canonicalise(program: Program) -> Program:
    """The program with composite reducers expanded and bound names unique along every path."""
    return unique_names(expand_reducers(program))


def expand_reducers(program: Program) -> Program:
    """Composite reducers expanded; extents, names and equations stay."""
    memo: dict[Node, Node] = {}

    def expanded(item: Node) -> Node:
        if item not in memo:
            inner = rebuild(item, expanded)
            memo[item] = _expand(inner) if isinstance(inner, Reduce) else inner
        return memo[item]

    equations = tuple(
        replace(equation, body=expanded(equation.body)) for equation in program.equations
    )
    return replace(program, equations=equations)


def _expand(item: Reduce) -> Expr:
    if item.reducer is MEAN:
        return _mean(item)
    if item.reducer is LOGSUMEXP:
        return _logsumexp(item)
    if item.reducer is SOFTMAX:
        return _softmax(item)
    if item.reducer in (ARGMAX, ARGMIN):
        return _first_extreme(item)
    return item


def _mean(item: Reduce) -> Expr:
    """sum / count of selected; an empty selection is 0 / 0."""
    dtype = accumulator(MEAN, value_type(item.body), item.dtype)
    total = Reduce(SUM, item.indices, Cast(dtype, item.body), item.where, dtype)
    return call("div", total, Cast(dtype, _count(item)))


def _count(item: Reduce) -> Expr:
    if item.where is not None:
        return Reduce(SUM, item.indices, integer(1), item.where, None)
    extents = tuple(Extent(index) for index in item.indices)
    return extents[0] if len(extents) == 1 else Apply(FUNCTIONS["mul"], extents)


def _shift(item: Reduce, dtype: DType) -> tuple[Expr, Expr, Expr]:
    """(body in the accumulator's type, its maximum, the finite shift max(maximum, lowest))."""
    body = item.body if value_type(item.body) is dtype else Cast(dtype, item.body)
    top = Reduce(MAX, item.indices, body, item.where, None)
    lowest = Literal(-highest(dtype), REAL)
    return body, top, call("max", top, lowest)


def _logsumexp(item: Reduce) -> Expr:
    """max + log(sum(exp(x - max))), where the maximum is finite; else the maximum."""
    dtype = accumulator(LOGSUMEXP, value_type(item.body), item.dtype)
    body, top, shift = _shift(item, dtype)
    powers = call("exp", call("sub", body, shift))
    total = Reduce(SUM, item.indices, powers, item.where, dtype)
    infinite = call("eq", top, Literal("inf", REAL))
    return Select(infinite, top, call("add", shift, call("log", total)))


def _softmax(item: Reduce) -> Expr:
    dtype = accumulator(SOFTMAX, value_type(item.body), item.dtype)
    body, _, shift = _shift(item, dtype)
    powers = call("exp", call("sub", body, shift))
    total = Reduce(SUM, item.indices, powers, item.where, dtype)
    share = call("div", powers, total)
    return share if item.where is None else Select(item.where, share, Cast(dtype, integer(0)))


def _first_extreme(item: Reduce) -> Expr:
    """The least row-major position whose element is the extreme, or is NaN where that is NaN."""
    reducer: Reducer = MAX if item.reducer is ARGMAX else MIN
    extreme = Reduce(reducer, item.indices, item.body, item.where, None)
    hit = call("eq", item.body, extreme)
    if value_type(item.body).floating:
        hit = call("or", hit, call("and", call("isnan", extreme), call("isnan", item.body)))
    where = hit if item.where is None else call("and", item.where, hit)
    first = Reduce(MIN, item.indices, _row_major(item.indices), where, None)
    return Select(call("eq", first, integer(_ABSENT)), integer(-1), first)


def _row_major(indices: tuple[str, ...]) -> Expr:
    position: Expr = Position(indices[0])
    for index in indices[1:]:
        position = call("add", call("mul", position, Extent(index)), Position(index))
    return position


def call(name: str, *args: Expr) -> Apply:
    """A function of the language by name."""
    return Apply(FUNCTIONS[name], args)


def integer(value: int) -> Literal:
    """An exact integer literal."""
    return Literal(Fraction(value), INTEGER)


def truth(value: bool) -> Literal:
    """A bool literal."""
    return Literal(Fraction(int(value)), BOOL)


def unique_names(program: Program) -> Program:
    """Rename indices bound inside a scope that already binds them; extents grow accordingly."""
    extents = dict(program.extents)
    taken = set(extents) | {item.tensor.name for item in program.equations}
    taken |= {item.tensor.name for item in (*program.parameters, *program.outputs)}

    def fresh(name: str) -> str:
        number = 2
        while f"{name}_{number}" in taken:
            number += 1
        taken.add(f"{name}_{number}")
        extents[f"{name}_{number}"] = extents[name]
        return f"{name}_{number}"

    renamer = _Renamer(fresh, extents)
    equations = tuple(replace(item, body=renamer.equation(item)) for item in program.equations)
    checks = variants(program.checks, renamer.reads)
    return replace(program, equations=equations, extents=tuple(extents.items()), checks=checks)


def variants(checks: tuple[Check, ...], changed: Mapping[Read, set[Read]]) -> tuple[Check, ...]:
    """The checks of reads that a pass rewrote: one for each form that a read took."""
    return tuple(
        replace(check, read=read)
        for check in checks
        for read in sorted(changed.get(check.read, {check.read}), key=repr)
    )


class _Renamer:
    """Substitutes positions under binders; one fresh name per clashing name and nesting."""

    def __init__(
        self, fresh: Callable[[str], str], extents: Mapping[str, Polynomial]
    ) -> None:  # fmt: skip
        self.fresh, self.extents = fresh, extents
        self.left: frozenset[str] = frozenset()  # the left side of the equation at hand
        self.memo: dict[tuple[Expr, frozenset[str], tuple[tuple[str, str], ...]], Expr] = {}
        self.names: dict[tuple[str, int], str] = {}
        self.reads: dict[Read, set[Read]] = {}

    def equation(self, item: Equation) -> Expr:
        """The body of an equation with unique names."""
        self.left = frozenset(item.indices)
        self.memo.clear()
        return self.renamed(item.body, self.left, ())

    def renamed(
        self, expr: Expr, bound: frozenset[str], names: tuple[tuple[str, str], ...]
    ) -> Expr:
        """`expr` where `bound` names are taken and `names` maps old to new positions."""
        key = (expr, bound, names)
        if key not in self.memo:
            self.memo[key] = self.rename(expr, bound, names)
        return self.memo[key]

    def rename(self, expr: Expr, bound: frozenset[str], names: tuple[tuple[str, str], ...]) -> Expr:
        match expr:
            case Position(index):
                return Position(dict(names).get(index, index))
            case Reduce(reducer, indices, body, where, dtype):
                seen = {dict(names).get(i, i) for i in free_indices(expr)}
                alone = not seen & (bound - self.left) and self.whole(expr)
                around = self.left if alone else bound
                chosen = tuple(self.choose(index, around) for index in indices)
                inner = {**dict(names), **dict(zip(indices, chosen, strict=True))}
                now = tuple(sorted(inner.items()))
                taken = bound | set(chosen)
                condition = None if where is None else self.renamed(where, taken, now)
                return Reduce(reducer, chosen, self.renamed(body, taken, now), condition, dtype)
            case _:
                made = rebuild(expr, lambda item: self.child(item, bound, names))
                if isinstance(expr, Read) and isinstance(made, Read):
                    self.reads.setdefault(expr, set()).add(made)
                return made

    def child(self, item: Node, bound: frozenset[str], names: tuple[tuple[str, str], ...]) -> Node:
        return self.renamed(item, bound, names) if isinstance(item, Expr) else item

    def whole(self, item: Reduce) -> bool:
        """No read inside needs a guard, so that no condition will ever move in. Such a reduction,
        if it uses nothing that the reductions around it bind, is computed outside of them: it may
        take their names, and so stays one node wherever it stands."""
        reads = [read for read in postorder([item]) if isinstance(read, Read)]
        return all(is_whole(read, self.extents) for read in reads)

    def choose(self, index: str, bound: frozenset[str]) -> str:
        """`index` itself, or the first of its fresh names that is not bound here."""
        name, depth = index, 0
        while name in bound:
            depth += 1
            if (index, depth) not in self.names:
                self.names[index, depth] = self.fresh(index)
            name = self.names[index, depth]
        return name
