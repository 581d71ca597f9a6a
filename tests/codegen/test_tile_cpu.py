"""Every level-2 text for a CPU runs through LLVM IR and means what the interpreter says: fused
kernels, tiles in memory, parts, loops in both directions, stores that meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from examples.sizes import EXAMPLES, Example
from tensorc.codegen import llvm_frame
from tensorc.codegen.llvm import Options, emit
from tensorc.errors import ArgumentError, Infeasible, NotationError, OutOfRange
from tensorc.fuzz.case import of_generated
from tensorc.fuzz.generate import generate
from tensorc.fuzz.oracle import arrays_of
from tensorc.ir.accept import Outcome, accept
from tensorc.ir.bound import bound
from tensorc.ir.choose import RandomChooser
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.launch import NO_MEMORY
from tensorc.ir.read_tile import read as read_tile
from tensorc.ir.tile import TileProgram
from tensorc.ir.verify_tile import verify
from tensorc.lang import read
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.fusion.inline import Unfused
from tensorc.prepare import prepare
from tests.codegen.run_tile import run_tile
from tests.examples import test_examples as examples
from tests.ir import test_tile_operators as operators
from tests.passes.fused import ONE_KERNEL, arguments, fused, program
from tests.passes.test_fuse import sizes_for
from tests.passes.test_fused_programs import FOLDER, every_extent, same

Array = npt.NDArray[Any]
GOLDEN = Path(__file__).parents[1] / "golden" / "tile"


def agree(
    made: TileProgram, arrays: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """The results of compiled code, accepted by the error bound of level 2, whether extents are
    known when it is made or not."""
    twin = interpret(made, arrays, sizes)
    limits = bound(made, arrays, sizes)
    found: dict[str, Array] = {}
    for known in (False, True):
        found = run_tile(made, arrays, sizes, sizes if known else None)
        for item in made.outputs:
            name, limit = item.tensor.name, limits[item.tensor.name]
            verdict = accept(found[name], limit.value, twin[name], limit.error, item.tensor.dtype)
            assert verdict.outcome is not Outcome.FAIL, f"{name}: {verdict}"
    return found


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_fused_operators(name: str) -> None:
    item = program(ONE_KERNEL[name])
    sizes = sizes_for(item)
    agree(fused(item, sizes), arguments(item, sizes, 0), sizes)


@pytest.mark.parametrize("m", [8, 100])
@pytest.mark.parametrize(
    "name", ["causal attention", "soft cap", "cross-entropy", "RMS norm and product"]
)
def test_fused_rows_side_by_side(name: str, m: int) -> None:
    item = program(ONE_KERNEL[name])
    names = {index for index, _ in item.extents}
    sizes = sizes_for(
        item, **{i: size for i, size in (("b", 1), ("h", 1), ("m", m), ("t", m)) if i in names}
    )
    made = fused(item, sizes)
    assert any(block.size > 1 for block in made.kernels[0].grid)
    agree(made, arguments(item, sizes, m), sizes)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65])
@pytest.mark.parametrize("name", ["causal attention", "window", "ragged"])
def test_fused_attention_at_the_edges_of_its_tiles(name: str, n: int) -> None:
    item = program(ONE_KERNEL[name])
    sizes = sizes_for(item, b=1, h=1, m=4, n=n)
    agree(fused(item, {**sizes, "n": 40}), arguments(item, sizes, n), sizes)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_fused_examples(example: Example) -> None:
    (op,) = tc.load(FOLDER / f"{example.name}.tc")
    call = prepare(op.program, examples.arrays_of(example, op.program), example.tiny)
    item = canonicalise(op.program)
    sizes = every_extent(item, dict(call.extents))
    made = fused(item, sizes)
    wanted = interpret(made, call.arrays, sizes)
    if any(value.dtype.kind == "c" for value in (*call.arrays.values(), *wanted.values())):
        pytest.skip("the parts of complex numbers are told apart before they are fused")
    found = run_tile(made, call.arrays, sizes)
    if example.name == "maxsim":
        del found["win"]  # which product is largest, computed again and summed in another order
    for name, value in found.items():
        same(value, wanted[name], item, name, 1e-2)  # some round to bf16 on the way


def ran(seed: int) -> bool:
    """Whether a random program is one that runs and is fused; if so, it is right."""
    case = of_generated(generate(RandomChooser(seed)))
    try:
        (found,) = read(case.text)
        call = prepare(found, arrays_of(found, case), dict(case.sizes))
        item = canonicalise(found)
        sizes = every_extent(item, dict(call.extents))
        made = fused(item, sizes)
        with np.errstate(all="ignore"):
            wanted = interpret(made, call.arrays, sizes)
    except (NotationError, ArgumentError, OutOfRange, Unfused):
        return False
    for static in ({}, sizes):
        with np.errstate(all="ignore"):
            for name, value in run_tile(made, call.arrays, sizes, static).items():
                same(value, wanted[name], item, name, 2e-2)
    return True


def test_random_fused_programs() -> None:
    assert sum(map(ran, range(25))) >= 20


# --- texts written by hand ------------------------------------------------------------------------


def golden(name: str) -> TileProgram:
    return read_tile((GOLDEN / f"{name}.txt").read_text())


@pytest.mark.parametrize(
    ("m", "n", "k"), [(95, 255, 511), (96, 256, 512), (97, 257, 513), (1, 1, 1)]
)
def test_packed_gemm(m: int, n: int, k: int) -> None:
    arrays = {"a": draw(m, k), "w": draw(k, n, seed=1), "bias": draw(n, seed=2)}
    agree(golden("gemm_cpu"), arrays, {"m": m, "n": n, "k": k})


@pytest.mark.parametrize(("m", "n"), [(47, 255), (48, 256), (49, 257), (1, 1), (100, 60)])
def test_causal_attention_by_tiles_in_memory(m: int, n: int) -> None:
    shapes = {"q": (1, 2, m, 64), "k": (1, 2, n, 64), "v": (1, 2, n, 64)}
    arrays = {name: draw(*shape, seed=len(name) + n) for name, shape in shapes.items()}
    agree(golden("attention_cpu"), arrays, {"b": 1, "h": 2, "m": m, "n": n, "d": 64, "e": 64})


def for_cpu(text: str) -> TileProgram:
    """A text for any machine as one for a CPU's vectors."""
    for machine in ("sm_80", "sm_90a"):
        text = text.replace(f"for {machine}", "for avx512")
    made = read_tile(text.replace("by simt", "by vector"))
    assert verify(made) == []
    return made


@pytest.mark.parametrize(("m", "d"), [(4, 32), (5, 31), (3, 97), (1, 1)])
def test_variance_in_one_pass(m: int, d: int) -> None:
    x = 1000 + draw(m, d)
    found = agree(for_cpu(operators.VARIANCE), {"x": x}, {"m": m, "d": d})["o"]
    np.testing.assert_allclose(found, x.astype(np.float64).var(axis=1), rtol=0, atol=3e-4)


def test_ragged_rows_of_a_table() -> None:
    tok = np.random.default_rng(0).integers(0, 10, (4, 11)).astype(np.int32)
    tok[1, 5] = 99  # beyond the length of its row: never used
    arrays = {"tab": draw(10, 20), "tok": tok, "len": np.array([0, 3, 8, 11], np.int32)}
    sizes = {"b": 4, "t": 11, "d": 20, "v": 10}
    agree(for_cpu(operators.RAGGED), arrays, sizes)
    tok[3, 10] = 10
    with pytest.raises(IndexError, match="1"):
        run_tile(for_cpu(operators.RAGGED), arrays, sizes)


@pytest.mark.parametrize(("m", "n", "d"), [(4, 48, 24), (5, 40, 20), (1, 33, 7)])
def test_split_attention(m: int, n: int, d: int) -> None:
    arrays = {"q": draw(m, d), "k": draw(n, d, seed=1), "v": draw(n, d, seed=2)}
    agree(for_cpu(operators.SPLIT), arrays, {"m": m, "n": n, "d": d})


def test_a_product_in_another_ring() -> None:
    arrays = {"a": draw(9, 6), "b": draw(6, 17, seed=1)}
    agree(for_cpu(operators.TROPICAL), arrays, {"i": 9, "j": 17, "k": 6})


def single(statements: str, dtype: str = "f32", outputs: str = "o: f32[m]") -> TileProgram:
    """A kernel over m by 4 that reads x[m, k] and stores its outputs."""
    names = ", ".join(part.split(":")[0] for part in outputs.split("\noutput "))
    return for_cpu(
        f"program p for avx512\nindex m, k\ninput x: {dtype}[m, k]\noutput {outputs}\n\n"
        f"kernel p(x) -> {names}\n  grid m by 4\n{statements}"
    )


SINGLE: dict[str, tuple[TileProgram, str]] = {
    "sums that round at every step": (single(
        "  s[m] = sum[k](x[m, k])  f16 register  by vector\n  store o[m] = s  by vector\n"
    ), "f32"),
    "a narrow tile in memory": (single(
        "  whole k by 5\n  t[m, k] = x[m, k] * x[m, k]  bf16 memory  by vector\n"
        "  s[m] = max[k](select(k < |k|, t, -inf))  f32 register  by vector\n"
        "  store o[m] = s  by vector\n"
    ), "f32"),
    "bools that are reduced": (single(
        "  s[m] = prod[k](x[m, k])  i32 register  by vector\n"
        "  b[m] = any[k](x[m, k] < 0)  bool register  by vector\n"
        "  store o[m] = select(b, -s, s)  by vector\n",
        "i16", "o: i32[m]",
    ), "i16"),
    "bools that are carried": (single(
        "  loop k by 2\n    carry a[m] = false  bool memory\n    carry b[m] = true  bool register\n"
        "    a'[m] = a or any[k](select(k < |k|, x[m, k] > 1, false))  bool memory  into a, edge k"
        "  by vector\n"
        "    b'[m] = b and all[k](select(k < |k|, x[m, k] < 2, true))  bool register  edge k"
        "  by vector\n"
        "  store o[m] = a and not b  by vector\n",
        "f32", "o: bool[m]",
    ), "f32"),
    "a lowest start": (single(
        "  loop k by 2\n    carry r[m] = lowest  f32 register\n"
        "    r'[m] = max(r, max[k](x[m, k]))  f32 register  by vector exact k\n"
        "  store o[m] = r  by vector\n"
    ), "f32"),
    "a loop without trips": (single(
        "  loop k by 2 in 0..base(m) - 4 full 0..0\n    carry r[m] = 7  f32 register\n"
        "    r'[m] = r + sum[k](x[m, k])  f32 register  by vector exact k\n"
        "  store o[m] = r  by vector\n"
    ), "f32"),
    "two stores, one of them in a loop": (single(
        "  loop k by 2\n    store p[k, m] = x[m, k] * 2  by vector\n"
        "  store o[m] = x[m, 0]  by vector\n",
        "f32", "o: f32[m]\noutput p: f32[k, m]",
    ), "f32"),
    "parts of parts": (single(
        "  whole k by 8\n  each m\n    each k by 2\n"
        "      t[m, k] = x[m, k] * x[m, k]  f32 memory  by vector\n"
        "      u[m, k] = t + k + 10 * m  f32 memory  into t  by vector\n"
        "  s[m] = sum[k](u)  f32 register  by vector exact k\n  store o[m] = s  by vector\n"
    ), "f32"),
    "a register tile with two axes": (single(
        "  loop k by 16\n    carry c[m, k] = 0  f32 register\n"
        "    c'[m, k] = c + select(k < |k|, x[m, k], 0)  f32 register  by vector\n"
        "  s[m] = sum[k](c)  f32 register  by vector\n  store o[m] = s  by vector\n"
    ), "f32"),
    "carried values that change places": (single(
        "  loop k\n    carry a[m] = 1  f32 memory\n    carry b[m] = 2  f32 register\n"
        "    t[m] = a * 0.5 + x[m, k]  f32 register  by vector\n"
        "    b'[m] = a  f32 register  by vector\n"
        "    a'[m] = b + t  f32 memory  into a  by vector\n"
        "  store o[m] = a - 3 * b  by vector\n"
    ), "f32"),
    "stores that meet": (single(
        "  loop k by 2\n    store o[m % 3] = max(x[m, k], 0)  combine max  by vector\n",
        "f32", "o: f32[min(3, |m|)]",
    ), "f32"),
}  # fmt: skip


@pytest.mark.parametrize(("m", "k"), [(4, 4), (5, 3), (9, 5), (3, 1), (0, 3), (3, 0)])
@pytest.mark.parametrize("name", SINGLE)
def test_single_texts(name: str, m: int, k: int) -> None:
    made, dtype = SINGLE[name]
    k = max(k, 1) if "stores" in name else k  # those use an element of every row
    x = draw(m, k)
    if dtype == "i16":
        x = (3e4 * x).astype(np.int16)
    agree(made, {"x": x}, {"m": m, "k": k})


@pytest.mark.parametrize("down", ["", " down"])
@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_elements_seen_in_either_direction(down: str, k: int) -> None:
    made = for_cpu(
        "program p for avx512\nindex m, k, b = (|k| + 1) // 2\ninput x: f32[m, k]\n"
        "output o: i64[m, b]\noutput r: f32[m]\n\nkernel p(x) -> o, r\n  grid m by 4\n"
        f"  loop k by 2{down}\n    carry c[m] = 0  f32 register\n"
        "    t[m] = seen(k) + 10 * seen'(k)  i64 register  by vector\n"
        "    u[k] = select(k % 2 == 0, 1, 0)  i64 register  by vector\n"
        "    d[m] = 2 * c  f32 register  by vector\n"
        "    c'[m] = d + sum[k](x[m, k])  f32 register  by vector exact k\n"
        "    store o[m, k // 2] = t * u  combine sum  by vector\n"
        "  store r[m] = c  by vector\n"
    )
    agree(made, {"x": draw(5, k)}, {"m": 5, "k": k})


@pytest.mark.parametrize("kind", ["i8", "i64", "f16", "bf16", "f64"])
def test_stores_that_combine_at_every_width(kind: str) -> None:
    text = operators.HISTOGRAM.replace("i32", kind)
    a = np.random.default_rng(0).integers(-9, 9, (11, 13))
    found = agree(for_cpu(text), {"a": a}, {"i": 11, "j": 13})["o"]
    np.testing.assert_array_equal(found.astype(int), a.sum(axis=0))


BIG = (
    "program p for avx512\nindex m, k, e\ninput x: f32[m, k]\ninput w: f32[k, e]\n"
    "output o: f32[m, e]\n\nkernel p(x, w) -> o\n  grid m by 48\n  whole e by {lanes}\n"
    "  loop k by 16\n    carry c[m, e] = 0  f32 memory\n"
    "    c'[m, e] = c + sum[k](x[m, k] * w[k, e])  f32 memory  into c  by vector exact k\n"
    "  store o[m, e] = c  by vector\n"
)


def test_tiles_too_large_for_the_stack() -> None:
    made = for_cpu(BIG.format(lanes=1024))
    assert "@malloc" in emit(made, Options({}, {})).text
    agree(made, {"x": draw(50, 20), "w": draw(20, 1000, seed=1)}, {"m": 50, "k": 20, "e": 1000})
    assert "@malloc" not in emit(for_cpu(BIG.format(lanes=64)), Options({}, {})).text


def test_tiles_too_large_for_any_memory() -> None:
    with pytest.raises(Infeasible, match="kernel p needs more than 1,073,741,824 bytes"):
        emit(for_cpu(BIG.format(lanes=1 << 23)), Options({}, {}))


def test_no_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = for_cpu(BIG.format(lanes=1024))
    plain: Callable[[int, int], Iterator[str]] = llvm_frame.allocated

    def huge(size: int, slot: int) -> Iterator[str]:
        return plain(1 << 62, slot)

    monkeypatch.setattr(llvm_frame, "allocated", huge)
    with pytest.raises(IndexError, match=str(NO_MEMORY)):
        run_tile(made, {"x": draw(50, 20), "w": draw(20, 9)}, {"m": 50, "k": 20, "e": 9})
