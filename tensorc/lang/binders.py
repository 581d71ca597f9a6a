"""What takes indices in brackets: reductions, `let` and `result`; and storage types, indices.

Each is the `.tc` form with Python's brackets: `sum[d, f16](x where c)` is
`tc.sum[d, tc.f16](x, where=c)`, `p: f16[i] = x` is `p = tc.let[i](x, dtype=tc.f16)`.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from tensorc.ir.dtypes import BOOL, DType
from tensorc.ir.syntax import Binding, Convert, Reduction
from tensorc.lang import names
from tensorc.lang.spot import Spot, here, raised
from tensorc.lang.tensors import Definition, Index, Tensor, defined
from tensorc.lang.value import Expr, Operand, apply, joint_owner, kind_of, taken

_NUMBERS = count(1)


class Cast:
    """A storage type: `tc.f16(x)` rounds x there; also what `dtype=` and accumulators take."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, x: Operand) -> Expr:
        spot = here()
        return converted(self.dtype, x, False, spot)

    def __repr__(self) -> str:
        return f"tc.{self.dtype.name}"


Bound: TypeAlias = Index | Cast


class Fold:
    """A reduction over named indices: `tc.sum[i, j](x, where=c)`, `tc.sum[k, tc.i32](x)`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, key: Bound | tuple[Bound, ...]) -> Over:
        """The reduction over these indices; a storage type at the end is the accumulator's."""
        spot = here()
        parts = key if isinstance(key, tuple) else (key,)
        last = parts[-1] if parts else None
        dtype = last.dtype if isinstance(last, Cast) else None
        indices = parts if dtype is None else parts[:-1]
        if not indices:
            raise self._nothing(spot)
        return Over(self.name, _bindings(indices, f"tc.{self.name}", spot), dtype)

    if not TYPE_CHECKING:  # to a type checker a reduction without indices is no call at all

        def __call__(self, *operands: object, **options: object) -> Expr:
            raise self._nothing(here())

    def _nothing(self, spot: Spot) -> Exception:
        return raised("E115", spot, reducer=self.name, prefix="tc.")

    def __repr__(self) -> str:
        return f"tc.{self.name}"


class Extreme(Fold):
    """`tc.max[i](x)` reduces; `tc.max(a, b)` is the larger of two or more values."""

    __slots__ = ()

    def __call__(self, *operands: Operand, where: Operand | None = None) -> Expr:
        """The extreme of two or more values, as the reduction treats NaN and zeros."""
        if len(operands) < 2 or where is not None:
            raise self._nothing(here())
        return apply(self.name, *operands)


class Over:
    """A reduction that knows its indices, ready for its body."""

    __slots__ = ("name", "indices", "dtype")

    def __init__(self, name: str, indices: tuple[Binding, ...], dtype: DType | None) -> None:
        self.name, self.indices, self.dtype = name, indices, dtype

    def __call__(self, x: Operand, where: Operand | None = None) -> Expr:
        """The reduction of `x` over the elements where `where` holds."""
        spot = here()
        body = taken(x, spot)
        only = None if where is None else taken(where, spot)
        owner = joint_owner([body] if only is None else [body, only], spot)
        condition = None if only is None else only.syntax
        syntax = Reduction(self.name, self.indices, self.dtype, body.syntax, condition, spot)
        return Expr(syntax, self.name in ("any", "all"), False, owner)


class Naming:
    """`tc.let[i, j](x)`: a tensor by name, to be read under other indices or rounded once."""

    __slots__ = ("_result",)

    def __init__(self, result: bool) -> None:
        self._result = result

    def __getitem__(self, key: Index | tuple[Index, ...]) -> Left:
        """The left side: the order of the tensor's dimensions. `[()]` names a scalar."""
        spot = here()
        parts = key if isinstance(key, tuple) else (key,)
        return Left(_bindings(parts, str(self), spot), self._result)

    if not TYPE_CHECKING:

        def __call__(self, *operands: object, **options: object) -> Tensor:
            do = f"write {self}[i, j](...), and {self}[()](...) for a scalar"
            raise raised("E115", here(), reducer=self, prefix="", do=do)

    def __repr__(self) -> str:
        return "tc.result" if self._result else "tc.let"


class Left:
    """A left side, ready for what it names."""

    __slots__ = ("_bindings", "_result")

    def __init__(self, bindings: tuple[Binding, ...], result: bool) -> None:
        self._bindings, self._result = bindings, result

    def __call__(self, x: Operand, dtype: Cast | None = None, name: str = "") -> Tensor:
        """The tensor of these elements.

        `dtype` rounds each of them once. `name` is how the tensor is called in printed programs and
        reports, with a number added where another tensor has the name.
        """
        spot = here()
        body = taken(x, spot)
        stored = None if dtype is None else dtype_of(dtype, spot)
        if name:
            names.accept(name, spot)
        number = next(_NUMBERS)
        return defined(Definition(self._bindings, body, stored, name, self._result, number, spot))


def indices(text: str) -> tuple[Index, ...]:
    """One index for each name in `text`, separated by blanks or commas.

    Raises NotationError (E106, E117) for what is no name of the language.
    """
    spot = here()
    found = tuple(text.replace(",", " ").split())
    for name in found:
        names.accept(name, spot)
    return tuple(Index(name) for name in found)


def index(text: str) -> Index:
    """One index, with a size of its own if stated: `tc.index("i")`, `tc.index("r=3")`.

    Raises NotationError for what is neither a name nor a name and a size.
    """
    spot = here()
    name, size = names.dimension(text, spot)
    return Index(name, size)


def converted(dtype: DType, x: object, bits: bool, spot: Spot) -> Expr:
    """x as `dtype`: rounded, or with `bits` its bits read as that type."""
    arg = taken(x, spot)
    return Expr(Convert(dtype, arg.syntax, bits, spot), dtype is BOOL, False, arg.owner)


def dtype_of(item: object, spot: Spot) -> DType:
    """The storage type of `tc.f16`; E114 for another library's type."""
    if isinstance(item, Cast):
        return item.dtype
    raise raised("E114.dtype", spot, type=repr(item))


def _bindings(parts: tuple[object, ...], what: str, spot: Spot) -> tuple[Binding, ...]:
    """The indices in brackets; E114 for anything else."""
    for part in parts:
        if not isinstance(part, Index):
            raise raised("E114.index", spot, type=kind_of(part), form=what)
    return tuple(part.binding(spot) for part in parts if isinstance(part, Index))
