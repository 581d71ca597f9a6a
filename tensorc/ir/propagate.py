"""Worst-case rounding errors through scalar functions.

A value comes with an error: no result that computes as the program is written, in its value types,
with sums and products in any order, fused or not, differs from the exact value by more. Errors are
propagated over the whole interval value +- error, not to first order; where a decision (comparison,
floor, subscript) is open within it, or the value type may overflow, the error is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorc.ir import elementwise
from tensorc.ir.bounded import (
    MARGIN,
    UNIT,
    Bounded,
    added,
    farthest,
    interval_ends,
    lost,
    number,
    open_errors,
    real_part,
    times,
    tiny,
    unit,
)
from tensorc.ir.carry_errors import MONOTONE, carried_error
from tensorc.ir.dtypes import F64, PRECISION, DType
from tensorc.ir.rounding import LARGEST, Array, round_to

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


def applied(name: str, args: Sequence[Bounded], result: Array, dtype: DType) -> Array:
    """The error of `result`, the function `name` of `args`, rounded to value type `dtype`."""
    inexact = dtype.floating or dtype.complex
    with np.errstate(all="ignore"):
        if name in ("lt", "le", "gt", "ge", "eq", "ne"):
            return _comparison(args)
        if name in ("and", "or", "not", "xor"):
            return _logic(name, args)
        if not inexact and name not in MONOTONE | {"exponent", "isnan", "isinf"}:
            return open_errors(args)
        error = carried_error(name, args, result)
        if inexact:
            own = np.where(_unrounded(name, args, dtype), 0.0, _own(name, args, result, dtype))
            error = rounded(error, result, dtype) + own
            error = np.where(np.isnan(error), np.inf, error)
        return _special(name, args, result, error)


def rounded(error: Array, value: Array, dtype: DType) -> Array:
    """`error`, infinite where the value, before it is rounded, may leave the range of its type."""
    largest = LARGEST[real_part(dtype)] * (1 + UNIT[real_part(dtype)] / MARGIN)
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
        low, high = interval_ends(item)
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


def _comparison(args: Sequence[Bounded]) -> Array:
    """1 where the order, or equality, is open."""
    a, b = args
    if a.sure and b.sure:
        return np.zeros(())
    reach = a.error + b.error
    apart = np.abs(number(a.value) - number(b.value))
    return np.where((reach > 0) & ~(apart > reach) & ~lost(a.value) & ~lost(b.value), 1.0, 0.0)


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
        return (len(args) - 1) * (u * (size + carried_error(name, args, result)) + tiny(dtype))
    relative, absolute, slope = ACCURACY.get(name, (1.0, 0.0, 0.0))
    if name == "pow":
        relative, slope = 4.0, 0.0
        bits = np.abs(number(args[1].value)) * (1 + np.abs(np.log2(np.abs(args[0].value))))
        relative = np.where(args[1].value == 2, 1.0, 4 * (1 + np.where(size > 0, bits, 0.0)))
    carried = carried_error(name, args, result)
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
    return added([np.where(np.isnan(part), 0.0, part) for part in parts])


def _special(name: str, args: Sequence[Bounded], result: Array, error: Array) -> Array:
    """Where the result is NaN or infinite: certain if it is the same at the ends of the arguments'
    intervals, else unknown."""
    special = ~np.isfinite(result) if result.dtype.kind in "fc" else np.zeros((), bool)
    if not special.any():
        return error
    certain = np.ones((), bool)
    if not all(arg.sure for arg in args) and all(arg.value.dtype.kind == "f" for arg in args):
        for side in (0, 1):
            moved = elementwise.apply(name, [interval_ends(arg)[side] for arg in args])
            certain = certain & ((moved == result) | (lost(moved) & lost(result)))
    return np.where(special, np.where(certain, 0.0, np.inf), error)
