"""Values with errors: what the errors of numbers are, and how they are added up.

Units: `UNIT` is the relative error of one rounding, `TINY` the absolute one near 0. For f64 both
sides of a comparison round, hence twice; for the others float64 itself adds a little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorc.ir.dtypes import COMPLEX64, COMPLEX128, F32, F64, LOWEST_EXPONENT, PRECISION, DType
from tensorc.ir.rounding import Array

MARGIN = 1 + 2.0**-20  # float64's own rounding, beside that of narrower types
UNIT: dict[DType, float] = {d: 2.0**-p * MARGIN for d, p in PRECISION.items()} | {F64: 2.0**-52}
TINY: dict[DType, float] = {d: 2.0 ** max(e - 1, -1074) for d, e in LOWEST_EXPONENT.items()}


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


def open_errors(args: Sequence[Bounded]) -> Array:
    """Integers and bits: infinite where an argument has an error."""
    return added([np.where(arg.error > 0, np.inf, 0.0) for arg in args])


def added(errors: Sequence[Array]) -> Array:
    total = errors[0]
    for error in errors[1:]:
        total = total + error
    return np.asarray(total)


def lost(value: Array) -> Array:
    """NaN: comparisons with it are decided."""
    return value != value


def interval_ends(arg: Bounded) -> tuple[Array, Array]:
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
        same = (end == middle) | (lost(end) & lost(middle))
        away = np.where(same, 0.0, np.abs(end - middle))
        total = np.maximum(total, np.where(np.isnan(away), np.inf, away))
    return total


def times(size: Array, error: Array) -> Array:
    """A size times an error: nothing of no error, all of an infinite one, as 0 * inf is NaN."""
    return np.where(error == 0, 0.0, np.where(np.isinf(error), np.inf, size * error))
