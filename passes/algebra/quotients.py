"""Products and quotients of level 1 as they are best written: data, then one exact constant."""

from __future__ import annotations

from fractions import Fraction

from tensorc.ir.dtypes import REAL
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.tensor import Apply, Expr, Literal
from tensorc.passes.canonicalise import call, integer


def constant(factor: Fraction, above: list[Expr], below: list[Expr], data: bool) -> Expr | None:
    """factor * above / below as one exact expression; None for 1, if there is data to stand."""
    if not above and not below and _is_short(factor):
        return None if factor == 1 and data else number(factor)
    top = [*above]
    if abs(factor.numerator) != 1 or not top and (not data or below):
        top = [number(abs(Fraction(factor.numerator))), *top]
    bottom = [*below] + ([number(Fraction(factor.denominator))] if factor.denominator != 1 else [])
    if not top:
        return None if factor > 0 and not bottom else signed(integer(1), bottom, factor < 0)
    return signed(joined("mul", top), bottom, factor < 0)


def _is_short(value: Fraction) -> bool:
    """Whether a number has at most 12 digits behind the point."""
    return 10**12 % value.denominator == 0


def number(value: Fraction) -> Literal | Apply:
    """A number with a short decimal form."""
    exact = value.denominator == 1 and abs(value) < 1 << 31
    made = integer(abs(value.numerator)) if exact else Literal(abs(value), REAL)
    return call("neg", made) if value < 0 else made


def signed(value: Expr, bottom: list[Expr], negative: bool) -> Expr:
    made = call("div", value, joined("mul", bottom)) if bottom else value
    return call("neg", made) if negative else made


def quotient(above: list[Expr], scale: Expr | None, below: list[Expr]) -> Expr:
    items = [*above] if scale is None else [*above, scale]
    value = joined("mul", items) if items else integer(1)
    for item in below:
        value = call("div", value, item)
    return value


def joined(name: str, items: list[Expr]) -> Expr:
    return items[0] if len(items) == 1 else Apply(FUNCTIONS[name], tuple(items))
