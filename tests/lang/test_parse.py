"""The grammar on good programs: what each form becomes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tensorc.ir.dtypes import F16, I32, IMAGINARY, INTEGER, REAL
from tensorc.ir.source import Source
from tensorc.ir.syntax import Call, Constant, Reduction, Syntax
from tensorc.ir.tensor import Literal
from tensorc.lang.parse import parse_file, parse_signature, read_source
from tensorc.lang.surface import Module
from tests.lang.structure import shape

PROGRAMS = Path(__file__).parent.parent / "programs"


def module(text: str) -> Module:
    """A file from its text."""
    return parse_file(Source("f.tc", text))


def expression(text: str) -> Syntax:
    """The right side of the only equation of an operator."""
    (operator,) = module(f"op f() -> y: f32\n  y = {text}\n").operators
    return operator.statements[0].body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b + c", "add(a, b, c)"),
        ("(a + b) + c", "add(add(a, b), c)"),
        ("a + (b + c)", "add(a, add(b, c))"),
        ("a + b - c + d", "add(sub(add(a, b), c), d)"),
        ("a - b - c", "sub(sub(a, b), c)"),
        ("a * b * c / d * e", "mul(div(mul(a, b, c), d), e)"),
        ("a / b // c % d", "mod(floordiv(div(a, b), c), d)"),
        ("a + b * c", "add(a, mul(b, c))"),
        ("-a ** 2", "neg(pow(a, 2))"),
        ("2 ** -1", "pow(2, -1)"),
        ("a ** b ** c", "pow(a, pow(b, c))"),
        ("a ** -b * c", "mul(pow(a, neg(b)), c)"),
        ("-2 ** 2", "neg(pow(2, 2))"),
        ("(-2) ** 2", "pow(-2, 2)"),
        ("-2 * a", "mul(-2, a)"),
        ("-(2)", "neg(2)"),
        ("--2", "neg(-2)"),
        ("a - -2", "sub(a, -2)"),
        ("-0.0", "-0"),
        ("-inf", "neg(inf)"),
        ("+a - +2", "sub(a, 2)"),
        ("~a & -b", "bitand(invert(a), neg(b))"),
        ("a | b ^ c & d", "bitor(a, bitxor(b, bitand(c, d)))"),
        ("a << b >> c", "shr(shl(a, b), c)"),
        ("a << b + 1", "shl(a, add(b, 1))"),
        ("a <= b & c", "le(a, bitand(b, c))"),
        ("0 <= i < 4", "chain<le lt>(0, i, 4)"),
        ("a < b", "lt(a, b)"),
        ("(a < b) < c", "lt(lt(a, b), c)"),
        ("a == b != c >= d", "chain<eq ne ge>(a, b, c, d)"),
        ("not a and b or c", "or(and(not(a), b), c)"),
        ("not not a", "not(not(a))"),
        ("not a == b", "not(eq(a, b))"),
        ("a and b and c or d or e", "or(and(a, b, c), d, e)"),
        ("a or not b", "or(a, not(b))"),
        ("|n| | |m|", "bitor(|n|, |m|)"),
        ("|n|*|m|", "mul(|n|, |m|)"),
        ("x[i, j + 1, tok[k]]", "x[i, add(j, 1), tok[k]]"),
        ("x[]", "x[]"),
        ("x[i, ]", "x[i]"),
        ("max(a, b, c,)", "max(a, b, c)"),
        ("max[i](max[i])", "max[i](max[i])"),
        ("max", "max"),
        ("pow(a, b)", "pow(a, b)"),
        ("f16(a + b)", "f16(add(a, b))"),
        ("bitcast(i32, x)", "bits i32(x)"),
        ("bitcast[i] + bitcast", "add(bitcast[i], bitcast)"),
        ("sum[i, j=4, f16](x[i, j])", "sum[i, j=4, f16](x[i, j])"),
        ("sum[k=|n| - 1, i32,](x where k < n)", "sum[k=sub(|n|, 1), i32](x where lt(k, n))"),
        ("x[f16(a), b]", "x[f16(a), b]"),
        ("clamp(x, 0, 1) + inside(i, |n|)", "add(clamp(x, 0, 1), inside(i, |n|))"),
        ("true", "1"),
        ("pi * nan", "mul(pi, nan)"),
        ("e + by + init", "add(e, by, init)"),
    ],
)
def test_structure(text: str, expected: str) -> None:
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("12", Fraction(12), INTEGER),
        ("0x1f", Fraction(31), INTEGER),
        ("0", Fraction(0), INTEGER),
        ("00", Fraction(0), INTEGER),
        ("1.5", Fraction(3, 2), REAL),
        ("1.", Fraction(1), REAL),
        ("2e-3", Fraction(1, 500), REAL),
        ("1e5", Fraction(100000), REAL),
        ("0.1", Fraction(1, 10), REAL),
        ("0x1.8p-3", Fraction(3, 16), REAL),
        ("0x1p4", Fraction(16), REAL),
        ("2j", Fraction(2), IMAGINARY),
        ("0.5J", Fraction(1, 2), IMAGINARY),
        ("1.7976931348623157e308", Fraction("1.7976931348623157e308"), REAL),
        ("5e-324", Fraction("5e-324"), REAL),
    ],
)
def test_number(text: str, value: Fraction, dtype: object) -> None:
    found = expression(text)
    assert isinstance(found, Constant) and found.literal is Literal(value, dtype)  # type: ignore[arg-type]


def test_every_form_of_a_file() -> None:
    found = module(
        "# comment\n"
        "const C: f32[2, 3] = [[1, -2.5, 0x1p-1],  # rows\n"
        "  [4, 5, 6,],]\n"
        "\n"
        "op f(x: f16[n, 4, d=64], w: const i64,\n"
        "     s: f32)\n"
        "  -> (y: f32[n], z: f32[p=(|n| + 1) // 2],)\n"
        "  t: f16[n, k=|n| * 2] = (x[n, 0, k % 64]\n"
        "  )\n"
        "  y[n] = sum[k](\n"
        "    t[n, k]\n"
        "    # within\n"
        "  )\n"
        "  z[p] = s\n"
    )
    (table,) = found.tables
    assert table.shape == (2, 3) and len(table.entries) == 6 and table.parameter.const
    (operator,) = found.operators
    x, w, s = operator.parameters
    assert [dim.name for dim in x.dimensions] == ["n", None, "d"]
    assert (w.const, x.const, s.dimensions) == (True, False, ())
    assert [out.name for out in operator.outputs] == ["y", "z"]
    first = operator.statements[0]
    assert (first.name, first.dtype) == ("t", F16)
    assert [binding.name for binding in first.left] == ["n", "k"]
    assert [statement.name for statement in operator.statements] == ["t", "y", "z"]


def test_spans_are_the_users_characters() -> None:
    body = expression("a + sum[k](x[k] * 2 where k < 3)")
    assert isinstance(body, Call) and isinstance(body.args[1], Reduction)
    span = body.args[1].body.span.resolve()
    text = span.source.line(span.line)
    assert text[span.column - 1 : span.end_column - 1] == "x[k] * 2"


def test_the_programs_of_the_language_parse() -> None:
    found = parse_file(read_source(PROGRAMS / "language.tc"))
    assert len(found.operators) == 12
    assert sum(len(operator.statements) for operator in found.operators) == 22


def test_signature() -> None:
    found = parse_signature(
        Source("<signature>", "q: f16[b, m],  # rows\n\n k: const i32 -> o: f32[b], l: f32[m=2],")
    )
    assert [item.name for item in found.parameters] == ["q", "k"]
    assert [item.name for item in found.outputs] == ["o", "l"]
    assert found.name == "" and found.statements == ()
    assert parse_signature(Source("<signature>", "-> y: f32")).parameters == ()


def test_accumulator_type() -> None:
    body = expression("sum[k, i32](x[k])")
    assert isinstance(body, Reduction) and body.dtype is I32
