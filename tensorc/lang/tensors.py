"""Indices and tensors of the Python surface, and the parts of a surface tree that stand for them.

A tensor is a parameter, or what `tc.let` or `tc.result` defined. Names of definitions are chosen
when tracing has ended, so a `Reading` keeps the definition until then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from tensorc.ir.dtypes import BOOL, DType
from tensorc.ir.syntax import Access, Binding, Name, SizeOf, Syntax
from tensorc.lang.literals import as_plain
from tensorc.lang.spot import Spot, here, raised
from tensorc.lang.surface import Parameter
from tensorc.lang.value import Expr, Operand, Value, joint_owner, taken


class Index(Value):
    """A named index: its position as a value, its extent as `.size`."""

    __slots__ = ("name", "declared")

    def __init__(self, name: str, declared: Syntax | None = None) -> None:
        self.name, self.declared = name, declared

    @property
    def size(self) -> Expr:
        """The extent, |name|."""
        return Expr(SizeOf(self.name, here()), False, True, None)

    def binding(self, spot: Spot) -> Binding:
        """The index on a left side or in a reduction, with its size if it has one of its own."""
        return Binding(self.name, self.declared, spot)

    def operand(self, spot: Spot) -> Expr:
        """The position."""
        if self.declared is None:
            return Expr(Name(self.name, spot), False, True, None)
        return Expr(Sized(self.name, spot, self.declared), False, True, None)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"the index {self.name}"

    def shown(self) -> str:
        """Its name."""
        return self.name

    def __getitem__(self, key: object) -> NoReturn:
        raise self.refused("E108", what="a tensor", token=self.title)


class Tensor(Value):
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

    def operand(self, spot: Spot) -> Expr:
        """The value of a tensor without dimensions; E115 for any other."""
        if self.dims:
            dims = ", ".join(self.dims)
            raise raised("E115.rank", spot, name=self.name, rank=len(self.dims), dims=dims)
        syntax = Reading(self.name, (), spot, self.definition)
        return Expr(syntax, self.logical, False, self.owner)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"the tensor {self.name}"

    def shown(self) -> str:
        """A read of it under its own dimensions."""
        return f"{self.name}[{', '.join(self.dims)}]" if self.dims else self.name


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
    dims = tuple(dim.name or "..." for dim in item.dimensions)
    return Tensor(item.name, dims, item.dtype is BOOL, owner)


def defined(made: Definition) -> Tensor:
    """The tensor that a definition makes, for its readers."""
    dims = tuple(bound.name for bound in made.left)
    logical = made.dtype is BOOL or (made.dtype is None and made.body.logical)
    return Tensor(made.wish or "t", dims, logical, made.body.owner, made)


def _subscript(item: object, spot: Spot) -> object:
    """A subscript; a NumPy integer counts as an ordinary one. E114 for a slice, `...`, None."""
    if isinstance(item, slice) or item is Ellipsis or item is None:
        what = "a slice" if isinstance(item, slice) else repr(item)
        do = "write an index for each dimension; x[i + 1] for a shift"
        raise raised("E114", spot, type=what, do=do)
    return as_plain(item)
