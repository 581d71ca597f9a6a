"""Exact values of closed weak integers, and the texts and limits of literals.

What a literal is worth before it meets a strong type. Folding in general, reals included, is
`ir.constants`.
"""

from __future__ import annotations

from fractions import Fraction

from tensorc.ir.dtypes import (
    COMPLEX64,
    COMPLEX128,
    F32,
    F64,
    INTEGER,
    LOWEST_EXPONENT,
    PRECISION,
    DType,
)
from tensorc.ir.node import fact
from tensorc.ir.tensor import Apply, Expr, Literal, value_type

ZERO = Fraction(0)
_MOST_BITS = 4096  # a closed power or shift beyond this is left unfolded


@fact
def integer(expr: Expr) -> int | None:
    """The value of a closed expression of weak integers; None if it is not one, or if it has more
    than `_MOST_BITS` bits."""
    if value_type(expr) is not INTEGER:
        return None
    match expr:
        case Literal(value, _):
            return int(value) if isinstance(value, Fraction) else 0
        case Apply(function, args):
            numbers = [integer(arg) for arg in args]
            known = [number for number in numbers if number is not None]
            value = _apply(function.name, known) if len(known) == len(numbers) else None
            return value if value is None or value.bit_length() <= _MOST_BITS else None
        case _:
            return None


def _apply(name: str, args: list[int]) -> int | None:
    match name:
        case "add":
            return sum(args)
        case "mul":
            return _product(args)
        case "sub":
            return args[0] - args[1]
        case "neg":
            return -args[0]
        case "floordiv":
            return args[0] // args[1] if args[1] else 0
        case "mod":
            return args[0] % args[1] if args[1] else args[0]
        case "pow":
            return _power(*args)
        case _:
            return _bits(name, args)


def _bits(name: str, args: list[int]) -> int | None:
    match name:
        case "min" | "max":
            return min(args) if name == "min" else max(args)
        case "abs":
            return abs(args[0])
        case "sign":
            return (args[0] > 0) - (args[0] < 0)
        case "floor" | "ceil" | "round":
            return args[0]
        case "bitand":
            return args[0] & args[1]
        case "bitor":
            return args[0] | args[1]
        case "bitxor":
            return args[0] ^ args[1]
        case "invert":
            return ~args[0]
        case "shl" | "shr" if 0 <= args[1] <= _MOST_BITS:
            return args[0] << args[1] if name == "shl" else args[0] >> args[1]
        case _:
            return None


def _product(args: list[int]) -> int:
    total = 1
    for arg in args:
        total *= arg
    return total


def _power(base: int, exponent: int) -> int | None:
    if exponent < 0 or exponent * max(1, base.bit_length()) > _MOST_BITS:
        return None
    return base**exponent


def part(dtype: DType) -> DType:
    """The type of the real part."""
    return {COMPLEX64: F32, COMPLEX128: F64}.get(dtype, dtype)


def overflow(dtype: DType) -> Fraction:
    """The least magnitude that rounds to inf in `dtype` (its real part).

    The largest finite value is (2 - 2**(1 - p)) * 2**e; half a unit above it ties away.
    """
    real = part(dtype)
    precision = PRECISION[real]
    top = 2 - LOWEST_EXPONENT[real] - precision  # 127 for f32, 1023 for f64
    return (2 - Fraction(1, 2**precision)) * Fraction(2) ** top


def number(value: Fraction) -> str:
    """A literal's value in a message, at most about 20 characters."""
    if value.denominator == 1 and abs(value) < 10**16:
        return str(value.numerator)
    return f"{float(value):.6g}" if abs(value) < overflow(F64) else f"about 2**{_log2(value)}"


def short(value: int) -> str:
    """An integer in a message: whole up to 40 digits."""
    return str(value) if abs(value) < 10**40 else f"about 2**{abs(value).bit_length() - 1}"


def _log2(value: Fraction) -> int:
    return abs(value.numerator).bit_length() - value.denominator.bit_length()
