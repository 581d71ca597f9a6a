"""Worst-case rounding errors through reductions: `propagate` for the table of `reductions`.

Values have the reduced axis first. Sums and products may be taken in any order, fused or not; of
exact integers that stay within the significand they have no error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorc.ir.bounded import Bounded, farthest, number, real_part, times, tiny, unit
from tensorc.ir.contract import contract
from tensorc.ir.dtypes import BOOL, PRECISION, DType
from tensorc.ir.propagate import rounded
from tensorc.ir.rounding import Array


def reduced(name: str, body: Bounded, selected: Array | None, result: Array, dtype: DType) -> Array:
    """The error of a reduction over axis 0 (see `reductions`), accumulated in `dtype`.

    Sums and products may be taken in any order: n - 1 roundings of partial results no larger than
    the sum of sizes (Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
    """
    with np.errstate(all="ignore"):
        values = np.broadcast_to(body.value, np.broadcast_shapes(body.value.shape, _of(selected)))
        errors = np.broadcast_to(body.error, values.shape)
        if selected is not None:
            errors = np.where(selected, errors, 0.0)
        return np.asarray(_REDUCED[name](values, errors, selected, result, dtype))


def contracted(a: Bounded, b: Bounded, result: Array, dtype: DType) -> Array:
    """The error of the sum over axis 0 of a * b, products rounded, in any order or fused.

    Both factors' arrays have the whole axis 0; see `contract`, which multiplies finite matrices.
    """
    sizes, errors = zip(*(_finite(item) for item in (a, b)), strict=True)
    total = contract(sizes[0] + errors[0], sizes[1] + errors[1])
    whole = all(item.sure and bool((np.rint(item.value) == item.value).all()) for item in (a, b))
    if whole and not dtype.complex and bool((total <= 2.0 ** PRECISION[dtype]).all()):
        return np.zeros(result.shape)
    error = total * steps(len(a.value), dtype) + len(a.value) * tiny(dtype)
    if not (a.sure and b.sure):
        error = error + (total - contract(sizes[0], sizes[1])) * (1 + 2.0**-40)
        error = error + total * 2.0**-50  # of the difference of two sums
    error = np.where(np.isfinite(result), rounded(error, total, dtype), 0.0)
    lost = [np.where(np.isfinite(item.error), 0.0, 1.0) for item in (a, b)]
    if any(mask.any() for mask in lost):
        ones = [np.ones(item.value.shape) for item in (a, b)]
        masks = [np.broadcast_to(m, o.shape) for m, o in zip(lost, ones, strict=True)]
        open_ = contract(masks[0], ones[1]) + contract(ones[0], masks[1])
        error = np.where(open_ > 0, np.inf, error)
    return error


def _finite(item: Bounded) -> tuple[Array, Array]:
    """Sizes and errors, 0 where they are not finite."""
    size, error = np.abs(number(item.value)), np.broadcast_to(item.error, item.value.shape)
    return np.where(np.isfinite(size), size, 0.0), np.where(np.isfinite(error), error, 0.0)


def _of(selected: Array | None) -> tuple[int, ...]:
    return () if selected is None else selected.shape


def steps(count: Array | int, dtype: DType) -> Array:
    """n u / (1 - n u), the relative error of n roundings; infinite once that means nothing."""
    total = np.asarray(count) * unit(dtype)
    return np.where(total < 1, total / (1 - total), np.inf)


def _kept(values: Array, selected: Array | None, other: float) -> Array:
    return values if selected is None else np.where(selected, values, other)


def _count(values: Array, selected: Array | None) -> Array:
    if selected is None:
        return np.asarray(values.shape[0])
    return np.broadcast_to(selected, values.shape).sum(axis=0)


def _summed(
    values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
) -> Array:
    if dtype.integral or dtype is BOOL:
        return np.where(errors.any(axis=0), np.inf, 0.0)
    sizes = np.abs(number(_kept(values, selected, 0.0))) + errors
    total = np.where(np.isfinite(sizes), sizes, 0.0).sum(axis=0)
    count = _count(values, selected)
    grown = errors.sum(axis=0) + times(steps(np.maximum(count - 1, 0), dtype), total)
    grown = np.where(_whole_sum(sizes, errors, total, dtype), 0.0, grown)
    special = ~np.isfinite(result)
    return np.where(special, _certain(errors), rounded(grown, total, dtype))


def _whole_sum(sizes: Array, errors: Array, total: Array, dtype: DType) -> Array:
    """Where a sum of exact integers stays within the significand in any order."""
    whole = ((np.rint(sizes) == sizes) & (errors == 0)).all(axis=0)
    return whole & (total <= 2.0 ** PRECISION[real_part(dtype)]) & (not dtype.complex)


def _certain(errors: Array) -> Array:
    """A special result stands where no element's error is infinite."""
    return np.where(np.isfinite(errors).all(axis=0), 0.0, np.inf)


def _multiplied(
    values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
) -> Array:
    if dtype.integral or dtype is BOOL:
        return np.where(errors.any(axis=0), np.inf, 0.0)
    sizes = np.abs(number(_kept(values, selected, 1.0)))
    grown = np.prod(sizes + errors, axis=0) - np.prod(sizes, axis=0)
    count = _count(values, selected)
    largest = np.prod(np.maximum(sizes + errors, 1.0), axis=0)  # of any partial product
    error = grown + times(steps(count, dtype), np.prod(sizes + errors, axis=0))
    error = error + count * tiny(dtype) * largest
    error = np.where(_whole_sum(sizes, errors, largest, dtype), 0.0, error)
    special = ~np.isfinite(result)
    return np.where(special, _certain(errors), rounded(error, largest, dtype))


def _averaged(
    values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
) -> Array:
    count = np.maximum(_count(values, selected), 1)
    total = result * count
    error = _summed(values, errors, selected, total, dtype) / count
    return np.where(np.isfinite(result), error + unit(dtype) * (np.abs(result) + error), error)


def _largest(
    values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
) -> Array:
    """How far the maximum of the intervals' ends lies from the maximum."""
    numbers = number(values)
    upper = np.max(_kept(numbers + errors, selected, -np.inf), axis=0, initial=-np.inf)
    lower = np.max(_kept(numbers - errors, selected, -np.inf), axis=0, initial=-np.inf)
    wide = farthest(number(result), [upper, lower])
    return np.where(errors.any(axis=0), wide, 0.0)


def _smallest(
    values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
) -> Array:
    return _largest(-number(values), errors, selected, -number(result), dtype)


def _located(largest: bool) -> Callable[[Array, Array, Array | None, Array, DType], Array]:
    """Infinite where another element may be the extreme one."""

    def found(
        values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
    ) -> Array:
        if not values.shape[0]:
            return np.zeros(())
        numbers = number(values) if largest else -number(values)
        place = np.maximum(result, 0)[np.newaxis]
        best = np.take_along_axis(numbers, place, axis=0)
        reach = np.take_along_axis(errors, place, axis=0)
        rival = ~(numbers + errors < best - reach) & (errors + reach > 0)
        rival &= np.arange(len(values)).reshape((-1,) + (1,) * (values.ndim - 1)) != place
        return np.where(_kept(rival, selected, False).any(axis=0), np.inf, 0.0)

    return found


def _decided(every: bool) -> Callable[[Array, Array, Array | None, Array, DType], Array]:
    """1 where no element decides surely and one is open."""

    def found(
        values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
    ) -> Array:
        deciding = _kept((values != every) & (errors == 0), selected, False).any(axis=0)
        return np.where(~deciding & (errors > 0).any(axis=0), 1.0, 0.0)

    return found


def _exponentials(
    values: Array, errors: Array, selected: Array | None, dtype: DType
) -> tuple[Array, Array, Array]:
    """exp(x - max), its error, and the relative error of the sum, each term rescaled once."""
    u = unit(dtype)
    top = np.max(_kept(number(values), selected, -np.inf), axis=0, initial=-np.inf)
    shift: Array = np.where(np.isfinite(values) & np.isfinite(top), top - values, 0.0)
    moved = errors + _kept(errors, selected, 0.0).max(axis=0, initial=0.0)
    power = _kept(np.exp(values - top), selected, 0.0)
    grown = np.exp(moved - shift * (1 - u))
    own = u * (4 + 4 * (shift + moved)) * np.exp(-shift)
    each = np.where(np.isfinite(moved), np.maximum(grown - power, 0.0) + own + tiny(dtype), np.inf)
    each = _kept(np.where(np.isneginf(values) & np.isfinite(moved), 0.0, each), selected, 0.0)
    total = power.sum(axis=0)
    spread = each.sum(axis=0) / np.where(total > 0, total, 1.0)
    return power, each, (1 + spread) * (1 + steps(4 * _count(values, selected), dtype)) - 1


def _log_of_sum(
    values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
) -> Array:
    """logsumexp moves no more than its arguments; the sum's relative error becomes absolute."""
    _, _, total = _exponentials(values, np.zeros_like(errors), selected, dtype)
    moved = errors.max(axis=0, initial=0.0)
    own = np.where(total < 1, -np.log1p(-total), np.inf)
    logarithm = np.log(np.maximum(_count(values, selected), 1)) + moved
    size = np.where(np.isfinite(result), np.abs(result), 0.0)
    error = moved + own + unit(dtype) * (4 * logarithm + 4 + 2 * (size + moved))
    return np.where(np.isfinite(result), error, _certain(errors))


def _shares(
    values: Array, errors: Array, selected: Array | None, result: Array, dtype: DType
) -> Array:
    power, each, total = _exponentials(values, errors, selected, dtype)
    whole = np.where(total < 1, power.sum(axis=0) * (1 - total), 0.0)
    largest = (power + each) * (1 + unit(dtype)) / np.where(whole > 0, whole, np.nan)
    error = np.where(np.isnan(largest), np.inf, largest - result) + tiny(dtype)
    error = np.where(np.isfinite(result), error, _certain(errors))
    return _kept(error, selected, 0.0)


_REDUCED: dict[str, Callable[[Array, Array, Array | None, Array, DType], Array]] = {
    "sum": _summed, "prod": _multiplied, "mean": _averaged, "max": _largest, "min": _smallest,
    "argmax": _located(True), "argmin": _located(False), "any": _decided(False),
    "all": _decided(True), "logsumexp": _log_of_sum, "softmax": _shares,
}  # fmt: skip
