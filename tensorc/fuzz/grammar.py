"""Random well-typed expressions of level 1, valid by construction.

Families of types never mix by accident: floats, signed integers (with positions), unsigned
integers, complex numbers; bools join any of them. Every read is in range: by a bare index, a
remainder, a clamp, or a guard around it. A policy, drawn once per program, says which forms are
frequent.
"""

from __future__ import annotations

from fractions import Fraction

from tensorc.fuzz.leaves import (
    Scope,
    call,
    condition,
    family_of,
    leaf,
    leaf_value,
    mask,
    number,
    read,
)
from tensorc.ir.choose import chance, pick, weighted
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
    REAL,
    U8,
    U32,
    U64,
)
from tensorc.ir.functions import REDUCERS
from tensorc.ir.tensor import (
    Cast,
    Expr,
    Literal,
    Position,
    Reduce,
    Select,
    free_indices,
    value_type,
)


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
    body = (
        _of_elements(inner, depth) if name.startswith("arg") else expression(inner, family, depth)
    )
    if family == "uint" and value_type(body).weak:
        body = Cast(U32, body)  # a sum of literals alone would be signed
    where = mask(inner) if chance(scope.chooser, scope.policy.guard, 12) else None
    body = _using(inner, body, where, indices, "float" if name.startswith("arg") else family)
    accumulator = pick(scope.chooser, (I32, I64, I8)) if family == "int" and name == "sum" else None
    dtype = accumulator if accumulator is not None and chance(scope.chooser, 2) else None
    return Reduce(reducer, indices, body, where, dtype)


def _of_elements(scope: Scope, depth: int) -> Expr:
    """What an argmin compares: half of the time elements of what was computed by an equation, which
    a compiler that fuses may compute twice, and not alike."""
    computed = [item for item in scope.tensors if item.tensor.name.startswith("t")]
    fitting = [item for item in computed if family_of(item.tensor.dtype) == "float"]
    if fitting and chance(scope.chooser, 5):
        return read(scope, pick(scope.chooser, fitting))
    return expression(scope, "float", depth)


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
