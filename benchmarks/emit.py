"""How long a first call on a GPU compiles, and a call whose kernels are kept: `python -m
benchmarks.emit`.

Attention for sm_90a at sizes of practice: lowering and emission with the schedule from the cache,
so without the solver; the CUDA compiler; and both kept, as a program that is read anew finds them,
the mean of many. All in CPU time. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tensorc.cubins import image_of
from tensorc.cuda_code import code_of
from tensorc.cuda_levels import request
from tensorc.cuda_ways import first
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.passes.pipelining.place_groups import place_groups
from tensorc.request import Request

SIZES = dict(b=4, h=32, m=4096, n=4096, d=128, e=128)
EXAMPLE = Path(__file__).parents[1] / "examples" / "attention.tc"
ARCH = "sm_90a"
TIMES = 20
FRESH, KEPT = 2.5, 0.005  # seconds: bars of emission with compilation, and of a kept kernel


def program() -> Program:
    """The operator, read anew: nothing is remembered of it in this process."""
    (item,) = read(EXAMPLE.read_text())
    return item


def cpu() -> float:
    """CPU seconds of this process and the processes that it waited for."""
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def seconds(clock: Callable[[], float], work: Callable[[], object]) -> float:
    """What some work takes by a clock."""
    start = clock()
    work()
    return clock() - start


def forget(folder: Path) -> None:
    """Drop all kernels from the cache, and what is remembered of roles; schedules stay."""
    place_groups.cache_clear()
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()


def measured(folder: Path) -> list[tuple[str, float, float | None]]:
    """What is measured, its seconds and its bar."""
    wanted: Request = first(program(), request(ARCH, SIZES, {}))  # the schedule goes to the cache
    forget(folder)
    item = program()
    emitted = seconds(cpu, lambda: code_of(item, wanted))
    text = code_of(item, wanted).module.text
    compiled = seconds(cpu, lambda: image_of(text, ARCH))
    others = [program() for _ in range(TIMES)]
    kept = seconds(
        time.process_time,
        lambda: [image_of(code_of(other, wanted).module.text, ARCH) for other in others],
    )
    return [
        ("emission", emitted, None), ("CUDA compiler", compiled, None),
        ("both", emitted + compiled, FRESH), ("kept", kept / TIMES, KEPT),
    ]  # fmt: skip


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TENSORC_CACHE_DIR"] = folder
        rows = measured(Path(folder))
    for name, found, bar in rows:
        limit = "" if bar is None else f"  bar {bar * 1e3:,.0f}"
        missed = "  MISSED" if bar is not None and found > bar else ""
        print(f"{name:16}{found * 1e3:10,.1f} ms{limit}{missed}")
    return int(any(bar is not None and found > bar for _, found, bar in rows))


if __name__ == "__main__":
    sys.exit(main())
