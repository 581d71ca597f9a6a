"""For each rule a program whose result costs more without it, where no discovery already is one.

Sizes are by index name; every extent that a text does not state is given.
"""

from __future__ import annotations

from collections.abc import Mapping

SIZES: Mapping[str, int] = dict(i=64, k=256, l=32, d=16)
_X = "op f(x: f32[i, k], h: f32[k], u: f32[i], p: bool[k], z: f32[i, k, l], w: f32[d])"


def _op(outputs: str, *lines: str) -> str:
    return f"{_X} -> {outputs}\n" + "".join(f"  {line}\n" for line in lines)


_ONE = "o: f32[i]"
NEEDED: Mapping[str, str] = {
    "absorb-number": _op(
        "o: f32[i], q: f32[i]",
        "o[i] = sum[k](select(p[k], f32(3.0), f32(0.0)) * x[i, k])",
        "q[i] = tanh(sum[k](x[i, k] where p[k]))",
    ),
    "flatten-sum": _op(_ONE, "t[i, k] = x[i, k] + h[k]", "o[i] = max[k](t[i, k] + 0.5 * h[k])"),
    "merge-sums": _op(_ONE, "o[i] = sum[k](sum[l](z[i, k, l]))"),
    "sum-of-same": _op(_ONE, "t[i, k] = tanh(u[i])", "o[i] = sum[k](t[i, k])"),
    "join-exp": _op(
        "o: f32[i], q: f32[i]",
        "o[i] = sum[k](exp(x[i, k] + h[k]))",
        "q[i] = max[k](exp(x[i, k]) * exp(h[k]))",
    ),
    "recip-exp": _op(
        "o: f32[i], q: f32[i]", "o[i] = sum[k](1 / exp(x[i, k]))", "q[i] = max[k](exp(-x[i, k]))"
    ),
    "recip-product": _op(_ONE, "o[i] = sum[k](x[i, k] / (u[i] * h[k]))"),
    "merge-max": _op(_ONE, "o[i] = max[k](max[l](z[i, k, l]))"),
    "merge-min": _op(_ONE, "o[i] = min[k](min[l](z[i, k, l]))"),
    "max-of-same": _op(_ONE, "t[i, k] = tanh(u[i])", "o[i] = max[k](t[i, k])"),
    "min-of-same": _op(_ONE, "t[i, k] = tanh(u[i])", "o[i] = min[k](t[i, k])"),
    "min-constant": _op(_ONE, "o[i] = min[k](x[i, k] / sqrt(|d|))"),
    "min-summand": _op(_ONE, "o[i] = min[k](u[i] + x[i, k])"),
    "pull-masked": "op f(z: f32[i, k, l], v: f32[i, l], h: f32[k, l]) -> o: f32[i, l]\n"
    "  o[i, l] = sum[k](z[i, k, l] * v[i, l] * h[k, l] where k <= i)\n",
    "bare-select-to-where": _op(_ONE, "o[i] = sum[k](select(k <= i, x[i, k], 0.0))"),
}
