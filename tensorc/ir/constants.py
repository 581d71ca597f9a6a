"""Exact values of closed weak expressions: what literals and extents alone make.

`10000.0 ** (-2 / 128)`, `1 / sqrt(|d|)`, `(|h| + 2 - |r|) // 2`: folded exactly (`exact` has the
functions), so that rounding to the type of the context happens once. What involves a position, a
read, a reduction or arithmetic in a strong type is left to interpreters and emitters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from tensorc.ir.dtypes import BOOL, IMAGINARY, DType, integer_range
from tensorc.ir.exact import Exact, Pi, evaluate, of_float, rational
from tensorc.ir.functions import Typing
from tensorc.ir.node import Node, fact, postorder
from tensorc.ir.rounding import nearest, round_exact, round_to
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Value,
    value_type,
)

_WEAK_RESULT = frozenset(
    {Typing.COMPARISON, Typing.EQUALITY, Typing.LOGIC, Typing.CLASSIFY, Typing.COUNT,
     Typing.EXPONENT}
)  # fmt: skip


@fact
def closed(expr: Expr) -> bool:
    """True where no position, data, reduction or tile is involved, only literals and extents."""
    data = (Position, Read, Reduce, Value, Seen)
    return not any(isinstance(item, data) for item in postorder((expr,)))


@fact
def fixed(expr: Expr) -> bool:
    """Whether a cast rounds exactly this number: closed, of weak type or complex weak type."""
    return closed(expr) and value_type(expr).weak


def fold(expr: Expr, extents: Mapping[str, int]) -> Fraction | str | None:
    """The exact value of a closed expression of weak or bool type, or of a cast of one, or None.

    A Fraction, or "inf", "-inf", "nan", "-0"; bools are 0 and 1. Irrational values are exact to
    400 bits; what exceeds 2**16384 is infinite. None: not closed, an extent that `extents` lacks,
    complex, or arithmetic in a strong type. Linear in the expression's DAG, without recursion.
    """
    if not closed(expr):
        return None
    known: dict[Node, Exact | None] = {}
    for item in postorder((expr,)):
        if isinstance(item, Expr):
            known[item] = _folded(item, extents, known)
    found = known[expr]
    return None if found is None else rational(found)


def _folded(
    expr: Expr, extents: Mapping[str, int], known: Mapping[Node, Exact | None]
) -> Exact | None:
    match expr:
        case Literal(value, dtype):
            return None if dtype is IMAGINARY else Pi(Fraction(1)) if value == "pi" else value
        case Extent(index):
            return Fraction(extents[index]) if index in extents else None
        case Apply(_, args):
            return _apply(expr, [known[arg] for arg in args])
        case Select(condition, yes, no):
            chosen, dtype = known[condition], value_type(expr)
            if chosen is None or not (dtype.weak or dtype is BOOL):
                return None
            return known[yes] if chosen else known[no]
        case Cast(dtype, arg) | Round(dtype, arg):
            inner, real = known[arg], value_type(arg).floating
            return None if inner is None or dtype.complex else cast(rational(inner), dtype, real)
        case _:
            return None


def _apply(expr: Apply, args: Sequence[Exact | None]) -> Exact | None:
    types = [value_type(arg) for arg in expr.args]
    weak = value_type(expr).weak or expr.function.typing in _WEAK_RESULT
    exact = [arg for arg in args if arg is not None]
    if not weak or len(exact) < len(args) or not all(_foldable(dtype) for dtype in types):
        return None
    real = any(dtype.floating for dtype in types) or expr.function.typing in (
        Typing.DIVISION, Typing.FLOAT, Typing.ANALYTIC,
    )  # fmt: skip
    return evaluate(expr.function.name, exact, real)


def _foldable(dtype: DType) -> bool:
    return dtype is BOOL or (dtype.weak and not dtype.complex)


def cast(value: Fraction | str, dtype: DType, real: bool) -> Fraction | str:
    """An exact value cast to a storage type, rounded once. To integers, a `real` truncates and
    saturates, an integer wraps."""
    if dtype.floating:
        return of_float(nearest(value, dtype))
    if dtype is BOOL:
        return Fraction(value not in (Fraction(0), "-0"))
    if isinstance(value, str):
        return Fraction(int(round_to(float(value), dtype)))
    if not real:
        return Fraction(int(round_exact(value, dtype)))
    low, high = integer_range(dtype)
    return Fraction(max(min(math.trunc(value), high), low))
