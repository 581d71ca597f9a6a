"""What each scalar function computes: one NumPy definition per name of `functions.FUNCTIONS`.

Arrays come already converted to the type in which the operands meet, and broadcast. Floats compute
in the precision of their arrays (float64 for the meaning, the value type for its rounded twin);
integers wrap at their width, and never trap. Object arrays hold unbounded integers: subscripts and
what else is made of positions and extents alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorc.ir.rounding import Array

Args = Sequence[Array]


def apply(name: str, args: Args) -> Array:
    """The function `name` of `args`, elementwise. The result has the arguments' element type, or
    bool, or int32 (`exponent`, `popcount`), or that of a complex number's parts."""
    with np.errstate(all="ignore"):
        return np.asarray(TABLE[name](args))


def unbounded(name: str, args: Args) -> Array:
    """`apply` for integers without width: falls back to Python integers where int64 could wrap.

    Arguments are int64, bool or object arrays; so is the result.
    """
    if name in _GROWING and any(a.dtype != object for a in args) and not _fits(name, args):
        args = [a.astype(object) for a in args]
    elif any(a.dtype == object for a in args):
        args = [a.astype(object) for a in args]
    return apply(name, args)


# --- arithmetic ---------------------------------------------------------------------------------


def _fold(step: Callable[[Array, Array], Array]) -> Callable[[Args], Array]:
    """An n-ary function applied from left to right."""

    def folded(args: Args) -> Array:
        total = args[0]
        for arg in args[1:]:
            total = np.asarray(step(total, arg))
        return total

    return folded


def _unary(function: Callable[[Any], Any]) -> Callable[[Args], Array]:
    return lambda args: np.asarray(function(args[0]))


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Args], Array]:
    return lambda args: np.asarray(function(args[0], args[1]))


def _exact(array: Array) -> bool:
    """True for integers and bools, of any width or none."""
    return array.dtype.kind in "iuObu"


def _floordiv(a: Array, b: Array) -> Array:
    """Python's `//`; an integer divided by 0 is 0 and the lowest one by -1 wraps to itself."""
    if not _exact(a):
        return np.floor_divide(a, b)
    quotient = np.floor_divide(a, _safe(b))
    return np.where(b == 0, _zero(a), np.where(b == _minus_one(b), -a, quotient))


def _mod(a: Array, b: Array) -> Array:
    """Python's `%`, `a - b * (a // b)`: for integers `a % 0` is `a`."""
    if not _exact(a):
        return np.remainder(a, b)
    rest = np.remainder(a, _safe(b))
    return np.where(b == 0, a, np.where(b == _minus_one(b), _zero(a), rest))


def _safe(b: Array) -> Array:
    """Divisors without 0 and -1, on which processors trap."""
    return np.where((b == 0) | (b == _minus_one(b)), b.dtype.type(1) if b.dtype != object else 1, b)


def _minus_one(b: Array) -> Any:
    """-1 in b's type; in unsigned types, where it does not exist, a value that equals nothing."""
    return np.nan if b.dtype.kind == "u" else -1


def _zero(a: Array) -> Array:
    return np.zeros_like(a)


def _power(a: Array, b: Array) -> Array:
    """`a ** b`; integers to a negative power truncate towards 0, and 0 to one is 0."""
    if not _exact(a):
        return np.power(a, b)
    if a.dtype.kind == "u":
        return np.power(a, b)
    whole = np.power(a, np.where(b < 0, _zero(b), b))
    odd = (b & 1) == 1
    sign = np.where(a == -1, np.where(odd, a, -a), _zero(a))
    return np.where(b < 0, np.where(a == 1, a, sign), whole)


def _absolute(a: Array) -> Array:
    return np.abs(a)


def _sign(a: Array) -> Array:
    """-1, 0 or 1; NaN stays, and either zero gives +0."""
    return np.sign(a) if _exact(a) else np.where(a == 0, _zero(a), np.sign(a))


# --- order --------------------------------------------------------------------------------------


def maximum(a: Array, b: Array) -> Array:
    """The larger one: any NaN gives NaN, and +0 is larger than -0."""
    larger = np.maximum(a, b)
    return larger if _exact(a) else np.where((a == 0) & (b == 0), a + b, larger)


def minimum(a: Array, b: Array) -> Array:
    """The smaller one: any NaN gives NaN, and -0 is smaller than +0."""
    smaller = np.minimum(a, b)
    return smaller if _exact(a) else np.where((a == 0) & (b == 0), -(-a + -b), smaller)


def _rounding(function: Callable[[Any], Any]) -> Callable[[Args], Array]:
    """floor, ceil and round leave integers as they are."""
    return lambda args: args[0] if _exact(args[0]) else np.asarray(function(args[0]))


def _classify(function: Callable[[Any], Any]) -> Callable[[Args], Array]:
    """isnan and isinf are false of integers."""
    return lambda args: (
        np.zeros(args[0].shape, bool) if _exact(args[0]) else np.asarray(function(args[0]))
    )


# --- functions of floats ------------------------------------------------------------------------


def _sigmoid(a: Array) -> Array:
    """1 / (1 + exp(-a)), without overflow on either side."""
    small = np.exp(-np.abs(a))
    return np.where(a < 0, small / (1 + small), 1 / (1 + small))


def _erf(a: Array) -> Array:
    flat = [math.erf(x) for x in a.ravel().tolist()]
    return np.array(flat, dtype=a.dtype).reshape(a.shape)


def _ldexp(a: Array, n: Array) -> Array:
    """a * 2**n, rounded once; |n| beyond 5000 leaves every float's range."""
    return np.ldexp(a, np.clip(n, -5000, 5000).astype(np.int32))


def _exponent(a: Array) -> Array:
    """floor(log2 |a|) as i32: 0 gives the lowest, inf the highest integer, NaN 0."""
    _, power = np.frexp(a)
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    special = np.where(np.isinf(a), high, np.where(np.isnan(a), 0, low))
    return np.where(np.isfinite(a) & (a != 0), power - 1, special).astype(np.int32)


# --- bits ---------------------------------------------------------------------------------------


def _popcount(a: Array) -> Array:
    if a.dtype == object:  # as settled: 64 bits
        a = np.array([int(v) & (2**64 - 1) for v in a.ravel()], np.uint64).reshape(a.shape)
    unsigned = a.view(f"u{a.dtype.itemsize}") if a.dtype.kind == "i" else a
    return np.bitwise_count(unsigned).astype(np.int32)


def _shift_left(a: Array, by: Array) -> Array:
    """a << by; an amount that is negative or not below the width gives 0."""
    if a.dtype == object:
        return np.asarray(np.left_shift(a, np.clip(by, 0, 1 << 16)))
    inside = (by >= 0) & (by < 8 * a.dtype.itemsize)
    bits = a.view(f"u{a.dtype.itemsize}")
    moved = np.left_shift(bits, np.where(inside, by, 0).astype(bits.dtype)).view(a.dtype)
    return np.where(inside, moved, _zero(a))


def _shift_right(a: Array, by: Array) -> Array:
    """a >> by, arithmetic on signed; an amount that is negative or not below the width leaves only
    the sign."""
    width = 1 << 16 if a.dtype == object else 8 * a.dtype.itemsize
    inside = (by >= 0) & (by < width)
    moved = np.right_shift(a, np.where(inside, by, 0).astype(a.dtype))
    return np.where(inside, moved, np.where(a < 0, _zero(a) - 1, _zero(a)))


TABLE: dict[str, Callable[[Args], Array]] = {
    "add": _fold(np.add), "mul": _fold(np.multiply), "sub": _binary(np.subtract),
    "neg": _unary(np.negative), "div": _binary(np.divide), "floordiv": _binary(_floordiv),
    "mod": _binary(_mod), "pow": _binary(_power),
    "lt": _binary(np.less), "le": _binary(np.less_equal), "gt": _binary(np.greater),
    "ge": _binary(np.greater_equal), "eq": _binary(np.equal), "ne": _binary(np.not_equal),
    "and": _fold(np.logical_and), "or": _fold(np.logical_or), "not": _unary(np.logical_not),
    "xor": _binary(np.logical_xor),
    "bitand": _fold(np.bitwise_and), "bitor": _fold(np.bitwise_or),
    "bitxor": _fold(np.bitwise_xor), "invert": _unary(np.invert),
    "shl": _binary(_shift_left), "shr": _binary(_shift_right),
    "min": _fold(minimum), "max": _fold(maximum), "abs": _unary(_absolute), "sign": _unary(_sign),
    "floor": _rounding(np.floor), "ceil": _rounding(np.ceil), "round": _rounding(np.rint),
    "sqrt": _unary(np.sqrt), "rsqrt": _unary(lambda a: 1 / np.sqrt(a)),
    "exp": _unary(np.exp), "exp2": _unary(np.exp2), "log": _unary(np.log), "log2": _unary(np.log2),
    "sin": _unary(np.sin), "cos": _unary(np.cos), "tanh": _unary(np.tanh),
    "sigmoid": _unary(_sigmoid), "erf": _unary(_erf), "expm1": _unary(np.expm1),
    "log1p": _unary(np.log1p), "isnan": _classify(np.isnan), "isinf": _classify(np.isinf),
    "real": _unary(np.real), "imag": _unary(np.imag), "conj": _unary(np.conj),
    "popcount": _unary(_popcount), "exponent": _unary(_exponent), "ldexp": _binary(_ldexp),
}  # fmt: skip


# --- integers without width ---------------------------------------------------------------------

_GROWING = frozenset({"add", "sub", "mul", "neg", "abs", "pow", "shl", "floordiv"})
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


def _fits(name: str, args: Args) -> bool:
    """Whether no element of the result, or of a partial result, can leave int64."""
    spans = [_span(arg) for arg in args]
    low, high = spans[0]
    for other in spans[1:]:
        low, high = _grown(name, (low, high), other)
        if low < _LOW or high > _HIGH:
            return False
    return len(args) > 1 or low > _LOW


def _span(array: Array) -> tuple[int, int]:
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def _grown(name: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """An interval that holds the results of `name` on two intervals."""
    match name:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "floordiv":
            size = max(abs(a[0]), abs(a[1]))
            return -size, size
        case _:
            size, power = max(abs(a[0]), abs(a[1]), 1), max(b[1], 0)
            if power > 64:
                return _LOW - 1, _HIGH + 1
            size = size**power if name == "pow" else size << power
            return -size, size
