"""What a traced function computes with: the operators of every value, and expressions.

An `Expr` is a surface tree (`ir.syntax`) in the making. The operators of Python build it; what
Python cannot mean here (a truth value, a loop over elements, a conversion to a number, assignment)
raises at the user's own operator. `Expr`, `Index` and `Tensor` are siblings on purpose: Python asks
the right operand first when it is of a subclass, which would turn `a < i` around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias, Union

from tensorc.ir.source import Source
from tensorc.ir.syntax import Call, Syntax
from tensorc.lang.literals import Number, as_plain, constant, is_bool, is_scalar, type_name
from tensorc.lang.spot import Spot, callee, here, raised
from tensorc.lang.unknown import advice, no_attribute
from tensorc.lang.written import text_of

if TYPE_CHECKING:
    import numpy as np

Operand: TypeAlias = Union["Value", Number, "np.generic"]

_LOGIC = {"bitand": "and", "bitor": "or", "bitxor": "xor", "invert": "not"}
_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge", "equal": "eq", "not_equal": "ne", "bitwise_and": "bitand",
    "bitwise_or": "bitor", "bitwise_xor": "bitxor", "left_shift": "shl", "right_shift": "shr",
}  # fmt: skip
_COMPARISONS = frozenset(["lt", "le", "gt", "ge", "eq", "ne"])


class Value:
    """Anything that may stand in an expression, with Python's operators on it."""

    __slots__ = ()

    def operand(self, spot: Spot) -> Expr:
        """The value as an expression, used at `spot`. E115: a tensor without subscripts."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What messages call it."""
        raise NotImplementedError

    def shown(self) -> str:
        """Its `.tc` form."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.shown()}>"

    if not TYPE_CHECKING:  # type checkers know that there are no other attributes

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self.title, name)

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
        return self.operand(here())

    def __invert__(self) -> Expr:
        return apply("invert", self)

    def __abs__(self) -> Expr:
        return apply("abs", self)

    def __round__(self) -> Expr:
        return apply("round", self)

    def __bool__(self) -> NoReturn:
        raise self.refused("E110")

    def __contains__(self, item: object) -> NoReturn:
        raise self.refused("E110", do="compare and reduce: tc.any[i](x[i] == y)")

    def __iter__(self) -> NoReturn:
        raise self.refused("E111", what="iterated")

    def __len__(self) -> NoReturn:
        raise self.refused("E111", what="measured with len", do="use index.size")

    def __float__(self) -> NoReturn:
        raise self._number("float", "f64")

    def __int__(self) -> NoReturn:
        raise self._number("int", "i64")

    def __index__(self) -> NoReturn:
        asked = callee(here().text())
        instead = (
            "an index: tc.sum[i](...)" if asked == "range" else "tc.select(...), or a parameter"
        )
        raise self.refused("E112", name=asked or "a Python sequence", instead=instead)

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
        raise self.refused("E112", name="@", instead="tc.sum[k](a[i, k] * b[k, j])")

    def __rmatmul__(self, other: object) -> NoReturn:
        raise self.refused("E112", name="@", instead="tc.sum[k](a[i, k] * b[k, j])")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise self.refused("E113", name=self.title)

    def __delitem__(self, key: object) -> NoReturn:
        raise self.refused("E113", name=self.title)

    def refused(self, code: str, do: str = "", **fields: object) -> Exception:
        """The fault `code` at `here()`; without source lines its place is the `.tc` form."""
        spot, text = here(), self.shown()
        spot.written(Source("<traced>", text).span(0, len(text)))
        return raised(code, spot, do=do, **fields)

    def _number(self, name: str, cast: str) -> Exception:
        """E112 for a conversion; names the function that asked for it, if the line shows it."""
        asked = callee(here().text()) or name
        last = asked.rpartition(".")[2]
        return self.refused("E112", name=asked, instead=advice(cast if last == name else last))

    def _numpy(self, name: str) -> Exception:
        asked = callee(here().text()) or f"np.{name}"
        return self.refused("E112", name=asked, instead=advice(asked.rpartition(".")[2]))


class Expr(Value):
    """The value of one element, as a function of its free indices.

    Made by subscripts, operators and the functions of `tensorc`; `logical` says that it is a bool,
    `weak` that it is made of numbers, positions and extents alone. `owner` is the traced function
    to whose parameters it refers, if it refers to any.
    """

    __slots__ = ("syntax", "logical", "weak", "owner")

    def __init__(self, syntax: Syntax, logical: bool, weak: bool, owner: object) -> None:
        self.syntax, self.logical, self.weak, self.owner = syntax, logical, weak, owner

    def operand(self, spot: Spot) -> Expr:
        """The expression itself."""
        return self

    @property
    def title(self) -> str:
        """What messages call it."""
        return "an expression"

    def shown(self) -> str:
        """Its `.tc` form, cut at 100 characters."""
        return text_of(self.syntax, 100)

    def __getitem__(self, key: object) -> NoReturn:
        do = "name the value: t = tc.let[i, j](...), then read t[i, j]"
        raise self.refused("E108", what="a tensor", token="an expression", do=do)


class Owned(Protocol):
    """What may belong to a traced function."""

    @property
    def owner(self) -> object:
        """The traced function, None for none."""
        ...


def apply(name: str, *operands: object, logical: bool = False) -> Expr:
    """The call of a function or operator by its name in `ir.functions`, made at `here()`.

    On bools the bit operators are the logical ones. Raises E114 and E115 for what is no operand.
    """
    spot = here()
    parts = _taken_together(operands, spot)
    if name in _LOGIC and all(part.logical for part in parts):
        name, logical = _LOGIC[name], True
    weak = all(part.weak for part in parts) and name not in _COMPARISONS
    owner = joint_owner(parts, spot)
    syntax = Call(name, tuple(part.syntax for part in parts), spot)
    return Expr(syntax, logical or name in _COMPARISONS, weak, owner)


def taken(item: object, spot: Spot) -> Expr:
    """An operand as an expression; E114 for what is no value, E115 for a tensor without indices."""
    if isinstance(item, Value):
        return item.operand(spot)
    syntax = constant(item, spot)
    if syntax is None:
        do = "write an expression for each element" if type(item) in (tuple, list) else ""
        raise raised("E114", spot, type=kind_of(item), do=do)
    return Expr(syntax, is_bool(item), not is_scalar(item), None)


def _taken_together(operands: Sequence[object], spot: Spot) -> list[Expr]:
    """The operands; a NumPy integer among numbers and positions alone is an ordinary integer."""
    parts = [taken(item, spot) for item in operands]
    strong = [part for item, part in zip(operands, parts, strict=True) if not is_scalar(item)]
    if len(strong) < len(parts) and all(part.weak for part in strong):
        return [taken(as_plain(item), spot) for item in operands]
    return parts


def joint_owner(parts: Sequence[Owned], spot: Spot) -> object:
    """The traced function that the parts belong to, None for none; E114 for two of them."""
    owner: object = None
    for part in parts:
        if owner is None:
            owner = part.owner
        elif part.owner is not None and part.owner is not owner:
            raise raised("E114", spot, type="what another traced function made")
    return owner


def kind_of(item: object) -> str:
    """What a message calls an object."""
    if isinstance(item, Value):
        return item.title
    return "None" if item is None else type_name(item)
