"""Generated programs of level 2 verify, and read back as they were printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensorc.errors import BrokenInvariant, NotationError
from tensorc.fuzz.generate import generate
from tensorc.ir.choose import RandomChooser
from tensorc.ir.dtypes import F32, I32
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.polynomial import (
    extent,
)
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read
from tensorc.ir.tensor import (
    Check,
    Declaration,
    Position,
    Read,
    Tensor,
    Value,
)
from tensorc.ir.tile import (
    Block,
    Kernel,
    Let,
    Store,
    Strided,
    Tile,
    TileProgram,
    Use,
)
from tensorc.ir.verify_tile import verify
from tensorc.machine.verify_uses import verify as verify_uses
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.lower import lower
from tests.ir.random_tiles import programs

T = TypeVar("T")
EXAMPLES = 1000 if os.environ.get("TENSORC_PROFILE") == "campaign" else 100


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_printed_programs_read_back(program: TileProgram) -> None:
    text = show(program)
    assert read(text) == program, text
    assert show(read(text)) == text


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_what_is_right_has_no_fault(program: TileProgram) -> None:
    assert verify(program) == [], show(program)


@settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.integers(1, 9))
def test_any_program_runs_or_breaks_an_invariant(program: TileProgram, size: int) -> None:
    """Random subscripts leave tensors and random bounds extents; nothing else goes wrong."""
    x = np.arange(size * 5, dtype=np.float16).reshape(size, 5)
    arrays, sizes = {"x": x, "p": np.int32(2)}, {"i": size, "j": 5}
    try:
        interpret(program, arrays, sizes)
    except BrokenInvariant:
        with pytest.raises(BrokenInvariant):
            interpret(program, arrays, sizes, np.random.default_rng(size))


@pytest.mark.parametrize("seed", range(EXAMPLES // 2))
def test_lowered_programs_are_right_and_read_back(seed: int) -> None:
    """Random operators, one kernel for each equation, by the instructions of a CPU."""
    program = canonicalise(generate(RandomChooser(seed)).program)
    lowered = lower(program, Widths(16, 4, 6), {}, "avx512", {})
    assert verify(lowered) + verify_uses(lowered) == []
    assert read(show(lowered)) == lowered


def test_a_check_stands_in_the_kernel_that_makes_it() -> None:
    table = Tensor("tab", F32, (extent("j"), extent("k")))
    tokens = Tensor("tok", I32, (extent("i"),))
    out = Tensor("o", F32, (extent("i"), extent("k")))
    name = Tile("T", ("i",), (4,), I32, "register", Strided())
    row = Read(table, (Value("T", ("i",), I32), Position("k")))
    body = (
        Let(name, None, (), Read(tokens, (Position("i"),)), None, None, Use("vector"), ()),
        Store(out, (Position("i"), Position("k")), row, None, (), Use("vector"), ()),
    )
    kernel = Kernel("embed", (table, tokens), (out,), (Block("i", 4), Block("k", 16)), body)
    program = TileProgram(
        "embed", "avx512", (Declaration(table, ("j", "k")), Declaration(tokens, ("i",))),
        (Declaration(out, ("i", "k")),), (), tuple((i, extent(i)) for i in "ijk"), (kernel,),
        checks=(Check(row, 0),),
    )  # fmt: skip
    assert "  check 1 tab[T, k] axis 0\n" in show(program)
    assert read(show(program)) == program


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a text of level 2 starts with program"),
        ("program p", "program NAME for MACHINE is expected"),
        ("program p for m\nfoo bar", "or kernel is expected"),
        ("program p for m\nindex i\nkernel k() -> y", "y is not declared"),
        ("program p for m\nindex i\noutput y: f32[i]\nkernel k() -> y\n  store y[i] = i",
         "one column with the instruction, by ..., is expected"),
        ("program p for m\nindex i\noutput y: f32[i]\nkernel k() -> y\n  t[i] = i  f32 memory",
         "nothing says how many lanes i has"),
        ("program p for m\nindex i\noutput y: f32[i]\nkernel k() -> y\n  grid i\n"
         "  t[i] = i  f32 register round  by v", "round is no layout"),
        ("program p for m\nindex i\noutput y: f32[i]\nkernel k() -> y\n  grid i\n"
         "  t = i +  f32 register  by v", "a value"),
    ],
)  # fmt: skip
def test_faults_of_a_text_are_told(text: str, message: str) -> None:
    with pytest.raises(NotationError) as caught:
        read(text)
    assert message in str(caught.value)


TEXTS = [path.read_text() for path in sorted((Path(__file__).parents[1] / "golden/tile").iterdir())]
PIECES = (
    "",
    " ",
    "  ",
    "\n",
    "(",
    ")",
    "[",
    "]",
    "x",
    "9",
    "0",
    "'",
    "by",
    "..",
    ",",
    "|",
    "-",
    "é",
)


@settings(max_examples=5 * EXAMPLES, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_damaged_texts_are_refused_in_order(text: str, data: st.DataObject) -> None:
    """What is not refused as a text is a program, which may be verified and printed."""
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(st.sampled_from(PIECES)) + text[stop:]
    try:
        program = read(text)
    except NotationError:
        return
    assert all(isinstance(fault, str) for fault in (*verify(program), *verify_uses(program)))
    assert show(program)
