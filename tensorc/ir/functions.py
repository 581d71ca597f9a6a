"""The scalar functions and reducers of the language, with their types.

One table for both surfaces, every level and every reader. What a function computes stands in the
interpreters and emitters, each a table over these names; a test compares the tables' keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from tensorc.ir.dtypes import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    IMAGINARY,
    INDEX,
    INTEGER,
    REAL,
    U64,
    DType,
    Kind,
    as_float,
    join,
    settled,
    value_of,
)
from tensorc.ir.node import Node, node


class Typing(Enum):
    """How a function's type follows from its arguments' types."""

    ARITHMETIC = "join of the arguments; reals and complex"
    ORDERED = "join of the arguments; reals only"
    DIVISION = "join; integers become f32"
    FLOAT = "integers and bool as f32; reals only"
    ANALYTIC = "integers and bool as f32; reals and complex"
    ROUNDING = "integers as they are; reals"
    MAGNITUDE = "the type of the real part"
    PART = "the real type of a complex"
    COMPARISON = "bool, of reals"
    EQUALITY = "bool, of any"
    LOGIC = "bool, of bools"
    BITS = "join of two integers"
    SHIFT = "the type of the left of two integers"
    CLASSIFY = "bool, of reals"
    COUNT = "i32, of integers"
    EXPONENT = "i32, of floats"
    SCALE = "the type of a float, by an integer"
    CONJUGATE = "as it is"


@node
class Function(Node):
    """A scalar function. `most` arguments at most; None: any number."""

    name: str
    typing: Typing
    least: int
    most: int | None

    def __str__(self) -> str:
        return self.name


def _table(rows: Sequence[tuple[str, Typing, int, int | None]]) -> dict[str, Function]:
    return {name: Function(name, typing, least, most) for name, typing, least, most in rows}


# Operators (printed infix) have the names below; `SYMBOLS` gives their spelling.
FUNCTIONS: dict[str, Function] = _table(
    [
        ("add", Typing.ARITHMETIC, 2, None), ("mul", Typing.ARITHMETIC, 2, None),
        ("sub", Typing.ARITHMETIC, 2, 2), ("neg", Typing.ARITHMETIC, 1, 1),
        ("div", Typing.DIVISION, 2, 2), ("floordiv", Typing.ORDERED, 2, 2),
        ("mod", Typing.ORDERED, 2, 2), ("pow", Typing.ARITHMETIC, 2, 2),
        ("lt", Typing.COMPARISON, 2, 2), ("le", Typing.COMPARISON, 2, 2),
        ("gt", Typing.COMPARISON, 2, 2), ("ge", Typing.COMPARISON, 2, 2),
        ("eq", Typing.EQUALITY, 2, 2), ("ne", Typing.EQUALITY, 2, 2),
        ("and", Typing.LOGIC, 2, None), ("or", Typing.LOGIC, 2, None), ("not", Typing.LOGIC, 1, 1),
        ("xor", Typing.LOGIC, 2, 2),
        ("bitand", Typing.BITS, 2, 2), ("bitor", Typing.BITS, 2, 2), ("bitxor", Typing.BITS, 2, 2),
        ("invert", Typing.BITS, 1, 1), ("shl", Typing.SHIFT, 2, 2), ("shr", Typing.SHIFT, 2, 2),
        ("min", Typing.ORDERED, 2, None), ("max", Typing.ORDERED, 2, None),
        ("abs", Typing.MAGNITUDE, 1, 1), ("sign", Typing.ORDERED, 1, 1),
        ("floor", Typing.ROUNDING, 1, 1), ("ceil", Typing.ROUNDING, 1, 1),
        ("round", Typing.ROUNDING, 1, 1),
        ("sqrt", Typing.ANALYTIC, 1, 1), ("rsqrt", Typing.FLOAT, 1, 1),
        ("exp", Typing.ANALYTIC, 1, 1), ("exp2", Typing.FLOAT, 1, 1),
        ("log", Typing.ANALYTIC, 1, 1), ("log2", Typing.FLOAT, 1, 1),
        ("sin", Typing.ANALYTIC, 1, 1), ("cos", Typing.ANALYTIC, 1, 1),
        ("tanh", Typing.FLOAT, 1, 1), ("sigmoid", Typing.FLOAT, 1, 1), ("erf", Typing.FLOAT, 1, 1),
        ("expm1", Typing.FLOAT, 1, 1), ("log1p", Typing.FLOAT, 1, 1),
        ("isnan", Typing.CLASSIFY, 1, 1), ("isinf", Typing.CLASSIFY, 1, 1),
        ("real", Typing.PART, 1, 1), ("imag", Typing.PART, 1, 1), ("conj", Typing.CONJUGATE, 1, 1),
        ("popcount", Typing.COUNT, 1, 1), ("exponent", Typing.EXPONENT, 1, 1),
        ("ldexp", Typing.SCALE, 2, 2),
    ]
)  # fmt: skip

SYMBOLS: dict[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and": "and", "or": "or", "not": "not", "neg": "-", "invert": "~", "xor": "^",
    "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip

# Names that a user may call; the operators above are reached by their symbols, and `pow` by both.
CALLABLE: frozenset[str] = frozenset(FUNCTIONS) - frozenset(SYMBOLS) | {"pow"}
# Spelled like functions, defined by others: clamp(x, lo, hi) = min(max(x, lo), hi),
# inside(x, n) = 0 <= x and x < n, select(c, a, b) and bitcast(dtype, x) are nodes of their own.
SUGAR: frozenset[str] = frozenset({"clamp", "inside", "select", "bitcast"})


def result_type(function: Function, args: Sequence[DType]) -> DType | None:
    """The value type of `function` at arguments of these value types; None if it has none."""
    real = all(not arg.complex for arg in args)
    ints = all(arg.integral for arg in args)
    match function.typing:
        case Typing.ARITHMETIC | Typing.CONJUGATE:
            return _joined(args)
        case Typing.ORDERED:
            return _joined(args) if real else None
        case Typing.DIVISION:
            return _quotient(args)
        case Typing.FLOAT:
            return as_float(args[0]) if real else None
        case Typing.ANALYTIC:
            return as_float(args[0])
        case Typing.ROUNDING:
            return _joined(args) if real else None
        case Typing.MAGNITUDE | Typing.PART:
            return _real_part(args[0])
        case Typing.COMPARISON:
            return BOOL if real and _joined(args) else None
        case Typing.EQUALITY:
            return BOOL if _joined(args) else None
        case Typing.LOGIC:
            return BOOL if all(arg is BOOL for arg in args) else None
        case Typing.BITS:
            return _joined(args) if ints else None
        case Typing.SHIFT:
            return args[0] if ints else None
        case Typing.CLASSIFY:
            return BOOL if real else None
        case Typing.COUNT:
            return I32 if ints else None
        case Typing.EXPONENT:
            return I32 if args[0].floating else None
        case Typing.SCALE:
            return args[0] if args[0].floating and args[1].integral else None


def _joined(args: Sequence[DType]) -> DType | None:
    """Arithmetic's type; a single bool counts as an integer."""
    total: DType | None = I32 if args[0] is BOOL and len(args) == 1 else args[0]
    for arg in args[1:]:
        total = join(total, arg) if total is not None else None
    return total


def _quotient(args: Sequence[DType]) -> DType | None:
    """Both integers: f32, or an exact real if both are weak."""
    joined = _joined(args)
    if joined is None and all(arg.integral for arg in args):
        return F32
    return None if joined is None else as_float(joined)


def _real_part(dtype: DType) -> DType:
    if dtype is IMAGINARY:
        return REAL
    if dtype.complex:
        return F32 if dtype.bits == 64 else F64
    return I32 if dtype is BOOL else dtype


@node
class Reducer(Node):
    """A reduction. `keeps`: its indices stay (softmax); `accumulates`: it takes an accumulator
    type; `nonempty`: an extent of 0 has no value (E205)."""

    name: str
    keeps: bool
    accumulates: bool
    nonempty: bool

    def __str__(self) -> str:
        return self.name


SUM = Reducer("sum", False, True, False)
PROD = Reducer("prod", False, True, False)
MAX = Reducer("max", False, False, True)
MIN = Reducer("min", False, False, True)
ANY = Reducer("any", False, False, False)
ALL = Reducer("all", False, False, False)
MEAN = Reducer("mean", False, True, False)
ARGMAX = Reducer("argmax", False, False, True)
ARGMIN = Reducer("argmin", False, False, True)
LOGSUMEXP = Reducer("logsumexp", False, True, False)
SOFTMAX = Reducer("softmax", True, True, False)
REDUCERS: dict[str, Reducer] = {
    reducer.name: reducer
    for reducer in (SUM, PROD, MAX, MIN, ANY, ALL, MEAN, ARGMAX, ARGMIN, LOGSUMEXP, SOFTMAX)
}


def accumulator(reducer: Reducer, body: DType, declared: DType | None) -> DType:
    """The type in which a sum, product, mean, logsumexp or softmax accumulates."""
    if declared is not None:
        return declared
    if reducer not in (SUM, PROD):
        return settled(as_float(body))
    if body is INTEGER or body is INDEX or body is BOOL:
        return I64
    if body.integral:
        return U64 if body.kind is Kind.UINT else I64
    return settled(body)


def reduced_type(reducer: Reducer, body: DType, declared: DType | None) -> DType | None:
    """The value type of a reduction over a body of value type `body`; None if it has none."""
    if reducer in (ANY, ALL):
        return BOOL if body is BOOL else None
    if body.complex and reducer not in (SUM, PROD, MEAN):
        return None
    if reducer in (ARGMAX, ARGMIN):
        return I64
    if reducer in (MAX, MIN):
        return I32 if body is BOOL else settled(body)
    return value_of(accumulator(reducer, body, declared))
