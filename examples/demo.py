"""Causal attention from mathematics to a kernel on this CPU, checked against its meaning.

`make demo` runs this file: it reads `causal_attention.tc`, compiles it for this machine, runs it on
random data and prints the error, the bound that the rounding of the program explains, and the time.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import tensorc as tc
from tensorc.prepare import prepare
from tensorc.verify import judge

SIZES = {"b": 1, "h": 2, "m": 128, "n": 128, "d": 64, "e": 64}


def main() -> None:
    """Compile, run, check and time one operator."""
    path = Path(__file__).with_name("causal_attention.tc")
    print(path.read_text())
    attention = tc.load(path).causal_attention
    draw = np.random.default_rng(0).standard_normal
    b, h, m, n, d, e = SIZES.values()
    q, k, v = (
        draw(shape).astype(np.float16) for shape in ((b, h, m, d), (b, h, n, d), (b, h, n, e))
    )
    start = time.perf_counter()
    kernel = attention.compile(sizes=SIZES)
    print(f"compiled in {1e3 * (time.perf_counter() - start):.0f} ms: {kernel!r}")
    start = time.perf_counter()
    outputs = dict(zip("ol", kernel(q, k, v), strict=True))
    print(f"ran in {1e3 * (time.perf_counter() - start):.1f} ms")
    call = prepare(attention.program, {"q": q, "k": k, "v": v})
    for name, verdict in judge(call, outputs).items():
        print(f"{name}: {verdict}")


if __name__ == "__main__":
    main()
