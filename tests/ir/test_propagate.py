"""Each rule of error propagation against sampled perturbations: never too small, and not idle."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.ir import bounded, propagate, reductions
from tensorc.ir import dtypes as T
from tensorc.ir.bounded import UNIT, Bounded
from tensorc.ir.dtypes import BOOL, F16, F32, F64, I32
from tensorc.ir.elementwise import apply
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.propagate import ACCURACY, applied, cast, chosen, constant, stored
from tensorc.ir.propagate_reductions import reduced

Array = npt.NDArray[Any]
INF, NAN = np.inf, np.nan
EXACT = frozenset({"neg", "abs", "sign", "floor", "ceil", "round", "min", "max"})
POSITIVE = frozenset({"sqrt", "rsqrt", "log", "log2", "log1p"})
REAL = sorted(EXACT | POSITIVE | {
    "add", "sub", "mul", "div", "floordiv", "mod", "pow", "exp", "exp2", "sin", "cos", "tanh",
    "sigmoid", "erf", "expm1",
})  # fmt: skip


def draw(rng: np.random.Generator, name: str, place: int) -> Bounded:
    """Values of many sizes, some small integers, each with an error of its own."""
    values = rng.standard_normal(500) * 10.0 ** rng.integers(-2, 2, 500)
    values[::7] = rng.integers(-3, 4, values[::7].shape)
    errors = np.abs(values) * 10.0 ** rng.uniform(-7, -2, 500) + 1e-9
    errors[::3] = 0
    if name in POSITIVE or (name in ("div", "mod", "floordiv") and place == 1):
        values = np.abs(values) + 0.3
    if name == "pow":
        values = np.clip(values, -3, 3)
    return Bounded(values, errors)


@pytest.mark.parametrize("name", REAL)
def test_function(name: str) -> None:
    rng = np.random.default_rng(len(name))
    count = FUNCTIONS[name].least
    args = [draw(rng, name, place) for place in range(count)]
    with np.errstate(all="ignore"):
        result = apply(name, [arg.value for arg in args])
        error = applied(name, args, result, F32)
        own = 0.0 if name in EXACT else 0.99 * ACCURACY.get(name, (1.0,))[0] * UNIT[F32]
        apart = np.zeros(500)
        for trial in range(40):
            side = (
                rng.uniform(-1, 1, (count, 500))
                if trial > 15
                else rng.choice([-1, 1], (count, 500))
            )
            moved = apply(name, [a.value + a.error * s for a, s in zip(args, side, strict=True)])
            for sign in (1, -1):
                away = np.where(error == 0, moved, moved * (1 + sign * own))
                apart = np.fmax(apart, np.abs(away - result))
    kept = np.broadcast_to(error == 0, 500)
    whole = np.all([(a.value == np.rint(a.value)) & (a.error == 0) for a in args], axis=0)
    assert name in EXACT or whole[kept & np.isfinite(result)].all() or name in ("floordiv", "mod")
    finite = np.isfinite(result)
    slack = 1e-15 * np.abs(result)  # of the test's own float64
    assert (apart <= error * (1 + 1e-12) + slack)[finite].all()
    assert np.isfinite(error).mean() > 0.5
    if name not in ("floordiv", "mod", "sin", "cos", "pow", "sign", "exp", "expm1", "sigmoid"):
        loose = error[finite] / np.maximum(apart[finite], 1e-12)
        assert np.median(loose[np.isfinite(loose)]) < 4, np.median(loose)


def test_nothing_is_lost_of_exact_operations() -> None:
    one = Bounded(np.array([1.5, -2.0]), np.zeros(()))
    for name in EXACT:
        args = [one] * FUNCTIONS[name].least
        assert not applied(name, args, apply(name, [one.value] * len(args)), F32).any()


def test_decisions() -> None:
    a = Bounded(np.array([1.0, 1.0, 1.0, NAN]), np.array([0.1, 0.0, 0.1, 0.1]))
    b = Bounded(np.array([1.05, 1.0, 2.0, 1.0]), np.zeros(4))
    assert applied("lt", [a, b], a.value < b.value, BOOL).tolist() == [1, 0, 0, 0]
    assert applied("eq", [a, b], a.value == b.value, BOOL).tolist() == [1, 0, 0, 0]
    open_, true = Bounded(np.array([True]), np.ones(1)), Bounded(np.array([True]), np.zeros(1))
    false = Bounded(np.array([False]), np.zeros(1))
    assert applied("and", [open_, true], np.array([True]), BOOL).tolist() == [1]
    assert applied("and", [open_, false], np.array([False]), BOOL).tolist() == [0]
    assert applied("or", [open_, true], np.array([True]), BOOL).tolist() == [0]
    assert applied("or", [false, open_], np.array([True]), BOOL).tolist() == [1]
    assert applied("not", [open_], np.array([False]), BOOL).tolist() == [1]
    assert (
        chosen(
            open_, Bounded(np.array([3.0]), np.array([0.5])), Bounded(np.array([1.0]), np.zeros(1))
        )
        == 2.5
    )
    whole = Bounded(np.array([2, 3]), np.array([0.0, 1.0]))
    assert applied("add", [whole, whole], np.array([4, 6]), I32).tolist() == [0, INF]


def test_special_values() -> None:
    """Infinities that stand whatever the rounding have no error; others have an infinite one."""
    near = Bounded(np.array([1.0]), np.array([0.1]))
    zero = Bounded(np.array([0.0]), np.array([0.1]))
    infinite, nan = Bounded(np.array([INF]), np.zeros(1)), Bounded(np.array([NAN]), np.zeros(1))
    one = Bounded(np.ones(1), np.zeros(1))

    def error(name: str, *args: Bounded) -> float:
        return float(applied(name, args, apply(name, [a.value for a in args]), F32)[0])

    assert error("add", near, infinite) == 0 and error("mul", near, infinite) == 0
    assert error("mul", zero, infinite) == INF and error("mul", zero, nan) == 0
    assert error("div", one, zero) == INF
    assert error("div", one, Bounded(np.zeros(1), np.zeros(1))) == 0
    assert error("log", zero) == INF and error("sqrt", zero) == INF
    assert error("exp", Bounded(np.array([100.0]), np.zeros(1))) == INF  # f32 overflows
    assert error("max", near, nan) == 0


def test_roundings() -> None:
    item = Bounded(np.array([1.0, 1 + 2**-11, 1 + 2**-11]), np.array([0.0, 0.0, 1e-9]))
    assert cast(item, F16).tolist() == [0, 0, 2**-10]  # at a tie either side may come out
    assert not cast(Bounded(item.value, np.zeros(())), F16).any()
    assert stored(item, F16)[0] == 0 and (stored(item, F16)[1:] >= 2**-11).all()
    third = constant(1 / 3, F32)
    assert 0 < third <= UNIT[F32] / 3 and constant(0.5, F32) == 0 and constant(INF, F32) == 0
    assert constant(0.1, F64) > 0
    large = propagate.converted(Bounded(np.array([2**24, 2**24 + 1]), np.zeros(())), F32)
    assert large[0] == 0 and large[1] >= 1


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "max", "min", "logsumexp", "softmax", "argmax", "argmin"]
)
def test_reduction(name: str, masked: bool) -> None:
    """Columns with errors, every partial result off by a unit, in three orders."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((9, 200)) * 10.0 ** rng.integers(-1, 2, 200)
    errors = np.abs(values) * 10.0 ** rng.uniform(-7, -3, 200)
    errors[:, ::4] = 0
    selected = rng.random((9, 200)) < 0.7 if masked else None
    result = reductions.reduce(name, values, selected, False)
    bound = reduced(name, Bounded(values, errors), selected, result, F32)
    apart = np.zeros(result.shape)
    with np.errstate(all="ignore"):
        for trial in range(30):
            side = rng.choice([-1.0, 1.0], (9, 200))
            other = _rough(name, values + errors * side, selected, (1, -1, 0)[trial % 3], rng)
            apart = np.fmax(apart, np.abs(other - result))
    special = ~np.isfinite(result.astype(float))
    slack = 1e-14 * np.abs(result)  # of the test's own float64
    assert ((apart <= bound + slack) | special).all()
    assert np.isfinite(bound).mean() > 0.6
    if name in ("sum", "mean", "max", "prod"):
        seen = (apart > 0) & np.isfinite(bound)
        assert np.median(bound[seen] / apart[seen]) < 8


def _rough(
    name: str, values: Array, selected: Array | None, side: int, rng: np.random.Generator
) -> Array:
    """The reduction with errors of 0.99 units at every step of a sum or product."""
    u = 0.99 * UNIT[F32]

    def off(x: Array) -> Array:
        return x * (1 + u * (rng.choice([-1, 1], x.shape) if side == 0 else side))

    kept = np.ones(values.shape, bool) if selected is None else selected
    order = rng.permutation(len(values))
    match name:
        case "sum" | "mean":
            total = _accumulate(values, kept, order, np.add, off)
            return off(total / kept.sum(axis=0)) if name == "mean" else total
        case "prod":
            return _accumulate(values, kept, order, np.multiply, off)
        case "logsumexp" | "softmax":
            top = np.max(np.where(kept, values, -INF), axis=0)
            shifted = off(off(values - top) * np.log2(np.e))  # as 2 ** (x log2 e)
            power = np.where(kept, off(off(np.exp2(shifted))), 0.0)
            total = _accumulate(power, kept, order, np.add, off)
            return off(power / total) if name == "softmax" else off(top + off(np.log(total)))
        case _:
            return reductions.reduce(name, values, selected, False)


def _accumulate(values: Array, kept: Array, order: Array, step: np.ufunc, off: Any) -> Array:
    """One rounding for every selected element but the first."""
    total, some = np.full(values.shape[1:], float(step.identity)), np.zeros(values.shape[1:], bool)
    for place in order:
        added = np.where(kept[place], step(total, values[place]), total)
        total = np.where(kept[place] & some, off(added), added)
        some |= kept[place]
    return total


def test_open_conditions_of_any_and_all() -> None:
    body = Bounded(np.array([[True, True], [False, True]]), np.array([[1.0, 1.0], [0.0, 0.0]]))
    for name, right in (("any", [1.0, 0.0]), ("all", [0.0, 1.0])):
        result = reductions.reduce(name, body.value, None, False)
        assert reduced(name, body, None, result, BOOL).tolist() == right


def test_equal_extremes_without_error_are_no_rivals() -> None:
    body = Bounded(np.array([[3.0, 3.0], [3.0, 3.0], [1.0, 1.0]]), np.array([[0, 0.1]] * 3))
    result = reductions.reduce("argmax", body.value, None, False)
    assert reduced("argmax", body, None, result, T.I64).tolist() == [0, INF]


def test_no_rounding_is_lost_to_underflow() -> None:
    """The smallest error of every type is a float64 of its own, the one of f64 too."""
    assert all(bounded.TINY[dtype] > 0 for dtype in bounded.TINY)
    far = Bounded(np.array([[0.0], [-800.0]]), np.zeros(()))
    result = reductions.reduce("softmax", far.value, None, False)
    assert bounded.tiny(F64) <= reduced("softmax", far, None, result, F64)[1, 0] < 1e-300


def test_zero_times_what_may_be_infinite_is_open() -> None:
    zero, wild = Bounded(np.zeros(1), np.zeros(1)), Bounded(np.array([1e72]), np.array([INF]))
    assert applied("mul", [zero, wild], np.zeros(1), F32).tolist() == [INF]
    assert applied("mul", [zero, Bounded(np.ones(1), np.ones(1))], np.zeros(1), F32)[0] < 1e-44


def test_logits_masked_by_a_large_number_cost_nothing() -> None:
    column = np.array([[0.5], [-1e30], [0.25], [-INF]])
    body = Bounded(column, np.full((4, 1), 1e-6))
    for name in ("softmax", "logsumexp"):
        result = reductions.reduce(name, column, None, False)
        assert (reduced(name, body, None, result, F32) < 1e-5).all()
    open_ = Bounded(column, np.array([[0.0], [0.0], [INF], [0.0]]))
    result = reductions.reduce("softmax", column, None, False)
    assert np.isinf(reduced("softmax", open_, None, result, F32)[:3]).all()
