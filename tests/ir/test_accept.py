"""The three-part rule on results with planted faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.ir import dtypes as T
from tensorc.ir.accept import Outcome, accept, half_unit
from tensorc.ir.dtypes import DType
from tensorc.ir.rounding import round_to

Array = npt.NDArray[Any]
NAN, INF = float("nan"), float("inf")
PASS, FAIL, UNDECIDED = Outcome.PASS, Outcome.FAIL, Outcome.UNDECIDED


def outcome(
    got: Any, want: Any, bound: Any = None, dtype: DType = T.F32, twin: Any = None, **options: bool
) -> Outcome:
    limit = None if bound is None else np.broadcast_to(np.asarray(bound, float), np.shape(want))
    return accept(round_to(got, dtype), np.asarray(want), twin, limit, dtype, **options).outcome


def sample(count: int = 1000) -> tuple[Array, Array]:
    """A reference and a twin that errs by one f16 rounding."""
    want = np.random.default_rng(0).uniform(1, 2, count)
    return want, round_to(want, T.F16)


def test_within_and_beyond_the_bound() -> None:
    want, twin = sample()
    assert accept(twin, want, twin, np.full(want.shape, 1e-3), T.F16).passed
    wrong = twin.copy()
    wrong[17] += np.float16(0.01)
    verdict = accept(wrong, want, twin, np.full(want.shape, 1e-3), T.F16)
    assert verdict.outcome is FAIL and verdict.worst == (17,)
    assert "error beyond the bound, 1 of 1000 elements; at [17]" in str(verdict)


def test_rms_finds_what_a_loose_bound_does_not() -> None:
    want, twin = sample()
    noise = np.random.default_rng(1).standard_normal(want.shape) * 4e-3
    bound = np.full(want.shape, 1e-1)
    verdict = accept(round_to(want + noise, T.F16), want, twin, bound, T.F16)
    assert verdict.outcome is FAIL and verdict.vacuous and "times the rounding twin" in str(verdict)
    verdict = accept(twin, want, twin, bound, T.F16)
    assert verdict.passed and verdict.reason == "RMS error kept"


def test_vacuous_without_other_evidence_is_undecided() -> None:
    want, twin = sample(63)  # too few for the RMS rule
    verdict = accept(twin, want, twin, np.full(63, 0.1), T.F16)
    assert verdict.outcome is UNDECIDED and not verdict.passed and "VACUOUS" in str(verdict)
    assert outcome(want, want, 0.1) is UNDECIDED
    assert outcome(want + 1, want, 0.1) is FAIL  # breaking a vacuous bound is still evidence
    assert outcome(want, want, None) is UNDECIDED
    assert accept(twin, want, twin, np.full(63, 0.015), T.F16).passed


def test_one_badly_conditioned_element_does_not_decide_the_rms() -> None:
    want, twin = sample()
    bound = np.full(want.shape, 1e-3)
    bound[5] = 10.0
    got = twin.copy()
    got[5] += np.float16(3.0)
    assert accept(got, want, twin, bound, T.F16).passed
    bound[5] = 2.0
    assert accept(got, want, twin, bound, T.F16).outcome is FAIL


def test_exact_data_and_integers_must_be_equal() -> None:
    want = np.arange(10.0)
    assert outcome(want, want, 1.0, exact=True) is PASS
    near = np.nextafter(want.astype(np.float32), np.float32(99))
    assert outcome(near, want, 1.0, exact=True) is FAIL
    whole = np.arange(10)
    assert outcome(whole, whole, None, T.I32) is PASS
    assert outcome(whole + (whole == 3), whole, None, T.I32) is FAIL
    big = np.array([2**63 - 1, 2**62 + 1])
    assert outcome(big, big, None, T.I64) is PASS
    assert outcome(big - [0, 1], big, None, T.I64) is FAIL  # float64 does not see it
    assert outcome([True, False], [True, False], None, T.BOOL) is PASS
    assert outcome([True, True], [True, False], None, T.BOOL) is FAIL


def test_integers_that_follow_from_near_ties() -> None:
    want, bound = np.array([3, 1, 4, 1]), [0, INF, 0, 0]
    assert outcome([3, 0, 4, 1], want, bound, T.I64) is PASS
    assert outcome([3, 0, 4, 2], want, bound, T.I64) is FAIL
    assert outcome(want, want, INF, T.I64) is UNDECIDED


@pytest.mark.parametrize(
    ("got", "want", "dtype", "strict", "right"),
    [
        (NAN, NAN, T.F32, True, PASS), (INF, INF, T.F32, True, PASS),
        (-INF, INF, T.F32, True, FAIL), (NAN, INF, T.F32, True, FAIL),
        (INF, NAN, T.F32, True, FAIL), (INF, NAN, T.F32, False, PASS),
        (-INF, INF, T.F32, False, PASS),  # fast: one non-finite value for another
        (1.0, NAN, T.F32, False, FAIL), (1.0, INF, T.F32, False, FAIL),
        (NAN, 1.0, T.F32, False, FAIL), (INF, 1.0, T.F32, False, FAIL),
        (INF, 1e39, T.F32, True, PASS), (-INF, 1e39, T.F32, True, FAIL),
        (NAN, 1e39, T.F32, True, FAIL), (INF, 70000.0, T.F16, True, PASS),
        (INF, 65504.0, T.F16, True, PASS),  # the bound allows an overflow
        (INF, 60000.0, T.F16, True, FAIL),
        (NAN, 1000.0, T.F8E4M3, True, PASS), (NAN, INF, T.F8E4M3, True, PASS),
        (NAN, 300.0, T.F8E4M3, True, FAIL), (INF, 1e6, T.F8E5M2, True, PASS),
    ],
)  # fmt: skip
def test_special_values(
    got: float, want: float, dtype: DType, strict: bool, right: Outcome
) -> None:
    size = abs(want) if np.isfinite(want) else 0.0
    bound = np.array([size * 0.004, 0.004])
    found = accept(
        round_to([got, 1.0], dtype), np.array([want, 1.0]), None, bound, dtype, strict=strict
    )
    assert found.outcome is right, str(found)


def test_where_the_bound_is_lost_the_twin_decides_about_overflow() -> None:
    """An intermediate that overflows f32 has no bound: the twin shows whether it may."""
    want, bound = np.array([1.0, 2.0, 3.0]), np.array([INF, 1e-3, 1e-3])
    got = round_to([NAN, 2.0, 3.0], T.F32)
    assert not accept(got, want, round_to(want, T.F32), bound, T.F32).passed
    assert accept(got, want, got, bound, T.F32).passed
    assert accept(round_to(want, T.F32), want, got, bound, T.F32).passed


def test_shape_and_type_must_fit() -> None:
    one = np.ones(3, np.float32)
    assert "shape [3], want [4]" in str(accept(one, np.ones(4), None, None, T.F32))
    assert "element type float32" in str(accept(one, np.ones(3), None, None, T.F16))
    assert accept(one[:0], np.ones(0), None, None, T.F32).passed


def test_complex() -> None:
    want = np.array([1 + 1j, 2 - 1j])
    got = want.astype(np.complex64)
    assert accept(got, want, None, np.full(2, 1e-6), T.COMPLEX64).passed
    assert not accept(got + np.complex64(1e-4j), want, None, np.full(2, 1e-6), T.COMPLEX64).passed


def test_half_unit() -> None:
    assert half_unit([1.0, 1.5, 2.0], T.F16).tolist() == [2**-11, 2**-11, 2**-10]
    assert half_unit([0.0, 1e-9], T.F16).tolist() == [2**-25, 2**-25]
