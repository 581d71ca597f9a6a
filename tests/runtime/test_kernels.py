"""Which kernel serves a call, purity, and that kernels and nodes give their memory back."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorc as tc
from tensorc.compiler import Request, compile_cpu, cpu_target
from tensorc.ir.node import compact
from tensorc.ir.polynomial import Symbol
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.prepare import prepare
from tensorc.runtime.kernels import MOST, Kernels

TEXT = "op f(x: f32[m, n], y: f32[n, k]) -> z: f32[m, k]\n  z[m, k] = sum[n](x[m, n] * y[n, k])\n"
CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"


def test_the_first_size_is_fixed_the_second_is_not() -> None:
    kernels, asked = Kernels("f"), list[dict[str, int]]()

    def made(static: Mapping[str, int]) -> Any:
        asked.append(dict(static))
        return len(asked)

    first = kernels.get({"m": 2, "n": 3}, "rows", made)
    assert kernels.get({"m": 2, "n": 3}, "rows", made) is first
    second = kernels.get({"m": 4, "n": 3}, "rows", made)
    assert kernels.get({"m": 9, "n": 3}, "rows", made) is second
    kernels.get({"m": 9, "n": 5}, "rows", made)
    assert kernels.get({"m": 2, "n": 3}, "rows", made) is first
    kernels.get({"m": 2, "n": 3}, "columns", made)
    assert asked == [{"m": 2, "n": 3}, {"n": 3}, {}, {}]


def test_after_some_kernels_one_serves_all_sizes(caplog: pytest.LogCaptureFixture) -> None:
    kernels, asked = Kernels("f"), list[dict[str, int]]()

    def made(static: Mapping[str, int]) -> Any:
        asked.append(dict(static))
        return len(asked)

    with caplog.at_level(logging.WARNING, "tensorc"):
        for layout in range(MOST + 3):
            kernels.get({"m": 2}, layout, made)
    assert asked == [{"m": 2}] * MOST + [{}] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "f: 8 kernels; further ones serve all sizes"
    ]


def test_calls_of_many_sizes_are_right() -> None:
    f, count = tc.loads(TEXT).f, 0
    for m, n, k in [(2, 3, 4), (2, 3, 4), (5, 3, 4), (1, 3, 7), (33, 17, 16), (0, 3, 4), (2, 0, 4)]:
        x, y = np.ones((m, n), np.float32), np.ones((n, k), np.float32)
        np.testing.assert_array_equal(f(x, y), x @ y, strict=True)
        count += 1
    assert len(vars(f.program)["_kernels"].made) < count


def test_without_specialising_one_kernel_serves_from_the_first_call_on() -> None:
    f = tc.loads(TEXT).f
    general = f.on("cpu", specialize=False)
    for n in (3, 40, 17):
        x = np.random.default_rng(n).standard_normal((5, n)).astype(np.float32)
        np.testing.assert_allclose(general(x, x.T), x @ x.T, rtol=1e-4, atol=1e-5)
    (key,) = vars(f.program)["_kernels"].made
    assert key[0] == frozenset()


def test_the_same_text_in_any_order() -> None:
    """Two programs, compiled in two orders, sizes given in two orders: the same text."""
    other = TEXT.replace("* y", "+ y")
    sizes = {"m": 5, "n": 3, "k": 4}
    forward = [text_of(text, sizes) for text in (TEXT, other)]
    backward = [text_of(text, dict(reversed(sizes.items()))) for text in (other, TEXT)]
    assert forward == backward[::-1]


def text_of(text: str, static: Mapping[str, int]) -> tuple[str, str]:
    (program,) = read(text)
    compiled = compile_cpu(program, Request(cpu_target(), static))
    return compiled.tile, compiled.llvm


def test_threads_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiles: list[Program] = []

    def counted(program: Program, request: Request) -> Any:
        compiles.append(program)
        return compile_cpu(program, request)

    monkeypatch.setattr("tensorc.prepare.compile_cpu", counted)
    f, results = tc.loads(TEXT).f, list[Any]()
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    start = threading.Barrier(8)

    def call() -> None:
        start.wait()
        results.append(f(x, x.T))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiles) == 1 and len(results) == 8
    assert all(np.array_equal(result, x @ x.T) for result in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_does_not_wait_for_a_lock_of_its_parent() -> None:
    (program,) = read(TEXT)
    x = np.ones((2, 2), np.float32)
    prepare(program, {"x": x, "y": x}).compiled()
    with vars(program)["_kernels"].lock:
        child = os.fork()
        if child == 0:
            call = prepare(program, {"x": x, "y": x})
            os._exit(int(call.compiled().run(call.arrays, call.extents)["z"][0, 0]))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


@needs_proc
def test_nodes_give_their_memory_back() -> None:
    count = 1_000_000 if CAMPAIGN else 20_000
    made(count // 10)
    before = resident()
    for _ in range(3):
        made(count)
    compact()
    assert resident() <= 1.1 * before + (8 << 20)


def made(count: int) -> None:
    """Nodes made, and dropped."""
    kept = [Symbol(f"n{number}", "extent") for number in range(count)]
    assert len(kept) == count
    del kept
    gc.collect()


@needs_proc
def test_kernels_give_their_memory_back() -> None:
    count = 10_000 if CAMPAIGN else 40
    dropped(min(count, 40))
    before = resident()
    dropped(count)
    assert resident() <= 1.1 * before + (8 << 20)


def dropped(count: int) -> None:
    """Kernels compiled, called, and dropped with their programs."""
    for number in range(count):
        (program,) = read(f"op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n] + {number}\n")
        assert value_of(program) == number
    gc.collect()


def value_of(program: Program) -> float:
    call = prepare(program, {"x": np.zeros(3, np.float32)})
    return float(call.compiled().run(call.arrays, call.extents)["y"][0])
