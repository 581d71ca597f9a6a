"""Sums of products without their array: the same values, faults and bounds as with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.errors import OutOfRange
from tensorc.ir import evaluate
from tensorc.ir.bound_tensor import bound_tensor
from tensorc.ir.bounded import Bounded
from tensorc.ir.contract import ascending, contract
from tensorc.ir.dtypes import F32
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.propagate_reductions import contracted, reduced
from tensorc.ir.sizes import bind
from tensorc.lang import read

Array = npt.NDArray[Any]
PROGRAMS = {
    "matrices": "a: f32[m, k], b: f32[k, n]) -> y: f32[m, n]\n"
    "  y[m, n] = sum[k](a[m, k] * b[k, n])",
    "batches": "a: f32[m, k, n], b: f32[k, n]) -> y: f32[m, n]\n"
    "  y[m, n] = sum[k](a[m, k, n] * b[k, n])",
    "all reduced": "a: f32[m, k], b: f32[m, k]) -> y: f32\n  y = sum[k, m](a[m, k] * b[m, k])",
    "outer": "a: f32[m], b: f32[k]) -> y: f32[m]\n  y[m] = sum[k](a[m] * b[k])",
    "a guard inside": "a: f32[m, k], b: f32[k, n]) -> y: f32[m, n]\n"
    "  y[m, n] = 1 + sum[k](select(k < m, a[m, k], 0) * exp(b[k, n]))",
    "windows": "a: f32[m, k], b: f32[r, k]) -> y: f32[m]\n"
    "  y[m] = sum[r, k](select(m + r < |m|, a[m + r, k], 0) * b[r, k])",
    "nested": "a: f32[m, k], b: f32[k, n]) -> y: f32[m]\n"
    "  y[m] = max[n](sum[k](a[m, k] * b[k, n]))",
}  # fmt: skip
SIZES = {"m": 5, "n": 4, "k": 6, "r": 3}


def both(name: str, monkeypatch: pytest.MonkeyPatch, special: bool, rounded: bool) -> list[Array]:
    """The output with and without the array of products."""
    (program,) = read(f"op p({PROGRAMS[name]}\n")
    rng = np.random.default_rng(3)
    arrays: dict[str, Array] = {}
    for item in program.parameters:
        shape = [SIZES[str(dim)] for dim in item.dims]
        arrays[item.tensor.name] = rng.standard_normal(shape).astype(np.float32)
    if special:
        arrays["a"].flat[1], arrays["b"].flat[2], arrays["a"].flat[-1] = np.nan, np.inf, -0.0
    extents = bind(program, {n: a.shape for n, a in arrays.items()}, {})
    found: list[Array] = []
    for many in (1 << 40, 0):
        monkeypatch.setattr(evaluate, "MANY", many)
        found.append(interpret(program, arrays, extents, rounded)["y"])
        if not rounded:
            found.append(bound_tensor(program, arrays, extents)["y"].error)
    return found


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_values_and_bounds(name: str, special: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, plain_error, direct, direct_error = both(name, monkeypatch, special, False)
    np.testing.assert_allclose(direct, plain, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(direct_error, plain_error, rtol=0.6)
    assert (direct_error >= 0.7 * plain_error).all()
    plain, direct = both(name, monkeypatch, special, True)
    np.testing.assert_array_equal(direct, plain)  # ascending: bit by bit


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MANY", 0)
    text = "op p(a: f32[m], t: i32[k], b: f32[k]) -> y: f32\n  y = sum[k](a[t[k]] * b[k])\n"
    (program,) = read(text)
    arrays = {
        "a": np.ones(3, np.float32), "t": np.array([0, 2, 3], np.int32),
        "b": np.ones(3, np.float32),
    }  # fmt: skip
    with pytest.raises(OutOfRange, match=r"t\[2\] = 3, a has 3 rows"):
        interpret(program, arrays, {"m": 3, "k": 3})


@pytest.mark.parametrize("shapes", [((7, 3, 1, 2), (7, 1, 4, 2)), ((7, 1, 1), (7, 1, 1)),
                                    ((0, 2, 1), (0, 1, 3)), ((7,), (7,))])  # fmt: skip
def test_axes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    right = (a * b).sum(axis=0)
    np.testing.assert_allclose(contract(a, b), right, rtol=1e-12)
    np.testing.assert_allclose(ascending(a, b), right, rtol=1e-12)


def test_bound_with_errors_and_open_factors() -> None:
    rng = np.random.default_rng(0)
    a = Bounded(rng.standard_normal((6, 3, 1)), rng.random((6, 3, 1)) * 1e-3)
    b = Bounded(rng.standard_normal((6, 1, 4)), rng.random((6, 1, 4)) * 1e-3)
    product, result = a.value * b.value, contract(a.value, b.value)
    errors = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    right = reduced("sum", Bounded(product, errors), None, result, F32)
    got = contracted(a, b, result, F32)
    assert (got >= right).all() and (got <= 1.1 * right).all()
    a.error[2, 1, 0] = np.inf
    assert np.isinf(contracted(a, b, result, F32)).tolist() == [
        [False] * 4,
        [True] * 4,
        [False] * 4,
    ]
