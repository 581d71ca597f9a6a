"""Level 1: equations over named indices. Pure mathematics; an expression is the value of ONE
element as a function of its free indices.

    expr = Literal | Position(i) | Extent(i) | Read(tensor, subscripts) | Apply(function, args)
         | Select(condition, yes, no) | Cast(dtype, arg) | Bitcast(dtype, arg)
         | Round(dtype, arg) | Reduce(reducer, indices, body, where, dtype)
         | Value(tile, axes, dtype) | Seen(index, after)      -- in the bodies of level 2 only

Within one program an index name has one extent, whatever it does there; extents live in the
program, not on nodes. `Select`, `and`, `or` and a reduction's `where` guard: what they do not
select is not evaluated. `Cast` is fixed: it rounds exactly there and nothing moves across it.
`Round` is the movable rounding of a declared storage type and prints as an equation with one.

Operands of `Apply` may have different types: the function's typing says in which type they meet
(`operand_types`), and weak operands are computed in the type that the context wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tensorc.ir.dtypes import BOOL, F32, INDEX, DType, as_float, join, settled, value_of
from tensorc.ir.functions import Function, Reducer, Typing, reduced_type, result_type
from tensorc.ir.node import Node, fact, node
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.source import Diagnostic, Place


@node
class Tensor(Node):
    """A tensor in memory or a named intermediate: storage type and one extent per dimension."""

    name: str
    dtype: DType
    shape: tuple[Polynomial, ...]


@node
class Literal(Node):
    """A weak constant: a Fraction, or "inf", "nan", "pi", "-0"; 0 and 1 of type bool.

    An IMAGINARY literal is its value times the imaginary unit.
    """

    value: Fraction | str
    dtype: DType


@node
class Position(Node):
    """The value of an index, from 0."""

    index: str


@node
class Extent(Node):
    """The extent of an index, |i|."""

    index: str


@node
class Read(Node):
    """The element of `tensor` at `subscripts` (integer expressions), widened to its value type."""

    tensor: Tensor
    subscripts: tuple[Expr, ...]

    def __post_init__(self) -> None:
        if len(self.subscripts) != len(self.tensor.shape):
            raise ValueError(f"{self.tensor.name}: {len(self.subscripts)} subscripts")


@node
class Apply(Node):
    """A scalar function of its arguments."""

    function: Function
    args: tuple[Expr, ...]


@node
class Select(Node):
    """`yes` where `condition` holds, else `no`; the other one is not evaluated."""

    condition: Expr
    yes: Expr
    no: Expr


@node
class Cast(Node):
    """`arg` rounded to the storage type `dtype`, exactly here; its value is widened again."""

    dtype: DType
    arg: Expr


@node
class Bitcast(Node):
    """The bits of `arg` stored as its own type, read as `dtype` of the same width."""

    dtype: DType
    arg: Expr


@node
class Round(Node):
    """A declared rounding to `dtype` that `fast` may move past positive factors, or drop."""

    dtype: DType
    arg: Expr


@node
class Reduce(Node):
    """`reducer` of `body` over all `indices` where `where` holds; `dtype`: the accumulator."""

    reducer: Reducer
    indices: tuple[str, ...]
    body: Expr
    where: Expr | None
    dtype: DType | None


@node
class Value(Node):
    """Level 2: the element of the tile of this name at the current point of its axes, stored as
    `dtype` and widened to its value type."""

    tile: str
    axes: tuple[str, ...]
    dtype: DType


@node
class Seen(Node):
    """Level 2: how many elements of `index` were consumed before this block; with `after`,
    including it."""

    index: str
    after: bool


Scalar = Literal | Position | Extent | Read | Apply | Select | Cast | Bitcast | Round
Expr = Scalar | Reduce | Value | Seen  # the closed union; every consumer is a `match` over it


@fact
def value_type(expr: Expr) -> DType:
    """The value type of an expression (weak types included).

    Raises TypeError where a function has no type at its arguments; the checker reports that to
    users as E207 before a node is built.
    """
    match expr:
        case Literal(_, dtype):
            return dtype
        case Position() | Extent():
            return INDEX
        case Seen():
            return INDEX
        case Read(tensor, _):
            return value_of(tensor.dtype)
        case Value(_, _, dtype):
            return value_of(dtype)
        case Apply(function, args):
            return _known(result_type(function, [value_type(arg) for arg in args]), function)
        case Select(_, yes, no):
            return _known(joined(value_type(yes), value_type(no)), "select")
        case Cast(dtype, _) | Bitcast(dtype, _) | Round(dtype, _):
            return value_of(dtype)
        case Reduce(reducer, _, body, _, dtype):
            return _known(reduced_type(reducer, value_type(body), dtype), reducer)


def joined(a: DType, b: DType) -> DType | None:
    """The type of a select: two bools stay bool, else as arithmetic."""
    return BOOL if a is BOOL and b is BOOL else join(a, b)


def _known(dtype: DType | None, what: object) -> DType:
    if dtype is None:
        raise TypeError(f"{what} has no type at these arguments")
    return dtype


def operand_types(expr: Apply, wanted: DType) -> tuple[DType, ...]:
    """The strong types in which the operands are taken, when the result is wanted as `wanted`.

    `wanted` matters only for a weak result: `10000.0 ** i` beside an f64 is computed in f64.
    """
    own = [value_type(arg) for arg in expr.args]
    match expr.function.typing:
        case Typing.LOGIC:
            return tuple(BOOL for _ in own)
        case Typing.SHIFT | Typing.SCALE:
            return resolved(own[0], wanted), settled(own[1])
        case Typing.COMPARISON | Typing.EQUALITY:
            return (settled(_meeting(own)),) * len(own)
        case Typing.COUNT:  # bits are counted in the settled type, whatever the context
            return (settled(own[0]),)
        case Typing.CLASSIFY | Typing.EXPONENT:
            return tuple(resolved(dtype, wanted) for dtype in own)
        case Typing.PART | Typing.MAGNITUDE:
            source = own[0] if own[0].complex else value_type(expr)
            return (resolved(source, wanted),)
        case Typing.FLOAT | Typing.ANALYTIC:
            return (resolved(as_float(own[0]), wanted),)
        case Typing.DIVISION:
            return (resolved(as_float(_meeting(own, fallback=F32)), wanted),) * len(own)
        case Typing.ARITHMETIC | Typing.ORDERED | Typing.BITS | Typing.ROUNDING | Typing.CONJUGATE:
            return (resolved(value_type(expr), wanted),) * len(own)


def resolved(dtype: DType, wanted: DType) -> DType:
    """A strong type for a value of type `dtype`: a weak one becomes `wanted` where the kinds
    allow it, else its settled type. Integers made of positions stay integers."""
    if not dtype.weak:
        return dtype
    both = join(dtype, wanted) if not wanted.weak else None
    same_kind = dtype.integral == wanted.integral
    return both if both is not None and same_kind and not both.weak else settled(dtype)


def _meeting(types: list[DType], fallback: DType | None = None) -> DType:
    total: DType | None = types[0]
    if all(dtype is BOOL for dtype in types):
        return BOOL
    for dtype in types[1:]:
        total = join(total, dtype) if total is not None else None
    if total is None and fallback is None:
        raise TypeError("no common type")
    return total or fallback or F32


@fact
def free_indices(expr: Expr) -> frozenset[str]:
    """The indices whose value matters: positions not bound by a reduction. Extents are not free."""
    match expr:
        case Literal() | Extent() | Seen():
            return frozenset()
        case Value(_, axes, _):
            return frozenset(axes)
        case Position(index):
            return frozenset((index,))
        case Read(_, subscripts):
            return _union(subscripts)
        case Apply(_, args):
            return _union(args)
        case Select(condition, yes, no):
            return _union((condition, yes, no))
        case Cast(_, arg) | Bitcast(_, arg) | Round(_, arg):
            return free_indices(arg)
        case Reduce(reducer, indices, body, where, _):
            inside = free_indices(body) | (
                free_indices(where) if where is not None else frozenset[str]()
            )
            return inside if reducer.keeps else inside - set(indices)


def _union(args: tuple[Expr, ...]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    return found.union(*(free_indices(arg) for arg in args))


@dataclass(frozen=True)
class Declaration:
    """A parameter or output: its tensor and the index name of each dimension (None: a number).

    A `const` parameter may have its value fixed when compiling; a 0-d integer one may be used in
    sizes, as Symbol(name, "parameter").
    """

    tensor: Tensor
    dims: tuple[str | None, ...]
    const: bool = False
    span: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Equation:
    """tensor[indices] = body, for every value of the indices."""

    tensor: Tensor
    indices: tuple[str, ...]
    body: Expr
    span: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Table:
    """A constant tensor: its entries in row-major order, literals or expressions of literals."""

    tensor: Tensor
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Condition:
    """0 <= value < limit must hold at every point of `indices` where all `guards` hold.

    Decided at the call, when sizes are known (E216). `what` is the access as the user wrote it.
    """

    value: Polynomial
    limit: Polynomial
    indices: tuple[str, ...]
    guards: tuple[Expr, ...]
    what: str
    span: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Check:
    """An access whose subscript on `axis` holds data: the kernel compares (R704)."""

    read: Read
    axis: int
    span: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Program:
    """One operator. `extents`: index name to extent, in order of first appearance; an index with
    a free extent maps to its own symbol |i|. Equations are in order, each name defined once.

    `divisors`: what sizes are divided by, which must be at least 1 (E206), with the size's name.
    `warnings`: what the checker noticed that is no fault (W201 to W203).
    """

    name: str
    parameters: tuple[Declaration, ...]
    outputs: tuple[Declaration, ...]
    equations: tuple[Equation, ...]
    extents: tuple[tuple[str, Polynomial], ...]
    tables: tuple[Table, ...] = ()
    conditions: tuple[Condition, ...] = ()
    checks: tuple[Check, ...] = ()
    divisors: tuple[tuple[Polynomial, str], ...] = ()
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)

    @property
    def extent_of(self) -> Mapping[str, Polynomial]:
        """The extents as a mapping."""
        return dict(self.extents)
