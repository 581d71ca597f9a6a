"""The emulator's measures: `python -m benchmarks.emulator [speed] [faults] [clean] [time]`.

speed: run times of the hand-written kernels beside their bars. faults: every seeded fault on four
seeds. clean: every kernel on 50 seeds around its tile edges. time: virtual time of ring depths.
Without an argument: speed and time. Prints tables; exits with 1 if a bar is missed.
"""

from __future__ import annotations

import itertools
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from tensorc.codegen.emulator import Emulator, Mode
from tensorc.codegen.emulator_build import build_worker
from tensorc.codegen.emulator_report import Outcome
from tensorc.codegen.emulator_time import Rates
from tensorc.machine.product import load_product
from tests.emulator.running import Kernel, Result, attention, emulator, gemm, tolerance
from tests.emulator.test_faults import ALL, caught, run
from tests.emulator.test_kernels import ATTENTION, EDGES, SHAPES, SM80, SM90

ATTENTION_SM90 = Kernel("attention_sm90a.cu", "sm_90a")


def _times(device: Emulator, launch: Callable[[int], Result]) -> tuple[list[float], list[float]]:
    """Sorted wall and processor times in seconds of seven launches, what `Emulator.run` takes."""
    wall: list[float] = []
    inner = device.run

    def timed(*arguments: Any, **options: Any) -> Outcome:
        start = time.perf_counter()
        outcome = inner(*arguments, **options)
        wall.append(time.perf_counter() - start)
        return outcome

    launch(0)
    with mock.patch.object(device, "run", timed):
        results = [launch(seed) for seed in range(7)]
    assert all(result.outcome.clean for result in results)
    return sorted(wall), sorted(result.outcome.seconds for result in results)


def speed() -> Iterator[bool]:
    """Run times against their bars; processor time decides: other work may be running."""
    rows: list[tuple[str, Kernel, Callable[[int], Result], float]] = [
        ("GEMM sm_90a 512^3", SM90, lambda s: gemm(SM90, (512, 512, 512), Mode(seed=s), 2), 0.25),
        (
            "GEMM sm_90a 1024^3",
            SM90,
            lambda s: gemm(SM90, (1024, 1024, 1024), Mode(seed=s), 2),
            1.2,
        ),
        (
            "attention sm_90a 1x2x512x512x128",
            ATTENTION_SM90,
            lambda s: attention(ATTENTION_SM90, (1, 2, 512, 512), Mode(seed=s), 2),
            2.0,
        ),
        ("GEMM sm_80 128x128x256", SM80, lambda s: gemm(SM80, (128, 128, 256), Mode(seed=s)), 0.06),
    ]
    for name, kernel, launch, bar in rows:
        wall, cpu = _times(emulator(kernel.arch), launch)
        print(
            f"{name:34s} processor {cpu[3] * 1e3:5.0f} ms; bar {bar * 1e3:.0f} ms"
            f" (wall {wall[0] * 1e3:.0f} to {wall[6] * 1e3:.0f} ms)"
        )
        yield cpu[3] <= bar
    yield from _build_times()


def _children() -> float:
    """Processor time of child processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _build_times() -> Iterator[bool]:
    build_worker()
    for kernel in (SM80, SM90, ATTENTION_SM90):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict("os.environ", TENSORC_CACHE_DIR=folder):
                start, wall = _children(), time.perf_counter()
                kernel.build()
                spent, wall = _children() - start, time.perf_counter() - wall
        print(
            f"{'build ' + kernel.name:34s} processor {spent * 1e3:5.0f} ms; bar 300 ms"
            f" (wall {wall * 1e3:.0f} ms)"
        )
        yield spent <= 0.3


def faults() -> Iterator[bool]:
    """Every fault on four seeds: how many are caught, and how many change a number."""
    for case, fault in ALL:
        results = [run(case, fault, seed) for seed in range(4)]
        hits = sum(caught(case, fault, result) for result in results)
        wrong = sum(not result.error <= tolerance(case.kernel) for result in results)
        how = "report" if fault.expect else "numbers"
        print(f"{case.kernel.name:18s} {fault.name:42s} {how:8s} {hits}/4, wrong numbers {wrong}/4")
        yield hits == 4


def clean() -> Iterator[bool]:
    """Every kernel and shape on 50 seeds: no report, right, bit-equal."""
    cases: list[tuple[Kernel, tuple[int, ...], Callable[[int], Result]]] = []
    for kernel, shapes in EDGES.items():
        for shape in shapes:
            cases.append((kernel, shape, lambda s, k=kernel, x=shape: gemm(k, x, Mode(seed=s), 2)))
    for kernel, shape in itertools.product(ATTENTION, SHAPES):
        cases.append((kernel, shape, lambda s, k=kernel, x=shape: attention(k, x, Mode(seed=s), 2)))
    for kernel, shape, launch in cases:
        results = [launch(seed) for seed in range(50)]
        bad = sum(
            not (r.outcome.clean and r.error <= tolerance(kernel) and same(r, results[0]))
            for r in results
        )
        worst = max(result.error for result in results)
        print(f"{kernel.name:48s} {str(shape):20s} {bad}/50 bad, worst error {worst:.1e}")
        yield bad == 0


def same(one: Result, other: Result) -> bool:
    """Bit-equal outputs."""
    return one.output.tobytes() == other.output.tobytes()


def virtual_time() -> Iterator[bool]:
    """Cycles of one block by ring depth, with the assumptions behind them."""
    rates = Rates.of(load_product("h100").__getitem__)
    print(rates.assumptions())
    for stages in (2, 3, 4):
        kernel = Kernel("gemm_sm90a.cu", "sm_90a", (("STAGES", stages),))
        outcome = gemm(kernel, (256, 256, 1024), Mode(rates=rates), blocks=1).outcome
        share = 100 * outcome.tensor_cycles / outcome.cycles
        print(f"{kernel.name}: {outcome.cycles} cycles, tensor core busy {share:.0f} %")
        yield outcome.clean
    for depths in ((1, 1), (2, 2), (2, 3)):
        kernel = Kernel(
            "attention_sm90a.cu", "sm_90a", (("K_DEPTH", depths[0]), ("V_DEPTH", depths[1]))
        )
        outcome = attention(kernel, (1, 1, 128, 2048), Mode(rates=rates), blocks=1).outcome
        share = 100 * outcome.tensor_cycles / outcome.cycles
        print(f"{kernel.name}: {outcome.cycles} cycles, tensor core busy {share:.0f} %")
        yield outcome.clean


PARTS = {"speed": speed, "faults": faults, "clean": clean, "time": virtual_time}


def main(names: list[str]) -> int:
    """Run the named parts; 1 if any bar is missed."""
    good = True
    for name in names or ["speed", "time"]:
        good = all([*PARTS[name](), good])
    print("all bars met" if good else "A BAR IS MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
