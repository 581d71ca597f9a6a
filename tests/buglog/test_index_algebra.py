"""Public reports about integer division, remainders and index simplification, with the answers.

The numbers are those of the list of reports that the project keeps. The canonical form of a size or
subscript may never equate what differs at one point, so each form is compared with Python.
"""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from tensorc.ir import polynomial as p
from tensorc.ir.polynomial import Polynomial, Symbol
from tests.buglog.running import run

X, Y = Symbol("x", "index"), Symbol("y", "index")
x, y = p.of_atom(X), p.of_atom(Y)


def values(item: Polynomial, xs: range) -> list[int]:
    """The polynomial at x = each of `xs`."""
    return [p.evaluate(item, {X: value}) for value in xs]


def test_BL050_floor_division_of_floats_is_the_quotient_of_divmod() -> None:
    text = "op f(a: f64[i], b: f64[i]) -> y: f64[i]\n  y[i] = a[i] // b[i]"
    assert run(text, a=[1.0, 0.5, 6.0], b=[0.1, 0.1, 0.2]).tolist() == [9.0, 4.0, 29.0]


def test_BL052_dividing_by_a_constant_and_by_a_scalar_agree() -> None:
    a = np.arange(-7, 8)
    constant = run("op f(a: i64[i]) -> y: i64[i]\n  y[i] = a[i] // 3", a=a)
    scalar = run("op f(a: i64[i], b: i64) -> y: i64[i]\n  y[i] = a[i] // b", a=a, b=3)
    assert constant.tolist() == scalar.tolist() == [n // 3 for n in range(-7, 8)]


def test_BL054_dividing_an_integer_by_zero_is_zero_and_the_remainder_the_dividend() -> None:
    text = "op f(a: i32[i], b: i32[i]) -> y: i32[i]\n  y[i] = a[i] {} b[i]"
    a, b = np.array([0, 15, -8], np.int32), np.array([0, 4, 0], np.int32)
    assert run(text.format("//"), a=a, b=b).tolist() == [0, 3, 0]
    assert run(text.format("%"), a=a, b=b).tolist() == [0, 3, -8]


def test_BL056_no_division_through_a_reciprocal() -> None:
    text = "op f(a: i32[i], b: i32[i]) -> y: i32[i]\n  y[i] = a[i] {} b[i]"
    a, b = np.array([110], np.int32), np.array([55], np.int32)
    assert run(text.format("//"), a=a, b=b).tolist() == [2]
    assert run(text.format("%"), a=a, b=b).tolist() == [0]


def test_BL058_division_floors_also_in_canonical_form() -> None:
    item = (x * 48 + 241) // 16
    assert values(item, range(-10, -9)) == [-15]  # truncation would give -14
    assert values(item, range(-20, 20)) == [(48 * n + 241) // 16 for n in range(-20, 20)]


def test_BL060_remainders_do_not_swallow_each_other() -> None:
    item = x % 20 // 2 * 2 % 4
    assert values(item, range(20)) == [n % 20 // 2 * 2 % 4 for n in range(20)]
    assert values(item, range(1, 2)) == [0]  # x % 4 would give 1
    assert item is not x % 4


def test_BL062_a_remainder_by_what_does_not_nest_stays() -> None:
    for inner, outer in itertools.product((4, 6, 7), (2, 3, 4, 5)):
        item = x % inner % outer
        assert values(item, range(50)) == [n % inner % outer for n in range(50)]
        if inner % outer:
            assert item is not x % outer
    data = np.arange(5.0)
    text = "op f(B: f64[k], z: f64[m]) -> y: f64[j=3 * |m|]\n  y[j] = B[j % |m| % |k|]"
    got = run(text, B=data, z=np.zeros(7))
    assert got.tolist() == [float(j % 7 % 5) for j in range(21)]


def test_floors_of_floors_merge_where_the_divisors_are_positive_numbers() -> None:
    assert (x // 2) // 3 is x // 6
    assert (x // 2 + 5) // 2 is (x + 10) // 4
    assert values((x // 2) // -2, range(-9, 9)) == [n // 2 // -2 for n in range(-9, 9)]
    assert values((x // -2) // 2, range(-9, 9)) == [n // -2 // 2 for n in range(-9, 9)]


GRID = [{X: a, Y: b} for a in range(-4, 5, 2) for b in range(-3, 4, 3)]


@pytest.mark.parametrize("seed", range(8))
def test_canonical_forms_equal_python_at_every_point(seed: int) -> None:
    random = Random(seed)
    pool = [(x, [at[X] for at in GRID]), (y, [at[Y] for at in GRID])]
    for _ in range(60):
        (f, fs), (g, gs) = random.choice(pool), random.choice(pool)
        d = random.choice((-3, -2, 1, 2, 3, 4, 6))
        pairs = list(zip(fs, gs, strict=True))
        made: list[tuple[Polynomial, list[int]]] = [
            (f + g, [a + b for a, b in pairs]),
            (f * d - g + 1, [a * d - b + 1 for a, b in pairs]),
            (f // d, [a // d for a in fs]),
            (f % d, [a % d for a in fs]),
            (p.bound("min", (f, g)), [min(a, b) for a, b in pairs]),
            (p.bound("max", (f, g)), [max(a, b) for a, b in pairs]),
        ]
        new, expected = random.choice(made)
        assert [p.evaluate(new, at) for at in GRID] == expected
        pool.append((new, expected))
