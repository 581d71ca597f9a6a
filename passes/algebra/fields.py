"""Exact values for checking rewrites: residues in a chain of prime fields, beside a real shadow.

A value has a residue in each of three fields whose primes form a chain, 16777259 | 33554519 - 1 |
805308457 - 1: exp takes the residue in one field to the next, by an element whose order is the
smaller prime, so exp(x + y) = exp(x) exp(y) holds exactly and exponentials may nest twice. Where a
logarithm has no residue, the residue of its exponential stands for it. Functions without laws are
random functions of residues. Maxima and minima select by the shadow, a float64 of the same formula.

Equal formulas always agree. Different ones agree with odds of about their degree over the smallest
prime, except that no such bound is proved once an exponential occurs: this is a check, no proof.
What it cannot see is rounding and range.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
PRIMES = (16777259, 33554519, 805308457)
_SMALL = {0: 0, 1: 2, 2: 24}  # (prime - 1) / the prime before


class Undefined(ArithmeticError):
    """A reciprocal of 0: other random values are needed."""


class TooLarge(Exception):
    """A value would have more than LARGEST points; how many."""


LARGEST = 1 << 22
_FEW = 12  # axes; values have at most 3 points on each


def power(base: Array | int, exponent: Array | int, prime: int) -> Array:
    """base ** exponent modulo prime, elementwise; exponents are not negative."""
    b, e = np.broadcast_arrays(np.asarray(base, np.int64), np.asarray(exponent, np.int64))
    result, square, left = np.ones(b.shape, np.int64), b % prime, e.copy()
    while left.any():
        result = np.where(left & 1, result * square % prime, result)
        square = square * square % prime
        left >>= 1
    return result


def _base(level: int) -> int:
    """An element of field `level` whose order is the prime of the field below."""
    prime = PRIMES[level]
    return next(g for c in range(2, 99) if (g := pow(c, _SMALL[level], prime)) != 1)


_BASES = (0, _base(1), _base(2))


@dataclass(frozen=True)
class Value:
    """Arrays over `axes`: residues by level (None: no residue), residues of the exponential by
    level (None: exp of the residue below, if that is there), and the shadow."""

    axes: tuple[str, ...]
    residues: tuple[Array | None, ...]
    exponentials: tuple[Array | None, ...]
    shadow: Array

    def exponential(self, level: int) -> Array | None:
        """exp of the value, in field `level`."""
        if self.exponentials[level] is not None or level == 0:
            return self.exponentials[level]
        below = self.residues[level - 1]
        return None if below is None else power(_BASES[level], below, PRIMES[level])


NO = (None, None, None)


def number(value: Fraction, shadow: float | None = None) -> Value:
    """A rational number in every field."""
    residues = tuple(
        np.asarray(value.numerator % p * pow(value.denominator, -1, p) % p) for p in PRIMES
    )
    return Value((), residues, NO, np.asarray(float(value) if shadow is None else shadow))


def truth(axes: tuple[str, ...], values: Array) -> Value:
    """A condition."""
    return Value(axes, NO, NO, values)


def align(values: Sequence[Value]) -> tuple[tuple[str, ...], list[Value]]:
    """The values over the union of their axes, ready to broadcast. TooLarge: that has too many
    points."""
    axes = tuple(sorted({axis for value in values for axis in value.axes}))
    if len(axes) > _FEW:  # axes have at least 2 points, but for broadcast ones
        sizes = dict.fromkeys(axes, 1)
        for value in values:
            for axis, size in zip(value.axes, value.shadow.shape, strict=True):
                sizes[axis] = max(sizes[axis], size)
        if (points := math.prod(sizes.values())) > LARGEST:
            raise TooLarge(f"a product of {points:,} points")
    return axes, [expanded(value, axes) for value in values]


def expanded(value: Value, axes: tuple[str, ...]) -> Value:
    """The value with axes of size 1 where it lacks some of `axes`."""
    if value.axes == axes:
        return value
    missing = tuple(place for place, axis in enumerate(axes) if axis not in value.axes)
    return mapped(value, lambda array: np.expand_dims(array, missing), axes)


def mapped(value: Value, change: Callable[[Array], Array], axes: tuple[str, ...]) -> Value:
    """Every array of the value changed alike."""
    return Value(
        axes,
        tuple(None if array is None else change(array) for array in value.residues),
        tuple(None if array is None else change(array) for array in value.exponentials),
        change(value.shadow),
    )


def product(values: Sequence[Value], factor: Fraction) -> Value:
    """factor times the product of the values."""
    axes, items = align([*values, number(factor)])
    residues = list(items[-1].residues)
    shadow = items[-1].shadow
    for item in items[:-1]:
        for level, prime in enumerate(PRIMES):
            mine, other = residues[level], item.residues[level]
            residues[level] = None if mine is None or other is None else mine * other % prime
        shadow = shadow * item.shadow
    return Value(axes, tuple(residues), _scaled(items, factor), shadow)


def contracted(values: Sequence[Value], factor: Fraction, over: Sequence[tuple[str, int]]) -> Value:
    """The sum over indices of factor times the product of the values: index by index, of the
    products that have it, the smallest product first."""
    left, waiting = list(values), dict(over)
    while waiting:
        name = min(waiting, key=lambda index: (_points(left, index), index))
        inside = [value for value in left if name in value.axes]
        left = [value for value in left if name not in value.axes]
        body = product(inside, Fraction(1))
        left.append(summed(body, truth((), np.asarray(True)), [(name, waiting.pop(name))]))
    return product(left, factor)


def _points(values: Sequence[Value], index: str) -> int:
    """How many points the product of the values with an index has, broadcast axes as they are."""
    sizes: dict[str, int] = {}
    for value in values:
        if index in value.axes:
            for axis, size in zip(value.axes, value.shadow.shape, strict=True):
                sizes[axis] = max(sizes.get(axis, 1), size)
    return math.prod(sizes.values())


def _scaled(items: Sequence[Value], factor: Fraction) -> tuple[Array | None, ...]:
    """exp(n x) = exp(x) ** n, for an integer n; what else is unknown."""
    if len(items) != 2 or factor.denominator != 1:
        return NO
    found: list[Array | None] = []
    for level, prime in enumerate(PRIMES):
        base = items[0].exponentials[level]
        sign = int(factor) % (prime - 1)
        found.append(None if base is None else power(base, sign, prime))
    return tuple(found)


def total(values: Sequence[Value]) -> Value:
    """The sum of the values."""
    axes, items = align(values)
    residues: list[Array | None] = []
    exponentials: list[Array | None] = []
    for level, prime in enumerate(PRIMES):
        parts = [item.residues[level] for item in items]
        residues.append(_combined(parts, lambda a, b, p=prime: (a + b) % p))
        exponentials.append(_product_of_powers(items, level) if _explicit(items, level) else None)
    shadow = sum((item.shadow for item in items[1:]), items[0].shadow)
    return Value(axes, tuple(residues), tuple(exponentials), shadow)


def _explicit(values: Sequence[Value], level: int) -> bool:
    """Whether an exponential is known that the residue below does not tell."""
    return any(value.exponentials[level] is not None for value in values)


def _product_of_powers(items: Sequence[Value], level: int) -> Array | None:
    parts = [item.exponential(level) for item in items]
    return _combined(parts, lambda a, b: a * b % PRIMES[level])


def _combined(parts: Sequence[Array | None], join: Callable[[Array, Array], Array]) -> Array | None:
    result = parts[0]
    for part in parts[1:]:
        result = None if result is None or part is None else join(result, part)
    return result


def summed(body: Value, where: Value, over: Sequence[tuple[str, int]]) -> Value:
    """The sum of `body` over indices with their sizes, where the condition holds."""
    axes, value, mask = _spread(body, where, over)
    drop = tuple(axes.index(name) for name, _ in over)
    residues = tuple(
        None if array is None else np.where(mask, array, 0).sum(drop) % prime
        for array, prime in zip(value.residues, PRIMES, strict=True)
    )
    shadow = np.where(mask, value.shadow, 0).sum(drop)
    return Value(tuple(a for a in axes if a not in dict(over)), residues, NO, shadow)


def _spread(
    body: Value, where: Value, over: Sequence[tuple[str, int]]
) -> tuple[tuple[str, ...], Value, Array]:
    """Body and condition over all their axes and the reduced ones, at full size."""
    frame = [Value((name,), NO, NO, np.zeros(size)) for name, size in over]
    axes, (value, mask, *rest) = align([body, where, *frame])
    shape = np.broadcast_shapes(
        value.shadow.shape, mask.shadow.shape, *(r.shadow.shape for r in rest)
    )
    full = mapped(value, lambda array: np.broadcast_to(array, shape), axes)
    return axes, full, np.broadcast_to(mask.shadow.astype(bool), shape)


def extreme(body: Value, where: Value, over: Sequence[tuple[str, int]], largest: bool) -> Value:
    """The maximum or minimum, selected by the shadow; of nothing: minus or plus infinity, whose
    residue is a number of its own."""
    axes, value, mask = _spread(body, where, over)
    drop = [axes.index(name) for name, _ in over]
    kept = [place for place in range(len(axes)) if place not in drop]
    none = -np.inf if largest else np.inf
    shadow = np.where(mask, value.shadow, none)
    flat = shadow.transpose(kept + drop).reshape(*(shadow.shape[k] for k in kept), -1)
    best = flat.argmax(-1) if largest else flat.argmin(-1)
    found = np.take_along_axis(flat, best[..., None], -1)[..., 0]

    def chosen(array: Array) -> Array:
        rows = array.transpose(kept + drop).reshape(flat.shape)
        taken = np.take_along_axis(rows, best[..., None], -1)[..., 0]
        return np.where(np.isinf(found), 7, taken) if array.dtype == np.int64 else taken

    result = mapped(value, chosen, tuple(axes[k] for k in kept))
    return Value(result.axes, result.residues, result.exponentials, found)


def either(condition: Value, yes: Value, no: Value) -> Value:
    """`yes` where the condition holds, else `no`."""
    axes, (mask, a, b) = align([condition, yes, no])
    pick = mask.shadow.astype(bool)

    def joined(left: Array | None, right: Array | None) -> Array | None:
        return None if left is None or right is None else np.where(pick, left, right)

    residues = tuple(map(joined, a.residues, b.residues))
    powers = tuple(
        joined(a.exponential(n), b.exponential(n)) if _explicit((a, b), n) else None
        for n in range(len(PRIMES))
    )
    return Value(axes, residues, powers, np.where(pick, a.shadow, b.shadow))


def reciprocal(value: Value) -> Value:
    """1 / value; Undefined where a residue is 0."""
    residues: list[Array | None] = []
    for array, prime in zip(value.residues, PRIMES, strict=True):
        if array is not None and (array == 0).any():
            raise Undefined
        residues.append(None if array is None else power(array, prime - 2, prime))
    with np.errstate(all="ignore"):
        return Value(value.axes, tuple(residues), NO, 1 / value.shadow)


def exponential(value: Value) -> Value:
    """exp(value): the residue of each level comes from the level below."""
    residues = tuple(value.exponential(level) for level in range(len(PRIMES)))
    with np.errstate(all="ignore"):
        return Value(value.axes, residues, NO, np.exp(value.shadow))


def logarithm(value: Value) -> Value:
    """log(value), known by its exponential."""
    with np.errstate(all="ignore"):
        return Value(value.axes, NO, value.residues, np.log(value.shadow))


def opaque(name: str, values: Sequence[Value]) -> Value:
    """A random function of the residues, the same for the same name."""
    axes, items = align(values)
    seed = zlib.crc32(name.encode())
    residues: list[Array | None] = []
    for level, prime in enumerate(PRIMES):
        parts = [item.residues[level] for item in items]
        mixed = _combined(parts, lambda a, b: _mix(a * 3 + b, seed))
        residues.append(None if mixed is None else _mix(mixed, seed + level) % prime)
    shadow = sum(((1 + n) * item.shadow for n, item in enumerate(items)), np.zeros(()))
    with np.errstate(all="ignore"):
        return Value(axes, tuple(residues), NO, _REAL.get(name, np.sin)(shadow + seed % 3))


_REAL: dict[str, Callable[[Array], Array]] = {}


def _mix(values: Array, seed: int) -> Array:
    """Numbers below 2**29 that look random, the same for the same input."""
    salt = np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    x = np.atleast_1d(values).astype(np.uint64) + salt
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    low = (x ^ (x >> np.uint64(31))) & np.uint64((1 << 29) - 1)
    return low.astype(np.int64).reshape(values.shape)


def agree(a: Value, b: Value) -> bool | None:
    """Whether two values are equal; None where they have no field in common."""
    _, (left, right) = align([a, b])
    if left.shadow.dtype == bool and right.shadow.dtype == bool:
        return bool((left.shadow == right.shadow).all())
    known = False
    finite = np.isfinite(left.shadow) & np.isfinite(right.shadow)
    for level in range(len(PRIMES)):
        pairs = [(left.residues[level], right.residues[level])]
        if _explicit((left, right), level):
            pairs.append((left.exponential(level), right.exponential(level)))
        for x, y in pairs:
            if x is None or y is None:
                continue
            known = True
            if ((x != y) & finite).any():
                return False
    with np.errstate(all="ignore"):
        same = np.isclose(left.shadow, right.shadow, 1e-6, 1e-6) | ~finite
    return bool(same.all()) if known or not finite.any() else None
