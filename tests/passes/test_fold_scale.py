"""Scales of scores move into exponents where that is one multiplication less, and nowhere else;
that the text then means the same is shown for every chain in `test_tile_chain`."""

from __future__ import annotations

import pytest

from tensorc.ir.print_tile import show
from tests.passes.test_tile_chain import CHAINS, DOT, attention, sizes_for
from tests.passes.test_tile_product import compare, program, tiled

HEAD = {"d": 64, "e": 64}
FOLDED = "exp2(log2(exp(1)) / sqrt(|d|) * s - "


def text(source: str, static: dict[str, int]) -> str:
    """Level 2 for sm_90a."""
    return show(tiled(source, "sm_90a", static).program)


@pytest.mark.parametrize("name", ["attention", "causal", "window", "ragged", "factors backwards"])
def test_a_scale_is_part_of_the_exponent(name: str) -> None:
    made = text(CHAINS[name], HEAD)
    assert FOLDED in made
    assert "/ sqrt(|d|)  " not in made and "exp(x" not in made and "exp(s" not in made


def test_what_else_is_made_of_a_maximum_is_scaled_there() -> None:
    source = (
        "op f(q: f16[m, d], k: f16[n, d], v: f16[n, e]) -> o: f16[m, e], l: f32[m]\n"
        "  s[m, n] = sum[d](q[m, d] * k[n, d]) * 0.25\n"
        "  p: f16[m, n] = softmax[n](s[m, n])\n"
        "  o[m, e] = sum[n](p[m, n] * v[n, e])\n"
        "  l[m] = logsumexp[n](s[m, n])\n"
    )
    sizes = sizes_for(source)
    made = tiled(source, "sm_90a", sizes)
    assert "exp2((log2(exp(1)) * 0.25) * s - " in show(made.program)
    assert "max(0.25 * r1, " in show(made.program)
    compare(program(source), made, sizes)


def test_a_tile_that_is_used_otherwise_keeps_its_scale() -> None:
    made = text(CHAINS["soft cap"], HEAD)
    assert "s1_2 / sqrt(|d|)" in made and "exp2((log2(exp(1)) * 30.0) * s - " in made


@pytest.mark.parametrize("score", [f"-1 * {DOT}", DOT.replace("/", "*").replace("sqrt(|d|)", "w")])
def test_only_constants_above_0_move(score: str) -> None:
    """A maximum of negative multiples is no multiple of the maximum."""
    more = ", w: f32" if "w" in score else ""
    source = attention(score, more=more)
    made = text(source, HEAD)
    assert FOLDED not in made and "exp2(log2(exp(1)) * s - " in made


def test_an_exponential_of_exact_differences_stays() -> None:
    """The rounding of scaled operands is no part of the bound of exp of an exact difference."""
    source = (
        "op f(x: f32[m, n], v: bf16[n, e]) -> o: bf16[m, e]\n"
        "  p: bf16[m, n] = softmax[n](x[m, n])\n"
        "  o[m, e] = sum[n](p[m, n] * v[n, e])\n"
    )
    made = text(source, {"e": 64})
    assert "exp2" not in made and "exp(" in made


def test_a_shift_is_carried() -> None:
    """What the next iteration would make of the maximum again."""
    made = text(CHAINS["causal"], HEAD)
    assert "carry x[m] = -0xffffffp104 " in made
    assert "x'[m] = max(log2(exp(1)) / sqrt(|d|) * r1', -0xffffffp104)" in made
    assert "exp2(x - x')" in made
    assert made.count("max(log2(exp(1)) / sqrt(|d|) * r1") == 1
