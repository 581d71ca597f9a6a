"""When a kernel's result passes: the three-part rule.

1. Every error is within the worst-case bound, derived where the rounding points are.
2. On at least 64 different elements the RMS error is at most 3 times the larger of the rounding
   interpreter's and half a unit in the last place of the output type.
3. On data for which every operation is exact, and on integers, the result is equal: there the
   bound is 0. It is on integers that stay within the significand in any order.

A bound whose median exceeds 1 % of the median |reference| is VACUOUS: keeping it is no evidence,
though breaking it still is. Where no rule gives evidence the verdict is UNDECIDED, never PASS.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from tensorc.ir.dtypes import F8E4M3, F32, F64, LOWEST_EXPONENT, PRECISION, DType
from tensorc.ir.rounding import LARGEST, Array, numpy_dtype

ELEMENTS = 64  # fewest elements on which the RMS rule is used
RMS_FACTOR = 3.0  # times the rounding interpreter's RMS error
VACUOUS = 0.01  # of the median |reference|


class Outcome(Enum):
    """What is known about a result."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNDECIDED = "UNDECIDED"


@dataclass(frozen=True)
class Verdict:
    """The outcome, why, and the figures behind it.

    `worst` is the index of the element that decided: a failing one, else the one closest to its
    bound; `error`, `bound`, `got` and `want` are that element's. `rms` and `rms_allowed` are None
    where rule 2 does not apply.
    """

    outcome: Outcome
    reason: str
    worst: tuple[int, ...] | None = None
    error: float = 0.0
    bound: float = 0.0
    got: complex = 0.0
    want: complex = 0.0
    rms: float | None = None
    rms_allowed: float | None = None
    vacuous: bool = False

    @property
    def passed(self) -> bool:
        """True for PASS alone."""
        return self.outcome is Outcome.PASS

    def __str__(self) -> str:
        parts = [f"{self.outcome.value}: {self.reason}"]
        if self.worst is not None:
            place = ", ".join(map(str, self.worst))
            parts.append(
                f"at [{place}] got {_shown(self.got)}, want {_shown(self.want)}, "
                f"error {self.error:.3g}, bound {self.bound:.3g}"
                f"{' (VACUOUS)' if self.vacuous else ''}"
            )
        if self.rms is not None:
            parts.append(f"RMS error {self.rms:.3g}, allowed {self.rms_allowed:.3g}")
        return "; ".join(parts)


def accept(
    got: npt.ArrayLike,
    want64: npt.ArrayLike,
    twin: npt.ArrayLike | None,
    bound: npt.ArrayLike | None,
    dtype: DType,
    exact: bool = False,
    strict: bool = False,
) -> Verdict:
    """Judge one output of storage type `dtype`.

    `want64`: the level-1 meaning (float64, complex128, integers or bool); `twin`: the result of an
    interpreter that rounds where the contract does; `bound`: the largest |got - want64| that the
    program's rounding explains, the store included, inf where unknown. All have got's shape;
    without `twin` rule 2 is not used, without `bound` rule 1 is not.
    `exact`: the data makes every operation exact, so that equality is demanded (rule 3).
    `strict`: the numerics policy; `fast` may exchange one non-finite value for another.
    """
    result, want = np.asarray(got), np.asarray(want64)
    want = want.astype(np.float64) if want.dtype == bool else want
    faulty = _misfit(result, want, dtype)
    if faulty:
        return Verdict(Outcome.FAIL, faulty)
    if not result.size:
        return Verdict(Outcome.PASS, "no elements")
    limit = np.full(want.shape, np.inf) if bound is None else np.asarray(bound, np.float64)
    if exact or (bound is None and not _inexact(dtype)):
        limit = np.zeros(want.shape)
    case = _Case(result, want, None if twin is None else np.asarray(twin), limit, dtype, strict)
    return case.special() or case.finite(exact or not _inexact(dtype))


def half_unit(values: npt.ArrayLike, dtype: DType) -> Array:
    """Half a unit in the last place of a float type at each value."""
    array = np.abs(np.asarray(values))
    _, exponent = np.frexp(array)
    lowest = LOWEST_EXPONENT[dtype]
    unit = np.where(array == 0, lowest, np.maximum(exponent - PRECISION[dtype], lowest))
    return np.ldexp(0.5, unit)


@dataclass(frozen=True)
class _Case:
    """One comparison; the arrays of `accept`, a bound for every element."""

    got: Array
    want: Array
    twin: Array | None
    bound: Array
    dtype: DType
    strict: bool

    def special(self) -> Verdict | None:
        """FAIL where NaN and infinities are not what the rules allow."""
        finite, wanted = np.isfinite(_wide(self.got)), np.isfinite(self.want)
        rules = [
            ("not finite where the reference is finite", wanted & ~finite & ~self._may_overflow()),
            ("finite where the reference is not", ~wanted & finite & ~self._lost(finite=True)),
        ]
        if self.strict:
            other = ~wanted & ~finite & ~self._same_special()
            rules.append(("another non-finite value than the reference", other))
        for reason, bad in rules:
            if bad.any():
                return self._at(Outcome.FAIL, reason, _first(bad))
        return None

    def _lost(self, finite: bool) -> Array:
        """Where the bound is infinite, and the twin does not show that such a value is wrong."""
        unknown = ~np.isfinite(self.bound)
        return unknown if self.twin is None else unknown & (np.isfinite(_wide(self.twin)) == finite)

    def _may_overflow(self) -> Array:
        """Where a non-finite result is right although the reference is finite: the value, within
        its bound, exceeds the type, and the result is what a store makes of it."""
        got = np.real(_wide(self.got))
        with np.errstate(invalid="ignore"):
            beyond = np.abs(self.want) + self.bound > _largest(self.dtype)
        right = np.isnan(got) if self.dtype is F8E4M3 else np.isinf(got)
        right &= np.isnan(got) | (np.sign(got) == np.sign(np.real(self.want)))
        return self._lost(finite=False) | (beyond & np.isfinite(self.bound) & right)

    def _same_special(self) -> Array:
        got = _wide(self.got)
        if self.dtype is F8E4M3:  # has no infinity
            return np.isnan(got)
        return (np.isnan(got) & np.isnan(self.want)) | (got == self.want)

    def finite(self, equal: bool) -> Verdict:
        """Rules 1 to 3 on the elements that are finite in both."""
        with np.errstate(invalid="ignore"):
            error = np.abs(_wide(self.got) - self.want)
        error = np.where(np.isfinite(error), error, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(error == 0, 0.0, error / self.bound)
        worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        place = tuple(int(p) for p in worst)
        if ratio[place] > 1:
            what = "differs where it must be equal" if equal else "error beyond the bound"
            count = int((ratio > 1).sum())
            return self._at(Outcome.FAIL, f"{what}, {count} of {ratio.size} elements", place)
        if not equal:
            return self._statistics(error, place)
        settled = int((self.bound == 0).sum())
        if 2 * settled < ratio.size:
            reason = f"only {settled} of {ratio.size} elements are determined"
            return self._at(Outcome.UNDECIDED, reason, place)
        return self._at(Outcome.PASS, "equal", place)

    def _statistics(self, error: Array, place: tuple[int, ...]) -> Verdict:
        """Rule 2, and whether the bound that held is evidence."""
        vacuous = self._vacuous()
        rms, allowed = self._rms(error)
        if rms is not None and allowed is not None and rms > allowed:
            reason = f"RMS error {RMS_FACTOR * rms / allowed:.1f} times the rounding twin's"
            return self._at(Outcome.FAIL, reason, place, rms, allowed)
        if vacuous and rms is None:
            reason = "the bound is vacuous and the RMS rule does not apply"
            return self._at(Outcome.UNDECIDED, reason, place)
        reason = "RMS error" if vacuous else "bound" if rms is None else "bound and RMS error"
        return self._at(Outcome.PASS, f"{reason} kept", place, rms, allowed)

    def _vacuous(self) -> bool:
        finite = np.isfinite(self.want)
        if not finite.any():
            return False  # all is special, and was compared
        middle = float(np.median(np.abs(self.want[finite])))
        return bool(np.median(self.bound[finite]) > VACUOUS * middle)

    def _rms(self, error: Array) -> tuple[float | None, float | None]:
        """RMS errors of the result and allowed, weighted by the bound relative to its median.

        The weights keep one badly conditioned element from deciding alone; where the bound is
        infinite there is nothing to compare.
        """
        if self.twin is None or not _inexact(self.dtype):
            return None, None
        twin = _wide(self.twin)
        used = np.isfinite(twin) & np.isfinite(self.want) & np.isfinite(_wide(self.got))
        used &= np.isfinite(self.bound) | ~np.isfinite(self.bound).any()
        if len(np.unique(self.want[used])) < ELEMENTS:  # equal elements err alike
            return None, None
        weight = _weights(self.bound[used])
        unit = weight * half_unit(self.want[used], _part(self.dtype))
        own = weight * np.abs(twin[used] - self.want[used])
        return _root_mean(weight * error[used]), RMS_FACTOR * max(_root_mean(own), _root_mean(unit))

    def _at(
        self,
        outcome: Outcome,
        reason: str,
        place: tuple[int, ...],
        rms: float | None = None,
        allowed: float | None = None,
    ) -> Verdict:
        got, want = complex(_wide(self.got)[place]), complex(self.want[place])
        error = abs(got - want) if np.isfinite(got) and np.isfinite(want) else float("nan")
        error = 0.0 if got == want else error
        return Verdict(
            outcome, reason, place, error, float(self.bound[place]), got, want, rms, allowed,
            self._vacuous(),
        )  # fmt: skip


def _misfit(got: Array, want: Array, dtype: DType) -> str:
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, want {list(want.shape)}"
    if got.dtype != numpy_dtype(dtype):
        return f"element type {got.dtype}, want {numpy_dtype(dtype)}"
    return ""


def _inexact(dtype: DType) -> bool:
    return dtype.floating or dtype.complex


def _part(dtype: DType) -> DType:
    """The float type of a complex type's parts."""
    return dtype if dtype.floating else F32 if dtype.bits == 64 else F64


def _largest(dtype: DType) -> float:
    return LARGEST[_part(dtype)] if _inexact(dtype) else np.inf


def _wide(values: Array) -> Array:
    """Values as float64 or complex128; integers as they are where float64 could not hold them."""
    if values.dtype.kind == "c":
        return values.astype(np.complex128)
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        return values.astype(np.longdouble)
    return values.astype(np.float64)


def _weights(bound: Array) -> Array:
    """The median bound over each one; 1 where there is none."""
    known = np.isfinite(bound) & (bound > 0)
    middle = float(np.median(bound[known])) if known.any() else 1.0
    return np.where(known, middle / np.where(known, bound, 1.0), 1.0)


def _first(bad: Array) -> tuple[int, ...]:
    return tuple(int(place) for place in np.argwhere(bad)[0])


def _root_mean(values: Array) -> float:
    """Root of the mean of squares, without overflow."""
    top = float(values.max(initial=0.0))
    return top * float(np.sqrt(np.mean((values / top) ** 2))) if top > 0 else 0.0


def _shown(value: complex) -> str:
    return f"{value.real:.6g}" if value.imag == 0 else f"{value:.6g}"
