"""Scalar functions of exact constants: rationals, infinities, NaN, -0 and multiples of pi.

The same functions as `elementwise`, without rounding: rational where the result is rational, else
to 400 bits by mpmath. Infinities, NaN and -0 go through `elementwise` itself, so that folding a
constant and computing it cannot differ there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from tensorc.ir import elementwise
from tensorc.ir.dtypes import F64
from tensorc.ir.rounding import nearest

PRECISION = 400  # bits of an irrational constant: more than twice any type's, with room to cancel
LIMIT = 1 << 14  # a power of two beyond every type's range; what exceeds it is taken as infinite


@dataclass(frozen=True)
class Pi:
    """A rational multiple of pi, kept as one so that sin(pi) is 0."""

    times: Fraction


Exact = Fraction | str | Pi  # strings: "inf", "-inf", "nan", "-0"
Args = Sequence[Fraction]


def evaluate(name: str, args: Sequence[Exact], real: bool) -> Fraction | str | Pi:
    """`name` of exact values. `real`: IEEE arithmetic; else that of integers without width."""
    if any(isinstance(arg, Pi) for arg in args):
        found = _of_pi(name, args)
        if found is not None:
            return found
    plain = [rational(arg) if isinstance(arg, Pi) else arg for arg in args]
    numbers = [arg for arg in plain if isinstance(arg, Fraction)]
    if len(numbers) < len(plain):
        return _special(name, plain)
    if real and name in _REAL:
        return _bounded(_REAL[name](numbers))
    return _bounded(_RATIONAL[name](numbers))


def rational(value: Exact) -> Fraction | str:
    """`value` with a multiple of pi replaced by its 400-bit approximation."""
    if not isinstance(value, Pi):
        return value
    return _bounded(_rounded(_context().pi * _mpf(value.times)))


def _of_pi(name: str, args: Sequence[Exact]) -> Exact | None:
    """Functions under which a multiple of pi stays one, and those exact at multiples of pi."""
    match name, list(args):
        case "neg", [Pi(a)]:
            return Pi(-a)
        case (("add" | "sub"), [Pi(a), Pi(b)]):
            return _pi(a + b if name == "add" else a - b)
        case (("mul" | "div"), [Pi(a), Fraction() as b]) if b:
            return Pi(a * b if name == "mul" else a / b)
        case "mul", [Fraction() as a, Pi(b)]:
            return _pi(a * b)
        case "div", [Pi(a), Pi(b)]:
            return a / b
        case "sin", [Pi(a)]:
            return _rounded(_context().sinpi(_mpf(a)))
        case "cos", [Pi(a)]:
            return _rounded(_context().cospi(_mpf(a)))
        case _:
            return None


def _pi(times: Fraction) -> Exact:
    return Pi(times) if times else Fraction(0)


def _special(name: str, args: Sequence[Fraction | str]) -> Fraction | str:
    """With an infinity, NaN or -0 among the arguments: as float64 does it.

    A finite result that is one of the arguments, as in `min(inf, 1/3)`, keeps its exact value.
    """
    found = float(elementwise.apply(name, [np.asarray(nearest(arg, F64)) for arg in args]))
    for arg in args:
        if isinstance(arg, Fraction) and arg and abs(found) == abs(nearest(arg, F64)):
            return abs(arg) if found > 0 else -abs(arg)
    return of_float(found)


def of_float(value: float) -> Fraction | str:
    """A float as an exact value."""
    if math.isnan(value) or math.isinf(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return "-0" if value == 0 and math.copysign(1, value) < 0 else Fraction(value)


def _bounded(value: Fraction | str) -> Fraction | str:
    """`value`, infinite or the least positive 2**-LIMIT where it leaves every type's range."""
    if isinstance(value, str) or value == 0:
        return value
    top, bottom = value.numerator.bit_length(), value.denominator.bit_length()
    if top - bottom > LIMIT:
        return "inf" if value > 0 else "-inf"
    if bottom - top > LIMIT:
        return Fraction(1 if value > 0 else -1, 1 << LIMIT)
    return _rounded(_mpf(value)) if min(top, bottom) > 2 * LIMIT else value


# --- mpmath -------------------------------------------------------------------------------------


@cache
def _context() -> Any:
    """An arithmetic of our own: mpmath's global precision is left alone. Untyped upstream."""
    from mpmath.ctx_mp import MPContext  # pyright: ignore[reportMissingTypeStubs]

    context: Any = MPContext()
    context.prec = PRECISION
    return context


def _mpf(value: Fraction) -> Any:
    return _context().mpf(value.numerator) / value.denominator


def _rounded(value: Any) -> Fraction | str:
    """An mpmath number as a rational; infinite beyond the limit."""
    context = _context()
    if context.isnan(value) or context.isinf(value):
        return "nan" if context.isnan(value) else "inf" if value > 0 else "-inf"
    sign, mantissa, exponent, bits = value._mpf_
    size = max(min(int(exponent) + int(bits), LIMIT + 4), -LIMIT - 4) - int(bits)
    return Fraction(int(mantissa)) * Fraction(2) ** size * (-1 if sign else 1)


def _transcendental(name: str) -> Callable[[Args], Fraction | str]:
    return lambda args: _rounded(getattr(_context(), name)(*map(_mpf, args)))


# --- rational functions -------------------------------------------------------------------------


def _truth(test: Callable[[Fraction, Fraction], bool]) -> Callable[[Args], Fraction]:
    return lambda args: Fraction(test(args[0], args[1]))


def _integers(function: Callable[[int, int], int]) -> Callable[[Args], Fraction]:
    def folded(args: Args) -> Fraction:
        total = int(args[0])
        for arg in args[1:]:
            total = function(total, int(arg))
        return Fraction(total)

    return folded


def _divide(args: Args) -> Fraction | str:
    a, b = args
    if b:
        return a / b
    return "nan" if a == 0 else "inf" if a > 0 else "-inf"


def _power(args: Args) -> Fraction | str:
    base, power = args
    if power.denominator == 1:
        return _whole_power(base, int(power))
    if base <= 0:
        return "nan" if base < 0 else "inf" if power < 0 else Fraction(0)
    exact = _root_power(base, power)
    return exact if exact is not None else _transcendental("power")(args)


def _whole_power(base: Fraction, power: int) -> Fraction | str:
    if base == 0 and power < 0:
        return "inf"
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) not in (0, 1) and bits * abs(power) > 4 * LIMIT:
        return _rounded(_context().power(_mpf(base), power))
    return base**power if abs(base) not in (0, 1) else Fraction(_trivial(int(base), power))


def _trivial(base: int, power: int) -> int:
    """0, 1 or -1 to any power, however large."""
    return int(power == 0) if base == 0 else base if power % 2 else 1


def _root_power(base: Fraction, power: Fraction) -> Fraction | None:
    """base ** (n / 2) where base is the square of a rational."""
    root = _root(base) if power.denominator == 2 else None
    found = None if root is None else _whole_power(root, power.numerator)
    return found if isinstance(found, Fraction) else None


def _root(value: Fraction) -> Fraction | None:
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    square = top * top == value.numerator and bottom * bottom == value.denominator
    return Fraction(top, bottom) if square else None


def _sqrt(args: Args) -> Fraction | str:
    if args[0] < 0:
        return "nan"
    root = _root(args[0])
    return root if root is not None else _transcendental("sqrt")(args)


def _rsqrt(args: Args) -> Fraction | str:
    root = _sqrt(args)
    return root if isinstance(root, str) else _divide([Fraction(1), root])


def _log(name: str, shift: int = 0) -> Callable[[Args], Fraction | str]:
    """A logarithm of the argument plus `shift`."""

    def folded(args: Args) -> Fraction | str:
        inside = args[0] + shift
        if inside <= 0:
            return "nan" if inside < 0 else "-inf"
        if inside == 1:
            return Fraction(0)
        return _transcendental(name)(args)

    return folded


def _log2(args: Args) -> Fraction | str:
    if args[0] > 0 and Fraction(2) ** _exponent(args[0]) == args[0]:
        return Fraction(_exponent(args[0]))
    natural = _log("log")(args)
    return natural if isinstance(natural, str) else _rounded(_mpf(natural) / _context().ln2)


def _exponent(value: Fraction) -> int:
    """floor(log2 |value|) of a non-zero rational."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if abs(value) >= Fraction(2) ** guess else guess - 1


def _sigmoid(args: Args) -> Fraction | str:
    return _rounded(1 / (1 + _context().exp(-_mpf(args[0]))))


def _ldexp(args: Args) -> Fraction:
    return args[0] * Fraction(2) ** max(min(int(args[1]), 2 * LIMIT), -2 * LIMIT)


def _shift(left: bool) -> Callable[[Args], Fraction]:
    """Shifts without width; a negative amount acts as one beyond it (see `elementwise`)."""

    def folded(args: Args) -> Fraction:
        value, by = int(args[0]), int(args[1])
        if by < 0:
            return Fraction(-1 if value < 0 and not left else 0)
        return Fraction(value << min(by, 2 * LIMIT) if left else value >> by)

    return folded


def _sum(args: Args) -> Fraction:
    return sum(args, Fraction(0))


def _zero(args: Args) -> Fraction:
    return Fraction(0)


def _same(args: Args) -> Fraction:
    return args[0]


_RATIONAL: dict[str, Callable[[Args], Fraction | str]] = {
    "add": _sum, "mul": lambda a: math.prod(a, start=Fraction(1)),
    "sub": lambda a: a[0] - a[1], "neg": lambda a: -a[0], "div": _divide,
    "floordiv": lambda a: Fraction(a[0] // a[1] if a[1] else 0),
    "mod": lambda a: a[0] % a[1] if a[1] else a[0],
    "pow": lambda a: _integral_power(a),
    "lt": _truth(lambda a, b: a < b), "le": _truth(lambda a, b: a <= b),
    "gt": _truth(lambda a, b: a > b), "ge": _truth(lambda a, b: a >= b),
    "eq": _truth(lambda a, b: a == b), "ne": _truth(lambda a, b: a != b),
    "and": lambda a: Fraction(all(a)), "or": lambda a: Fraction(any(a)),
    "not": lambda a: Fraction(not a[0]), "xor": lambda a: Fraction(a[0] != a[1]),
    "bitand": _integers(lambda a, b: a & b), "bitor": _integers(lambda a, b: a | b),
    "bitxor": _integers(lambda a, b: a ^ b), "invert": lambda a: Fraction(~int(a[0])),
    "shl": _shift(True), "shr": _shift(False), "min": min, "max": max,
    "abs": lambda a: abs(a[0]), "sign": lambda a: Fraction((a[0] > 0) - (a[0] < 0)),
    "floor": lambda a: Fraction(math.floor(a[0])), "ceil": lambda a: Fraction(math.ceil(a[0])),
    "round": lambda a: Fraction(round(a[0])),
    "sqrt": _sqrt, "rsqrt": _rsqrt, "exp": _transcendental("exp"),
    "exp2": lambda a: _power([Fraction(2), a[0]]), "log": _log("log"), "log2": _log2,
    "sin": _transcendental("sin"), "cos": _transcendental("cos"),
    "tanh": _transcendental("tanh"), "sigmoid": _sigmoid, "erf": _transcendental("erf"),
    "expm1": _transcendental("expm1"), "log1p": _log("log1p", 1),
    "isnan": _zero, "isinf": _zero, "real": _same, "imag": _zero, "conj": _same,
    "popcount": lambda a: Fraction((int(a[0]) & (2**64 - 1)).bit_count()),
    "exponent": lambda a: Fraction(_exponent(a[0]) if a[0] else -(2**31)), "ldexp": _ldexp,
}  # fmt: skip


def _integral_power(args: Args) -> Fraction | str:
    """Integers: a negative power truncates towards 0."""
    found = _whole_power(args[0], int(args[1]))
    if isinstance(found, Fraction):
        return Fraction(math.trunc(found))
    return Fraction(0) if args[0] == 0 else found


def _signed(function: Callable[[Args], Fraction | str]) -> Callable[[Args], Fraction | str]:
    """A product or quotient whose exact zero has the sign of IEEE's."""

    def folded(args: Args) -> Fraction | str:
        found = function(args)
        negative = sum(arg < 0 for arg in args) % 2 == 1
        return "-0" if found == 0 and negative else found

    return folded


def _to_zero(function: Callable[[Fraction], int]) -> Callable[[Args], Fraction | str]:
    """A rounding to an integer, whose zero keeps the argument's sign."""
    return lambda args: "-0" if args[0] < 0 and not function(args[0]) else _whole(function, args)


def _whole(function: Callable[[Fraction], int], args: Args) -> Fraction:
    return Fraction(function(args[0]))


# Where floats differ from integers: division by zero, the sign of zero, powers.
_REAL: dict[str, Callable[[Args], Fraction | str]] = {
    "mul": _signed(_RATIONAL["mul"]), "div": _signed(_divide),
    "neg": lambda a: -a[0] if a[0] else "-0",
    "floordiv": lambda a: _RATIONAL["floordiv"](a) if a[1] else _divide(a),
    "mod": lambda a: a[0] % a[1] if a[1] else "nan", "pow": _power,
    "ceil": _to_zero(math.ceil), "round": _to_zero(round),
}  # fmt: skip
