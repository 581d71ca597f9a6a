"""Names that mean something: reserved ones, functions, reductions, and what others call them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.functions import CALLABLE, FUNCTIONS, REDUCERS, SUGAR
from tensorc.ir.numbers import WORDS
from tensorc.ir.source import Diagnostic, Place

KEYWORDS = frozenset(
    "op const monoid where and or not in as if else for def scan repeat until".split()
)
RESERVED = KEYWORDS | frozenset(WORDS) | frozenset(BY_NAME)

PLANNED_REDUCTIONS = frozenset({"topk", "sort", "dft", "inverse", "cholesky"})
PLANNED_FUNCTIONS = frozenset({"uniform", "normal", "grad"})

_SUGAR_ARITY: dict[str, tuple[int, int | None]] = {
    "clamp": (3, 3), "inside": (2, 2), "select": (3, 3),
}  # fmt: skip
_FUNCTION_NAMES = {
    "where": "select(condition, a, b)", "maximum": "max(a, b)", "minimum": "min(a, b)",
    "relu": "max(x, 0)", "norm": "sqrt(sum[i](x[i] ** 2))", "len": "|i|", "float": "f32(x)",
    "int": "i32(x)", "ceiling": "ceil(x)", "fabs": "abs(x)", "ln": "log(x)", "power": "pow(a, b)",
    "bitcast": "bitcast(dtype, x)", "gelu": "0.5 * x * (1 + erf(x / sqrt(2)))",
    "silu": "x * sigmoid(x)", "logical_not": "not x", "square": "x ** 2",
}  # fmt: skip
_DTYPE_NAMES = {
    "float16": "f16", "half": "f16", "fp16": "f16", "bfloat16": "bf16", "float32": "f32",
    "float": "f32", "fp32": "f32", "float64": "f64", "double": "f64", "fp64": "f64",
    "int": "i32", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "c64": "complex64", "c128": "complex128",
    "complex": "complex64", "e4m3": "f8e4m3", "e5m2": "f8e5m2", "i1": "bool",
}  # fmt: skip


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that `name` resembles, or the empty string."""
    found = difflib.get_close_matches(name[:64], sorted(known), 1, 0.6)
    return found[0] if found else ""


def like_dtype(name: str) -> str:
    """What to write instead of something that is no dtype, or the empty string."""
    near = _DTYPE_NAMES.get(name) or nearest(name, BY_NAME)
    return f"did you mean {near}?" if near else ""


def function_fault(name: str, count: int, span: Place) -> Diagnostic | None:
    """E118 or E119 if no function of this name takes `count` arguments."""
    if name in PLANNED_FUNCTIONS:
        core = "pass the values as a parameter"
        return fault("E118", span, form=f"{name}(...)", core=core)
    if name not in CALLABLE and name not in _SUGAR_ARITY:
        do = _instead_of_function(name)
        return fault("E119", span, do=do, kind="function", name=name)
    least, most = _arity(name)
    if count >= least and (most is None or count <= most):
        return None
    return fault("E119.arity", span, name=name, count=count, takes=_counted(least, most))


def reducer_fault(name: str, span: Place) -> Diagnostic | None:
    """E118 or E119 if there is no reduction of this name."""
    if name in PLANNED_REDUCTIONS:
        core = "pass the result as a parameter"
        return fault("E118", span, form=f"{name}[...](...)", core=core)
    if name in REDUCERS:
        return None
    near = nearest(name, REDUCERS)
    do = f"did you mean {near}[...](...)?" if near else f"one of {', '.join(REDUCERS)}"
    if name in CALLABLE:
        do = f"{name} is a function of one element: {name}(...)"
    return fault("E119", span, do=do, kind="reduction", name=name)


def _arity(name: str) -> tuple[int, int | None]:
    return _SUGAR_ARITY.get(name) or (FUNCTIONS[name].least, FUNCTIONS[name].most)


def _counted(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more arguments"
    return f"{least} argument{'s' if least > 1 else ''}"


def _instead_of_function(name: str) -> str:
    if name in REDUCERS:
        return f"name what is reduced: {name}[i](...)"
    if name in _FUNCTION_NAMES:
        return f"write {_FUNCTION_NAMES[name]}"
    near = nearest(name, CALLABLE | SUGAR)
    return f"did you mean {near}?" if near else ""
