"""Extents of a call: what fits together, and each refusal with its numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tensorc.errors import ArgumentError
from tensorc.ir.sizes import LIMIT, bind, check_intermediates
from tensorc.ir.tensor import Program
from tensorc.lang import read

Shapes = Mapping[str, tuple[int, ...]]


def one(text: str) -> Program:
    """The only program of a text."""
    (program,) = read(text)
    return program


def fault(
    program: Program, shapes: Shapes, given: Mapping[str, int] | None = None, limit: int = LIMIT
) -> ArgumentError:
    """The error of a call."""
    with pytest.raises(ArgumentError) as caught:
        bind(program, shapes, given, limit)
    return caught.value


GEMM = one(
    "op gemm(A: f32[m, k], B: f32[k, n]) -> C: f32[m, n]\n  C[m, n] = sum[k](A[m, k] * B[k, n])"
)
CONV = one(
    "op conv(X: f32[h], K: f32[r], w: const i64) -> Y: f32[y=(|h| - |r|) // w + 1]\n"
    "  Y[y] = sum[r](select(y*w + r < |h|, X[y*w + r], 0) * K[r])"
)
GQA = one(
    "op f(q: f32[h, d], k: f32[g, d]) -> s: f32[h]\n"
    "  s[h] = sum[d](q[h, d] * k[h // (|h| // |g|), d])"
)
TOP = one(
    "op f(x: i32[m, n]) -> y: i32[m], z: f32[m]\n"
    "  y[m] = max[n](x[m, n])\n  z[m] = mean[n](x[m, n])"
)


def test_extents_from_arrays() -> None:
    assert bind(GEMM, {"A": (2, 3), "B": (3, 4)}) == {"m": 2, "k": 3, "n": 4}
    assert list(bind(GEMM, {"A": (2, 3), "B": (3, 4), "C": (2, 4)})) == ["m", "k", "n"]


def test_extents_from_sizes_alone() -> None:
    assert bind(GEMM, {}, {"m": 2, "n": 4, "k": 3}) == {"m": 2, "k": 3, "n": 4}
    assert bind(GEMM, {"A": (2, 3)}, {"n": np.int32(4)}) == {"m": 2, "k": 3, "n": 4}


def test_computed_extents() -> None:
    assert bind(CONV, {"X": (10,), "K": (3,)}, {"w": 2})["y"] == 4
    assert bind(CONV, {"X": (10,), "K": (3,)}, {"w": 2, "y": 4})["y"] == 4


def test_extents_are_exact_beyond_64_bits() -> None:
    program = one("op f(x: f32[n], c: const i64) -> y: f32[p=|n| * c // c // c]\n  y[p] = p")
    assert bind(program, {"x": (7,)}, {"c": 1})["p"] == 7
    assert bind(program, {"x": (1 << 40,)}, {"c": 1 << 62})["p"] == 0
    assert bind(program, {"x": (1 << 40,)}, {"c": (1 << 20) + 1})["p"] == (1 << 20) - 1


def test_two_arrays_that_disagree() -> None:
    error = fault(GEMM, {"A": (2, 3), "B": (5, 4)})
    assert (error.code, error.message) == ("E201", "k is 5 in B and 3 in A")


def test_all_disagreements_are_reported() -> None:
    error = fault(GEMM, {"A": (2, 3), "B": (5, 4), "C": (9, 4)})
    assert [item.message for item in error.diagnostics] == [
        "k is 5 in B and 3 in A",
        "m is 9 in C and 2 in A",
    ]


def test_an_array_that_disagrees_with_the_program() -> None:
    error = fault(CONV, {"X": (10,), "K": (3,), "Y": (5,)}, {"w": 2})
    assert error.message == "y is 5 in Y, and (|h| - |r|) // w + 1 = 4 by the program"
    square = one("op f(x: f32[4, n]) -> y: f32[n]\n  y[n] = x[0, n]")
    assert fault(square, {"x": (5, 2)}).message == "dimension 0 is 5 in x, and 4 by the program"


def test_no_size_of_one_broadcasts() -> None:
    assert fault(GEMM, {"A": (2, 1), "B": (5, 4)}).code == "E201"


def test_wrong_rank() -> None:
    assert fault(GEMM, {"A": (2,), "B": (3, 4)}).code == "E204"


@pytest.mark.parametrize("value", [True, 2.0, "2", None, np.float32(2), np.bool_(True)])
def test_a_size_is_an_integer(value: object) -> None:
    error = fault(GEMM, {}, {"m": value, "n": 4, "k": 3})  # type: ignore[dict-item]
    assert error.code == "E206"


def test_a_negative_size_is_reported_before_arrays_that_differ() -> None:
    error = fault(CONV, {"X": (2,), "K": (7,), "Y": (3,)}, {"w": 2})
    assert (error.code, error.message) == ("E206", "y = (|h| - |r|) // w + 1 = -2 is negative")
    assert fault(GEMM, {}, {"m": -1, "n": 4, "k": 3}).code == "E206"


@pytest.mark.parametrize("stride", [0, -1])
def test_a_divisor_is_at_least_one(stride: int) -> None:
    error = fault(CONV, {"X": (10,), "K": (3,)}, {"w": stride})
    assert (error.code, error.message) == ("E206", f"y divides by w = {stride}")


def test_a_divisor_in_a_named_size_counts() -> None:
    program = one(
        "op f(x: f32[n], w: const i64) -> y: f32\n  h = |n| // w\n  y = sum[j=h](x[j % |n|])"
    )
    assert bind(program, {"x": (6,)}, {"w": 3})["j"] == 2
    assert fault(program, {"x": (6,)}, {"w": 0}).code == "E206"


def test_what_is_missing() -> None:
    assert fault(CONV, {"X": (10,), "K": (3,)}).code == "E225"
    assert fault(GEMM, {"A": (2, 3)}).message == "nothing fixes |n|"
    assert fault(GEMM, {}, {"m": 1, "q": 2}).code == "E204"


def test_a_reduction_without_value() -> None:
    error = fault(TOP, {"x": (3, 0)})
    assert (error.code, error.message) == ("E205", "max over n, whose extent is 0, has no value")
    assert bind(TOP, {"x": (0, 0)}) == {"m": 0, "n": 0}  # the output is empty too
    floats = one("op f(x: f32[n]) -> y: f32\n  y = max[n](x[n])")
    assert bind(floats, {"x": (0,)}) == {"n": 0}  # -inf
    first = one("op f(x: f32[n]) -> y: i64\n  y = argmax[n](x[n])")
    assert fault(first, {"x": (0,)}).code == "E205"


def test_a_reduction_inside_an_empty_sum_is_not_evaluated() -> None:
    program = one("op f(x: i32[m, n]) -> y: i64\n  y = sum[m](max[n](x[m, n]))")
    assert bind(program, {"x": (0, 0)}) == {"m": 0, "n": 0}
    assert fault(program, {"x": (1, 0)}).code == "E205"


def test_a_size_condition_that_holds_and_one_that_fails() -> None:
    assert bind(GQA, {"q": (8, 4), "k": (2, 4)})["h"] == 8
    error = fault(GQA, {"q": (8, 4), "k": (3, 4)})
    assert error.code == "E216"
    assert error.message == "k[h // (|h| // |g|), d] reaches 3; g has extent 3"
    assert error.found == "|g|=3, |h|=8, h=6"
    assert bind(GQA, {"q": (8, 4), "k": (16, 4)})["g"] == 16  # h // 0 is 0


def test_a_size_condition_is_decided_at_every_point() -> None:
    program = one("op f(x: f32[n], z: f32[m]) -> y: f32[m]\n  y[m] = x[(m * m) % 7 + m // 100]")
    assert bind(program, {"x": (5,), "z": (50,)})["m"] == 50  # squares modulo 7: 0, 1, 2, 4
    error = fault(program, {"x": (4,), "z": (50,)})
    assert (error.code, error.found) == ("E216", "|n|=4, m=2")


def test_a_size_condition_under_a_guard() -> None:
    program = one(
        "op f(x: f32[n], z: f32[m]) -> y: f32[m]\n"
        "  y[m] = select(m % 3 == 0 and m < 10, x[m * m // 9], 0)"
    )
    assert bind(program, {"x": (10,), "z": (50,)})["n"] == 10
    assert fault(program, {"x": (9,), "z": (50,)}).found == "|n|=9, m=9"


def test_a_condition_beyond_the_points_that_are_tried() -> None:
    program = one("op f(x: f32[n], z: f32[m]) -> y: f32[m]\n  y[m] = x[(m * m) % 7 + 0 * |n|]")
    error = fault(program, {"x": (5,), "z": (1 << 21,)})
    assert (error.code, error.allowed) == ("E217", "1048576 points")
    assert bind(program, {"x": (7,), "z": (1 << 21,)})["n"] == 7  # shown without points


def test_nothing_is_read_where_an_extent_is_zero() -> None:
    program = one("op f(x: f32[n], z: f32[m]) -> y: f32[m]\n  y[m] = x[m + 0] + z[m]")
    assert bind(program, {"x": (0,), "z": (0,)})["m"] == 0
    assert fault(program, {"x": (0,), "z": (1,)}).code == "E216"


def test_outputs_over_the_limit() -> None:
    error = fault(GEMM, {"A": (1 << 20, 1), "B": (1, 1 << 20)})
    assert error.code == "E301"
    assert error.message == "C: 1048576 * 1048576 of f32 = 4398046511104 bytes"
    assert bind(GEMM, {"A": (1 << 20, 1), "B": (1, 1 << 20)}, limit=1 << 43)["m"] == 1 << 20


def test_products_are_exact() -> None:
    error = fault(GEMM, {"A": (1 << 40, 1), "B": (1, 1 << 40)})
    assert str(1 << 80) in error.message and "elements" in error.message


def test_an_intermediate_over_the_limit() -> None:
    program = one(
        "op f(x: f32[n], z: f32[m]) -> y: f32[n]\n"
        "  t[n, m] = x[n] * z[m]\n  y[n] = sum[m](t[n, m] ** 2)"
    )
    extents = bind(program, {"x": (1 << 20,), "z": (1 << 20,)})
    with pytest.raises(ArgumentError) as caught:
        check_intermediates(program, extents)
    assert caught.value.code == "E302"
    assert caught.value.message.startswith("the intermediate t alone: 1048576 * 1048576 of f32")
    check_intermediates(program, extents, only=("y",))
    check_intermediates(program, bind(program, {"x": (8,), "z": (8,)}))


def test_a_condition_on_a_const_parameter_needs_its_value() -> None:
    program = one(
        "op f(x: f32[n], z: f32[m], w: const i64, c: const f32) -> y: f32[m]\n"
        "  y[m] = c * select(m < w, x[m * w], z[m])"
    )
    shapes = {"x": (7,), "z": (5,), "w": (), "c": ()}
    assert fault(program, shapes).code == "E225"
    assert bind(program, shapes, {"w": 3, "c": 0.5})["m"] == 5  # type: ignore[dict-item]
    assert fault(program, shapes, {"w": 4}).found == "|n|=7, m=2"


def test_a_condition_under_more_alternatives_than_the_prover_follows() -> None:
    many = " or ".join(["n + 1 < |n|", *(f"n < -{bound}" for bound in range(1, 14))])
    program = one(f"op f(x: f32[n]) -> y: f32[n]\n  y[n] = select({many}, x[n + 1], 0)")
    assert len(program.conditions) == 1
    assert bind(program, {"x": (9,)}) == {"n": 9}
