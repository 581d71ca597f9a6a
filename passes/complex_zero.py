"""Parts of complex numbers that are known to be 0: products and sums without them.

A real operand has the imaginary part 0, which stays in the formulas, since 0 times an infinite
element is NaN. Beside constants, positions and extents it can go: those are finite. A dropped zero
may change the sign of a zero, nothing else.
"""

from __future__ import annotations

from fractions import Fraction

from tensorc.ir.dtypes import REAL
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.node import fact
from tensorc.ir.tensor import Apply, Expr, Extent, Literal, Position, Select, value_type

ZERO = Literal(Fraction(0), REAL)
_INDEX = 40  # positions and extents are below 2**40
_LARGEST = 126  # what stays below 2**126 is finite in f32


def call(name: str, *args: Expr) -> Expr:
    """A function of the language's table."""
    return Apply(FUNCTIONS[name], args)


def is_zero(item: Expr) -> bool:
    """Whether this is the constant 0."""
    return isinstance(item, Literal) and item.value == 0


def mul(a: Expr, b: Expr) -> Expr:
    """a * b; 0 where one is 0 and the other surely finite."""
    if (is_zero(a) and finite(b)) or (is_zero(b) and finite(a)):
        return ZERO
    return call("mul", a, b)


def add(a: Expr, b: Expr) -> Expr:
    """a + b; the other one where one is 0."""
    if is_zero(a) and _has_fraction(b):
        return b
    return a if is_zero(b) and _has_fraction(a) else call("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """a - b without a term that is 0."""
    if is_zero(b) and _has_fraction(a):
        return a
    return call("neg", b) if is_zero(a) and _has_fraction(b) else call("sub", a, b)


def div(a: Expr, b: Expr) -> Expr:
    """a / b; 0 where a is 0 and b cannot be."""
    return ZERO if is_zero(a) and _at_least_one(b) else call("div", a, b)


def neg(a: Expr) -> Expr:
    """-a."""
    return ZERO if is_zero(a) else call("neg", a)


def _has_fraction(item: Expr) -> bool:
    """A float or weak: without the zero beside it an integer would be computed as one."""
    return value_type(item).floating or value_type(item).weak


def _at_least_one(item: Expr) -> bool:
    """Whether |item| >= 1: an extent in scope, a number, products of them."""
    match item:
        case Extent():
            return True
        case Literal(value, _):
            return value == "pi" or (isinstance(value, Fraction) and abs(value) >= 1)
        case Apply(function, args) if function.name in ("mul", "neg", "abs"):
            return all(map(_at_least_one, args))
        case _:
            return False


def finite(item: Expr) -> bool:
    """Whether the value is finite whatever the data."""
    size = _exponent(item)
    return size is not None and size <= _LARGEST


@fact
def _exponent(item: Expr) -> int | None:
    """e where |value| <= 2**e for certain; None: not known."""
    match item:
        case Literal(Fraction() as value, _):
            return max(0, abs(value.numerator).bit_length() - value.denominator.bit_length() + 1)
        case Literal(value, _):
            return 2 if value == "pi" else 0 if value == "-0" else None
        case Position() | Extent():
            return _INDEX
        case Select(_, yes, no):
            return _joined([_exponent(yes), _exponent(no)])
        case Apply(function, (over, under)) if function.name == "div":
            return _exponent(over) if _at_least_one(under) else None
        case Apply(function, args):
            return _of_function(function.name, [_exponent(arg) for arg in args])
        case _:
            return None


def _of_function(name: str, args: list[int | None]) -> int | None:
    known = [arg for arg in args if arg is not None]
    if len(known) != len(args):
        return None
    if name in ("neg", "abs"):
        return known[0]
    if name in ("sin", "cos", "tanh", "sigmoid"):
        return 0
    if name in ("add", "sub"):
        return max(known) + len(known) - 1
    return sum(known) if name == "mul" else None


def _joined(args: list[int | None]) -> int | None:
    known = [arg for arg in args if arg is not None]
    return max(known) if len(known) == len(args) else None
