"""Worst-case rounding errors through scalar functions.

A value comes with an error: no result that computes as the program is written, in its value types,
with sums and products in any order, fused or not, differs from the exact value by more. Errors are
propagated over the whole interval value +- error, not to first order; where a decision (comparison,
floor, subscript) is open within it, or the value type may overflow, the error is infinite.

Units: `UNIT` is the relative error of one rounding, `TINY` the absolute one near 0. For f64 both
sides of a comparison round, hence twice; for the others float64 itself adds a little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorc.ir import elementwise
from tensorc.ir.dtypes import (
    COMPLEX64,
    COMPLEX128,
    F32,
    F64,
    LOWEST_EXPONENT,
    PRECISION,
    DType,
)
from tensorc.ir.rounding import LARGEST, Array, round_to

_MARGIN = 1 + 2.0**-20  # float64's own rounding, beside that of narrower types
UNIT: dict[DType, float] = {d: 2.0**-p * _MARGIN for d, p in PRECISION.items()} | {F64: 2.0**-52}
TINY: dict[DType, float] = {d: 2.0 ** max(e - 1, -1074) for d, e in LOWEST_EXPONENT.items()}

# Accuracy of functions in units: (relative, absolute, relative per unit of argument). 1 is a
# correctly rounded result. The rest is what any backend must keep: 2 units in the last place for
# roots and exponentials, more where a function is composed of others; an exponential's argument is
# scaled in the value type, which costs in proportion to its size.
ACCURACY: dict[str, tuple[float, float, float]] = {
    "rsqrt": (4, 0, 0), "exp": (4, 0, 4), "exp2": (4, 0, 0), "log": (4, 4, 0), "log2": (4, 4, 0),
    "sin": (4, 4, 0), "cos": (4, 4, 0), "tanh": (8, 0, 0), "sigmoid": (8, 0, 4), "erf": (8, 0, 0),
    "expm1": (8, 0, 4), "log1p": (8, 0, 0), "abs": (4, 0, 0),  # of complex numbers
}  # fmt: skip
_EXACT = frozenset(
    {"neg", "abs", "sign", "floor", "ceil", "round", "min", "max", "isnan", "isinf", "real", "imag",
     "conj", "exponent"}
)  # fmt: skip
_MONOTONE = frozenset(
    {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "expm1", "log1p",
     "floor", "ceil", "round", "sign"}
)  # fmt: skip


@dataclass(frozen=True)
class Bounded:
    """A value (float64, complex128, integers or bool) and its error, broadcast together."""

    value: Array
    error: Array

    @property
    def sure(self) -> bool:
        """True where no element has an error."""
        return not self.error.any()


def exact(value: Array) -> Bounded:
    """A value without error."""
    return Bounded(value, np.zeros(()))


def applied(name: str, args: Sequence[Bounded], result: Array, dtype: DType) -> Array:
    """The error of `result`, the function `name` of `args`, rounded to value type `dtype`."""
    inexact = dtype.floating or dtype.complex
    with np.errstate(all="ignore"):
        if name in ("lt", "le", "gt", "ge", "eq", "ne"):
            return _comparison(args)
        if name in ("and", "or", "not", "xor"):
            return _logic(name, args)
        if not inexact and name not in _MONOTONE | {"exponent", "isnan", "isinf"}:
            return _open(args)
        error = _carried(name, args, result)
        if inexact:
            own = np.where(_unrounded(name, args, dtype), 0.0, _own(name, args, result, dtype))
            error = rounded(error, result, dtype) + own
            error = np.where(np.isnan(error), np.inf, error)
        return _special(name, args, result, error)


def rounded(error: Array, value: Array, dtype: DType) -> Array:
    """`error`, infinite where the value, before it is rounded, may leave the range of its type."""
    largest = LARGEST[real_part(dtype)] * (1 + UNIT[real_part(dtype)] / _MARGIN)
    over = np.isfinite(value) & (np.abs(value) + error > largest)
    return np.where(over | np.isnan(error), np.inf, error)


def stored(item: Bounded, dtype: DType) -> Array:
    """The error of a value that a store may round to `dtype`, or that may keep its precision."""
    size = np.where(np.isfinite(item.value), np.abs(item.value), 0.0)
    error = item.error + unit(dtype) * (size + item.error) + tiny(dtype)
    with np.errstate(all="ignore"):
        kept = (item.error == 0) & (number(round_to(item.value, dtype)) == item.value)
    return np.where(kept, 0.0, error)


def cast(item: Bounded, dtype: DType) -> Array:
    """The error of a fixed rounding: 0 where the whole interval rounds to one value."""
    if item.sure:
        return np.zeros(())
    with np.errstate(all="ignore"):
        low, high = _ends(item)
        middle = number(round_to(item.value, dtype))
        ends = [number(round_to(end, dtype)) for end in (low, high)]
        return farthest(middle, ends)


def constant(value: float, dtype: DType) -> float:
    """The error of a constant that is stored in a value type."""
    if not np.isfinite(value):
        return 0.0
    return abs(value - float(round_to(value, dtype))) + abs(value) * 2.0**-52 * (dtype is F64)


def converted(item: Bounded, dtype: DType) -> Array:
    """The error of an integer or bool, or of a float of less precision, as `dtype`."""
    if item.value.dtype.kind in "iu" and item.value.size:
        size = np.abs(item.value.astype(np.float64))
        inexact = size > 2.0 ** PRECISION[real_part(dtype)]
        return item.error + np.where(inexact, unit(dtype) * size, 0.0)
    return item.error


def chosen(condition: Bounded, yes: Bounded, no: Bounded) -> Array:
    """The error of a select; where the condition is open, the distance of the two sides too."""
    error = np.where(condition.value, yes.error, no.error)
    if condition.sure:
        return error
    with np.errstate(all="ignore"):
        apart = np.abs(number(yes.value) - number(no.value))
        both = np.maximum(yes.error, no.error) + np.where(yes.value == no.value, 0.0, apart)
    return np.where(condition.error > 0, np.where(np.isnan(both), np.inf, both), error)


def unit(dtype: DType) -> float:
    """The relative error of one rounding; of complex types, of a product of two."""
    return 4 * UNIT[real_part(dtype)] if dtype.complex else UNIT[dtype]


def tiny(dtype: DType) -> float:
    """The absolute error of one rounding near 0."""
    return TINY[real_part(dtype)] * (4 if dtype.complex else 1)


def real_part(dtype: DType) -> DType:
    return {COMPLEX64: F32, COMPLEX128: F64}.get(dtype, dtype)


def number(value: Array) -> Array:
    return value if value.dtype.kind == "c" else value.astype(np.float64)


def _open(args: Sequence[Bounded]) -> Array:
    """Integers and bits: infinite where an argument has an error."""
    return _total([np.where(arg.error > 0, np.inf, 0.0) for arg in args])


def _total(errors: Sequence[Array]) -> Array:
    total = errors[0]
    for error in errors[1:]:
        total = total + error
    return np.asarray(total)


def _comparison(args: Sequence[Bounded]) -> Array:
    """1 where the order, or equality, is open."""
    a, b = args
    if a.sure and b.sure:
        return np.zeros(())
    reach = a.error + b.error
    apart = np.abs(number(a.value) - number(b.value))
    return np.where((reach > 0) & ~(apart > reach) & ~_lost(a.value) & ~_lost(b.value), 1.0, 0.0)


def _lost(value: Array) -> Array:
    """NaN: comparisons with it are decided."""
    return value != value


def _logic(name: str, args: Sequence[Bounded]) -> Array:
    """1 where an open argument decides."""
    error = args[0].error > 0
    total = args[0].value
    for arg in args[1:]:
        unsure = arg.error > 0
        neutral = name == "and"
        if name == "xor":
            error = error | unsure
        else:  # `and`: an argument that is surely false decides, `or`: one that is surely true
            decided = (~error & (total != neutral)) | (~unsure & (arg.value != neutral))
            error = (error | unsure) & ~decided
            total = total & arg.value if neutral else total | arg.value
    return np.where(error, 1.0, 0.0)


# --- how errors of arguments carry over ---------------------------------------------------------


def _carried(name: str, args: Sequence[Bounded], result: Array) -> Array:
    """The error that the arguments' errors cause, without the function's own rounding."""
    if all(arg.sure for arg in args):
        return np.zeros(())
    first = args[0]
    if name in _MONOTONE:
        return _monotone(name, first, result)
    match name:
        case "add" | "sub":
            return _total([arg.error for arg in args])
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
            return _open(args)


def _monotone(name: str, arg: Bounded, result: Array) -> Array:
    """The larger distance of the values at the interval's ends."""
    if arg.value.dtype.kind == "c":
        return _open([arg])
    ends = [number(elementwise.apply(name, [end])) for end in _ends(arg)]
    error = np.where(arg.error > 0, farthest(number(result), ends), 0.0)
    return np.where(np.isinf(arg.error), np.inf, error)  # what overflowed may be NaN: f8e4m3


def _ends(arg: Bounded) -> tuple[Array, Array]:
    """value - error and value + error, rounded outwards."""
    value = arg.value.astype(np.float64)
    low, high = value - arg.error, value + arg.error
    open_ = arg.error > 0
    return (
        np.where(open_, np.nextafter(low, -np.inf), value),
        np.where(open_, np.nextafter(high, np.inf), value),
    )


def farthest(middle: Array, ends: Sequence[Array]) -> Array:
    """The largest distance from `middle`; infinite where one of them is special and differs."""
    total: Array = np.zeros(())
    for end in ends:
        same = (end == middle) | (_lost(end) & _lost(middle))
        away = np.where(same, 0.0, np.abs(end - middle))
        total = np.maximum(total, np.where(np.isnan(away), np.inf, away))
    return total


def _product(args: Sequence[Bounded]) -> Array:
    """|a| Eb + |b| Ea + Ea Eb, argument by argument."""
    size, error = np.abs(number(args[0].value)), args[0].error
    for arg in args[1:]:
        other = np.abs(number(arg.value))
        terms = (times(size, arg.error), times(other, error), times(error, arg.error))
        size, error = size * other, _total(terms)
    return error


def times(size: Array, error: Array) -> Array:
    """A size times an error: nothing of no error, all of an infinite one, as 0 * inf is NaN."""
    return np.where(error == 0, 0.0, np.where(np.isinf(error), np.inf, size * error))


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
    (low, high), (less, more) = _ends(a), _ends(b)
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
    corners = [np.floor_divide(x, y) for x in _ends(a) for y in _ends(b)]
    error = farthest(middle, corners)
    return np.where(np.abs(b.value) > b.error, error, np.inf)


def _remainder(a: Bounded, b: Bounded) -> Array:
    """a - b floor(a / b): the errors of its terms, and |b| for every step that is open."""
    steps, count = _floored(a, b), np.abs(np.floor_divide(a.value, b.value))
    return a.error + times(count, b.error) + times(np.abs(b.value) + b.error, steps)


# --- a function's own rounding ------------------------------------------------------------------


def _own(name: str, args: Sequence[Bounded], result: Array, dtype: DType) -> Array:
    """The rounding of the function itself."""
    modulus = name == "abs" and args[0].value.dtype.kind == "c"
    if name in _EXACT and not modulus:
        return np.zeros(())
    u, size = unit(dtype), np.where(np.isfinite(result), np.abs(result), 0.0)
    if name == "add":
        return (len(args) - 1) * u * _sizes(args) * (1 + len(args) * u)
    if name == "sub":
        return u * (size + args[0].error + args[1].error)
    if name == "mul":
        return (len(args) - 1) * (u * (size + _carried(name, args, result)) + tiny(dtype))
    relative, absolute, slope = ACCURACY.get(name, (1.0, 0.0, 0.0))
    if name == "pow":
        relative, slope = 4.0, 0.0
        bits = np.abs(number(args[1].value)) * (1 + np.abs(np.log2(np.abs(args[0].value))))
        relative = np.where(args[1].value == 2, 1.0, 4 * (1 + np.where(size > 0, bits, 0.0)))
    carried = _carried(name, args, result)
    reach = np.abs(number(args[0].value)) + args[0].error
    factor = np.asarray(relative + slope * np.where(np.isfinite(reach), reach, 0.0))
    return u * (times(factor, size + carried) + absolute) + tiny(dtype)


def _unrounded(name: str, args: Sequence[Bounded], dtype: DType) -> Array:
    """Where sums and products of exact integers stay within the significand, in any order."""
    if name == "pow" and (args[1].value == 2).all():
        name, args = "mul", (args[0], args[0])
    if name not in ("add", "sub", "mul") or dtype.complex:
        return np.zeros((), bool)
    sizes = [np.abs(number(arg.value)) for arg in args]
    whole = np.ones((), bool)
    for arg, size in zip(args, sizes, strict=True):
        whole = whole & (arg.error == 0) & (np.rint(size) == size)
    total = np.zeros(()) if name != "mul" else np.ones(())
    for size in sizes:
        total = total * np.maximum(size, 1.0) if name == "mul" else total + size
    return whole & (total <= 2.0 ** PRECISION[dtype])


def _sizes(args: Sequence[Bounded]) -> Array:
    """The sum of |value| + error, of those that are finite."""
    parts = [np.abs(number(arg.value)) + arg.error for arg in args]
    return _total([np.where(np.isnan(part), 0.0, part) for part in parts])


def _special(name: str, args: Sequence[Bounded], result: Array, error: Array) -> Array:
    """Where the result is NaN or infinite: certain if it is the same at the ends of the arguments'
    intervals, else unknown."""
    special = ~np.isfinite(result) if result.dtype.kind in "fc" else np.zeros((), bool)
    if not special.any():
        return error
    certain = np.ones((), bool)
    if not all(arg.sure for arg in args) and all(arg.value.dtype.kind == "f" for arg in args):
        for side in (0, 1):
            moved = elementwise.apply(name, [_ends(arg)[side] for arg in args])
            certain = certain & ((moved == result) | (_lost(moved) & _lost(result)))
    return np.where(special, np.where(certain, 0.0, np.inf), error)
