"""Polynomials of extents and indices as expressions of level 1."""

from __future__ import annotations

from typing import cast

from tensorc.ir.dtypes import I64
from tensorc.ir.polynomial import Atom, Bound, Floor, Opaque, Polynomial, Symbol
from tensorc.ir.tensor import Cast, Expr, Extent, Position
from tensorc.passes.canonicalise import call, integer


def expression(value: Polynomial) -> Expr:
    """A polynomial as an expression."""
    terms: list[Expr] = []
    for monomial, coefficient in value.terms:
        factors = [_atom(atom) for atom, power in monomial for _ in range(power)]
        if coefficient != 1 or not factors:
            factors.insert(0, integer(coefficient))
        terms.append(factors[0] if len(factors) == 1 else call("mul", *factors))
    if not terms:
        return integer(0)
    return terms[0] if len(terms) == 1 else call("add", *terms)


def _atom(atom: Atom) -> Expr:
    match atom:
        case Symbol(name, "extent"):
            return Extent(name)
        case Symbol(name, "index"):
            return Position(name)
        case Floor(numerator, denominator):
            return call("floordiv", expression(numerator), expression(denominator))
        case Bound(which, args):
            return call(which, *map(expression, args))
        case Opaque(expr):
            return Cast(I64, cast(Expr, expr))  # sums with it are taken without wrapping
        case Symbol():
            raise ValueError(f"{atom} is no value of level 1")
