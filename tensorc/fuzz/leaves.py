"""Leaves of random expressions: reads that are in range, literals, positions, conditions.

Every read is in range: by a bare index, a remainder, a clamp, or a guard around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from tensorc.ir.choose import Chooser, chance, pick, weighted
from tensorc.ir.dtypes import (
    IMAGINARY,
    INTEGER,
    REAL,
    U32,
    U64,
    DType,
)
from tensorc.ir.functions import FUNCTIONS, REDUCERS
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Declaration,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Select,
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


def condition(scope: Scope) -> Expr:
    """A comparison of positions (a mask), or of values."""
    if scope.indices and chance(scope.chooser, 7):
        return mask(scope)
    if scope.extra and chance(scope.chooser, 2):
        name = pick(scope.chooser, ("eq", "ne"))
        return call(name, leaf_value(scope, "complex"), leaf_value(scope, "complex"))
    computed = [item for item in scope.tensors if item.tensor.name.startswith("t")]
    if computed and chance(scope.chooser, 1):
        return extreme(scope, pick(scope.chooser, computed))
    family = pick(scope.chooser, ("float", "int"))
    name = pick(scope.chooser, ("lt", "le", "gt", "ge", "eq", "ne"))
    return call(name, leaf_value(scope, family), leaf_value(scope, family))


def extreme(scope: Scope, item: Declaration) -> Expr:
    """Whether an element of what an equation computed is the largest or smallest along an axis."""
    axes = [dim for dim in item.dims if dim is not None and dim not in scope.indices]
    if family_of(item.tensor.dtype) in ("bool", "complex") or not axes:
        return mask(scope) if scope.indices else call("le", number(0), number(1))
    axis = pick(scope.chooser, axes)
    reducer = REDUCERS[pick(scope.chooser, ("max", "min"))]
    most = Reduce(reducer, (axis,), read(scope.within((axis,)), item), None, None)
    return call(pick(scope.chooser, ("eq", "lt", "ge")), read(scope, item), most)


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
