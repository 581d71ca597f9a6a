"""Printed expressions read back as the same nodes, with no bracket that could be left out.

The reader here is the expression parser and a plain table from syntax to nodes; that the checker
reads printed programs back is tested with the checker.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorc.errors import NotationError
from tensorc.ir.dtypes import BOOL, F16, F32, I32, IMAGINARY, INTEGER, REAL
from tensorc.ir.expression import Parser
from tensorc.ir.functions import FUNCTIONS, REDUCERS
from tensorc.ir.polynomial import extent
from tensorc.ir.print_tensor import show
from tensorc.ir.source import Source
from tensorc.ir.syntax import (
    Access,
    Call,
    Chain,
    Constant,
    Convert,
    Name,
    Reduction,
    SizeOf,
    Syntax,
)
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Seen,
    Select,
    Tensor,
    Value,
)
from tensorc.ir.tokens import one_statement

TENSOR = Tensor("x", F32, (extent("n"), extent("m")))
SCALAR = Tensor("s", F32, ())


def read(text: str) -> Expr:
    """The nodes of a printed expression over x[n, m], the scalar s, tiles t and t', indices."""
    line = one_statement(Source("printed", text), primes=True)
    assert line.fault is None, line.fault
    parser = Parser(Source("printed", text), line.tokens, frozenset({"seen", "seen'"}))
    found = parser.whole()
    parser.finish()
    return build(found)


def build(item: Syntax) -> Expr:
    """Syntax to nodes, form by form."""
    match item:
        case Constant(literal):
            return literal
        case Name("s"):
            return Read(SCALAR, ())
        case Name("t" | "t'" as name):
            return Value(name, ("n",), F16)
        case Name(name):
            return Position(name)
        case SizeOf(name):
            return Extent(name)
        case Access(_, subscripts):
            return Read(TENSOR, tuple(map(build, subscripts)))
        case Call("select", (condition, yes, no)):
            return Select(build(condition), build(yes), build(no))
        case Call("seen" | "seen'" as name, (Name(index),)):
            return Seen(index, name.endswith("'"))
        case Call("clamp", (x, low, high)):
            return apply("min", apply("max", build(x), build(low)), build(high))
        case Call(name, args):
            return Apply(FUNCTIONS[name], tuple(map(build, args)))
        case Chain(names, args):
            pairs = zip(names, map(build, args), map(build, args[1:]), strict=False)
            return apply("and", *(apply(name, left, right) for name, left, right in pairs))
        case Convert(dtype, arg, bits):
            return Bitcast(dtype, build(arg)) if bits else Cast(dtype, build(arg))
        case Reduction(reducer, bindings, dtype, body, where):
            names = tuple(binding.name for binding in bindings)
            condition = build(where) if where is not None else None
            return Reduce(REDUCERS[reducer], names, build(body), condition, dtype)


A, B, C = Position("a"), Position("b"), Position("c")


def apply(name: str, *args: Expr) -> Expr:
    """A function by its name."""
    return Apply(FUNCTIONS[name], args)


def number(value: Fraction | int | str, real: bool = True) -> Literal:
    """A literal."""
    return Literal(value if isinstance(value, str) else Fraction(value), REAL if real else INTEGER)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (apply("add", A, B, C), "a + b + c"),
        (apply("add", apply("add", A, B), C), "(a + b) + c"),
        (apply("add", A, apply("add", B, C)), "a + (b + c)"),
        (apply("add", apply("sub", A, B), C), "a - b + c"),
        (apply("sub", apply("add", A, B), C), "a + b - c"),
        (apply("sub", apply("sub", A, B), C), "a - b - c"),
        (apply("sub", A, apply("sub", B, C)), "a - (b - c)"),
        (apply("mul", apply("div", A, B), C), "a / b * c"),
        (apply("mul", apply("mul", A, B), C), "(a * b) * c"),
        (apply("mul", A, apply("add", B, C)), "a * (b + c)"),
        (apply("neg", apply("pow", A, B)), "-a ** b"),
        (apply("pow", apply("neg", A), B), "(-a) ** b"),
        (apply("pow", apply("pow", A, B), C), "(a ** b) ** c"),
        (apply("pow", A, apply("pow", B, C)), "a ** b ** c"),
        (apply("pow", A, apply("neg", B)), "a ** -b"),
        (apply("neg", number(2)), "-(2.0)"),
        (apply("neg", number(-2)), "-(-2.0)"),
        (apply("neg", apply("pow", number(2), A)), "-2.0 ** a"),
        (apply("pow", number(-2), A), "(-2.0) ** a"),
        (apply("neg", number("inf")), "-inf"),
        (apply("neg", apply("neg", A)), "--a"),
        (apply("sub", A, number(-2)), "a - -2.0"),
        (apply("lt", apply("bitor", A, B), C), "a | b < c"),
        (apply("bitor", apply("lt", A, B), C), "(a < b) | c"),
        (apply("lt", apply("lt", A, B), C), "(a < b) < c"),
        (apply("bitxor", apply("bitxor", A, B), C), "a ^ b ^ c"),
        (apply("shl", A, apply("add", B, C)), "a << b + c"),
        (apply("shr", apply("shl", A, B), C), "a << b >> c"),
        (apply("and", apply("or", A, B), C), "(a or b) and c"),
        (apply("and", apply("and", A, B), C), "(a and b) and c"),
        (apply("or", apply("and", A, B), C), "a and b or c"),
        (apply("not", apply("and", A, B)), "not (a and b)"),
        (apply("and", apply("le", A, B), apply("lt", B, C)), "a <= b < c"),
        (apply("and", apply("le", A, B), apply("lt", A, C)), "a <= b and a < c"),
        (apply("and", apply("lt", A, B), apply("lt", B, C), A), "a < b and b < c and a"),
        (apply("and", C, apply("and", apply("eq", A, B), apply("ne", B, C))), "c and a == b != c"),
        (apply("lt", apply("and", apply("lt", A, B), apply("lt", B, A)), C), "(a < b < a) < c"),
        (apply("min", apply("max", A, B), C), "clamp(a, b, c)"),
        (apply("min", apply("max", A, B, C), C), "min(max(a, b, c), c)"),
        (apply("and", apply("not", A), B), "not a and b"),
        (apply("not", apply("eq", A, B)), "not a == b"),
        (apply("eq", apply("not", A), B), "(not a) == b"),
        (apply("min", A, apply("max", B, C, A)), "min(a, max(b, c, a))"),
        (apply("invert", apply("add", A, B)), "~(a + b)"),
        (number(-0), "0.0"),
        (number("-0"), "-0.0"),
        (apply("mul", number("-0"), A), "-0.0 * a"),
        (apply("pow", A, number("-0")), "a ** -0.0"),
        (number(Fraction(1, 3)), "1/3'"),
        (apply("pow", number(Fraction(-1, 3)), A), "(-1/3') ** a"),
        (number(Fraction(1, 10)), "0.1"),
        (number(Fraction(1, 100000)), "1e-5"),
        (number(Fraction(0.1)), "0xccccccccccccdp-55"),
        (number(10**30), "1e30"),
        (number(Fraction(2) ** -149), "0x1p-149"),
        (number(Fraction(2) ** -2000), f"1/{2**2000}'"),
        (number(3, real=False), "3"),
        (number(-(10**50), real=False), f"-{10**50}'"),
        (Literal(Fraction(3), IMAGINARY), "3j"),
        (Literal(Fraction(-1, 2), IMAGINARY), "-0.5j"),
        (Literal(Fraction(1, 3), IMAGINARY), "1/3'j"),
        (Literal(Fraction(1), BOOL), "true"),
        (Extent("n"), "|n|"),
        (Read(TENSOR, (apply("add", A, number(1, False)), B)), "x[a + 1, b]"),
        (Read(SCALAR, ()), "s"),
        (Select(A, B, C), "select(a, b, c)"),
        (Cast(F16, apply("add", A, B)), "f16(a + b)"),
        (Bitcast(I32, A), "bitcast(i32, a)"),
        (
            Reduce(REDUCERS["sum"], ("k", "j"), Read(TENSOR, (A, B)), apply("lt", A, B), I32),
            "sum[k, j, i32](x[a, b] where a < b)",
        ),
        (Value("t'", ("n",), F16), "t'"),
        (Seen("n", False), "seen(n)"),
        (apply("div", Seen("n", True), A), "seen'(n) / a"),
    ],
)
def test_show(expr: Expr, expected: str) -> None:
    assert show(expr) == expected
    assert read(expected) is expr


def test_exclusive_or_of_bools_is_spelled_like_that_of_integers() -> None:
    assert show(apply("xor", apply("lt", A, B), apply("lt", B, C))) == "(a < b) ^ (b < c)"


_UNARY = ["neg", "not", "invert", "exp", "abs"]
_BINARY = [
    "sub",
    "div",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "ge",
    "eq",
    "bitand",
    "shl",
    "ldexp",
]
_MANY = ["add", "mul", "and", "or", "min"]
_VALUES = st.one_of(
    st.integers(-3, 3).map(Fraction),
    st.floats(allow_nan=False, allow_infinity=False).map(Fraction),
    st.fractions(max_denominator=1000),
    st.fractions(),
)


def _literals() -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(Literal, _VALUES, st.just(REAL)),
        st.builds(Literal, st.integers().map(Fraction), st.just(INTEGER)),
        st.builds(Literal, _VALUES, st.just(IMAGINARY)),
        st.sampled_from(["inf", "nan", "pi", "-0"]).map(lambda word: Literal(word, REAL)),
        st.sampled_from([0, 1]).map(lambda bit: Literal(Fraction(bit), BOOL)),
    )


_LITERALS = _literals()
_LEAVES: list[Expr] = [
    A, B, Extent("n"), Read(SCALAR, ()), Value("t'", ("n",), F16), Seen("n", True),
]  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4) -> Expr:
    """Expressions over the leaves above; types do not matter to printing."""

    def below(count: int) -> tuple[Expr, ...]:
        return tuple(draw(expressions(depth - 1)) for _ in range(count))

    match draw(st.integers(0, 9 if depth else 1)):
        case 0:
            return draw(_LITERALS)
        case 1:
            return draw(st.sampled_from(_LEAVES))
        case 2:
            return apply(draw(st.sampled_from(_UNARY)), *below(1))
        case 3 | 4:
            return apply(draw(st.sampled_from(_BINARY)), *below(2))
        case 5 | 6:
            return apply(draw(st.sampled_from(_MANY)), *below(draw(st.integers(2, 3))))
        case 7:
            return Select(*below(3))
        case 8:
            dtype, kind = draw(st.sampled_from([(F16, Cast), (I32, Bitcast)]))
            return kind(dtype, *below(1))
        case _:
            reducer = REDUCERS[draw(st.sampled_from(["sum", "max"]))]
            body, where = below(2)
            masked = where if draw(st.booleans()) else None
            dtype = draw(st.sampled_from([None, I32]))
            return Reduce(reducer, ("k", "j"), Read(TENSOR, (body, A)), masked, dtype)


@given(expressions())
@settings(deadline=None, max_examples=300, derandomize=True)
def test_printed_expressions_read_back(expr: Expr) -> None:
    text = show(expr)
    assert read(text) is expr, text


@given(expressions(3))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_no_bracket_can_be_left_out(expr: Expr) -> None:
    text = show(expr)
    for start, end in _plain_brackets(text):
        shorter = f"{text[:start]} {text[start + 1 : end]} {text[end + 1 :]}"
        try:
            assert read(shorter) is not expr, text
        except NotationError:
            pass


def _plain_brackets(text: str) -> list[tuple[int, int]]:
    """The bracket pairs that only group: none that follow a name or a closing bracket."""
    pairs: list[tuple[int, int]] = []
    opened: list[int] = []
    for place, char in enumerate(text):
        if char == "(":
            opened.append(place)
        elif char == ")":
            start = opened.pop()
            before = text[start - 1] if start else " "
            if not (before.isalnum() or before in "_]'"):
                pairs.append((start, place))
    return pairs
