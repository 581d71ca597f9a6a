"""One thread against several on large kernels: the same bits, in how much less time.

    python -m benchmarks.threads [--threads 2] [--rounds 9]

Times are of the clock, so the machine must be quiet: the share of the processors that other work
took meanwhile is printed. A round runs the one and the other in turn; figures are medians of the
rounds' ratios with their extremes (2 threads: at best 2).
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorc as tc

Array = npt.NDArray[Any]

TEXT = """
op product(a: f32[m, k], b: f32[k, n]) -> c: f32[m, n]
  c[m, n] = sum[k](a[m, k] * b[k, n])

op attention(Q: f32[h, q, d], K: f32[h, k, d], V: f32[h, k, d]) -> y: f32[h, q, d]
  s[h, q, k] = sum[d](Q[h, q, d] * K[h, k, d]) / sqrt(|d|)
  y[h, q, d] = sum[k](softmax[k](s[h, q, k]) * V[h, k, d])

op softmaxes(x: f32[m, n]) -> y: f32[m, n]
  y[m, n] = softmax[n](x[m, n])

op gelu(x: f32[m, n]) -> y: f32[m, n]
  y[m, n] = 0.5 * x[m, n] * (1 + tanh(0.7978845608 * (x[m, n] + 0.044715 * x[m, n] ** 3)))

op scaled(x: f32[m, n]) -> y: f32[m, n]
  y[m, n] = 2 * x[m, n] + 1

op total(x: f32[m, n]) -> y: f32
  y = sum[m, n](x[m, n])
"""


@dataclass(frozen=True)
class Case:
    """An operator and its arrays."""

    name: str
    op: tc.Op
    arrays: tuple[Array, ...]


def cases() -> list[Case]:
    """What is bound by arithmetic, and what by memory."""
    draw, ops = np.random.default_rng(0), tc.loads(TEXT)

    def normal(*shape: int) -> Array:
        return draw.standard_normal(shape).astype(np.float32)

    heads = tuple(normal(8, 512, 64) for _ in range(3))
    large = normal(4096, 4096)
    return [
        Case("product 1024", ops.product, (normal(1024, 1024), normal(1024, 1024))),
        Case("product 2048", ops.product, (normal(2048, 2048), normal(2048, 2048))),
        Case("attention 8 x 512 x 64", ops.attention, heads),
        Case("softmax 4096", ops.softmaxes, (large,)),
        Case("gelu 4096", ops.gelu, (large,)),
        Case("2 x + 1, 4096", ops.scaled, (large,)),
        Case("sum of all, 4096", ops.total, (large,)),
    ]


def seconds(call: Callable[[], object]) -> float:
    """Of one call by the clock, over enough calls to fill 50 ms."""
    count, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < 0.05:
        call()
        count += 1
    return spent / count


def measured(case: Case, threads: int, rounds: int) -> tuple[bool, float, list[float]]:
    """(whether the bits are equal, seconds of one thread, of every round the speed-up)."""
    outs = [np.empty_like(case.op(*case.arrays)) for _ in range(2)]
    one = case.op.on("cpu", threads=1).into(outs[0])
    many = case.op.on("cpu", threads=threads).into(outs[1])
    for op in (one, many):
        op(*case.arrays)
    same = outs[0].tobytes() == outs[1].tobytes()
    pairs = [
        (seconds(lambda: one(*case.arrays)), seconds(lambda: many(*case.arrays)))
        for _ in range(rounds)
    ]
    return same, statistics.median(a for a, _ in pairs), [a / b for a, b in pairs]


def busy() -> tuple[float, float]:
    """(processor seconds that all of the machine spent since it started, those of this process)."""
    fields = [int(item) for item in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    ticks = sum(fields[:8]) - fields[3] - fields[4]  # all but idle and waiting for disks
    return ticks / os.sysconf("SC_CLK_TCK"), time.process_time()


def main() -> None:
    """Print the table; exit code 1 where bits differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    differing, start, before = 0, time.perf_counter(), busy()
    for case in cases():
        same, spent, ratios = measured(case, given.threads, given.rounds)
        differing += not same
        print(
            f"{case.name:24} {1e3 * spent:8.2f} ms on one thread, {statistics.median(ratios):.2f} "
            f"times as fast on {given.threads} [{min(ratios):.2f}, {max(ratios):.2f}], "
            f"bits {'equal' if same else 'DIFFER'}",
            flush=True,
        )
    everyone, own = (after - then for after, then in zip(busy(), before, strict=True))
    processors = (os.cpu_count() or 1) * (time.perf_counter() - start)
    print(f"other work took {max(0.0, everyone - own) / processors:.0%} of the processors")
    raise SystemExit(int(bool(differing)))


if __name__ == "__main__":
    main()
