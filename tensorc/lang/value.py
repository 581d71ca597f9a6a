"""What a traced function computes with: indices, tensors and expressions of one element.

An `Expr` is a surface tree (`ir.syntax`) in the making. The operators of Python build it; what
Python cannot mean here (a truth value, a loop over elements, a conversion to a number, assignment)
raises at the user's own operator. The three classes are siblings on purpose: Python asks the
right operand first when it is of a subclass, which would turn `a < i` around.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias, Union

from tensorc.ir.dtypes import BOOL, DType
from tensorc.ir.source import Source
from tensorc.ir.syntax import Access, Binding, Call, Name, SizeOf, Syntax
from tensorc.lang.literals import Number, constant, is_scalar, type_name
from tensorc.lang.spot import Spot, callee, here, raised

if TYPE_CHECKING:
    import numpy as np

    from tensorc.lang.surface import Parameter

Operand: TypeAlias = Union["Expr", "Index", "Tensor", Number, "np.generic"]

_LOGIC = {"bitand": "and", "bitor": "or", "bitxor": "xor", "invert": "not"}
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "bitwise_and": "bitand",
    "bitwise_or": "bitor", "bitwise_xor": "bitxor", "left_shift": "shl", "right_shift": "shr",
}  # fmt: skip
_COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])


class _Operators:
    """Python's operators on traced values."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return apply("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return apply("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return apply("floordiv", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return apply("mod", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return apply("mod", other, self)

    def __divmod__(self, other: Operand) -> tuple[Expr, Expr]:
        return apply("floordiv", self, other), apply("mod", self, other)

    def __rdivmod__(self, other: Operand) -> tuple[Expr, Expr]:
        return apply("floordiv", other, self), apply("mod", other, self)

    def __pow__(self, other: Operand) -> Expr:
        return apply("pow", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return apply("pow", other, self)

    def __and__(self, other: Operand) -> Expr:
        return apply("bitand", self, other)

    def __rand__(self, other: Operand) -> Expr:
        return apply("bitand", other, self)

    def __or__(self, other: Operand) -> Expr:
        return apply("bitor", self, other)

    def __ror__(self, other: Operand) -> Expr:
        return apply("bitor", other, self)

    def __xor__(self, other: Operand) -> Expr:
        return apply("bitxor", self, other)

    def __rxor__(self, other: Operand) -> Expr:
        return apply("bitxor", other, self)

    def __lshift__(self, other: Operand) -> Expr:
        return apply("shl", self, other)

    def __rlshift__(self, other: Operand) -> Expr:
        return apply("shl", other, self)

    def __rshift__(self, other: Operand) -> Expr:
        return apply("shr", self, other)

    def __rrshift__(self, other: Operand) -> Expr:
        return apply("shr", other, self)

    def __lt__(self, other: Operand) -> Expr:
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return apply("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return apply("ge", self, other)

    # An equation of elements, not of objects: no bool comes back.
    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return apply("eq", self, other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return apply("ne", self, other)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __pos__(self) -> Expr:
        return taken(self, here())

    def __invert__(self) -> Expr:
        return apply("invert", self)

    def __abs__(self) -> Expr:
        return apply("abs", self)

    def __round__(self) -> Expr:
        return apply("round", self)

    def __bool__(self) -> NoReturn:
        raise refused(self, "E110")

    def __contains__(self, item: object) -> NoReturn:
        raise refused(self, "E110", do="compare and reduce: tc.any[i](x[i] == y)")

    def __iter__(self) -> NoReturn:
        raise refused(self, "E111", what="iterated")

    def __len__(self) -> NoReturn:
        raise refused(self, "E111", what="measured with len", do="use index.size")

    def __float__(self) -> NoReturn:
        raise self._number("float", "f64")

    def __int__(self) -> NoReturn:
        raise self._number("int", "i64")

    def __index__(self) -> NoReturn:
        raise self._number("int", "i64")

    def __complex__(self) -> NoReturn:
        raise self._number("complex", "complex128")

    def __trunc__(self) -> NoReturn:
        raise self._number("trunc", "i64")

    def __floor__(self) -> NoReturn:
        raise self._number("floor", "floor")

    def __ceil__(self) -> NoReturn:
        raise self._number("ceil", "ceil")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise self._numpy("array")

    def __array_ufunc__(self, ufunc: object, method: str, *inputs: Operand, **_: object) -> Expr:
        name = str(getattr(ufunc, "__name__", ufunc))
        known = _UFUNCS.get(name)
        if known and method == "__call__" and any(is_scalar(item) for item in inputs):
            return apply(known, *inputs)
        for item in inputs:
            taken(item, here())  # an array among the operands is the fault to report
        raise self._numpy(name)

    def __array_function__(self, function: object, *_: object) -> NoReturn:
        name = str(getattr(function, "__name__", function))
        raise self._numpy(name)

    def __matmul__(self, other: object) -> NoReturn:
        raise _contraction(self)

    def __rmatmul__(self, other: object) -> NoReturn:
        raise _contraction(self)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise refused(self, "E113", name=_title(self))

    def __delitem__(self, key: object) -> NoReturn:
        raise refused(self, "E113", name=_title(self))

    def _number(self, name: str, cast: str) -> Exception:
        """E112 for a conversion; names the function that asked for it, if the line shows it."""
        asked = callee(here().text()) or name
        last = asked.rpartition(".")[2]
        return refused(self, "E112", name=asked, instead=_use(cast if last == name else last))

    def _numpy(self, name: str) -> Exception:
        asked = callee(here().text()) or f"np.{name}"
        return refused(self, "E112", name=asked, instead=_use(asked.rpartition(".")[2]))


class Expr(_Operators):
    """The value of one element, as a function of its free indices.

    Made by subscripts, operators and the functions of `tensorc`; `logical` says that it is a bool,
    `weak` that it is made of numbers, positions and extents alone. `owner` is the traced function
    to whose parameters it refers, if it refers to any.
    """

    __slots__ = ("syntax", "logical", "weak", "owner")

    def __init__(self, syntax: Syntax, logical: bool, weak: bool, owner: object) -> None:
        self.syntax, self.logical, self.weak, self.owner = syntax, logical, weak, owner

    def __getitem__(self, key: object) -> NoReturn:
        do = "name the value: t = tc.let[i, j](...), then read t[i, j]"
        raise refused(self, "E108", what="a tensor", token="an expression", do=do)

    def __repr__(self) -> str:
        return f"<{shown(self)}>"


class Index(_Operators):
    """A named index: its position as a value, its extent as `.size`."""

    __slots__ = ("name", "declared")

    def __init__(self, name: str, declared: Syntax | None = None) -> None:
        self.name, self.declared = name, declared

    @property
    def size(self) -> Expr:
        """The extent, |name|."""
        return Expr(SizeOf(self.name, here()), False, True, None)

    def __getitem__(self, key: object) -> NoReturn:
        raise refused(self, "E108", what="a tensor", token=f"the index {self.name}")

    def __repr__(self) -> str:
        return f"<index {self.name}>"


class Tensor(_Operators):
    """A parameter, or a tensor that `tc.let` or `tc.result` defined: read as `x[i, j]`.

    A tensor without dimensions is a value by itself.
    """

    __slots__ = ("name", "dims", "logical", "owner", "definition")

    def __init__(
        self,
        name: str,
        dims: tuple[str, ...],
        logical: bool,
        owner: object,
        definition: Definition | None = None,
    ) -> None:
        self.name, self.dims, self.logical = name, dims, logical
        self.owner, self.definition = owner, definition

    def __getitem__(self, key: Operand | tuple[Operand, ...]) -> Expr:
        spot = here()
        parts = key if isinstance(key, tuple) else (key,)
        subscripts = [taken(_subscript(part, spot), spot) for part in parts]
        owner = joint_owner([self, *subscripts], spot)
        args = tuple(part.syntax for part in subscripts)
        return Expr(Reading(self.name, args, spot, self.definition), self.logical, False, owner)

    def __repr__(self) -> str:
        return f"<tensor {self.name}[{', '.join(self.dims)}]>"


@dataclass(frozen=True, eq=False)
class Definition:
    """A tensor that the traced function named: `tc.let` or `tc.result`.

    `number` orders definitions as they were made; `wish` is the name asked for.
    """

    left: tuple[Binding, ...]
    body: Expr
    dtype: DType | None
    wish: str
    result: bool
    number: int
    spot: Spot


@dataclass(frozen=True, eq=False)
class Reading(Access):
    """An access that knows the definition of its tensor; None for a parameter."""

    definition: Definition | None


@dataclass(frozen=True, eq=False)
class Sized(Name):
    """An index as a value, with the size that `tc.index` gave it."""

    size: Syntax


def parameter(item: Parameter, owner: object) -> Tensor:
    """The tensor that a traced function receives for a parameter of its signature."""
    dims = tuple(dim.name or "…" for dim in item.dimensions)
    return Tensor(item.name, dims, item.dtype is BOOL, owner)


def apply(name: str, *operands: object, logical: bool = False) -> Expr:
    """The call of a function or operator by its name in `ir.functions`, made at `here()`.

    On bools the bit operators are the logical ones. Raises E110 to E115 for what is no operand.
    """
    spot = here()
    parts = [taken(item, spot) for item in _plain(operands)]
    if name in _LOGIC and all(part.logical for part in parts):
        name, logical = _LOGIC[name], True
    weak = all(part.weak for part in parts) and name not in _COMPARISONS
    owner = joint_owner(parts, spot)
    syntax = Call(name, tuple(part.syntax for part in parts), spot)
    return Expr(syntax, logical or name in _COMPARISONS, weak, owner)


def taken(item: object, spot: Spot) -> Expr:
    """An operand as an expression; E114 for what is no value, E115 for a tensor without indices."""
    match item:
        case Expr():
            return item
        case Index():
            return Expr(_name(item, spot), False, True, None)
        case Tensor():
            return _scalar(item, spot)
        case _:
            syntax = constant(item, spot)
            if syntax is None:
                raise _no_value(item, spot)
            return Expr(syntax, type_name(item) in ("bool", "numpy.bool"), _weak(item), None)


def binding(index: Index, spot: Spot) -> Binding:
    """The index on a left side or in a reduction, with its size if it has one of its own."""
    return Binding(index.name, index.declared, spot)


def _weak(item: object) -> bool:
    return not type_name(item).startswith(("numpy.", "ml_dtypes."))


def _plain(operands: tuple[object, ...]) -> list[object]:
    """The operands; a NumPy integer among numbers and positions alone is an ordinary integer."""
    others = [item for item in operands if not is_scalar(item)]
    weak = all(not isinstance(item, Tensor | Expr) or _is_weak(item) for item in others)
    return [_integer(item) if weak and is_scalar(item) else item for item in operands]


def _is_weak(item: Tensor | Expr) -> bool:
    return isinstance(item, Expr) and item.weak


def _integer(item: object) -> object:
    """A NumPy integer as a Python one; anything else as it is."""
    if type_name(item).startswith(("numpy.int", "numpy.uint")):
        return int(item)  # type: ignore[call-overload]
    return item


def _subscript(item: object, spot: Spot) -> object:
    if isinstance(item, slice) or item is Ellipsis or item is None:
        what = "a slice" if isinstance(item, slice) else repr(item)
        do = "write an index for each dimension; x[i + 1] for a shift"
        raise raised("E114", spot, type=what, do=do)
    return _integer(item)


def _name(item: Index, spot: Spot) -> Name:
    if item.declared is None:
        return Name(item.name, spot)
    return Sized(item.name, spot, item.declared)


def _scalar(item: Tensor, spot: Spot) -> Expr:
    if item.dims:
        dims = ", ".join(item.dims)
        raise raised("E115.rank", spot, name=item.name, rank=len(item.dims), dims=dims)
    syntax = Reading(item.name, (), spot, item.definition)
    return Expr(syntax, item.logical, False, item.owner)


def joint_owner(parts: Sequence[Expr | Tensor], spot: Spot) -> object:
    """The traced function that the parts belong to, None for none; E114 for two of them."""
    owner: object = None
    for part in parts:
        if owner is None:
            owner = part.owner
        elif part.owner is not None and part.owner is not owner:
            raise raised("E114", spot, type="what another traced function made")
    return owner


def _no_value(item: object, spot: Spot) -> Exception:
    do = "write an expression for each element" if type(item) in (tuple, list) else ""
    return raised("E114", spot, type=kind_of(item), do=do)


def _contraction(value: _Operators) -> Exception:
    return refused(value, "E112", name="@", instead="tc.sum[k](a[i, k] * b[k, j])")


def _use(name: str) -> str:
    from tensorc.lang.unknown import advice

    return advice(name)


def refused(value: object, code: str, do: str = "", **fields: object) -> Exception:
    """The fault at `here()`; without source lines its place is the value's `.tc` form."""
    spot = here()
    if isinstance(value, Expr | Index | Tensor):
        text = shown(value)
        spot.written(Source("<traced>", text).span(0, len(text)))
    return raised(code, spot, do=do, **fields)


def kind_of(item: object) -> str:
    """What a message calls an object."""
    match item:
        case Expr():
            return "an expression"
        case Index():
            return f"the index {item.name}"
        case Tensor():
            return f"the tensor {item.name}"
        case None:
            return "None"
        case _:
            return type_name(item)


def _title(value: object) -> str:
    return value.name if isinstance(value, Index | Tensor) else "an expression"


def shown(value: Expr | Index | Tensor) -> str:
    """The value in `.tc` form, cut at 100 characters."""
    from tensorc.lang.written import text_of

    match value:
        case Expr(syntax=syntax):
            return text_of(syntax, 100)
        case Index(name=name):
            return name
        case Tensor(name=name, dims=dims):
            return f"{name}[{', '.join(dims)}]" if dims else name
