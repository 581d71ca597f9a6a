"""Which kernel serves a call, purity, and that kernels and nodes give their memory back."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorc as tc
from benchmarks.memory import BAR, kernels, measured, nodes
from tensorc.compiler import compile_cpu
from tensorc.ir.tensor import Program
from tensorc.lang import read
from tensorc.prepare import divisors, prepare
from tensorc.request import Request, cpu_target
from tensorc.runtime.kernels import MOST, Kernels, Sizes

TEXT = "op f(x: f32[m, n], y: f32[n, k]) -> z: f32[m, k]\n  z[m, k] = sum[n](x[m, n] * y[n, k])\n"
CAMPAIGN = os.environ.get("TENSORC_PROFILE") == "campaign"


class Asked:
    """What kernels were made with: static extents, those that are multiples of 64, and hints."""

    def __init__(self) -> None:
        self.static = list[dict[str, int]]()
        self.whole = list[str]()
        self.hints = list[dict[str, int]]()

    def __call__(self, sizes: Sizes) -> Any:
        self.static.append(dict(sizes.static))
        self.whole.append(" ".join(sorted(sizes.multiples)))
        self.hints.append(dict(sizes.hints))
        return len(self.static)


def test_the_first_size_is_fixed_the_second_is_not() -> None:
    kernels, made = Kernels("f"), Asked()
    first = kernels.get({"m": 2, "n": 3}, "rows", made)
    assert kernels.get({"m": 2, "n": 3}, "rows", made) is first
    second = kernels.get({"m": 4, "n": 3}, "rows", made)
    assert kernels.get({"m": 9, "n": 3}, "rows", made) is second
    kernels.get({"m": 9, "n": 5}, "rows", made)
    assert kernels.get({"m": 2, "n": 3}, "rows", made) is first
    kernels.get({"m": 2, "n": 3}, "columns", made)
    assert made.static == [{"m": 2, "n": 3}, {"n": 3}, {}, {}]
    assert made.hints == [{"m": 2, "n": 3}] * 4 and made.whole == [""] * 4


def test_multiples_of_a_block_are_a_class_of_their_own() -> None:
    kernels, made = Kernels("f"), Asked()
    sizes = [(64, 64), (128, 64), (192, 64), (100, 64), (7, 64), (64, 50), (256, 128)]
    served = [kernels.get({"m": m, "n": n}, "", made) for m, n in sizes]
    assert served == [1, 2, 2, 3, 3, 4, 5]
    assert made.static == [{"m": 64, "n": 64}, {"n": 64}, {"n": 64}, {}, {}]
    assert made.whole == ["", "m", "", "m", "m n"]


def test_after_some_kernels_one_serves_all_sizes(caplog: pytest.LogCaptureFixture) -> None:
    kernels, made = Kernels("f"), Asked()
    with caplog.at_level(logging.WARNING, "tensorc"):
        for layout in range(MOST + 3):
            kernels.get({"m": 2}, layout, made)
    assert made.static == [{"m": 2}] * MOST + [{}] * 3
    assert [record.getMessage() for record in caplog.records] == [
        "f: 8 kernels; further ones serve all sizes"
    ]


def test_sizes_alone_make_few_kernels(caplog: pytest.LogCaptureFixture) -> None:
    """Four indices, every class of each: eight kernels, then one, and one line in the log."""
    kernels, made = Kernels("f"), Asked()
    with caplog.at_level(logging.WARNING, "tensorc"):
        for number in range(200):
            kernels.get({i: (64, 7)[number >> n & 1] + number // 16 * 64 for n, i in
                         enumerate("abcd")}, "", made)  # fmt: skip
    assert len(kernels.made) == MOST + 1 and made.static[-1] == {} and made.whole[-1] == ""
    assert len(caplog.records) == 1


def test_what_is_asked_for_is_always_fixed() -> None:
    kernels, made = Kernels("f", {"g"}), Asked()
    for size in range(1, 4):
        kernels.get({"m": size, "n": size, "g": size}, "", made, static=("m",))
    assert made.static == [{name: 1 for name in "mng"}, {"m": 2, "g": 2}, {"m": 3, "g": 3}]
    kernels.get({"m": 9, "n": 9, "g": 9}, "", made, static=("m",), specialize=False)
    assert made.static[-1] == {"m": 9}


def test_calls_without_elements_are_served_apart() -> None:
    kernels, made = Kernels("f"), Asked()
    for size in (0, 5, 0, 6, 0):
        kernels.get({"m": size, "n": 4}, "", made)
    assert made.static == [{}, {"m": 5, "n": 4}, {"n": 4}]
    assert made.hints[0] == {} and made.hints[2] == {"m": 5, "n": 4}


def test_divisors_are_found() -> None:
    text = (
        "op f(x: f32[h, n], y: f32[g]) -> z: f32[h, n]\n  g <= h\n  z[h, n] = x[h, n]"
        " * y[h // (|h| // |g|)] + n % |n|\n"
    )
    (program,) = read(text.replace("  g <= h\n", ""))
    assert divisors(program) == {"g", "n", "h"}
    assert divisors(read(TEXT)[0]) == set()


CHAIN = """op f(x: f32[m, k], y: f32[k, n], z: f32[n]) -> o: f32[m]
  o[m] = sum[k, n](x[m, k] * y[k, n] * z[n])
"""


def test_hints_guide_and_fix_nothing() -> None:
    """One order of products at the hints, another at others; both right at any size, also 0."""
    (program,) = read(CHAIN)
    texts: list[str] = []
    for hints in ({"m": 500, "k": 300, "n": 200}, {"m": 1, "k": 2, "n": 1}):
        compiled = compile_cpu(program, Request(cpu_target(), {}, hints=hints, rewrite=True))
        texts.append(compiled.tile)
        for m, k, n in ((3, 4, 5), (1, 70, 130), (0, 4, 5), (3, 0, 5), (3, 4, 0)):
            x, y, z = np.ones((m, k)), np.ones((k, n)), np.arange(n)
            got = compiled(*(one.astype(np.float32) for one in (x, y, z)))
            np.testing.assert_array_equal(got, x @ y @ z)
    assert "kernel t1" in texts[0] and texts[0] != texts[1]


def test_whole_blocks_need_no_code_for_the_last_one() -> None:
    (program,) = read(TEXT)
    plain = compile_cpu(program, Request(cpu_target(), {}))
    whole = compile_cpu(program, Request(cpu_target(), {}, multiples={"k": 64, "m": 64}))
    assert whole.tile == plain.tile and len(whole.llvm) < 0.8 * len(plain.llvm)
    x, y = np.ones((64, 5), np.float32), np.ones((5, 192), np.float32)
    np.testing.assert_array_equal(whole(x, y), x @ y)


def test_options_for_sizes_are_checked() -> None:
    f = tc.loads(TEXT).f
    for static in ("m n", "m, n", ("m", "n")):
        assert (
            f.on("cpu", static=static)(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))[
                0, 0
            ]
            == 3
        )
    for options, message in (
        ({"static": "q"}, "static: f has no index q"),
        ({"static": 3}, "write static="),
        ({"hints": {"q": 3}}, "hints: f has no index q"),
        ({"hints": {"m": -3}}, "hints: m = -3 is not"),
        ({"hints": 5}, "write hints="),
    ):
        with pytest.raises(ValueError, match=message):
            f.on("cpu", **options)


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
    assert key[0] == (frozenset(), frozenset())


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


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
SLACK = 8 << 20  # bytes, beside the bar: small counts are small beside an arena of the allocator


@needs_proc
def test_nodes_give_their_memory_back() -> None:
    found = measured(nodes, 1_000_000 if CAMPAIGN else 20_000)
    assert found.after <= BAR * found.before + SLACK, str(found)


@needs_proc
def test_kernels_give_their_memory_back() -> None:
    found = measured(kernels, 10_000 if CAMPAIGN else 40)
    assert found.after <= BAR * found.before + SLACK, str(found)
