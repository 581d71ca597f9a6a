"""Threads that share a kernel: the same bits for any number of them, and nobody waits for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.ir.launch import Entry, Slot
from tensorc.lang import read
from tensorc.prepare import Prepared, prepare
from tensorc.runtime import threads
from tensorc.runtime.pieces import Piece, cut
from tensorc.runtime.threads import available, share, worth

Array = npt.NDArray[Any]
TEXT = """
op product(a: f32[b, m, k], c: f32[b, k, n]) -> y: f32[b, m, n]
  y[b, m, n] = sum[k](a[b, m, k] * c[b, k, n])
op soft(x: f32[m, n]) -> y: f32[m, n], t: f32[n]
  y[m, n] = softmax[n](x[m, n])
  t[n] = sum[m](x[m, n])
op total(x: f32[m, n]) -> y: f32
  y = sum[m, n](x[m, n])
op picked(x: f32[n], i: i64[m]) -> y: f32[m]
  y[m] = x[i[m]] + 1
op turned(x: complex64[m, n], y: complex64[n, k]) -> z: complex64[m, k]
  z[m, k] = sum[n](x[m, n] * conj(y[n, k]))
"""
ops = tc.loads(TEXT)
DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share even small kernels."""
    monkeypatch.setattr(threads, "ENOUGH", 1.0)


def normal(*shape: int) -> Array:
    return DRAW.standard_normal(shape).astype(np.float32)


CALLS: dict[str, Callable[[], tuple[Array, ...]]] = {
    "product": lambda: (normal(3, 37, 19), normal(3, 19, 131)),
    "soft": lambda: (normal(41, 70),),
    "total": lambda: (normal(41, 70),),
    "picked": lambda: (normal(9), DRAW.integers(0, 9, 333)),
    "turned": lambda: (
        (normal(13, 21) + 1j * normal(13, 21)).astype(np.complex64),
        (normal(21, 66) - 1j * normal(21, 66)).astype(np.complex64),
    ),
}


def call_of(name: str, specialize: bool = True) -> Prepared:
    program = getattr(ops, name).program
    names = [item.tensor.name for item in program.parameters]
    arrays = dict(zip(names, CALLS[name](), strict=True))
    return prepare(program, arrays, specialize=specialize)


@pytest.mark.parametrize("specialize", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_any_number_of_threads_gives_the_same_bits(name: str, specialize: bool) -> None:
    call = call_of(name, specialize)
    one = call.compiled().run(call.arrays, call.extents, threads=1)
    for count in (2, 3, 8, 61):
        many = call.compiled().run(call.arrays, call.extents, threads=count)
        assert all(one[out].tobytes() == many[out].tobytes() for out in one), (name, count)


def test_an_operator_takes_the_number_of_threads() -> None:
    arrays = CALLS["product"]()
    one, many = ops.product.on("cpu", threads=1), ops.product.on("cpu", threads=5)
    for _ in range(2):  # the first call, and a warm one
        assert one(*arrays).tobytes() == many(*arrays).tobytes()
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="threads"):
            ops.product.on("cpu", threads=wrong)


def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("TENSORC_THREADS", "3")
    assert available() == 3
    monkeypatch.delenv("TENSORC_THREADS")
    assert 1 <= available() <= (os.cpu_count() or 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert available() == 2
    for wrong in ("0", "two", "-1", "²"):
        monkeypatch.setenv("TENSORC_THREADS", wrong)
        with pytest.raises(ValueError, match="TENSORC_THREADS="):
            available()


def test_little_work_is_done_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "ENOUGH", 50_000.0)
    assert worth(90_000, 1000, 8) == 1
    assert worth(120_000, 1000, 8) == 2
    assert worth(1e9, 1000, 8) == 8
    assert worth(1e9, 3, 8) == 3
    assert worth(1e9, 0, 8) == 1


def test_pieces_cover_every_block_once() -> None:
    """Grids and loops of many sizes, cut for many threads."""
    slots = tuple(Slot(kind, index) for index in "nm" for kind in ("begin", "end"))
    entry = Entry("k", slots, (("b", 1), ("h", 2)), (("n", 8), ("m", 3)))
    for sizes in ((1, 1, 1, 1), (2, 5, 100, 7), (1, 1, 9, 4), (3, 1, 8, 1), (1, 3, 1, 50)):
        extents = dict(zip("bhnm", sizes, strict=True))
        counts = [
            extents["b"] * -(-extents["h"] // 2),
            -(-extents["n"] // 8),
            -(-extents["m"] // 3),
        ]
        for most in (1, 2, 7, 64):
            count, pieces = cut(entry, extents, (10**9, 0), most)
            assert count <= most and len(pieces) >= min(count, np.prod(counts))
            seen = np.zeros(counts, int)
            for piece in pieces:
                seen[tuple(slice(*pair) for pair in ranges(piece, counts))] += 1
            assert (seen == 1).all()


def ranges(piece: Piece, counts: list[int]) -> Iterator[tuple[int, int]]:
    yield piece.begin, piece.end
    given = dict(piece.slots)
    for loop, count in enumerate(counts[1:]):
        yield given.get(2 * loop, 0), given.get(2 * loop + 1, count)


def test_what_runs_in_order_is_not_shared() -> None:
    entry = Entry("k", (), (("m", 1),))
    assert cut(entry, {"m": 100}, None, 8) == (1, (Piece(0, 100),))


def test_sums_that_meet_in_memory_run_in_order() -> None:
    from tensorc.ir.dtypes import F32, I32
    from tensorc.ir.functions import MAX, SUM
    from tensorc.ir.polynomial import extent
    from tensorc.ir.tensor import Literal, Position, Tensor
    from tensorc.ir.tile import Block, Kernel, Store, Use
    from tensorc.passes.tiling.weigh import weigh

    for dtype, op, free in ((F32, SUM, False), (I32, SUM, True), (F32, MAX, True)):
        tensor = Tensor("y", dtype, (extent("m"),))
        store = Store(
            tensor, (Position("m"),), Literal(Fraction(1), dtype), op, (), Use("vector"), ()
        )
        kernel = Kernel("y", (), (tensor,), (Block("m", 1),), (store,))
        assert (weigh(kernel) is not None) == free


def test_a_check_that_fails_in_any_thread_is_told() -> None:
    x, i = normal(9), np.zeros(5000, np.int64)
    i[4321] = 9
    with pytest.raises(tc.OutOfRange, match="4321"):
        ops.picked.on("cpu", threads=4)(x, i)


def test_eight_callers_share_few_helpers() -> None:
    call = call_of("product")
    want = call.compiled().run(call.arrays, call.extents, threads=1)["y"].tobytes()
    found: list[bytes] = []

    def caller() -> None:
        for _ in range(10):
            got = call.compiled().run(call.arrays, call.extents, threads=4)
            found.append(got["y"].tobytes())

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert found == [want] * 80
    helpers = [one for one in threading.enumerate() if one.name == "tensorc"]
    assert len(helpers) < 61  # as many as one call of these tests asked for


def test_sharing_within_sharing_ends() -> None:
    done: list[tuple[int, int]] = []
    share(lambda n: share(lambda k: done.append((n, k)), 5, 4), 6, 4)
    assert sorted(done) == [(n, k) for n in range(6) for k in range(5)]


def test_what_a_piece_raises_comes_out_after_the_others() -> None:
    ended: list[int] = []

    def do(number: int) -> None:
        if number == 1:
            raise KeyError(number)
        time.sleep(0.01)
        ended.append(number)

    with pytest.raises(KeyError):
        share(do, 8, 3)
    before = len(ended)
    time.sleep(0.05)
    assert len(ended) == before  # nothing runs on


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_fork_has_helpers_of_its_own() -> None:
    call = call_of("product")
    want = call.compiled().run(call.arrays, call.extents, threads=4)["y"].tobytes()
    child = os.fork()
    if child == 0:
        got = call.compiled().run(call.arrays, call.extents, threads=4)["y"].tobytes()
        os._exit(int(got != want))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_shared_loops_are_those_that_hold_everything() -> None:
    (program,) = read("op f(x: f32[m, n]) -> y: f32[n]\n  y[n] = sum[m](x[m, n])\n")
    call = prepare(program, {"x": normal(7, 300)})
    (entry,) = call.compiled().launch.entries
    assert [index for index, _ in entry.loops] == ["n"] and not entry.grid
