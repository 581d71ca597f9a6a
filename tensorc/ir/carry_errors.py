"""How errors of arguments carry over to a scalar function's result, without its own rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorc.ir import elementwise
from tensorc.ir.bounded import Bounded, added, farthest, interval_ends, number, open_errors, times
from tensorc.ir.rounding import Array

MONOTONE = frozenset(
    {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "expm1", "log1p",
     "floor", "ceil", "round", "sign"}
)  # fmt: skip


def carried_error(name: str, args: Sequence[Bounded], result: Array) -> Array:
    """The error that the arguments' errors cause, without the function's own rounding."""
    if all(arg.sure for arg in args):
        return np.zeros(())
    first = args[0]
    if name in MONOTONE:
        return _monotone(name, first, result)
    match name:
        case "add" | "sub":
            return added([arg.error for arg in args])
        case "neg" | "abs" | "real" | "imag" | "conj":
            return first.error
        case "mul":
            return _product(args)
        case "div":
            return _quotient(*args)
        case "min" | "max":
            return np.max(np.broadcast_arrays(*(arg.error for arg in args)), axis=0)
        case "sin" | "cos":
            if first.value.dtype.kind == "c":
                return first.error
            return np.where(np.isinf(first.error), np.inf, np.minimum(first.error, 2.0))
        case "pow":
            return _power(first, args[1], result)
        case "floordiv":
            return _floored(*args)
        case "mod":
            return _remainder(*args)
        case "ldexp":
            scaled = np.ldexp(first.error, np.clip(args[1].value, -5000, 5000).astype(np.int32))
            return scaled + np.where(args[1].error > 0, np.inf, 0.0)
        case "isnan" | "isinf":
            return np.where(np.isfinite(first.error), 0.0, 1.0)
        case _:  # exponent, and complex functions: nothing is known
            return open_errors(args)


def _monotone(name: str, arg: Bounded, result: Array) -> Array:
    """The larger distance of the values at the interval's ends."""
    if arg.value.dtype.kind == "c":
        return open_errors([arg])
    reached = [number(elementwise.apply(name, [end])) for end in interval_ends(arg)]
    error = np.where(arg.error > 0, farthest(number(result), reached), 0.0)
    return np.where(np.isinf(arg.error), np.inf, error)  # what overflowed may be NaN: f8e4m3


def _product(args: Sequence[Bounded]) -> Array:
    """|a| Eb + |b| Ea + Ea Eb, argument by argument."""
    size, error = np.abs(number(args[0].value)), args[0].error
    for arg in args[1:]:
        other = np.abs(number(arg.value))
        terms = (times(size, arg.error), times(other, error), times(error, arg.error))
        size, error = size * other, added(terms)
    return error


def _quotient(a: Bounded, b: Bounded) -> Array:
    """(Ea + |a / b| Eb) / (|b| - Eb)."""
    size = np.abs(number(b.value))
    ratio = np.abs(number(a.value)) / size
    error = (a.error + times(ratio, b.error)) / (size - b.error)
    return np.where(size > b.error, error, np.where(a.error + b.error > 0, np.inf, 0.0))


def _power(a: Bounded, b: Bounded, result: Array) -> Array:
    """Of real or complex numbers."""
    if "c" in (a.value.dtype.kind, b.value.dtype.kind):
        return _complex_power(a, b, result)
    return _real_power(a, b)


def _real_power(a: Bounded, b: Bounded) -> Array:
    """Over a positive base the extremes lie at corners; else whole powers by the mean value."""
    (low, high), (less, more) = interval_ends(a), interval_ends(b)
    middle = np.power(number(a.value), number(b.value))
    corners = [np.power(x, y) for x in (low, high) for y in (less, more)]
    positive = farthest(middle, corners)
    power, size = np.abs(b.value), np.abs(a.value)
    far = np.where(b.value < 0, size - a.error, size + a.error)
    steep = np.where(far > 0, power * np.power(far, b.value - 1.0) * a.error, np.inf)
    whole = np.where((b.value == np.rint(b.value)) & (b.error == 0), steep, np.inf)
    whole = np.where((b.value == 0) & (b.error == 0), 0.0, whole)
    return np.where(low > 0, positive, whole)


def _complex_power(a: Bounded, b: Bounded, result: Array) -> Array:
    """|a ** b| (e^t - 1) with t = |b| s + Eb (|log a| + s) and s = -log(1 - Ea / |a|), the most
    that log a is off; unknown where a may be 0, or across the cut, unless b is whole and exact."""
    x, y = np.asarray(a.value, np.complex128), np.asarray(b.value, np.complex128)
    size = np.abs(x)
    near = np.where(a.error < size, a.error / size, 1.0)
    off = np.where(a.error == 0, 0.0, -np.log1p(-near))
    exponent = times(np.abs(y), off) + times(np.abs(np.log(x)) + off, b.error)
    error = times(np.abs(number(result)), np.expm1(exponent))
    whole = (y == np.rint(y.real)) & (b.error == 0)
    cut = (x.real <= a.error) & (np.abs(x.imag) <= a.error) & (a.error > 0) & ~whole
    return np.where(cut | ~np.isfinite(error), np.where(a.error + b.error > 0, np.inf, 0.0), error)


def _floored(a: Bounded, b: Bounded) -> Array:
    """floor(a / b) at the corners, where the divisor keeps its sign."""
    middle = np.floor_divide(a.value, b.value)
    corners = [np.floor_divide(x, y) for x in interval_ends(a) for y in interval_ends(b)]
    error = farthest(middle, corners)
    return np.where(np.abs(b.value) > b.error, error, np.inf)


def _remainder(a: Bounded, b: Bounded) -> Array:
    """a - b floor(a / b): the errors of its terms, and |b| for every step that is open."""
    steps, count = _floored(a, b), np.abs(np.floor_divide(a.value, b.value))
    return a.error + times(count, b.error) + times(np.abs(b.value) + b.error, steps)
