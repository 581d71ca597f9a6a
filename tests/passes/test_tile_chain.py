"""Dependent products in one kernel on tensor cores: their level-2 text is derived from the plan,
visits only blocks that hold something, and means what the equations say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.print_tile import show
from tensorc.ir.sizes import bind
from tensorc.ir.tile import Loop
from tensorc.ir.walk_tile import statements
from tests.passes.test_tile_product import (
    CONVOLUTIONS,
    GPUS,
    compare,
    drawn,
    products,
    program,
    tiled,
)

ATTENTION = """op f(q: f16[b, h, m, d], k: f16[b, h, n, d], v: f16[b, h, n, e]{more})
    -> o: f16[b, h, m, e]
  s[b, h, m, n] = {score}
  p: f16[b, h, m, n] = softmax[n](s[b, h, m, n]{where})
  o[b, h, m, e] = sum[n](p[b, h, m, n] * v[b, h, n, e])
"""
DOT = "sum[d](q[b, h, m, d] * k[b, h, n, d]) / sqrt(|d|)"


def attention(score: str = DOT, where: str = "", more: str = "") -> str:
    """An attention with this score, mask and further parameters."""
    return ATTENTION.format(score=score, where=f" where {where}" if where else "", more=more)


CAUSAL = attention(where="n <= m + |n| - |m|")
CHAINS = {
    "attention": attention(),
    "causal": CAUSAL,
    "window": attention(where="n <= m and m < n + 50"),
    "soft cap": attention(f"30.0 * tanh({DOT} / 30.0)", "n <= m"),
    "ALiBi": attention(f"{DOT} - slope[h] * (m - n)", "n <= m", ", slope: f32[h]"),
    "ragged": attention(where="n < len[b]", more=", len: i32[b]"),
    "ragged rows": attention(where="n < len[m]", more=", len: i32[m]"),
    "every third": attention(where="(m + n) % 3 != 0"),
    "grouped queries": (
        "op f(q: f16[b, h, m, d], k: f16[b, g, n, d], v: f16[b, g, n, e]) -> o: f16[b, h, m, e]\n"
        "  s[b, h, m, n] = sum[d](q[b, h, m, d] * k[b, h // (|h| // |g|), n, d]) / sqrt(|d|)\n"
        "  p: f16[b, h, m, n] = softmax[n](s[b, h, m, n] where n <= m + |n| - |m|)\n"
        "  o[b, h, m, e] = sum[n](p[b, h, m, n] * v[b, h // (|h| // |g|), n, e])\n"
    ),
    "factors backwards": (
        "op f(q: f16[m, h, d], k: f16[n, h, d], v: f16[n, h, e]) -> o: f16[m, h, e]\n"
        "  s[m, h, n] = sum[d](k[n, h, d] * q[m, h, d]) / sqrt(|d|)\n"
        "  p: f16[m, h, n] = softmax[n](s[m, h, n])\n"
        "  o[m, h, e] = sum[n](v[n, h, e] * p[m, h, n])\n"
    ),
    "with the logarithm of its sums": (
        "op f(q: f16[m, d], k: f16[n, d], v: f16[n, e]) -> o: f16[m, e], l: f32[m]\n"
        "  s[m, n] = sum[d](q[m, d] * k[n, d])\n"
        "  p: f16[m, n] = softmax[n](s[m, n])\n"
        "  o[m, e] = sum[n](p[m, n] * v[n, e])\n"
        "  l[m] = logsumexp[n](s[m, n])\n"
    ),
    "cross-entropy": (
        "op f(X: bf16[t, d], W: bf16[v, d], label: i32[t]) -> loss: f32[t]\n"
        "  z[t, v] = sum[d](X[t, d] * W[v, d])\n"
        "  loss[t] = logsumexp[v](z[t, v]) - z[t, label[t]]\n"
    ),
    "MaxSim": (
        "op f(Q: f16[q, i, k], D: f16[g, j, k], len: i32[g]) -> S: f32[q, g]\n"
        "  s[q, g, i, j] = sum[k](Q[q, i, k] * D[g, j, k])\n"
        "  S[q, g] = sum[i](max[j](s[q, g, i, j] where j < len[g]))\n"
    ),
    "latent attention": (
        "op f(q: bf16[b, h, r], p: bf16[b, h, e], C: bf16[b, t, r], R: bf16[b, t, e],\n"
        "     len: i32[b]) -> o: bf16[b, h, r]\n"
        "  s[b, h, t] = sum[r](q[b, h, r] * C[b, t, r]) + sum[e](p[b, h, e] * R[b, t, e])\n"
        "  w: bf16[b, h, t] = softmax[t](s[b, h, t] / sqrt(128 + |e|) where t < len[b])\n"
        "  o[b, h, r] = sum[t](w[b, h, t] * C[b, t, r])\n"
    ),
    "exponentials of a low-rank product": (
        "op f(a: f16[m, r], b: f16[r, n]) -> s: f32[m]\n"
        "  s[m] = sum[n](exp(sum[r](a[m, r] * b[r, n]) / 10))\n"
    ),
    "gated MLP": (
        "op f(x: f16[t, i], g: f16[i, f], u: f16[i, f], w: f16[f, j]) -> y: f16[t, j]\n"
        "  a[t, f] = sum[i](x[t, i] * g[i, f])\n"
        "  h: f16[t, f] = a[t, f] * sigmoid(a[t, f]) * sum[i](x[t, i] * u[i, f])\n"
        "  y[t, j] = sum[f](h[t, f] * w[f, j])\n"
    ),
    "RMS norm and product": (
        "op f(x: bf16[t, i], g: f32[i], w: bf16[i, o]) -> y: bf16[t, o]\n"
        "  z: bf16[t, i] = x[t, i] * rsqrt(mean[i](x[t, i] ** 2) + 1e-6) * g[i]\n"
        "  y[t, o] = sum[i](z[t, i] * w[i, o])\n"
    ),
    "layer norm and product": (
        "op f(x: bf16[t, i], g: f32[i], b: f32[i], w: bf16[i, o]) -> y: bf16[t, o]\n"
        "  c[t, i] = x[t, i] - mean[i](x[t, i])\n"
        "  z: bf16[t, i] = c[t, i] * rsqrt(mean[i](c[t, i] ** 2) + 1e-5) * g[i] + b[i]\n"
        "  y[t, o] = sum[i](z[t, i] * w[i, o])\n"
    ),
    "tensor product attention": (
        "op f(qa: f16[m, x, h], qb: f16[m, x, d], ka: f16[n, y, h], kb: f16[n, y, d],\n"
        "     va: f16[n, z, h], vb: f16[n, z, e]) -> o: f16[m, h, e]\n"
        "  q[m, h, d] = sum[x](qa[m, x, h] * qb[m, x, d]) / |x|\n"
        "  k[n, h, d] = sum[y](ka[n, y, h] * kb[n, y, d]) / |y|\n"
        "  v[n, h, e] = sum[z](va[n, z, h] * vb[n, z, e]) / |z|\n"
        "  s[m, h, n] = sum[d](q[m, h, d] * k[n, h, d]) / sqrt(|d|)\n"
        "  p[m, h, n] = softmax[n](s[m, h, n] where n <= m)\n"
        "  o[m, h, e] = sum[n](p[m, h, n] * v[n, h, e])\n"
    ),
}  # fmt: skip
SIZES = {
    "b": 2, "h": 2, "g": 2, "m": 70, "n": 131, "d": 40, "e": 24, "t": 77, "v": 150, "i": 37,
    "o": 34, "q": 3, "j": 40, "k": 70, "r": 18, "f": 90, "x": 6, "y": 5, "z": 7,
}  # fmt: skip


def sizes_for(text: str, **changed: int) -> dict[str, int]:
    """Extents of the indices of a text, no multiples of tiles."""
    item = program(text)
    free = {index for index, size in item.extents if str(size) == f"|{index}|"}
    return {index: size for index, size in ({**SIZES, **changed}).items() if index in free}


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("name", CHAINS)
def test_one_kernel_on_tensor_cores(name: str, machine: str) -> None:
    text = CHAINS[name]
    sizes = sizes_for(text)
    made = tiled(text, machine, sizes)
    assert made.reasons == {} and len(made.program.kernels) == 1
    wanted = sum(text.count(s) for s in ("sum[d](", "sum[r](", "sum[k](")) or 1
    assert len(products(made)) >= wanted
    compare(program(text), made, sizes)


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize("name", ["attention", "causal"])
@pytest.mark.parametrize(("m", "n"), [(127, 127), (128, 128), (129, 129), (1, 1), (300, 140)])
def test_attention_at_the_edges_of_its_tiles(name: str, m: int, n: int, machine: str) -> None:
    text = CHAINS[name]
    known = sizes_for(text, d=64, e=64)
    made = tiled(text, machine, {"d": known["d"], "e": known["e"]})
    compare(program(text), made, {**known, "b": 1, "h": 1, "m": m, "n": n})


@pytest.mark.parametrize("machine", GPUS)
def test_no_keys_and_rows_that_see_none(machine: str) -> None:
    text = CHAINS["causal"]
    made = tiled(text, machine, {"d": 40, "e": 24})
    sizes = sizes_for(text, b=1, m=200, n=70)
    compare(program(text), made, sizes)
    arrays = drawn(program(text), sizes)
    found = interpret_tile(made.program, arrays, bind(program(text), {}, sizes))["o"]
    assert (found[:, :, :130] == 0).all() and (found[:, :, 130:] != 0).any()
    ragged = tiled(CHAINS["ragged"], machine, {"d": 40, "e": 24})
    sizes = sizes_for(CHAINS["ragged"])
    arrays = {**drawn(program(CHAINS["ragged"]), sizes), "len": np.array([0, 131], np.int32)}
    extents = bind(program(CHAINS["ragged"]), {}, sizes)
    found = interpret_tile(ragged.program, arrays, extents)["o"]
    wanted = interpret(program(CHAINS["ragged"]), arrays, extents)["o"]
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    assert (found[0] == 0).all()


def visited(loop: Loop, m: int, sizes: Mapping[str, int]) -> set[int]:
    """The bases of the blocks that a loop runs for the block of rows at `m`."""
    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    known[Symbol("m", "base")] = m
    return set(range(evaluate(loop.lower, known), evaluate(loop.upper, known), loop.block))


@pytest.mark.parametrize("machine", GPUS)
@pytest.mark.parametrize(
    ("name", "m", "n"),
    [
        *(("causal", m, n) for m, n in [(512, 512), (300, 700), (700, 300), (129, 128), (1, 900)]),
        *(("window", m, n) for m, n in [(512, 512), (300, 700)]),
    ],
)
def test_blocks_visited_are_those_with_an_unmasked_element(
    name: str, m: int, n: int, machine: str
) -> None:
    made = tiled(CHAINS[name], machine, {"d": 64, "e": 64})
    (kernel,) = made.program.kernels
    loop = next(item for item in statements(kernel.body) if isinstance(item, Loop))
    rows = next(block.size for block in kernel.grid if block.index == "m")
    i, j = np.arange(m)[:, None], np.arange(n)[None]
    seen = (j <= i + n - m) if name == "causal" else (j <= i) & (i < j + 50)
    for base in range(0, m, rows):
        blocks = {
            k for k in range(0, n, loop.block)
            if seen[base : base + rows, k : k + loop.block].any()
        }  # fmt: skip
        assert visited(loop, base, {"m": m, "n": n}) == blocks, f"rows from {base}"


def test_columns_that_do_not_fit_are_another_kernel() -> None:
    text = (
        "op f(a: f16[m, k], b: f16[k, n], c: f16[n, e]) -> o: f16[m, e]\n"
        "  t: f16[m, n] = sum[k](a[m, k] * b[k, n])\n"
        "  o[m, e] = sum[n](t[m, n] * c[n, e])\n"
    )
    assert len(tiled(text, "sm_90a", {"k": 64, "e": 64}).program.kernels) == 1
    made = tiled(text, "sm_90a", {"k": 64, "n": 2048, "e": 2048})
    assert len(made.program.kernels) == 2 and made.reasons == {}
    compare(program(text), tiled(text, "sm_80", {"e": 700}), {"m": 9, "k": 20, "n": 30, "e": 700})


DECODE = """op decode(q: f16[b, g, x, d], k: f16[b, g, n, d], v: f16[b, g, n, e], len: i32[b])
    -> o: f16[b, g, x, e]
  s[b, g, x, n] = sum[d](q[b, g, x, d] * k[b, g, n, d]) / sqrt(|d|)
  p: f16[b, g, x, n] = softmax[n](s[b, g, x, n] where n < len[b])
  o[b, g, x, e] = sum[n](p[b, g, x, n] * v[b, g, n, e])
"""
TEXTS: dict[str, tuple[str, dict[str, int]]] = {
    "causal": (CHAINS["causal"], {"d": 128, "e": 128}),
    "MaxSim": (CHAINS["MaxSim"], {"k": 128}),
    "RMS norm and product": (CHAINS["RMS norm and product"], {}),
    "split decode": (DECODE, {"b": 1, "g": 8, "x": 8, "n": 32768, "d": 128, "e": 128}),
    "convolution": (CONVOLUTIONS["channels last"], {}),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("machine", GPUS)
def test_texts(machine: str, name: str, golden: Callable[[str, str], None]) -> None:
    text, static = TEXTS[name]
    golden(f"{name.replace(' ', '_')}_{machine}.txt", show(tiled(text, machine, static).program))


@pytest.mark.parametrize("machine", GPUS)
def test_decoding_in_parts_with_lengths(machine: str) -> None:
    sizes = {"b": 2, "g": 1, "x": 8, "n": 5000, "d": 32, "e": 24}
    made = tiled(DECODE, machine, sizes)
    assert len(made.program.kernels) > 1
    item, extents = program(DECODE), bind(program(DECODE), {}, sizes)
    arrays = {**drawn(item, sizes), "len": np.array([0, 3333], np.int32)}
    found = interpret_tile(made.program, arrays, {**extents})["o"]
    np.testing.assert_allclose(found, interpret(item, arrays, extents)["o"], atol=2e-3)
    assert (found[0] == 0).all() and (found[1] != 0).any()
