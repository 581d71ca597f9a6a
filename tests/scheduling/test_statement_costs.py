"""What statements of a loop cost: what does not change in it is computed before, quotients by one
number for many elements are products."""

from __future__ import annotations

import pytest

from tensorc.machine.machines import MACHINES
from tensorc.machine.product import load_product
from tensorc.passes.scheduling.extract_problem import extract
from tests.passes.test_tile_chain import DOT, attention
from tests.passes.test_tile_product import tiled

HEAD = {"d": 64, "e": 64}
MORE = ", c: f32[h], r: f32[m], u: f32[n]"


def cycles(score: str) -> dict[str, int]:
    """The cycles of each unit in one iteration of attention with these scores."""
    (kernel,) = tiled(attention(score, more=MORE), "sm_90a", HEAD).program.kernels
    problem = extract(kernel, MACHINES["sm_90a"], load_product("h100")).problem
    total = dict[str, int]()
    for item in problem.operations:
        for use in item.uses:
            total[use.unit] = total.get(use.unit, 0) + use.cycles
    return total


PRODUCT = cycles(f"{DOT} * c[h]")


@pytest.mark.parametrize("score", ["* 0.125", "/ 8.5", "* (1 / sqrt(|d|))", "/ sqrt(|d|)"])
def test_a_constant_is_part_of_the_exponent(score: str) -> None:
    found = cycles(f"{DOT} {score}")
    assert found == {**PRODUCT, "fma": PRODUCT["fma"] - 128 * 128 // 128}


@pytest.mark.parametrize(
    "score",
    [
        f"{DOT} * exp(c[h])",
        f"{DOT} * (tanh(c[h]) / sqrt(c[h]))",
    ],
)
def test_what_stays_the_same_is_computed_before_the_loop(score: str) -> None:
    assert cycles(score) == PRODUCT


def test_a_divisor_of_many_elements_is_inverted_once() -> None:
    one = cycles(f"{DOT} / c[h]")
    assert one["exp"] == PRODUCT["exp"] and one["fma"] > PRODUCT["fma"]
    rows, columns = cycles(f"{DOT} / exp(r[m])"), cycles(f"{DOT} / exp(u[n])")
    assert rows["exp"] == one["exp"]  # a row's divisor is one number of a thread, and stays
    assert one["exp"] < columns["exp"] < one["exp"] + 100
    both = cycles(f"{DOT} / (r[m] + u[n])")
    assert both["exp"] >= one["exp"] + 128 * 128 // 16


def test_what_changes_is_computed_in_the_loop() -> None:
    plain, each = cycles(f"{DOT} * u[n]"), cycles(f"{DOT} * exp(u[n])")
    assert each["exp"] > plain["exp"]
