"""Level 2 means what it says, block by block; what must not happen is found out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tensorc.errors import BrokenInvariant
from tensorc.ir.dtypes import BF16, F32, INTEGER
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.polynomial import extent
from tensorc.ir.read_tile import read
from tensorc.ir.rounding import round_to
from tensorc.ir.tensor import Apply, Declaration, Literal, Position, Read, Tensor
from tensorc.ir.tile import Block, Kernel, Store, TileProgram, Use

A = Tensor("a", F32, (extent("m"),))
Y = Tensor("y", F32, (extent("m"),))


def doubling() -> TileProgram:
    """y[m] = 2 * a[m], 16 lanes at a time."""
    two = Literal(Fraction(2), INTEGER)
    value = Apply(FUNCTIONS["mul"], (two, Read(A, (Position("m"),))))
    store = Store(Y, (Position("m"),), value, None, (), Use("vector"), ())
    kernel = Kernel("y", (A,), (Y,), (Block("m", 16),), (store,))
    return TileProgram(
        "doubling", "avx512", (Declaration(A, ("m",)),), (Declaration(Y, ("m",)),), (),
        (("m", extent("m")),), (kernel,),
    )  # fmt: skip


@pytest.mark.parametrize("m", [0, 1, 15, 16, 17, 40])
def test_only_lanes_inside_the_domain_are_stored(m: int) -> None:
    a = np.arange(m, dtype=np.float32)
    found = interpret(doubling(), {"a": a}, {"m": m}, np.random.default_rng(0))
    np.testing.assert_array_equal(found["y"], 2 * a)


def test_an_element_that_no_block_stores_is_found() -> None:
    program = doubling()
    (kernel,) = program.kernels
    half = replace(kernel, body=())
    with pytest.raises(BrokenInvariant, match="some of y was never stored"):
        interpret(replace(program, kernels=(half,)), {"a": np.ones(3)}, {"m": 3})


def single(statements: str, dtype: str = "f32", outputs: str = "o: f32[m]") -> TileProgram:
    """A kernel over m by 4 that reads x[m, k] and stores `o`."""
    return read(
        f"program p for avx512\nindex m, k\ninput x: {dtype}[m, k]\noutput {outputs}\n\n"
        f"kernel p(x) -> o\n  grid m by 4\n{statements}"
    )


def test_sums_round_at_every_step_in_a_narrow_tile() -> None:
    program = single(
        "  s[m] = sum[k](x[m, k])  f16 register  by vector\n  store o[m] = s  by vector\n"
    )
    x = np.array([[2048, 1, 1, 1], [0.1, 0.1, 0.1, 0.1]], np.float32)
    found = interpret(program, {"x": x}, {"m": 2, "k": 4})["o"]
    tenth = np.float16(0.1)
    wanted = [2048, np.float16(np.float16(np.float16(tenth + tenth) + tenth) + tenth)]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def test_values_are_rounded_once_where_they_are_stored() -> None:
    program = single(
        "  whole k by 5\n  t[m, k] = x[m, k] * x[m, k]  bf16 memory  by vector\n"
        "  s[m] = max[k](t)  f32 register  by vector\n  store o[m] = s  by vector\n"
    )
    x = np.array([[1.001, 0.5, 0.25, 0.125, 0.0]], np.float32)
    found = interpret(program, {"x": x}, {"m": 1, "k": 5})["o"]
    assert found[0] == round_to(x[0, 0] * x[0, 0], BF16).astype(np.float32)


def test_integers_wrap_and_bools_reduce() -> None:
    program = single(
        "  s[m] = prod[k](x[m, k])  i32 register  by vector\n"
        "  b[m] = any[k](x[m, k] < 0)  bool register  by vector\n"
        "  store o[m] = select(b, -s, s)  by vector\n",
        "i16", "o: i32[m]",
    )  # fmt: skip
    x = np.array([[30000, 30000, 30000], [-3, 4, 5]], np.int16)
    found = interpret(program, {"x": x}, {"m": 2, "k": 3})["o"]
    assert found.tolist() == [np.int64(30000**3).astype(np.int32), 60]


def test_extremes_keep_nan_and_the_sign_of_zero() -> None:
    program = single(
        "  loop k by 2\n    carry r[m] = lowest  f32 register\n"
        "    r'[m] = max(r, max[k](x[m, k]))  f32 register  by vector exact k\n"
        "  store o[m] = r  by vector\n"
    )
    x = np.array([[-0.0, 0.0, -0.0], [1, np.nan, 3], [-np.inf] * 3], np.float32)
    found = interpret(program, {"x": x}, {"m": 3, "k": 3})["o"]
    assert not np.signbit(found[0]) and np.isnan(found[1])
    assert found[2] == np.finfo(np.float32).min  # what the carry started from


@pytest.mark.parametrize(("down", "wanted"), [("", [0, 2, 3]), (" down", [0, 1, 3])])
def test_elements_seen_in_either_direction(down: str, wanted: list[int]) -> None:
    text = (
        "program p for avx512\nindex m, k, b = (|k| + 1) // 2\ninput x: f32[m, k]\n"
        "output o: i64[m, b]\n\nkernel p(x) -> o\n  grid m by 4\n"
        f"  loop k by 2{down}\n"
        "    t[m] = seen(k) + 10 * seen'(k)  i64 register  by vector\n"
        "    u[k] = select(k % 2 == 0, 1, 0)  i64 register  by vector\n"
        "    store o[m, k // 2] = t * u  combine sum  by vector\n"
    )
    found = interpret(read(text), {"x": np.zeros((1, 3))}, {"m": 1, "k": 3})["o"]
    order = found[0][::-1] if down else found[0]
    assert order.tolist() == [wanted[0] + 10 * wanted[1], wanted[1] + 10 * wanted[2]]


def test_a_loop_without_trips_leaves_its_start() -> None:
    program = single(
        "  loop k by 2 in 0..base(m) - 4 full 0..0\n    carry r[m] = 7  f32 register\n"
        "    r'[m] = r + sum[k](x[m, k])  f32 register  by vector exact k\n"
        "  store o[m] = r  by vector\n"
    )
    x = np.ones((5, 4), np.float32)
    found = interpret(program, {"x": x}, {"m": 5, "k": 4})["o"]
    np.testing.assert_array_equal(found, 7)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("  store o[m + 1] = 1  by vector\n", "store outside o"),
        ("  store o[m // 2] = 1  by vector\n", "an element of o is stored twice"),
        ("  t[m] = x[m, m]  f32 register  by vector\n  store o[m] = t  by vector\n",
         "x: subscript 1 is 3, allowed are 0..2"),
        ("  loop k by 2 in 1..|k|\n    carry r[m] = 0  f32 register\n"
         "    r'[m] = r + sum[k](x[m, k])  f32 register  by vector exact k\n"
         "  store o[m] = r  by vector\n", "loop k: 1 to 3 of 3"),
        ("  t[m] = select(m < 2, 1, 0)  f32 register  edge m  by vector\n"
         "  store o[m] = t  by vector\n", "a guard of m fails in a full block: 2 lanes"),
        ("  store o[m] = select(m < 3, 1, 0)  edge m  by vector\n",
         "a guard of m fails in a full block: 1 lanes"),
    ],
)  # fmt: skip
def test_assertions_say_where_and_what(body: str, fault: str) -> None:
    x = np.ones((5, 3), np.float32)
    with pytest.raises(BrokenInvariant, match=fault):
        interpret(single(body), {"x": x}, {"m": 5, "k": 3})


def test_what_no_kernel_stored_has_no_value() -> None:
    text = (
        "program p for avx512\nindex m\ninput x: f32[m]\noutput o: f32[m]\n"
        "workspace w: f32[|m| + 1]\n\n"
        "kernel first(x) -> w\n  grid m by 4\n  store w[m] = x[m]  by vector\n\n"
        "kernel second(w) -> o\n  grid m by 4\n  store o[m] = w[m + 1]  by vector\n"
    )
    with pytest.raises(BrokenInvariant, match="second at m = 0: store o: a lane inside"):
        interpret(read(text), {"x": np.ones(3)}, {"m": 3})


def test_a_table_and_a_size_from_a_parameter() -> None:
    text = (
        "program p for avx512\nindex m = p + 1, i = 2\ninput p: const i32\noutput o: f64[m]\n"
        "table c: f64[2] = 1 / 3, -2\n\n"
        "kernel k(c, p) -> o\n  grid m by 2\n  store o[m] = c[m % 2] + p  by vector\n"
    )
    found = interpret(read(text), {"p": np.int32(4)}, {})["o"]
    np.testing.assert_array_equal(found, [4 + 1 / 3, 2, 4 + 1 / 3, 2, 4 + 1 / 3])


def test_no_elements_leave_the_neutral_one() -> None:
    program = single(
        "  s[m] = sum[k](x[m, k])  f32 register  by vector\n  store o[m] = s  by vector\n"
    )
    for m, k in ((0, 3), (3, 0), (0, 0)):
        found = interpret(program, {"x": np.zeros((m, k))}, {"m": m, "k": k})["o"]
        np.testing.assert_array_equal(found, np.zeros(m))


def test_what_lost_its_storage_has_no_value() -> None:
    body = (
        "  t[m] = x[m, 0]  f32 memory  by vector\n  u[m] = t  f32 memory  into t  by vector\n"
        "  store o[m] = {}  by vector\n"
    )
    x = np.ones((5, 1), np.float32)
    found = interpret(single(body.format("u")), {"x": x}, {"m": 5, "k": 1})["o"]
    np.testing.assert_array_equal(found, 1)
    with pytest.raises(BrokenInvariant, match="store o: a lane inside the domain has no value"):
        interpret(single(body.format("t")), {"x": x}, {"m": 5, "k": 1})
