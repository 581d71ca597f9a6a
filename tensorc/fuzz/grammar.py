"""Random well-typed expressions of level 1, valid by construction.

Families of types never mix by accident: floats, signed integers (with positions), unsigned
integers, complex numbers; bools join any of them. Every read is in range: by a bare index, a
remainder, a clamp, or a guard around it. A policy, drawn once per program, says which forms are
frequent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tensorc.ir.choose import Chooser, chance, pick, weighted
from tensorc.ir.dtypes import (
    BF16,
    COMPLEX64,
    COMPLEX128,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    IMAGINARY,
    INTEGER,
    REAL,
    U8,
    U32,
    U64,
    DType,
)
from tensorc.ir.functions import FUNCTIONS, REDUCERS
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Declaration,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Select,
    free_indices,
    value_type,
)

FAMILIES = ("float", "int", "uint", "bool", "complex")


@dataclass(frozen=True)
class Policy:
    """How often each form appears, relative to the others."""

    name: str
    read: int = 6
    literal: int = 2
    arithmetic: int = 6
    function: int = 3
    select: int = 2
    reduce: int = 3
    cast: int = 1
    guard: int = 2


POLICIES: tuple[Policy, ...] = (
    Policy("uniform"),
    Policy("elementwise", function=8, reduce=0),
    Policy("contraction", arithmetic=10, reduce=6, function=0, select=0),
    Policy("stabilised", function=5, reduce=6, select=1),
    Policy("masks", select=8, guard=8, reduce=4),
    Policy("gather", read=10, guard=6),
    Policy("casts", cast=8),
)


@dataclass
class Scope:
    """What an expression may use: indices in scope, tensors, extents of all index names.

    `extra`: f8 and complex types too.
    """

    chooser: Chooser
    policy: Policy
    indices: tuple[str, ...]
    tensors: tuple[Declaration, ...]
    extents: Mapping[str, Polynomial]
    budget: list[int] = field(default_factory=lambda: [24])  # nodes left, shared by all scopes
    extra: bool = False

    def within(self, indices: tuple[str, ...]) -> Scope:
        """The same with more indices."""
        return replace(self, indices=tuple(dict.fromkeys((*self.indices, *indices))))


def call(name: str, *args: Expr) -> Expr:
    """A function by name."""
    return Apply(FUNCTIONS[name], args)


def number(value: int | Fraction) -> Literal:
    """An exact literal."""
    exact = Fraction(value)
    return Literal(exact, INTEGER if exact.denominator == 1 else REAL)


def expression(scope: Scope, family: str, depth: int) -> Expr:
    """A random expression of a family of types, at most `depth` levels of forms deep."""
    scope.budget[0] -= 1
    if depth <= 0 or scope.budget[0] <= 0:
        return leaf(scope, family)
    policy = scope.policy
    form = weighted(
        scope.chooser,
        [
            (policy.read, "leaf"), (policy.arithmetic, "arithmetic"),
            (policy.function, "function"), (policy.select, "select"),
            (policy.reduce if len(scope.indices) < 4 else 0, "reduce"), (policy.cast, "cast"),
        ],
    )  # fmt: skip
    make = {
        "leaf": lambda: leaf(scope, family),
        "arithmetic": lambda: arithmetic(scope, family, depth - 1),
        "function": lambda: function(scope, family, depth - 1),
        "select": lambda: select(scope, family, depth - 1),
        "reduce": lambda: reduction(scope, family, depth - 1),
        "cast": lambda: cast(scope, family, depth - 1),
    }
    return make[form]()


def leaf(scope: Scope, family: str) -> Expr:
    """A read, a literal or a position."""
    fitting = [item for item in scope.tensors if family_of(item.tensor.dtype) == family]
    if fitting and not chance(scope.chooser, scope.policy.literal, 12):
        return read(scope, pick(scope.chooser, fitting))
    if family == "bool":
        return condition(scope)
    if family == "int" and scope.indices and chance(scope.chooser, 5):
        return Position(pick(scope.chooser, scope.indices))
    return literal(scope.chooser, family)


def family_of(dtype: DType) -> str:
    """The family that a storage type belongs to; narrow unsigned types widen to i32."""
    if dtype.name == "bool":
        return "bool"
    if dtype.floating or dtype.complex:
        return "float" if dtype.floating else "complex"
    return "uint" if dtype in (U32, U64) else "int"


_FLOAT_LITERALS = tuple(
    Fraction(text)
    for text in ("0", "1", "-1", "0.5", "3", "0.1", "1/8", "1e-5", "65504", "2", "-2.5", "0.75")
)


def literal(chooser: Chooser, family: str) -> Expr:
    """A constant of the family."""
    if family == "float":
        value = pick(chooser, _FLOAT_LITERALS)
        return signed(Literal(abs(value), REAL), value < 0)
    if family == "complex":
        part = Literal(pick(chooser, (Fraction(1), Fraction("0.5"), Fraction(2))), IMAGINARY)
        return call("add", literal(chooser, "float"), part) if chance(chooser, 4) else part
    value = chooser.integer(0, 9)
    return signed(number(value), family == "int" and chance(chooser, 2))


def signed(expr: Expr, negative: bool) -> Expr:
    """The expression, or its negative: a literal itself carries no sign."""
    return call("neg", expr) if negative else expr


def read(scope: Scope, item: Declaration) -> Expr:
    """A read that is in range, with a guard around it where its subscripts need one."""
    subscripts: list[Expr] = []
    guards: list[Expr] = []
    for name, size in zip(item.dims, item.tensor.shape, strict=True):
        subscript, guard = _subscript(scope, name, size)
        subscripts.append(subscript)
        guards += guard
    element = Read(item.tensor, tuple(subscripts))
    if not guards:
        return element
    test = guards[0] if len(guards) == 1 else call("and", *guards)
    other = Literal(Fraction(0), element_literal(item.tensor.dtype))
    return Select(test, element, other)


def element_literal(dtype: DType) -> DType:
    """The literal type that joins elements of a type without changing their family."""
    if dtype.name == "bool":
        return dtype
    return REAL if dtype.floating or dtype.complex else INTEGER


def _subscript(scope: Scope, name: str | None, size: Polynomial) -> tuple[Expr, list[Expr]]:
    """(subscript, guards that it needs)."""
    plain = name is not None and name in scope.indices and scope.extents.get(name) is size
    if name is not None and plain and not chance(scope.chooser, scope.policy.guard, 14):
        return Position(name), []
    total: Expr = Extent(name) if name is not None else number(size.constant or 0)
    moved = _moved(scope)
    form = weighted(scope.chooser, [(3, "mod"), (2, "clamp"), (3, "guard")])
    if form == "mod":
        return call("mod", moved, total), []
    if form == "clamp":
        high = call("sub", total, number(1))
        return call("min", call("max", moved, number(0)), high), []
    return moved, [call("le", number(0), moved), call("lt", moved, total)]


def _moved(scope: Scope) -> Expr:
    """An affine expression of at most two indices, or a read of integers."""
    integers = [
        item for item in scope.tensors
        if family_of(item.tensor.dtype) == "int" and set(item.dims) <= set(scope.indices)
    ]  # fmt: skip
    if integers and chance(scope.chooser, 3):
        item = pick(scope.chooser, integers)
        return Read(item.tensor, tuple(Position(dim) for dim in item.dims if dim is not None))
    if not scope.indices:
        return number(scope.chooser.integer(0, 3))
    first = Position(pick(scope.chooser, scope.indices))
    factor = scope.chooser.integer(1, 3)
    scaled = first if factor == 1 else call("mul", number(factor), first)
    offset = scope.chooser.integer(-2, 2)
    if offset == 0 and factor == 1:
        return call("add", scaled, Position(pick(scope.chooser, scope.indices)))
    return (
        call("add", scaled, number(offset)) if offset > 0 else call("sub", scaled, number(-offset))
    )


_ARITHMETIC = {
    "float": ("add", "sub", "mul", "mul", "div", "min", "max"),
    "int": (
        "add", "sub", "mul", "floordiv", "mod", "min", "max", "bitand", "bitor", "bitxor",
        "shl", "shr",
    ),
    "uint": ("add", "sub", "mul", "floordiv", "mod", "min", "max", "bitand", "shr"),
    "bool": ("and", "or", "xor"),
    "complex": ("add", "sub", "mul", "mul", "div"),
}  # fmt: skip


def arithmetic(scope: Scope, family: str, depth: int) -> Expr:
    """A binary operator."""
    name = pick(scope.chooser, _ARITHMETIC[family])
    left = expression(scope, family, depth)
    if family == "complex" and name == "div":  # each part of the result has many of the divisor's
        return call(name, left, leaf_value(scope, family))
    return call(name, left, expression(scope, family, depth))


_FUNCTIONS = {
    "float": ("neg", "abs", "sign", "floor", "round", "tanh", "sigmoid", "erf", "sin", "cos"),
    "int": ("neg", "abs", "sign", "invert", "popcount"),
    "uint": ("invert", "abs"),
    "bool": ("not",),
    "complex": ("neg", "conj"),
}
_OF_COMPLEX = ("real", "imag", "abs")


def function(scope: Scope, family: str, depth: int) -> Expr:
    """A function of one argument; those that grow or have poles get an argument that is tame."""
    if family == "bool":
        return condition(scope) if chance(scope.chooser, 7) else call("not", condition(scope))
    if family == "float" and scope.extra and chance(scope.chooser, 3):
        return call(pick(scope.chooser, _OF_COMPLEX), expression(scope, "complex", depth))
    if family == "complex" and chance(scope.chooser, 4):
        return _complex_function(scope, leaf_value(scope, family))
    arg = expression(scope, family, depth)
    if family == "uint" and value_type(arg).weak:
        arg = Cast(U32, arg)  # ~ of a literal alone would be negative
    if family == "float" and chance(scope.chooser, 4):
        tame = call("tanh", arg)
        positive = call("add", call("abs", arg), Literal(Fraction(1), REAL))
        return pick(
            scope.chooser,
            [call("exp", tame), call("exp2", tame), call("expm1", tame), call("log", positive),
             call("log2", positive), call("sqrt", call("abs", arg)), call("rsqrt", positive)],
        )  # fmt: skip
    return call(pick(scope.chooser, _FUNCTIONS[family]), arg)


def _complex_function(scope: Scope, arg: Expr) -> Expr:
    """A function of a complex number that is not large, or a power."""
    size = call("add", call("abs", arg), Literal(Fraction(1), REAL))
    tame = call("div", arg, size)
    away = call("add", tame, Literal(Fraction(2), REAL))
    return pick(
        scope.chooser,
        [call("exp", tame), call("sin", tame), call("cos", tame), call("sqrt", away),
         call("log", away), call("pow", tame, number(scope.chooser.integer(0, 3)))],
    )  # fmt: skip


def select(scope: Scope, family: str, depth: int) -> Expr:
    """select(condition, x, y)."""
    return Select(
        condition(scope), expression(scope, family, depth), expression(scope, family, depth)
    )


def condition(scope: Scope) -> Expr:
    """A comparison of positions (a mask), or of values."""
    if scope.indices and chance(scope.chooser, 7):
        return mask(scope)
    if scope.extra and chance(scope.chooser, 2):
        name = pick(scope.chooser, ("eq", "ne"))
        return call(name, leaf_value(scope, "complex"), leaf_value(scope, "complex"))
    family = pick(scope.chooser, ("float", "int"))
    name = pick(scope.chooser, ("lt", "le", "gt", "ge", "eq", "ne"))
    return call(name, leaf_value(scope, family), leaf_value(scope, family))


def leaf_value(scope: Scope, family: str) -> Expr:
    """A leaf of a numeric family; without one that fits, a literal."""
    scope.budget[0] -= 1
    return leaf(scope, family) if scope.budget[0] > 0 else literal(scope.chooser, family)


def mask(scope: Scope) -> Expr:
    """An affine condition on positions: causal, a window, a stripe, an edge."""
    index = Position(pick(scope.chooser, scope.indices))
    other = Position(pick(scope.chooser, scope.indices))
    constant = number(scope.chooser.integer(0, 5))
    name = pick(scope.chooser, ("lt", "le", "gt", "ge"))
    form = weighted(scope.chooser, [(4, "causal"), (3, "edge"), (2, "stripe"), (2, "both")])
    if form == "stripe":
        return call("eq", call("mod", index, number(2)), number(scope.chooser.integer(0, 1)))
    if form == "both":
        return call("and", call(name, index, constant), call("ne", other, number(1)))
    right = call("add", other, constant) if form == "causal" else constant
    return call(name, index, right)


_REDUCERS = {
    "float": ("sum", "sum", "sum", "max", "min", "mean", "prod", "logsumexp", "softmax"),
    "int": ("sum", "max", "min", "argmax", "argmin"),
    "uint": ("sum", "max", "min"),
    "bool": ("any", "all"),
    "complex": ("sum", "sum", "mean", "prod"),
}


def reduction(scope: Scope, family: str, depth: int) -> Expr:
    """A reduction over one or two indices that are not in scope (softmax: that are)."""
    name = pick(scope.chooser, _REDUCERS[family])
    reducer = REDUCERS[name]
    free = [index for index in scope.extents if index not in scope.indices]
    pool = list(scope.indices) if reducer.keeps else free
    if not pool:
        return leaf(scope, family)
    indices = tuple(
        dict.fromkeys(pick(scope.chooser, pool) for _ in range(chance(scope.chooser, 2) + 1))
    )
    inner = scope.within(indices)
    body = expression(inner, "float" if name.startswith("arg") else family, depth)
    if family == "uint" and value_type(body).weak:
        body = Cast(U32, body)  # a sum of literals alone would be signed
    where = mask(inner) if chance(scope.chooser, scope.policy.guard, 12) else None
    body = _using(inner, body, where, indices, "float" if name.startswith("arg") else family)
    accumulator = pick(scope.chooser, (I32, I64, I8)) if family == "int" and name == "sum" else None
    dtype = accumulator if accumulator is not None and chance(scope.chooser, 2) else None
    return Reduce(reducer, indices, body, where, dtype)


def _using(
    scope: Scope, body: Expr, where: Expr | None, indices: tuple[str, ...], family: str
) -> Expr:
    """The body, made to depend on every reduced index (one that does not occur is an error)."""
    used = free_indices(body) | (free_indices(where) if where is not None else frozenset[str]())
    for index in indices:
        if index in used:
            continue
        tests = call("lt", Position(index), number(scope.chooser.integer(1, 4)))
        body = (
            call("or", body, tests) if family == "bool" else Select(tests, body, _neutral(family))
        )
    return body


def _neutral(family: str) -> Expr:
    return Literal(Fraction(1), REAL) if family in ("float", "complex") else number(1)


_CASTS = {
    "float": (F16, BF16, F32, F64), "int": (I8, I32, I64, U8), "uint": (U32, U64), "bool": (),
    "complex": (COMPLEX64, COMPLEX128),
}  # fmt: skip


def cast(scope: Scope, family: str, depth: int) -> Expr:
    """A cast within the family, or into it from another."""
    if family == "bool":
        return leaf(scope, family)
    source = pick(scope.chooser, ("float", "int", "bool")) if chance(scope.chooser, 3) else family
    types = _CASTS[family] + ((F8E4M3, F8E5M2) if family == "float" and scope.extra else ())
    return Cast(pick(scope.chooser, types), expression(scope, source, depth))
