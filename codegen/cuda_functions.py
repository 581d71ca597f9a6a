"""The scalar functions of the language as C++ text over `scalar.cuh`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from tensorc.codegen.llvm_types import nearest
from tensorc.ir.dtypes import (
    BOOL,
    F16,
    F32,
    F64,
    I32,
    I64,
    U32,
    U64,
    DType,
    Kind,
    integer_range,
    value_of,
)

C_TYPES: dict[DType, str] = {
    BOOL: "bool", I32: "int", I64: "i64", U32: "u32", U64: "u64", F32: "float", F64: "double",
}  # fmt: skip
_STORED = {8: "signed char", 16: "short"}


def stored_type(dtype: DType) -> str:
    """The C++ type of one element in memory."""
    if dtype in C_TYPES:
        return "u8" if dtype is BOOL else C_TYPES[dtype]
    if dtype.floating:
        return f"u{dtype.bits}"
    return f"u{dtype.bits}" if dtype.kind is Kind.UINT else _STORED[dtype.bits]


Emitter = Callable[[Sequence[str], DType], str]


def _infix(symbol: str) -> Emitter:
    return lambda args, _: "(" + f" {symbol} ".join(args) + ")"


def _call(name: str) -> Emitter:
    def emit(args: Sequence[str], _: DType) -> str:
        total = args[0] if len(args) > 1 else f"{name}({args[0]})"
        for arg in args[1:]:
            total = f"{name}({total}, {arg})"
        return total

    return emit


def _library(stem: str) -> Emitter:
    """The C library's function: `expf`, `exp`."""
    return lambda args, dtype: f"{stem}{'f' if dtype is F32 else ''}({', '.join(args)})"


def _wrapping(symbol: str) -> Emitter:
    """Signed arithmetic wraps: it is done on unsigned numbers of the same width."""

    def emit(args: Sequence[str], dtype: DType) -> str:
        if dtype in (I32, I64):
            unsigned = "u32" if dtype is I32 else "u64"
            parts = f" {symbol} ".join(f"({unsigned}){arg}" for arg in args)
            return f"({C_TYPES[dtype]})({parts})"
        return _infix(symbol)(args, dtype)

    return emit


def _rounding(stem: str) -> Emitter:
    return lambda args, dtype: _library(stem)(args, dtype) if dtype.floating else args[0]


def _negate(args: Sequence[str], dtype: DType) -> str:
    return f"(-{args[0]})" if dtype.floating else f"({C_TYPES[dtype]})(0 - (u64){args[0]})"


def _is(test: str) -> Emitter:
    return lambda args, dtype: test.format(args[0]) if dtype.floating else "false"


FUNCTIONS: dict[str, Emitter] = {
    "add": _wrapping("+"), "sub": _wrapping("-"), "mul": _wrapping("*"), "div": _infix("/"),
    "neg": _negate, "floordiv": _call("tcs_floordiv"), "mod": _call("tcs_mod"),
    "pow": _call("tcs_pow"),
    "lt": _infix("<"), "le": _infix("<="), "gt": _infix(">"), "ge": _infix(">="),
    "eq": _infix("=="), "ne": _infix("!="),
    "and": _infix("&&"), "or": _infix("||"), "xor": _infix("!="),
    "not": lambda args, _: f"(!{args[0]})",
    "bitand": _infix("&"), "bitor": _infix("|"), "bitxor": _infix("^"),
    "invert": lambda args, _: f"(~{args[0]})",
    "shl": _call("tcs_shl"), "shr": _call("tcs_shr"),
    "min": _call("tcs_min"), "max": _call("tcs_max"),
    "abs": _call("tcs_abs"), "sign": _call("tcs_sign"),
    "floor": _rounding("floor"), "ceil": _rounding("ceil"), "round": _rounding("rint"),
    "sqrt": _library("sqrt"),
    "rsqrt": lambda args, dtype: f"(1 / {_library('sqrt')(args, dtype)})",
    "exp": _library("exp"), "exp2": _library("exp2"), "log": _library("log"),
    "log2": _library("log2"), "sin": _library("sin"), "cos": _library("cos"),
    "tanh": _library("tanh"), "erf": _library("erf"), "expm1": _library("expm1"),
    "log1p": _library("log1p"), "sigmoid": _call("tcs_sigmoid"),
    "isnan": _is("({0} != {0})"), "isinf": _is("({0} - {0} != 0 && {0} == {0})"),
    "real": lambda args, _: args[0], "conj": lambda args, _: args[0],
    "imag": lambda args, dtype: constant(0, dtype),
    "popcount": _call("tcs_popcount"), "exponent": _call("tcs_exponent"),
    "ldexp": _call("tcs_ldexp"),
}  # fmt: skip


# What the policy `fast` computes by the hardware's own approximations, in f32.
def _approximate(name: str, exact: str) -> Emitter:
    """The hardware's own approximation in f32, the exact function elsewhere."""
    return lambda args, dtype: (
        f"{name}({', '.join(args)})" if dtype is F32 else FUNCTIONS[exact](args, dtype)
    )


FAST: dict[str, Emitter] = {
    "exp2": _approximate("tc_ex2", "exp2"),
    "div": _approximate("tcs_divide", "div"),
    "sigmoid": _approximate("tcs_sigmoid_fast", "sigmoid"),
}


def bare(text: str) -> str:
    """A text without parentheses around all of it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text


def constant(value: Fraction | int | str, dtype: DType) -> str:
    """A constant rounded once to a value type, spelled so that no bit is lost."""
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype.floating:
        return _float(value, dtype)
    low, high = integer_range(dtype)
    number = (int(value) - low) % (high - low + 1) + low
    if number == low and low < 0:
        return f"({number + 1}{'ll' if dtype is I64 else ''} - 1)"
    return f"{number}" + {I32: "", I64: "ll", U32: "u", U64: "ull"}[dtype]


def _float(value: Fraction | int | str, dtype: DType) -> str:
    if isinstance(value, str):
        bits = {"inf": 0x7F800000, "-inf": 0xFF800000, "nan": 0x7FC00000, "-0": 0x80000000}
        text = f"tc_bits_f32(0x{bits[value]:08x}u)"
        return text if dtype is F32 else f"(double){text}"
    number = nearest(Fraction(value), dtype)
    if np.isinf(number):
        return _float("inf" if number > 0 else "-inf", dtype)
    text = repr(number) if dtype is F64 else str(np.float32(number))
    text = text if any(c in text for c in ".e") else f"{text}.0"
    return (
        f"({text}{'f' if dtype is F32 else ''})"
        if number < 0
        else text + ("f" if dtype is F32 else "")
    )


def convert(text: str, source: DType, target: DType) -> str:
    """A value of one value type as another: integers wrap, floats saturate into integers."""
    if source is target:
        return text
    if target is BOOL:
        return f"({text} != 0)"
    if source.floating and target.integral:
        low, high = integer_range(target)
        if target.kind is Kind.UINT:
            return f"({C_TYPES[target]})tcs_unsigned({text}, {constant(high, U64)})"
        limits = f"{constant(low, I64)}, {constant(high, I64)}"
        return f"({C_TYPES[target]})tcs_integer({text}, {limits})"
    return f"({C_TYPES[target]}){text}"


def narrowed(text: str, source: DType, dtype: DType) -> str:
    """A value as the bits or number that is stored for `dtype`."""
    if dtype.floating and dtype not in C_TYPES:
        wide = text if source is F32 else f"tcs_odd({convert(text, source, F64)})"
        return f"{'tc' if dtype is F16 else 'tcs'}_to_{dtype}({wide})"
    if dtype is BOOL:
        return f"(u8){convert(text, source, BOOL)}"
    if dtype in C_TYPES:
        return convert(text, source, dtype)
    if source.floating:
        low, high = integer_range(dtype)
        return f"({stored_type(dtype)})tcs_integer({text}, {low}, {high})"
    return f"({stored_type(dtype)}){text}"


def widened(text: str, dtype: DType) -> str:
    """The value of a stored element."""
    if dtype is BOOL:
        return f"({text} != 0)"
    if dtype.floating and dtype not in C_TYPES:
        return f"{'tc' if dtype is F16 else 'tcs'}_from_{dtype}({text})"
    return text if dtype in C_TYPES else f"({C_TYPES[value_of(dtype)]}){text}"


def rounded(text: str, source: DType, dtype: DType) -> str:
    """A value rounded to a storage type and widened again."""
    if value_of(dtype) is dtype:
        return convert(text, source, dtype)
    return widened(narrowed(text, source, dtype), dtype)
