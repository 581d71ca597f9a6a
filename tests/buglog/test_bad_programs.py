"""Bad programs and calls: rows 12 to 20 of the table of hostile input, with exact answers."""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.errors import ArgumentError, NotationError
from tensorc.ir.sizes import bind, check_intermediates
from tensorc.lang import read
from tests.buglog.running import run


def refused(text: str) -> NotationError:
    """The error of a program."""
    with pytest.raises(NotationError) as caught:
        read(text)
    return caught.value


def test_row_12_an_index_with_two_sizes_names_both_uses_and_both_sizes() -> None:
    error = refused("op f(a: f32[m, n]) -> y: f32[m]\n  y[m] = sum[n](a[m, n] * a[n, m])")
    assert [item.code for item in error.diagnostics] == ["E201", "E201"]
    first = error.diagnostics[0]
    assert "n has extent |n|" in first.message and "has |m|" in first.message
    assert len(first.related) == 2


def test_row_13_a_free_index_and_the_reverse() -> None:
    error = refused("op f(a: f32[m, n]) -> y: f32[m]\n  y[m] = a[m, n]")
    assert error.code == "E202" and "sum[n]" in error.do
    broadcast = run(
        "op f(x: f64[i], z: f64[j]) -> y: f64[i, j]\n  y[i, j] = x[i]", x=[1, 2], z=[0] * 3
    )
    assert broadcast.tolist() == [[1, 1, 1], [2, 2, 2]]


def test_row_14_an_index_twice_on_the_left() -> None:
    assert refused("op f(x: f32[n]) -> y: f32[n, n]\n  y[n, n] = x[n]").code == "E203"


def test_row_15_an_unknown_tensor_has_the_nearest_name() -> None:
    error = refused("op f(weights: f32[n]) -> y: f32[n]\n  y[n] = wieghts[n]")
    assert (error.code, error.do) == ("E204", "did you mean weights?")
    assert refused("op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n, n]").code == "E204"


def test_row_16_size_zero_is_legal_where_the_reduction_has_a_value() -> None:
    head = "op f(x: f64[i, j]) -> y: f64[i]\n  y[i] = {}[j](x[i, j])"
    empty = np.zeros((2, 0))
    assert run(head.format("sum"), x=empty).tolist() == [0, 0]
    assert run(head.format("prod"), x=empty).tolist() == [1, 1]
    assert run(head.format("max"), x=empty).tolist() == [-np.inf, -np.inf]
    assert np.isnan(run(head.format("mean"), x=empty)).all()
    assert run(head.format("sum"), x=np.zeros((0, 3))).shape == (0,)
    whole = "op f(x: i64[i, j]) -> y: i64[i]\n  y[i] = max[j](x[i, j])"
    with pytest.raises(ArgumentError, match="E205"):
        run(whole, x=np.zeros((2, 0), np.int64))
    assert run(whole, x=np.zeros((0, 0), np.int64)).shape == (0,)


@pytest.mark.parametrize("size", [-1, True, 2.5, "4", None, np.float64(4.0)])
def test_row_17_a_size_that_is_none(size: object) -> None:
    (program,) = read("op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n]")
    with pytest.raises(ArgumentError, match="E206"):
        bind(program, {}, {"n": size})  # type: ignore[dict-item]


def test_row_18_products_of_sizes_are_exact() -> None:
    (program,) = read("op f(x: f32[a], z: f32[b]) -> y: f32[a, b]\n  y[a, b] = x[a] * z[b]")
    with pytest.raises(ArgumentError, match=str(3_100_000_019 * 3_100_000_037)):
        bind(program, {}, {"a": 3_100_000_019, "b": 3_100_000_037})
    with pytest.raises(ArgumentError, match="E301.*= 17179869188 bytes"):
        bind(program, {}, {"a": 4_294_967_297, "b": 1})
    assert bind(program, {}, {"a": 4_294_967_296, "b": 1})["a"] == 1 << 32


def test_row_19_an_intermediate_larger_than_the_limit_is_named_with_its_shape() -> None:
    (program,) = read(
        "op f(x: f32[a], z: f32[b]) -> y: f32\n  t[a, b] = x[a] * z[b]\n  y = sum[a, b](t[a, b])"
    )
    extents = bind(program, {"x": (100_000,), "z": (100_000,)})
    with pytest.raises(ArgumentError, match="E302: the intermediate t alone: 100000 \\* 100000"):
        check_intermediates(program, extents)


def test_row_20_types_without_a_rule_and_sums_that_wrap() -> None:
    assert refused("op f(a: i64[n], b: u64[n]) -> y: i64[n]\n  y[n] = a[n] * b[n]").code == "E207"
    x = np.full(3, 100, np.int8)
    assert run("op f(x: i8[n]) -> y: i64\n  y = sum[n](x[n])", x=x) == 300
    assert run("op f(x: i8[n]) -> y: i32\n  y = sum[n, i8](x[n])", x=x) == 44
