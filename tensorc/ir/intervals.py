"""Numeric ranges of integer and bool expressions: what data and positions can be at most.

Known ranges of data are those of its type, of `clamp`, `&`, `%`, comparisons and positions. Where
arithmetic of a strong type may leave the type's range it wraps, and the whole type is the answer.
An extent is at most `LARGEST`; `ir.sizes` refuses more.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tensorc.ir.dtypes import BOOL, DType, integer_range, settled
from tensorc.ir.node import fact
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
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

Interval = tuple[int, int]

_FAR = 1 << 256  # index arithmetic is not followed beyond
LARGEST = 1 << 48  # elements along one dimension: 256 Ti, beyond any memory
_COMPARISONS = frozenset("lt le gt ge eq ne and or not xor isnan isinf".split())


@fact
def interval(expr: Expr) -> Interval | None:
    """The least and greatest value of an integer or bool expression; None for other types."""
    return _interval(expr, interval, LARGEST)


@fact
def usual_interval(expr: Expr) -> Interval | None:
    """As `interval`, with positions, extents and argmax taken to fit an i32."""
    return _interval(expr, usual_interval, 1 << 31)


def whole(dtype: DType) -> Interval:
    """Every value of an integer or bool type; positions and literals alone are i64."""
    return integer_range(settled(dtype))


def _interval(
    expr: Expr, below: Callable[[Expr], Interval | None], largest: int
) -> Interval | None:
    dtype = value_type(expr)
    if not dtype.integral and dtype is not BOOL:
        return None
    match expr:
        case Literal(value, _):
            return (int(value), int(value)) if isinstance(value, Fraction) else (0, 0)
        case Position():
            return 0, largest - 1
        case Extent() | Seen():
            return 0, largest
        case Read(tensor, _):
            return whole(tensor.dtype)  # weak: a reader's stand-in for `seen`
        case Value(_, _, stored) | Bitcast(stored, _):
            return integer_range(stored)
        case Cast(stored, arg) | Round(stored, arg):
            return _converted(below(arg), stored)
        case Select(_, yes, no):
            return _hull(below(yes), below(no))
        case Reduce(reducer, _, body, _, declared):
            return _reduced(reducer.name, below(body), declared, dtype, largest)
        case Apply(function, args):
            known = [part for part in map(below, args) if part is not None]
            exact = _apply(function.name, known) if len(known) == len(args) else None
            return _within(exact, dtype, function.name)


def _within(exact: Interval | None, dtype: DType, name: str) -> Interval:
    if name in _COMPARISONS:
        return 0, 1
    if exact is None:
        return (-(1 << 31), 1024) if name == "exponent" else whole(dtype)
    low, high = (-_FAR, _FAR) if dtype.weak else whole(dtype)
    inside = low <= exact[0] and exact[1] <= high
    return exact if inside else (low, high)


def _converted(arg: Interval | None, stored: DType) -> Interval:
    low, high = integer_range(stored)
    return arg if arg is not None and low <= arg[0] and arg[1] <= high else (low, high)


def _hull(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _reduced(
    name: str, body: Interval | None, declared: DType | None, dtype: DType, largest: int
) -> Interval:
    if name in ("argmax", "argmin"):
        return -1, largest - 1
    if name in ("any", "all"):
        return 0, 1
    if declared is not None:
        return integer_range(declared)
    if name == "sum" and body is not None and -1 <= body[0] and body[1] <= 1:
        return body[0] * largest, body[1] * largest  # a count: every term is -1, 0 or 1
    return whole(dtype)


def _apply(name: str, args: list[Interval]) -> Interval | None:
    match name:
        case "add":
            return sum(a for a, _ in args), sum(b for _, b in args)
        case "sub":
            return args[0][0] - args[1][1], args[0][1] - args[1][0]
        case "neg":
            return -args[0][1], -args[0][0]
        case "mul":
            return _product(args)
        case "min" | "max":
            choose = min if name == "min" else max
            return choose(a for a, _ in args), choose(b for _, b in args)
        case "abs":
            low = 0 if args[0][0] <= 0 <= args[0][1] else min(map(abs, args[0]))
            return low, max(map(abs, args[0]))
        case "sign":
            return -1, 1
        case "floor" | "ceil" | "round":
            return args[0]
        case "popcount":
            return 0, 64
        case _:
            return _divided(name, args)


def _product(args: list[Interval]) -> Interval:
    total = args[0]
    for a, b in args[1:]:
        corners = [total[0] * a, total[0] * b, total[1] * a, total[1] * b]
        total = min(corners), max(corners)
    return total


def _divided(name: str, args: list[Interval]) -> Interval | None:
    if len(args) != 2:
        return None
    (a, b), (c, d) = args
    match name:
        case "floordiv" if c >= 1:
            corners = [a // c, a // d, b // c, b // d]
            return min(corners), max(corners)
        case "floordiv":
            far = max(abs(a), abs(b))
            return -far, far
        case "mod" if c >= 0:
            wide = (a, b) if c == 0 else (0, 0)  # x % 0 is x
            return min(0, wide[0]), max(d - 1, wide[1])
        case "bitand" if c >= 0 or a >= 0:
            return 0, min(high for low, high in args if low >= 0)
        case "bitor" | "bitxor" if a >= 0 and c >= 0:
            return 0, (1 << max(b, d).bit_length()) - 1
        case "shr" if 0 <= c and d < 64:
            return min(a >> c, a >> d), max(b >> c, b >> d)
        case "shl" if 0 <= c and d < 64:
            return _product([args[0], (1 << c, 1 << d)])
        case "pow" if c == d and 0 <= c <= 4:
            return _product([args[0]] * c) if c else (1, 1)
        case _:
            return None
