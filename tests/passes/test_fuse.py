"""Chains of dependent reductions share one pass and one kernel, whatever they are called; what has
no sound rule stays apart; and both mean what the equations say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tensorc.ir.dtypes import REAL
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.node import Node, rebuild
from tensorc.ir.plan import Plan
from tensorc.ir.tensor import Apply, Literal, Program, Read
from tensorc.ir.tile import TileProgram
from tensorc.ir.walk_tile import statements, tiles
from tensorc.passes.fusion.fuse import fuse, sizes_of
from tensorc.passes.tiling.audit import audit
from tests.passes.fused import ONE_KERNEL, arguments, attention, compare, fused, program, tiled

SIZES = {
    "b": 2, "h": 2, "g": 1, "m": 5, "n": 37, "d": 20, "e": 17, "t": 19, "v": 21, "i": 9, "o": 34,
    "q": 2, "j": 21, "k": 20, "r": 18, "x": 3, "y": 5, "z": 7, "f": 33,
}  # fmt: skip


def sizes_for(item: Program, **changed: int) -> dict[str, int]:
    """Extents of a program's indices by their first letter, no multiples of the tiles."""
    named = {name: SIZES[name[0]] for name, _ in item.extents} | changed
    return sizes_of(item, named)


def passes_over(item: Program, sizes: dict[str, int]) -> int:
    """The most passes that a kernel makes over indices of one extent."""
    return passes_of(fuse(item, sizes, "none"))


def passes_of(plan: Plan) -> int:
    """The same of a plan."""
    return max(walk.number for kernel in plan.kernels for walk in kernel.passes) + 1


def renamed(text: str) -> Program:
    """Every index under another name."""
    names = [name for name, _ in program(text).extents]
    return program(re.sub(rf"\b({'|'.join(names)})\b(?!\()", lambda m: m[0] * 2, text))


def changed(text: str, change: Callable[[Node], Node]) -> Program:
    """The program of a text with every node of its equations changed."""

    def deep(item: Node) -> Node:
        return change(rebuild(item, deep))

    item = program(text)
    equations = tuple(replace(e, body=deep(e.body)) for e in item.equations)  # type: ignore[arg-type]
    return replace(item, equations=equations)


def backwards(item: Node) -> Node:
    """Factors and terms in reverse."""
    match item:
        case Apply(function, args) if function.name in ("mul", "add"):
            return Apply(function, args[::-1])
        case _:
            return item


def scaled(item: Node) -> Node:
    """Every float that is read, times 3/4."""
    if isinstance(item, Read) and item.tensor.dtype.floating:
        return Apply(FUNCTIONS["mul"], (Literal(Fraction(3, 4), REAL), item))
    return item


FORMS: dict[str, Callable[[str], Program]] = {
    "as written": program,
    "renamed": renamed,
    "backwards, scaled": lambda text: changed(text, lambda item: scaled(backwards(item))),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel_in_one_pass_without_temporaries(name: str, form: str) -> None:
    item = FORMS[form](ONE_KERNEL[name])
    sizes = sizes_for(item)
    plan = fuse(item, sizes, "none")
    assert passes_of(plan) == 1
    made = tiled(item, plan, sizes)
    arrays = arguments(item, sizes, 0)
    found = compare(item, made, sizes)
    counted = audit(made, sizes)
    assert (counted.kernels, counted.temporaries) == (1, 0)
    assert counted.bytes == sum(array.nbytes for array in (*arrays.values(), *found.values()))


UNSOUND: dict[str, str] = {
    "scores relative to their mean": (
        "op f(x: f32[m, n], v: f32[n, e]) -> o: f32[m, e]\n"
        "  y[m, n] = exp(x[m, n] - mean[n](x[m, n]))\n"
        "  o[m, e] = sum[n](y[m, n] * v[n, e])\n"
    ),
    "powers that grow": (
        "op f(x: f32[m, n]) -> o: f32[m]\n"
        "  o[m] = sum[n](exp(x[m, n] + max[n](x[m, n])))\n"
    ),
    "powers that grow, downwards": (
        "op f(x: f32[m, n]) -> o: f32[m]\n"
        "  o[m] = sum[n](exp(x[m, n] - min[n](x[m, n])))\n"
    ),
    "attention through a function of its weights": (
        "op f(q: f32[m, d], k: f32[n, d], v: f32[n, e]) -> o: f32[m, e]\n"
        "  s[m, n] = sum[d](q[m, d] * k[n, d])\n"
        "  p[m, n] = softmax[n](s[m, n])\n"
        "  o[m, e] = sum[n](tanh(p[m, n]) * v[n, e])\n"
    ),
    "a mask made of a maximum": (
        "op f(s: f32[m, n], v: f32[n, e]) -> o: f32[m, e]\n"
        "  p[m, n] = exp(s[m, n] - max[n](s[m, n]))\n"
        "  o[m, e] = sum[n](p[m, n] * v[n, e] where s[m, n] > 0.5 * max[n](s[m, n]))\n"
    ),
    "cross-entropy with a logarithm inside": (
        "op f(X: f32[t, d], W: f32[v, d]) -> loss: f32[t]\n"
        "  z[t, v] = sum[d](X[t, d] * W[v, d])\n"
        "  loss[t] = sum[v](log(1 + exp(z[t, v] - max[v](z[t, v]))))\n"
    ),
    "a function of normalised values": (
        "op f(x: f32[t, i], w: f32[i, o]) -> y: f32[t, o]\n"
        "  z[t, i] = x[t, i] * rsqrt(mean[i](x[t, i] ** 2) + 1e-6)\n"
        "  y[t, o] = sum[i](tanh(z[t, i]) * w[i, o])\n"
    ),
    "the mean distance to the mean": (
        "op f(x: f32[m, n]) -> o: f32[m]\n"
        "  o[m] = mean[n](abs(x[m, n] - mean[n](x[m, n])))\n"
    ),
    "squares of distances to a maximum": (
        "op f(x: f32[m, n]) -> o: f32[m]\n"
        "  o[m] = sum[n]((x[m, n] - max[n](x[m, n])) ** 2)\n"
    ),
    "squares of distances to a sum": (
        "op f(x: f32[m, n]) -> o: f32[m]\n"
        "  o[m] = sum[n]((x[m, n] - 0.01 * sum[n](x[m, n])) ** 2)\n"
    ),
    "a quotient of partial sums": (
        "op f(x: f32[m, n], y: f32[m, n]) -> o: f32[m]\n"
        "  a[m] = sum[n](x[m, n] * y[m, n]) / sum[n](y[m, n])\n"
        "  o[m] = sum[n]((x[m, n] - a[m]) ** 2)\n"
    ),
    "the best of normalised scores": (
        "op f(Q: f32[q, k], D: f32[j, k]) -> S: f32[q]\n"
        "  s[q, j] = sum[k](Q[q, k] * D[j, k])\n"
        "  S[q] = max[j](abs(s[q, j] - max[j](s[q, j])))\n"
    ),
    "a gate relative to its maximum": (
        "op f(x: f32[t, i], u: f32[i, f], w: f32[f, j]) -> y: f32[t, j]\n"
        "  a[t, f] = sum[i](x[t, i] * u[i, f])\n"
        "  y[t, j] = sum[f](sigmoid(a[t, f] - max[f](a[t, f])) * w[f, j])\n"
    ),
}  # fmt: skip


def through_a_function(text: str) -> str:
    """The same operator with its weights through a function, so that sums of them do not move."""
    return re.sub(r"\b([pw]\[[^\]]*\]) \*", r"tanh(\1) *", text)


TWINS: dict[str, str] = {
    **{name: through_a_function(text) for name, text in ONE_KERNEL.items()},
    "cross-entropy": UNSOUND["cross-entropy with a logarithm inside"],
    "RMS norm and product": UNSOUND["a function of normalised values"],
    "layer norm and product": ONE_KERNEL["layer norm and product"].replace(
        "sum[i](z[t, i] *", "sum[i](tanh(z[t, i]) *"
    ),
    "moments": UNSOUND["the mean distance to the mean"],
    "MaxSim": UNSOUND["the best of normalised scores"],
    "exponentials of a low-rank product": (
        "op f(a: f32[m, r], b: f32[r, n]) -> s: f32[m]\n"
        "  z[m, n] = sum[r](a[m, r] * b[r, n])\n"
        "  s[m] = sum[n](exp(z[m, n] + max[n](z[m, n])))\n"
    ),
    "gated MLP": UNSOUND["a gate relative to its maximum"],
    "a softmax by hand": UNSOUND["scores relative to their mean"],
    "entropy": ONE_KERNEL["entropy"].replace(
        "softmax[n](x[m, n]) *", "tanh(softmax[n](x[m, n])) *"
    ),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_every_operator_in_one_pass_has_a_twin_that_takes_another(name: str) -> None:
    assert TWINS[name] != ONE_KERNEL[name]
    item = program(TWINS[name])
    sizes = sizes_for(item)
    assert passes_over(item, sizes) == 2
    compare(item, fused(item, sizes), sizes)


@pytest.mark.parametrize("name", UNSOUND)
def test_what_has_no_sound_rule_takes_another_pass(name: str) -> None:
    item = program(UNSOUND[name])
    sizes = sizes_for(item)
    assert passes_over(item, sizes) == 2
    compare(item, fused(item, sizes), sizes)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65])
@pytest.mark.parametrize("name", ["attention", "causal attention", "ragged", "soft cap"])
def test_attention_at_the_edges_of_its_tiles(name: str, n: int) -> None:
    item = program(ONE_KERNEL[name])
    sizes = sizes_for(item, b=1, h=1, m=4, n=n)
    made = fused(item, {**sizes, "n": 40})
    compare(item, made, sizes, n)


@pytest.mark.parametrize("name", ["ragged", "latent attention", "MaxSim"])
def test_rows_that_select_nothing(name: str) -> None:
    item = program(ONE_KERNEL[name])
    sizes = sizes_for(item)
    arrays = arguments(item, sizes, 3)
    arrays["len"][:] = 0
    arrays["len"][-1] = 2
    found = interpret_tile(fused(item, sizes), arrays, sizes)
    for key, value in interpret(item, arrays, sizes).items():
        np.testing.assert_allclose(found[key], value, atol=1e-5)


def test_rows_before_the_first_key() -> None:
    item = program(ONE_KERNEL["causal attention"])
    sizes = sizes_for(item, m=9, n=5)  # queries 0 to 3 see nothing
    made = fused(item, sizes)
    found = interpret_tile(made, arguments(item, sizes, 1), sizes)["o"]
    assert (found[:, :, :4] == 0).all() and (found[:, :, 4:] != 0).any()
    compare(item, made, sizes)


SOFTMAX = (
    "op f(x: f32[m, n], v: f32[n]) -> o: f32[m]\n  o[m] = sum[n](softmax[n](x[m, n]) * v[n])\n"
)
BY_HAND = (
    "op f(x: f32[m, n], v: f32[n]) -> o: f32[m]\n"
    "  y[m, n] = exp(x[m, n] - max[n](x[m, n]))\n"
    "  o[m] = sum[n](y[m, n] * v[n])\n"
)


@pytest.mark.parametrize("text", [SOFTMAX, BY_HAND])
def test_infinities_and_nan_keep_their_values(text: str) -> None:
    n = 600
    x = np.zeros((6, n), np.float32)
    x[0] = -np.inf  # nothing finite: not a number
    x[1, :590] = -np.inf  # blocks without anything finite, then some
    x[2, 400] = np.inf
    x[3, 17] = np.nan
    x[4] = 3e38 * np.where(np.arange(n) % 2, 1, -1)
    x[5, 300:] = -np.inf
    arrays = {"x": x, "v": np.ones(n, np.float32)}
    item = program(text)
    sizes = sizes_for(item, m=6, n=n)
    assert passes_over(item, sizes) == 1
    wanted = interpret(item, arrays, sizes)["o"]
    found = interpret_tile(fused(item, sizes), arrays, sizes)["o"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert np.isnan(wanted[[0, 2, 3]]).all() and np.isfinite(wanted[[1, 4, 5]]).all()


@pytest.mark.parametrize(("mean", "bar"), [(0, 5e-6), (1e3, 1e-5), (1e4, 5e-5)])
def test_variance_and_third_moment_are_stable_in_one_pass(mean: float, bar: float) -> None:
    """Relative error of the variance of 16,384 elements, the worst of 20 seeds."""
    item = program(ONE_KERNEL["moments"])
    sizes = {"m": 20, "n": 16384}
    rows = [np.random.default_rng(seed).standard_normal(16384) for seed in range(20)]
    x = (mean + np.array(rows)).astype(np.float32)
    found = interpret_tile(fused(item, sizes), {"x": x}, sizes)
    centred = x.astype(np.float64) - x.astype(np.float64).mean(axis=1, keepdims=True)
    exact = (centred**2).mean(axis=1)
    error = np.abs(found["v"] - exact) / exact
    assert error.max() <= bar, f"variance at mean {mean:g}: {error.max():.2g}"
    third = np.abs(found["w"] - (centred**3).mean(axis=1))
    assert third.max() <= max(1e-4, 2e-6 * mean), f"third moment: {third.max():.2g}"


def test_masked_means_count_what_they_select() -> None:
    item = program(
        "op f(x: f32[m, n], len: i32[m]) -> v: f32[m]\n"
        "  c[m, n] = x[m, n] - mean[n](x[m, n] where n < len[m])\n"
        "  v[m] = sum[n](c[m, n] ** 2 where n < len[m])\n"
    )
    sizes = sizes_for(item, m=4, n=300)
    assert passes_over(item, sizes) == 1
    x = (1000 + np.random.default_rng(0).standard_normal((4, 300))).astype(np.float32)
    arrays = {"x": x, "len": np.array([0, 1, 257, 300], np.int32)}
    found = interpret_tile(fused(item, sizes), arrays, sizes)["v"]
    np.testing.assert_allclose(found, interpret(item, arrays, sizes)["v"], rtol=2e-5, atol=1e-6)


def test_maxima_relative_to_a_mean_move_with_it() -> None:
    item = program("op f(x: f32[m, n]) -> o: f32[m]\n  o[m] = max[n](x[m, n] - mean[n](x[m, n]))\n")
    sizes = sizes_for(item, m=3, n=700)
    assert passes_over(item, sizes) == 1
    compare(item, fused(item, sizes), sizes)


def loops(made: TileProgram) -> list[str]:
    """The ranges of the loops of a program."""
    (kernel,) = made.kernels
    found = [item for item in statements(kernel.body) if type(item).__name__ == "Loop"]
    return [f"{item.index} {item.lower}..{item.upper}" for item in found]  # type: ignore[union-attr]


def test_blocks_without_an_unmasked_element_are_not_visited() -> None:
    causal = fused(program(ONE_KERNEL["causal attention"]), SIZES)
    assert loops(causal)[0] == "n 0..min(base(m) - |m| + |n| + 1, |n|)"
    window = fused(program(ONE_KERNEL["window"]), {**SIZES, "n": 16})
    assert loops(window)[0] == "n max(0, 16*((base(m) - 4) // 16))..min(base(m) + 1, |n|)"
    ragged = fused(program(ONE_KERNEL["ragged"]), SIZES)
    assert loops(ragged)[0] == "n 0..min(|n|, len[b])"


def test_a_cut_is_made_where_storing_is_cheaper_and_the_plan_says_why() -> None:
    text = (
        "op f(a: f32[q, m, n], c: f32[n, j], d: f32[j, e]) -> o: f32[q, m, e]\n"
        "  x[n, e] = sum[j](c[n, j] * d[j, e])\n"
        "  o[q, m, e] = sum[n](a[q, m, n] * x[n, e])\n"
    )
    item = program(text)
    sizes = dict.fromkeys("qmne", 8) | {"j": 400}
    assert fuse(item, sizes).stored == ("x",)
    assert "stored x: 2 kernels" in str(fuse(item, sizes))
    assert fuse(item, sizes, "none").stored == ()
    compare(item, fused(item, sizes, "cost"), sizes)
    compare(item, fused(item, sizes), sizes)


def test_a_read_keeps_the_condition_that_it_needs() -> None:
    text = "op f(x: f32[m]) -> y: f32[m]\n  y[m] = select(m > 0, exp(x[m - 1]), 0)\n"
    item = program(text)
    compare(item, fused(item, {"m": 4}), {"m": 4})


def test_a_reduction_takes_the_condition_that_its_reads_need() -> None:
    item = program(
        "op f(x: f32[m, n]) -> y: f32[m]\n  y[m] = select(m > 0, sum[n](x[m - 1, n]), 0)\n"
    )
    sizes = {"m": 4, "n": 5}
    compare(item, fused(item, sizes), sizes)


def test_plans_print(golden: Callable[[str, str], None]) -> None:
    names = ["causal attention", "moments", "layer norm and product", "MaxSim", "entropy"]
    plans = [f"{name}\n{fuse(program(ONE_KERNEL[name]), SIZES, 'none')}" for name in names]
    golden("plans.txt", "\n".join(plans))


def test_fused_texts_print(golden: Callable[[str, str], None]) -> None:
    from tensorc.ir.print_tile import show

    for name in ("causal attention", "layer norm and product", "gated MLP"):
        item = program(ONE_KERNEL[name])
        golden(f"{name.replace(' ', '_')}.txt", show(fused(item, sizes_for(item))))


def test_the_same_scores_under_any_mask_share_a_pass() -> None:
    item = program(attention(where="(n + m) % 3 != 0"))
    sizes = sizes_for(item)
    assert passes_over(item, sizes) == 1
    compare(item, fused(item, sizes), sizes)


def test_sums_over_several_indices_and_long_rows_lie_in_memory() -> None:
    item = program(
        "op f(x: f32[m, i, j], y: f32[m, i], w: f32[i, j, e]) -> o: f32[m, e], s: f32[m]\n"
        "  o[m, e] = sum[i, j](x[m, i, j] * y[m, i] * w[i, j, e])\n"
        "  s[m] = sum[i, j](x[m, i, j] * y[m, i] * 2)\n"
    )
    sizes = sizes_for(item, e=600, m=2, i=3, j=5)
    compare(item, fused(item, sizes), sizes)
    item = program(ONE_KERNEL["a softmax by hand"])
    sizes = sizes_for(item, e=600)
    made = fused(item, sizes)
    assert any(tile.space == "memory" for tile in tiles(made.kernels[0]).values())
    compare(item, made, sizes)


def test_a_name_of_a_narrow_type_rounds_where_it_is_the_whole_output() -> None:
    item = program("op f(x: i32[m]) -> y: i32[m]\n  t: u8[m] = x[m] + 250\n  y[m] = t[m]\n")
    found = interpret_tile(fused(item, {"m": 2}), {"x": np.array([1, 9], np.int32)}, {"m": 2})
    assert found["y"].tolist() == [251, 3]
