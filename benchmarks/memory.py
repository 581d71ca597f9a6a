"""Whether nodes and kernels give their memory back: resident size before, at the peak and after.

    python -m benchmarks.memory [--nodes 1000000] [--kernels 10000]

A count of 0 leaves a measure out. The bar is 10 % over the size before. A first part of each run
comes before the measure, since it fills what is filled once: caches of bounded size, the linker,
the allocator's arenas.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensorc.ir.node import compact
from tensorc.ir.polynomial import Symbol
from tensorc.lang import read
from tensorc.prepare import prepare

BAR = 1.10  # resident size after, over that before


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Measure:
    """Bytes before, at the largest and after, and the seconds between."""

    before: int
    peak: int
    after: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Resident size after, over that before."""
        return self.after / self.before

    def __str__(self) -> str:
        before, peak, after = (size / 2**20 for size in (self.before, self.peak, self.after))
        return (
            f"{before:.1f} MiB before, {peak:.1f} at the peak, {after:.1f} after: "
            f"{self.ratio:.3f} of before (bar {BAR:.2f}), {self.seconds:.1f} s"
        )


def nodes(count: int) -> int:
    """Make nodes that are alive together, drop them; the size while they lived."""
    kept = [Symbol(f"n{number}", "extent") for number in range(count)]
    assert len(kept) == count
    return resident()


def kernels(count: int) -> int:
    """Compile programs that differ, call each once, drop it; the largest size on the way."""
    most, x = 0, np.zeros(3, np.float32)
    for number in range(count):
        (program,) = read(f"op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n] + {number}\n")
        call = prepare(program, {"x": x})
        assert call.compiled().run(call.arrays, call.extents)["y"][0] == number
        if number % 100 == 0:
            most = max(most, resident())
    return most


def measured(work: Callable[[int], int], count: int) -> Measure:
    """The resident size around `work(count)`, after a tenth of it (at most 500) has been done."""
    work(min(count // 10, 500) or 1)
    gc.collect()
    compact()
    before, start = resident(), time.monotonic()
    peak = work(count)
    gc.collect()
    compact()
    return Measure(before, max(peak, before), resident(), time.monotonic() - start)


def main() -> None:
    """Print both measures; exit code 1 where one is over the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--kernels", type=int, default=10_000)
    given = parser.parse_args()
    os.environ["TENSORC_CACHE_DIR"] = "off"
    wide = False
    for work, count in ((nodes, given.nodes), (kernels, given.kernels)):
        if count:
            found = measured(work, count)
            print(f"{f'{count:,} {work.__name__}':20} {found}", flush=True)
            wide |= found.ratio > BAR
    raise SystemExit(int(wide))


if __name__ == "__main__":
    main()
