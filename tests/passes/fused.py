"""Operators that fit one kernel, as texts; and how a program is fused, tiled and run in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.interpret_tile import interpret as interpret_tile
from tensorc.ir.plan import Plan
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.tensor import Program
from tensorc.ir.tile import TileProgram
from tensorc.ir.verify_tile import verify
from tensorc.lang import read
from tensorc.machine import verify_uses
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.tiling.tile_fused import tile_fused

Array = npt.NDArray[Any]

ATTENTION = """op f(q: f32[b, h, m, d], k: f32[b, h, n, d], v: f32[b, h, n, e]{more})
    -> o: f32[b, h, m, e]
  s[b, h, m, n] = {score}
  p[b, h, m, n] = softmax[n](s[b, h, m, n]{where})
  o[b, h, m, e] = sum[n](p[b, h, m, n] * v[b, h, n, e])
"""
DOT = "sum[d](q[b, h, m, d] * k[b, h, n, d]) / sqrt(|d|)"


def attention(score: str = DOT, where: str = "", more: str = "") -> str:
    """An attention with this score, mask and further parameters."""
    return ATTENTION.format(score=score, where=f" where {where}" if where else "", more=more)


ONE_KERNEL: dict[str, str] = {
    "attention": attention(),
    "causal attention": attention(where="n <= m + |n| - |m|"),
    "window": attention(where="n <= m and m < n + 5"),
    "soft cap": attention(f"30.0 * tanh({DOT} / 30.0)", "n <= m"),
    "ALiBi": attention(f"{DOT} - slope[h] * (m - n)", "n <= m", ", slope: f32[h]"),
    "ragged": attention(where="n < len[b]", more=", len: i32[b]"),
    "grouped queries": (
        "op f(q: f32[b, h, m, d], k: f32[b, g, n, d], v: f32[b, g, n, e]) -> o: f32[b, h, m, e]\n"
        "  s[b, h, m, n] = sum[d](q[b, h, m, d] * k[b, h // (|h| // |g|), n, d]) / sqrt(|d|)\n"
        "  p[b, h, m, n] = softmax[n](s[b, h, m, n] where n <= m + |n| - |m|)\n"
        "  o[b, h, m, e] = sum[n](p[b, h, m, n] * v[b, h // (|h| // |g|), n, e])\n"
    ),
    "with the logarithm of its sums": (
        "op f(q: f32[m, d], k: f32[n, d], v: f32[n, e]) -> o: f32[m, e], l: f32[m]\n"
        "  s[m, n] = sum[d](q[m, d] * k[n, d])\n"
        "  p[m, n] = softmax[n](s[m, n] where n <= m)\n"
        "  o[m, e] = sum[n](p[m, n] * v[n, e])\n"
        "  l[m] = logsumexp[n](s[m, n] where n <= m)\n"
    ),
    "cross-entropy": (
        "op f(X: f32[t, d], W: f32[v, d], label: i32[t]) -> loss: f32[t]\n"
        "  z[t, v] = sum[d](X[t, d] * W[v, d])\n"
        "  loss[t] = logsumexp[v](z[t, v]) - z[t, label[t]]\n"
    ),
    "RMS norm and product": (
        "op f(x: f32[t, i], g: f32[i], w: f32[i, o]) -> y: f32[t, o]\n"
        "  z[t, i] = x[t, i] * rsqrt(mean[i](x[t, i] ** 2) + 1e-6) * g[i]\n"
        "  y[t, o] = sum[i](z[t, i] * w[i, o])\n"
    ),
    "layer norm and product": (
        "op f(x: f32[t, i], g: f32[i], b: f32[i], w: f32[i, o]) -> y: f32[t, o]\n"
        "  c[t, i] = x[t, i] - mean[i](x[t, i])\n"
        "  z[t, i] = c[t, i] * rsqrt(mean[i](c[t, i] ** 2) + 1e-5) * g[i] + b[i]\n"
        "  y[t, o] = sum[i](z[t, i] * w[i, o])\n"
    ),
    "moments": (
        "op f(x: f32[m, n]) -> v: f32[m], w: f32[m]\n"
        "  c[m, n] = x[m, n] - mean[n](x[m, n])\n"
        "  v[m] = mean[n](c[m, n] ** 2)\n"
        "  w[m] = mean[n](c[m, n] ** 3)\n"
    ),
    "MaxSim": (
        "op f(Q: f32[q, i, k], D: f32[d, j, k], len: i32[d]) -> S: f32[q, d]\n"
        "  s[q, d, i, j] = sum[k](Q[q, i, k] * D[d, j, k])\n"
        "  S[q, d] = sum[i](max[j](s[q, d, i, j] where j < len[d]))\n"
    ),
    "latent attention": (
        "op f(q: f32[b, h, r], p: f32[b, h, e], C: f32[b, t, r], R: f32[b, t, e], len: i32[b])\n"
        "    -> o: f32[b, h, r]\n"
        "  s[b, h, t] = sum[r](q[b, h, r] * C[b, t, r]) + sum[e](p[b, h, e] * R[b, t, e])\n"
        "  w[b, h, t] = softmax[t](s[b, h, t] / sqrt(128 + |e|) where t < len[b])\n"
        "  o[b, h, r] = sum[t](w[b, h, t] * C[b, t, r])\n"
    ),
    "tensor product attention": (
        "op f(qa: f32[m, x, h], qb: f32[m, x, d], ka: f32[n, y, h], kb: f32[n, y, d],\n"
        "     va: f32[n, z, h], vb: f32[n, z, e]) -> o: f32[m, h, e]\n"
        "  q[m, h, d] = sum[x](qa[m, x, h] * qb[m, x, d]) / |x|\n"
        "  k[n, h, d] = sum[y](ka[n, y, h] * kb[n, y, d]) / |y|\n"
        "  v[n, h, e] = sum[z](va[n, z, h] * vb[n, z, e]) / |z|\n"
        "  s[m, h, n] = sum[d](q[m, h, d] * k[n, h, d]) / sqrt(|d|)\n"
        "  p[m, h, n] = softmax[n](s[m, h, n] where n <= m)\n"
        "  o[m, h, e] = sum[n](p[m, h, n] * v[n, h, e])\n"
    ),
    "exponentials of a low-rank product": (
        "op f(a: f32[m, r], b: f32[r, n]) -> s: f32[m]\n"
        "  s[m] = sum[n](exp(sum[r](a[m, r] * b[r, n])))\n"
    ),
    "gated MLP": (
        "op f(x: f32[t, i], g: f32[i, f], u: f32[i, f], w: f32[f, j]) -> y: f32[t, j]\n"
        "  a[t, f] = sum[i](x[t, i] * g[i, f])\n"
        "  h[t, f] = a[t, f] * sigmoid(a[t, f]) * sum[i](x[t, i] * u[i, f])\n"
        "  y[t, j] = sum[f](h[t, f] * w[f, j])\n"
    ),
    "a softmax by hand": (
        "op f(x: f32[m, n], v: f32[n, e]) -> o: f32[m, e]\n"
        "  r[m] = max[n](x[m, n])\n"
        "  y[m, n] = exp2(x[m, n] - r[m])\n"
        "  o[m, e] = sum[n](y[m, n] * v[n, e]) / sum[n](y[m, n])\n"
    ),
    "entropy": (
        "op f(x: f32[m, n]) -> o: f32[m]\n"
        "  l[m] = logsumexp[n](x[m, n])\n"
        "  o[m] = l[m] - sum[n](softmax[n](x[m, n]) * x[m, n])\n"
    ),
}  # fmt: skip


def program(text: str) -> Program:
    """The canonical program of a text with one operator."""
    (found,) = read(text)
    return canonicalise(found)


def fused(item: Program, sizes: Mapping[str, int], cuts: str = "none") -> TileProgram:
    """Level 2 of a canonical program; verified, and equal to its text read back."""
    return tiled(item, fuse(item, sizes, cuts), sizes)


def tiled(item: Program, plan: Plan, sizes: Mapping[str, int]) -> TileProgram:
    """The same from a plan."""
    made = tile_fused(item, plan, 16, {}, "avx512", sizes)
    assert not verify(made), "\n".join(verify(made)) + show(made)
    assert not verify_uses.verify(made)
    assert show(read_tile(show(made))) == show(made)
    return made


def arguments(item: Program, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Normal numbers, and integers below the extent of what they may index."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for parameter in item.parameters:
        shape = tuple(sizes[name] if name else 1 for name in parameter.dims)
        if parameter.tensor.dtype.floating:
            found[parameter.tensor.name] = random.standard_normal(shape).astype(np.float32)
        else:
            most = {"len": min(sizes.get("n", sizes.get("t", sizes.get("j", 9))), 9)}
            top = most.get(parameter.tensor.name, sizes.get("v", 2) - 1)
            found[parameter.tensor.name] = random.integers(0, top + 1, shape).astype(np.int32)
    return found


def compare(
    item: Program, made: TileProgram, sizes: Mapping[str, int], seed: int = 0
) -> dict[str, Array]:
    """The results of level 2, equal to those of level 1, on random arrays."""
    arrays = arguments(item, sizes, seed)
    every = {**sizes}
    wanted = interpret(item, arrays, every)
    found = interpret_tile(made, arrays, every)
    for name, value in found.items():
        finite = np.abs(wanted[name][np.isfinite(wanted[name])])
        scale = max(1.0, float(finite.max(initial=0)))
        np.testing.assert_allclose(value, wanted[name], atol=2e-5 * scale, rtol=0)
    return found
