"""Correct programs: their extents, types, roundings and what is left to the call and the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorc.ir.dtypes import BF16, F16, F32, I32, I64
from tensorc.ir.tensor import Apply, Program, Read, Reduce, Round, value_type
from tensorc.lang import read

LANGUAGE = Path(__file__).parents[1] / "programs" / "language.tc"
PROGRAMS = {program.name: program for program in read(LANGUAGE.read_text(encoding="utf-8"))}
HEAD = "h // (|h| // |g|)"

# Of each example of the language: accesses decided at the call, and checked in the kernel.
OPEN: dict[str, tuple[list[str], list[str]]] = {
    "gemm": ([], []),
    "attention": ([f"k[b, {HEAD}, n, d]", f"v[b, {HEAD}, n, e]"], []),
    "norm": ([], []),
    "conv": ([], []),
    "rope": ([], []),
    "embed": ([], ["E 0"]),
    "moe": ([], ["W 0"]),
    "maxsim": ([], []),
    "closure": ([], []),
    "int4": (["W[k // 2, n]"], []),
    "segment": ([], []),
    "symmetric": ([], []),
}


def one(text: str) -> Program:
    """The only program of a text."""
    (program,) = read(text)
    return program


def extents(program: Program) -> dict[str, str]:
    """The extents as text."""
    return {name: str(size) for name, size in program.extents}


@pytest.mark.parametrize("name", OPEN)
def test_examples_check_with_the_expected_verdicts(name: str) -> None:
    program = PROGRAMS[name]
    conditions, checks = OPEN[name]
    assert [item.what for item in program.conditions] == conditions
    assert [f"{item.read.tensor.name} {item.axis}" for item in program.checks] == checks
    assert program.warnings == ()


def test_every_example_is_expected() -> None:
    assert set(PROGRAMS) == set(OPEN)


def test_extents_of_the_convolution() -> None:
    assert extents(PROGRAMS["conv"])["y"] == "(|h| - |r|) // 2 + 2"  # 2 // 2 left the floor
    assert extents(PROGRAMS["conv"])["s"] == "|s|"


def test_two_names_of_one_dimension() -> None:
    assert extents(PROGRAMS["closure"]) == {"n": "|n|", "i": "|n|", "j": "|n|", "k": "|n|"}


def test_an_output_dimension_with_a_stated_size() -> None:
    assert extents(PROGRAMS["segment"])["n"] == "w"
    assert extents(PROGRAMS["symmetric"])["k"] == "|i|"


def test_a_declared_dtype_rounds_and_a_plain_name_does_not() -> None:
    s, p, o, lse = PROGRAMS["attention"].equations
    assert (s.tensor.dtype, p.tensor.dtype, o.tensor.dtype) == (F32, F16, F16)
    assert isinstance(p.body, Round) and isinstance(o.body, Round)
    assert not isinstance(s.body, Round) and not isinstance(lse.body, Round)
    assert PROGRAMS["gemm"].equations[1].body.dtype is BF16  # type: ignore[union-attr]


def test_types_of_positions_and_argmax() -> None:
    win = PROGRAMS["maxsim"].equations[2]
    assert win.tensor.dtype is I32
    assert isinstance(win.body, Round) and value_type(win.body.arg) is I64


@pytest.mark.parametrize(
    ("text", "index", "extent"),
    [
        ("op f(x: f32[n]) -> y: f32[i=4]\n  y[i] = x[i + 0]", "i", "4"),
        ("op f(x: f32[n], k: f32[r]) -> y: f32[o]\n  y[o] = sum[r](x[o + r] * k[r])", "o",
         "|n| - |r| + 1"),
        ("op f(x: f32[n], k: f32[r]) -> y: f32[o]\n  y[o] = sum[r](x[2*o + 3*r] * k[r])", "o",
         "(|n| - 3*|r|) // 2 + 2"),
        ("op f(x: f32[n]) -> y: f32[o]\n  y[o] = max[j=3](x[2*o + j])", "o", "(|n| - 3) // 2 + 1"),
        ("op f(x: f32[n], z: f32[m]) -> y: f32[o]\n  y[o] = x[o + 1] + z[o + 2]", "o",
         "min(|m| - 2, |n| - 1)"),
        ("op f(x: f32[n]) -> y: f32[4]\n  y[i] = x[(|n| // 4) * i]", "i", "4"),
        ("op f(x: f32[n]) -> y: f32\n  t[i] = x[i]\n  y = sum[j](t[j])", "j", "|n|"),
        ("op f(x: f32[n]) -> y: f32[n]\n  h = |n| // 2\n  y[n] = sum[j=h](x[j + 0])", "j",
         "|n| // 2"),
    ],
)  # fmt: skip
def test_rules_for_extents(text: str, index: str, extent: str) -> None:
    assert extents(one(text))[index] == extent


def test_ampersand_between_bools_is_and() -> None:
    program = one("op f(p: bool[n], q: bool[n]) -> r: bool[n]\n  r[n] = p[n] & ~q[n] | q[n]")
    body = program.equations[0].body
    assert isinstance(body, Apply) and body.function.name == "or"
    assert isinstance(body.args[0], Apply) and body.args[0].function.name == "and"


def test_sugar_is_expanded() -> None:
    program = one("op f(x: f32[n]) -> y: f32[n]\n  y[n] = +clamp(x[n], 0, 1)")
    body = program.equations[0].body
    assert isinstance(body, Apply) and body.function.name == "min"
    chain = one("op f(x: f32[n]) -> y: f32[n]\n  y[n] = sum[j=|n|](x[n] where 0 <= j < n)")
    reduction = chain.equations[0].body
    assert isinstance(reduction, Reduce) and isinstance(reduction.where, Apply)
    assert [arg.function.name for arg in reduction.where.args] == ["le", "lt"]  # type: ignore[union-attr]


def test_tables_are_kept_where_read() -> None:
    text = (
        "const T: i32[2, 3] = [[1, 2, 3], [4, 5, 6]]\nconst U: f32[1] = [0.5]\n"
        "op f(x: f32[i=2]) -> y: f32[i]\n  y[i] = x[i] * sum[j](T[i, j])"
    )
    program = one(text)
    (table,) = program.tables
    assert (table.tensor.name, len(table.values)) == ("T", 6)
    assert extents(program)["j"] == "3"


def test_reads_widen() -> None:
    program = one(
        "op f(x: u8[n], z: f16[n]) -> y: f32[n]\n  d[n] = x[n] - x[n]\n  y[n] = d[n] * z[n]"
    )
    d, y = program.equations
    assert d.tensor.dtype is I32 and value_type(y.body) is F32
    assert any(isinstance(arg, Read) for arg in y.body.args)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("op f(x: f32[n], z: f32[n]) -> y: f32[n]\n  y[n] = x[n]", ["W201"]),
        ("op f(x: f32[n], t: f32[m]) -> y: f32[n]\n  y[n] = x[n] / |m|", []),
        ("op f(x: f32[n], w: const i64) -> y: f32[j=w]\n  y[j] = x[j % |n|]", []),
        ("op f(x: u8[n]) -> y: u8[n]\n  y[n] = x[n]", []),
        ("op f(x: f32[n]) -> y: f32[n]\n  t[n] = x[n]\n  y[n] = x[n]", ["W203"]),
        ("op f(x: f32[n]) -> y: f32[n]\n  t[n] = x[n]\n  u[n] = t[n]\n  y[n] = x[n]", ["W203"] * 2),
        ("op f(x: u8[n]) -> y: u8[n]\n  y[n] = x[n] + 1", ["W202"]),
        ("op f(x: u8[n]) -> y: u8[n]\n  y[n] = u8(x[n] + 1)", []),
        ("op f(x: u8[n]) -> y: u8[n]\n  y[n] = (x[n] + 1) % 256", []),
        ("op f(x: u8[n]) -> y: i8[n]\n  y[n] = x[n] >> 1", []),
        ("op f(x: i16[n]) -> y: i8[n]\n  y[n] = clamp(x[n], -128, 127)", []),
        ("op f(x: i64[n]) -> y: i32[n]\n  y[n] = x[n]", ["W202"]),
        ("op f(x: i32[n]) -> y: u32[n]\n  y[n] = x[n]", ["W202"]),
        ("op f(x: i32[n]) -> y: i32\n  y = sum[n](x[n])", ["W202"]),
        ("op f(x: f32[n]) -> y: i32[n]\n  y[n] = i32(x[n])", []),
        ("op f(x: f32[n]) -> y: i32\n  y = argmax[n](x[n])", []),
        ("op f(x: f32[n]) -> y: i8\n  y = argmax[n](x[n])", ["W202"]),
        ("op f(x: f32[n]) -> y: i32[n]\n  y[n] = i32(x[n] > 0) * 2", []),
    ],
)
def test_warnings(text: str, codes: list[str]) -> None:
    assert [item.code for item in one(text).warnings] == codes


def test_a_warning_names_the_ranges() -> None:
    (warning,) = one("op f(x: u8[n]) -> y: u8[n]\n  y[n] = x[n] + 1").warnings
    assert (warning.found, warning.allowed) == ("1 to 256", "0 to 255")
