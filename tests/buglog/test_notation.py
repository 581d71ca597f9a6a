"""Public reports on the notation of other compilers, as programs of ours: read, printed, read."""

from __future__ import annotations

import string

import pytest

from tensorc.ir.print_tensor import show, show_program
from tensorc.ir.tensor import Program
from tensorc.lang import read


def only(text: str) -> Program:
    """The one operator of a text; its printed form reads back to it."""
    (program,) = read(text)
    assert read(show_program(program)) == [program]
    return program


def body(text: str) -> str:
    """The printed right side of the first equation."""
    return show(only(text).equations[0].body)


def test_more_indices_than_letters() -> None:
    """numpy/numpy#11938: an index space with more names than the alphabet has letters."""
    names = [f"{letter}{n}" for letter in string.ascii_lowercase for n in range(3)]
    dims = ", ".join(names)
    program = only(f"op f(x: f32[{dims}]) -> y: f32\n  y = sum[{dims}](x[{dims}])\n")
    assert [name for name, _ in program.extents] == names


def test_names_of_other_languages() -> None:
    """cupy/cupy#2262, apache/tvm#6048: keywords, intrinsics and prefixes of emitted code as
    names."""
    names = ["int", "double", "near", "ext_x", "threadIdx", "__shared__", "asm", "v0", "tc_mma"]
    parameters = ", ".join(f"{name}: f32[while]" for name in names)
    total = " + ".join(f"{name}[while]" for name in names)
    program = only(f"op main({parameters}) -> return: f32[while]\n  return[while] = {total}\n")
    assert [item.tensor.name for item in program.parameters] == names


def test_nested_division_and_remainder_keep_their_order() -> None:
    """apache/tvm#10336: i % 20 / 2 * 2 % 4 is not i % 4."""
    text = "op f(x: i32[20]) -> y: i32[20]\n  y[i] = x[i] % 20 // 2 * 2 % 4\n"
    assert body(text) == "x[i] % 20 // 2 * 2 % 4"
    assert body(text.replace("% 20 // 2 * 2 % 4", "% (20 // (2 * (2 % 4)))")) == (
        "x[i] % (20 // (2 * (2 % 4)))"
    )


@pytest.mark.parametrize("term", ["x[n] + 0", "x[n] - 0", "0 - x[n]", "x[n] * 1", "x[n] - -0.0"])
def test_zeros_and_ones_are_kept_as_written(term: str) -> None:
    """pytorch/pytorch#189799: x + 0 is not x, for x = -0."""
    assert body(f"op f(x: f32[n]) -> y: f32[n]\n  y[n] = {term}\n") == term


def test_any_order_of_the_outputs_indices() -> None:
    """tensor-compiler/taco#292, #365: transposed and reversed left sides."""
    text = (
        "op f(B: f32[i, j], C: f32[j, k]) -> A: f32[k, i]\n  A[k, i] = sum[j](B[i, j] * C[j, k])\n"
    )
    (equation,) = only(text).equations
    assert equation.indices == ("k", "i")


def test_repeated_indices_are_diagonals() -> None:
    """tinygrad/tinygrad#18207, numpy/numpy#12689: repeated labels, also those that do not trail."""
    leading = only("op f(x: f32[a, a, b]) -> y: f32[b]\n  y[b] = sum[i](x[i, i, b])\n")
    assert "sum[i=|a|](x[i, i, b])" in show_program(leading)
    assert body("op f(x: f32[i, j, i, j]) -> y: f32\n  y = sum[i, j](x[i, j, i, j])\n") == (
        "sum[i, j](x[i, j, i, j])"
    )


def test_sharing_is_linear() -> None:
    """tinygrad/tinygrad PR 7008: sixty doublings, each a name read twice."""
    lines = ["op f(x: f32[n]) -> y: f32[n]", "  a0[n] = x[n] + x[n]"]
    lines += [f"  a{k}[n] = a{k - 1}[n] + a{k - 1}[n]" for k in range(1, 60)]
    program = only("\n".join([*lines, "  y[n] = a59[n]"]) + "\n")
    assert len(program.equations) == 61 and len(show_program(program)) < 3000
