"""Pull factors out of sums: divisions are delayed until the sum is complete.

True afterwards: no factor of a sum's body that holds a reduction is constant along the sum, and a
`select` with 0 around a factor has become part of the sum's condition.

    sum[n](select(c, y[n] / l, 0) * v[n])
    select(any[n](c), sum[n](y[n] * v[n] where c) / l, 0)

The `select` keeps the value of an empty sum, which is 0 whatever the factor is. A sum of terms is
taken apart only where a term has such a factor of its own, so that differences like x - mu stay.
A rounding moves past the factor if what it rounds is an exponential of a difference to a maximum:
at most 1, before as after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorc.ir.functions import ANY, FUNCTIONS, MAX, SUM
from tensorc.ir.node import Node, rebuild
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Literal,
    Reduce,
    Round,
    Select,
    free_indices,
    value_type,
)
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.fusion.reach import reductions

_TERMS = 8  # into which a sum is taken apart at most


@dataclass(frozen=True)
class _Product:
    """numerators / denominators where all conditions hold, else 0."""

    conditions: tuple[Expr, ...] = ()
    numerators: tuple[Expr, ...] = ()
    denominators: tuple[Expr, ...] = ()

    def times(self, other: _Product) -> _Product:
        return _Product(
            self.conditions + other.conditions,
            self.numerators + other.numerators,
            self.denominators + other.denominators,
        )


def delay(expr: Expr, extents: dict[str, Polynomial]) -> Expr:
    """`expr` with factors out of its sums; `extents`: of every index."""
    memo: dict[Node, Node] = {}

    def delayed(item: Node) -> Node:
        if item not in memo:
            made = rebuild(item, delayed)
            if isinstance(made, Reduce) and made.reducer is SUM and value_type(made).floating:
                made = _sum(made, extents)
            memo[item] = made
        return memo[item]

    found = delayed(expr)
    assert isinstance(found, Expr)
    return found


def _sum(item: Reduce, extents: dict[str, Polynomial]) -> Expr:
    body = item.body
    terms = _terms(_product(body, item.indices), item.indices)
    if len(terms) > _TERMS or not any(_pulled(term, item.indices) for term in terms):
        terms = [_product(body, item.indices)]
    made = [_one(term, item, extents) for term in terms]
    return made[0] if len(made) == 1 else Apply(FUNCTIONS["add"], tuple(made))


def _one(term: _Product, item: Reduce, extents: dict[str, Polynomial]) -> Expr:
    """The sum of one product, times what it need not multiply every time."""
    out, rest = _split(term, item.indices)
    conditions = tuple(
        dict.fromkeys((*(() if item.where is None else (item.where,)), *term.conditions))
    )
    where = _and(conditions)
    if not rest.numerators and not rest.denominators:
        out, rest = _Product(), replace(term, conditions=())
    total = Reduce(SUM, item.indices, _value(rest), where, item.dtype)
    if not out.numerators and not out.denominators:
        return total
    made = _value(out.times(_Product(numerators=(total,))))
    some = _some(item, where, extents)
    if some is None or not _reduces((*out.numerators, *out.denominators)):
        return made
    return Select(some, made, integer(0))


def _some(item: Reduce, where: Expr | None, extents: dict[str, Polynomial]) -> Expr | None:
    """Whether the sum has any term; None: always."""
    if where is not None:
        return Reduce(ANY, item.indices, where, None, None)
    unknown = [i for i in item.indices if not (extents[i].constant or 0)]
    found = tuple(call("lt", integer(0), Extent(index)) for index in unknown)
    return _and(found)


def _and(conditions: tuple[Expr, ...]) -> Expr | None:
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Apply(FUNCTIONS["and"], conditions)


def _product(expr: Expr, indices: tuple[str, ...]) -> _Product:
    """The factors of an expression."""
    match expr:
        case Apply(function, args) if function.name == "mul" and value_type(expr).floating:
            found = _Product()
            for arg in args:
                found = found.times(_product(arg, indices))
            return found
        case Apply(function, (a, b)) if function.name == "div":
            below = _product(b, indices)
            if below.conditions:
                below = _Product(numerators=(b,))
            inverse = _Product((), below.denominators, below.numerators)
            return _product(a, indices).times(inverse)
        case Apply(function, (a,)) if function.name == "neg":
            return _product(a, indices).times(_Product(numerators=(integer(-1),)))
        case Select(condition, yes, no) if _zero(no) and not _reduces((condition,)):
            return _Product((condition,)).times(_product(yes, indices))
        case Cast(dtype, arg) if value_type(arg) is dtype:
            return _product(arg, indices)
        case Round(dtype, arg):
            return _rounded(expr, dtype, _product(arg, indices), indices)
        case _:
            return _Product(numerators=(expr,))


def _rounded(whole: Round, dtype: object, inner: _Product, indices: tuple[str, ...]) -> _Product:
    out, rest = _split(inner, indices)
    powers = [item for item in rest.numerators if not isinstance(item, Literal)]
    at_most_one = len(powers) == 1 and not rest.denominators and _is_share(powers[0])
    if not at_most_one or (out.numerators and _reduces(out.numerators)):
        return _Product(numerators=(whole,))
    kept = Round(whole.dtype, _value(rest))
    return replace(out.times(_Product(numerators=(kept,))), conditions=inner.conditions)


def _is_share(expr: Expr) -> bool:
    """An exponential of a difference to a maximum, so at most 1."""
    match expr:
        case Apply(function, (Apply(minus, (_, top)),)):
            exponential = function.name in ("exp", "exp2") and minus.name == "sub"
            return exponential and any(n.reducer is MAX for n in reductions(top))
        case _:
            return False


def _zero(expr: Expr) -> bool:
    while isinstance(expr, Cast):
        expr = expr.arg
    return isinstance(expr, Literal) and expr.value == 0


def _terms(product: _Product, indices: tuple[str, ...]) -> list[_Product]:
    """The product multiplied out where a term has a factor that can be pulled."""
    for place, factor in enumerate(product.numerators):
        addends = _addends(factor)
        if len(addends) < 2 or not any(_worth(_product(a, indices), indices) for a in addends):
            continue
        others = replace(
            product, numerators=product.numerators[:place] + product.numerators[place + 1 :]
        )
        found: list[_Product] = []
        for addend in addends:
            found += _terms(others.times(_product(addend, indices)), indices)
        return found
    return [product]


def _addends(expr: Expr) -> list[Expr]:
    match expr:
        case Apply(function, args) if function.name == "add":
            return [item for arg in args for item in _addends(arg)]
        case Apply(function, (a, b)) if function.name == "sub":
            return [*_addends(a), *(call("neg", item) for item in _addends(b))]
        case _:
            return [expr]


def _worth(term: _Product, indices: tuple[str, ...]) -> bool:
    """A term that depends on the sum's index and has a factor with a reduction that does not."""
    return _pulled(term, indices) and bool(_split(term, indices)[1].numerators)


def _pulled(term: _Product, indices: tuple[str, ...]) -> bool:
    out, _ = _split(term, indices)
    return _reduces((*out.numerators, *out.denominators))


def _split(term: _Product, indices: tuple[str, ...]) -> tuple[_Product, _Product]:
    """What is constant along the sum and holds a reduction or is a number; and the rest."""

    def leaves(item: Expr) -> bool:
        constant = not (free_indices(item) & set(indices))
        return constant and (isinstance(item, Literal) or _reduces((item,)))

    if not any(leaves(i) and _reduces((i,)) for i in (*term.numerators, *term.denominators)):
        return _Product(), replace(term, conditions=())
    out = _Product(
        (), tuple(filter(leaves, term.numerators)), tuple(filter(leaves, term.denominators))
    )
    rest = _Product(
        (),
        tuple(item for item in term.numerators if not leaves(item)),
        tuple(item for item in term.denominators if not leaves(item)),
    )
    return out, rest


def _reduces(items: tuple[Expr, ...]) -> bool:
    return any(map(reductions, items))


def _value(product: _Product) -> Expr:
    """numerators / denominators as an expression."""
    top = _times(product.numerators)
    return call("div", top, _times(product.denominators)) if product.denominators else top


def _times(items: tuple[Expr, ...]) -> Expr:
    if not items:
        return integer(1)
    return items[0] if len(items) == 1 else Apply(FUNCTIONS["mul"], items)
