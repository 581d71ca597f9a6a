"""CPU kernels against NumPy, one thread each, in one process and in turn.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.cpu

Every case runs in rounds, ours and NumPy's one after the other; figures are medians over rounds of
CPU time, ratios are medians of the rounds' ratios (below 1: ours is faster) with their extremes.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorc as tc

Array = npt.NDArray[Any]
ROUNDS = 9


@dataclass(frozen=True)
class Case:
    """Two ways to the same result, and the floating-point operations of one call."""

    name: str
    ours: Callable[[], Array]
    numpy: Callable[[], Array]
    flops: float


def cases() -> list[Case]:
    """Products of several shapes, and operators that NumPy does in several passes."""
    draw = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return draw.standard_normal(shape).astype(np.float32)

    made: list[Case] = []
    for m, n, k in ((64, 64, 64), (256, 256, 256), (512, 512, 512), (1000, 1000, 1000)):
        a, b = normal(m, k), normal(k, n)
        made.append(_product(f"product {m}x{n}x{k}", "mk,kn->mn", a, b, np.matmul, 2.0 * m * n * k))
    a, b = normal(512, 512), normal(512, 512)
    made.append(
        _product("product with b transposed, 512", "mk,nk->mn", a, b,
                 lambda x, y: np.matmul(x, y.T), 2.0 * 512**3)
    )  # fmt: skip
    a, b = normal(64, 64, 64), normal(64, 64, 64)
    made.append(_product("64 products of 64", "bmk,bkn->bmn", a, b, np.matmul, 2.0 * 64**4))
    softmax = tc.loads("op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = softmax[n](x[m, n])\n").f
    x = normal(1024, 1024)
    made.append(Case("softmax 1024x1024", lambda: softmax(x), lambda: _softmax(x), 5.0 * x.size))
    return [*made, *_others(normal(2048, 2048), x)]


OTHERS = """
op turned(x: f32[m, n]) -> y: f32[n, m]
  y[n, m] = x[m, n]

op rows(x: f32[m, n]) -> y: f32[m]
  y[m] = sum[n](x[m, n])

op columns(x: f32[m, n]) -> y: f32[n]
  y[n] = sum[m](x[m, n])

op layer_norm(x: f32[m, n]) -> y: f32[m, n]
  c[m, n] = x[m, n] - mean[n](x[m, n])
  y[m, n] = c[m, n] * rsqrt(mean[n](c[m, n] ** 2) + 1e-5)

op sines(x: f32[m, n]) -> y: f32[m, n]
  y[m, n] = sin(x[m, n])
"""


def _others(large: Array, small: Array) -> list[Case]:
    """What is bound by memory, or by a function."""
    ops = tc.loads(OTHERS)
    size, less = float(large.size), float(small.size)
    return [
        Case("transpose 2048", lambda: ops.turned(large), lambda: large.T.copy(), size),
        Case("sum of rows 2048", lambda: ops.rows(large), lambda: large.sum(1), size),
        Case("sum of columns 2048", lambda: ops.columns(large), lambda: large.sum(0), size),
        Case(
            "layer norm 1024", lambda: ops.layer_norm(small), lambda: _layer_norm(small), 8 * less
        ),
        Case("sin 1024x1024", lambda: ops.sines(small), lambda: np.sin(small), less),
    ]


def _layer_norm(x: Array) -> Array:
    c = x - x.mean(1, keepdims=True)
    return c / np.sqrt((c * c).mean(1, keepdims=True) + 1e-5)


def _product(
    name: str, text: str, a: Array, b: Array, peer: Callable[[Array, Array], Array], flops: float
) -> Case:
    return Case(name, lambda: tc.einsum(text, a, b), lambda: peer(a, b), flops)


def _softmax(x: Array) -> Array:
    y = np.exp(x - x.max(1, keepdims=True))
    return y / y.sum(1, keepdims=True)


def seconds(call: Callable[[], object]) -> float:
    """CPU time of one call, over enough calls to fill 20 ms."""
    count, spent = 0, 0.0
    start = time.process_time()
    while spent < 0.02:
        call()
        count += 1
        spent = time.process_time() - start
    return spent / count


def measured(case: Case) -> tuple[float, float, list[float]]:
    """(our median, NumPy's, the ratio of every round); results are compared first."""
    np.testing.assert_allclose(case.ours(), case.numpy(), rtol=1e-3, atol=1e-3)
    pairs = [(seconds(case.ours), seconds(case.numpy)) for _ in range(ROUNDS)]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return ours, theirs, [a / b for a, b in pairs]


def main() -> None:
    """Print the table."""
    os.environ["TENSORC_THREADS"] = "1"
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "not set")
    print(f"{platform.machine()}, NumPy {np.__version__}, OPENBLAS_NUM_THREADS {threads}")
    for case in cases():
        ours, theirs, ratios = measured(case)
        ratio = statistics.median(ratios)
        print(
            f"{case.name:32} ours {case.flops / ours / 1e9:7.1f} GF/s   "
            f"NumPy {case.flops / theirs / 1e9:7.1f} GF/s   "
            f"time ratio {ratio:.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"
        )


if __name__ == "__main__":
    main()
