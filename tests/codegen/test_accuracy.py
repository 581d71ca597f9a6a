"""How many units in the last place vector functions are off, on dense and on hard arguments:
f32 against float64, f64 against mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc

Array = npt.NDArray[Any]


def op(function: str, dtype: str) -> Callable[[Array], Array]:
    """One function of one argument on the CPU."""
    text = f"op f(x: {dtype}[n]) -> y: {dtype}[n]\n  y[n] = {function}(x[n])\n"
    (made,) = tc.loads(text)
    return made


def units(got: Array, want: Array) -> Array:
    """Errors in units in the last place of what is computed; `want` is wider."""
    with np.errstate(over="ignore"):
        near = want.astype(got.dtype)
    unit = np.spacing(np.abs(near)).astype(np.longdouble)
    return np.where(got == near, 0, np.abs(got.astype(np.longdouble) - want) / unit)


def erf(x: Array) -> Array:
    return np.array([math.erf(float(v)) for v in x])


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


RANGES: dict[str, tuple[Callable[[Array], Array], float, float, float]] = {
    # the function in float64, the range of arguments, units in the last place at most
    "sin": (np.sin, -66000, 66000, 1), "cos": (np.cos, -66000, 66000, 1),
    "erf": (erf, -5, 5, 1.5), "tanh": (np.tanh, -12, 12, 4),
    "exp": (np.exp, -87, 88, 2), "exp2": (np.exp2, -126, 127, 2),
    "expm1": (np.expm1, -20, 88, 4), "sigmoid": (sigmoid, -80, 80, 4),
    "log": (np.log, 1e-30, 1e3, 2), "log2": (np.log2, 1e-30, 1e3, 2),
    "log1p": (np.log1p, -0.999, 1e3, 4),
}  # fmt: skip


def arguments(low: float, high: float) -> Array:
    """Dense in the range, denser around 0 and 1, and multiples of pi / 2."""
    draw = np.random.default_rng(0)
    parts = [
        draw.uniform(low, high, 60_000), draw.uniform(max(low, -3), min(high, 3), 60_000),
        np.arange(1, 30_000) * np.pi / 2, 1 + draw.uniform(-1e-3, 1e-3, 5_000),
        10.0 ** draw.uniform(-38, 0, 5_000) * np.where(draw.random(5_000) < 0.5, 1, -1),
    ]  # fmt: skip
    every = np.concatenate(parts).astype(np.float32)
    return every[(every >= low) & (every <= high)]


@pytest.mark.parametrize("function", RANGES)
def test_f32_against_float64(function: str) -> None:
    exact, low, high, most = RANGES[function]
    x = arguments(low, high)
    error = units(op(function, "f32")(x), exact(x.astype(np.float64)).astype(np.longdouble))
    assert error.max() <= most, f"{error.max():.2f} units at {x[error.argmax()]!r}"


# Near zeros of the functions, and where the C library takes over.
HARD = [*(n * math.pi / 2 for n in range(1, 400)), 1e22, 1e300, 1e8]


@pytest.mark.parametrize(("function", "most"), [("sin", 1), ("cos", 1), ("erf", 1.5)])
def test_f64_against_many_digits(function: str, most: float) -> None:
    draw = np.random.default_rng(1)
    parts = [draw.uniform(-7, 7, 1500), draw.uniform(-1e8, 1e8, 500), np.array(HARD)]
    x = np.concatenate(parts)
    exact: Any = getattr(mpmath, function)  # mpmath has no types
    mpmath.mp.dps = 30  # of a result; arguments are reduced with as many digits as they need
    want = np.array([np.longdouble(str(exact(float(v)))) for v in x])
    error = units(op(function, "f64")(x), want)
    assert error.max() <= most, f"{error.max():.2f} units at {x[error.argmax()]!r}"


def test_powers() -> None:
    (power,) = tc.loads("op f(x: f32[n], e: f32[n]) -> y: f32[n]\n  y[n] = x[n] ** e[n]\n")
    draw = np.random.default_rng(2)
    x, e = draw.uniform(0, 4, 100_000), draw.uniform(-60, 60, 100_000)
    x[:2000], e[:2000] = draw.uniform(-40, 0, 2000), draw.integers(-20, 20, 2000)
    x, e = x.astype(np.float32), e.astype(np.float32)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.longdouble), e.astype(np.longdouble))
    error = units(power(x, e), want)[np.abs(want) < 3.4e38]
    assert error.max() <= 1, f"{error.max():.2f} units"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("function", ["sin", "cos", "erf"])
def test_special_arguments(function: str, dtype: str) -> None:
    kind = np.float32 if dtype == "f32" else np.float64
    tiny = float(np.finfo(kind).smallest_subnormal)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, 1e30], kind)
    exact = {"sin": np.sin, "cos": np.cos, "erf": erf}[function]
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64)).astype(kind)
    got = op(function, dtype)(x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(want[:2]))
