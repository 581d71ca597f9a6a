"""The exact simplex: thresholds to the unit, and every proof against all points of a box."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from tensorc.ir.linear import follows

Form = tuple[dict[str, int], int]


def test_bounds_add_up() -> None:
    box: list[Form] = [({"x": 1}, 0), ({"x": -1}, 3), ({"y": 1}, 0), ({"y": -1}, 4)]
    assert follows({"x": -2, "y": -1}, 10, box)  # 10 - 2x - y >= 10 - 6 - 4
    assert not follows({"x": -2, "y": -1}, 9, box)


def test_more_than_minus_one_is_enough_for_integers_and_minus_one_is_not() -> None:
    quotient: list[Form] = [({"n": 1, "q": -4096}, 0), ({"n": -1}, 4095)]
    assert follows({"q": -1}, 0, quotient)  # q <= 4095 / 4096, so q <= 0
    assert not follows({"q": -1}, 0, [quotient[0], ({"n": -1}, 4096)])


def test_equalities_are_two_facts() -> None:
    facts: list[Form] = [({"a": 1, "b": -1}, -5), ({"a": -1, "b": 1}, 5), ({"b": 1}, 0)]
    assert follows({"a": 1}, -5, facts)
    assert not follows({"a": 1}, -6, facts)


def test_what_no_fact_speaks_of_does_not_follow() -> None:
    assert not follows({"z": 1}, 100, [({"x": 1}, 0)])
    assert follows({}, 0, []) and not follows({}, -1, [])


def test_contradictory_facts_prove_what_they_speak_of() -> None:
    assert follows({"x": -1}, -100, [({"x": 1}, -3), ({"x": -1}, 2)])


@pytest.mark.parametrize("seed", range(5))
def test_a_proof_holds_at_every_integer_point(seed: int) -> None:
    random = Random(seed)
    names = "abc"
    points = [dict(zip(names, at, strict=True)) for at in itertools.product(range(-4, 5), repeat=3)]
    proofs = 0
    for _ in range(400):
        facts = [_form(random, names) for _ in range(random.randint(1, 7))]
        goal, constant = _form(random, names)
        if follows(goal, constant, facts):
            proofs += 1
            inside = [at for at in points if all(_value(fact, at) >= 0 for fact in facts)]
            assert all(_value((goal, constant), at) >= 0 for at in inside)
    assert proofs > 40


def _form(random: Random, names: str) -> Form:
    drawn = {name: random.randint(-3, 3) for name in names}
    return {name: c for name, c in drawn.items() if c}, random.randint(-4, 6)


def _value(form: Form, at: dict[str, int]) -> int:
    return sum(c * at[name] for name, c in form[0].items()) + form[1]
