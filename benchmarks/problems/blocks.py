"""Transformer blocks in the language: one decoder layer, or a stack of them.

Shapes are those of a small decoder: LayerNorm, projections, causal attention, output projection,
residual sums, and a GELU MLP, all in f32 values over f16 storage.
"""

from __future__ import annotations

from collections.abc import Mapping

SIZES: Mapping[str, int] = dict(t=512, c=768, h=12, d=64, f=3072)
_WEIGHTS = (
    "g1_{n}: f32[c], b1_{n}: f32[c], wq_{n}: f16[c, h, d], wk_{n}: f16[c, h, d], "
    "wv_{n}: f16[c, h, d], wo_{n}: f16[h, d, c], g2_{n}: f32[c], b2_{n}: f32[c], "
    "w1_{n}: f16[c, f], w2_{n}: f16[f, c]"
)
_BLOCK = """\
  u_{n}[t, c] = {x}[t, c] - mean[c]({x}[t, c])
  a_{n}: f16[t, c] = u_{n}[t, c] * rsqrt(mean[c](u_{n}[t, c] ** 2) + 1e-5) * g1_{n}[c] + b1_{n}[c]
  q_{n}: f16[t, h, d] = sum[c](a_{n}[t, c] * wq_{n}[c, h, d])
  k_{n}: f16[t, h, d] = sum[c](a_{n}[t, c] * wk_{n}[c, h, d])
  v_{n}: f16[t, h, d] = sum[c](a_{n}[t, c] * wv_{n}[c, h, d])
  s_{n}[h, t, s=|t|] = sum[d](q_{n}[t, h, d] * k_{n}[s, h, d]) / sqrt(|d|)
  p_{n}: f16[h, t, s=|t|] = softmax[s](s_{n}[h, t, s] where s <= t)
  o_{n}: f16[t, h, d] = sum[s=|t|](p_{n}[h, t, s] * v_{n}[s, h, d])
  m_{n}[t, c] = {x}[t, c] + sum[h, d](o_{n}[t, h, d] * wo_{n}[h, d, c])
  w_{n}[t, c] = m_{n}[t, c] - mean[c](m_{n}[t, c])
  e_{n}: f16[t, c] = w_{n}[t, c] * rsqrt(mean[c](w_{n}[t, c] ** 2) + 1e-5) * g2_{n}[c] + b2_{n}[c]
  j_{n}[t, f] = sum[c](e_{n}[t, c] * w1_{n}[c, f])
  l_{n}: f16[t, f] = 0.5 * j_{n}[t, f] * (1 + erf(j_{n}[t, f] / sqrt(2)))
  {y}[t, c] = m_{n}[t, c] + sum[f](l_{n}[t, f] * w2_{n}[f, c])
"""


def blocks(count: int) -> str:
    """The text of an operator of so many layers, each with weights of its own."""
    weights = ", ".join(_WEIGHTS.format(n=n) for n in range(count))
    names = ["x", *(f"x_{n}" for n in range(1, count)), "y"]
    bodies = (_BLOCK.format(n=n, x=names[n], y=names[n + 1]) for n in range(count))
    return f"op decoder(x: f32[t, c], {weights}) -> y: f32[t, c]\n" + "".join(bodies)
