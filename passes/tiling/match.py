"""Find how an instruction does a product of two factors: which axes play which of its roles.

A role of an instruction is known by where it occurs, and an index of a statement likewise:

    d[m, n] = d + sum[k](a[m, k] * b[k, n])      m in a, d;  n in b, d;  k in a, b
    C[b, x, y] = sum[z](B[b, z, y] * A[b, x, z]) x in A, C;  y in B, C;  z in A, B;  b everywhere

So a role is played by a group of indices, in whatever order tensors have them, and what has no
role (batches, sums over one factor) runs with one lane. Both orders of the factors are tried.
Nothing is decided here about sizes, spaces or loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tensorc.ir.conditions import conjuncts
from tensorc.ir.dtypes import F32, DType
from tensorc.ir.functions import SUM
from tensorc.ir.tensor import Apply, Cast, Expr, Read, Reduce, Round, free_indices, value_type
from tensorc.machine.instruction import Instruction, Slot
from tensorc.passes.canonicalise import call
from tensorc.passes.fusion.inline import Unfused

Groups = Mapping[str, tuple[str, ...]]  # role to indices
Conditions = tuple[Expr, ...]


@dataclass(frozen=True)
class Factor:
    """One factor of a product: its value, the type in which it is stored for the instruction, and
    conditions without which it counts as 0."""

    value: Expr
    dtype: DType
    conditions: tuple[Expr, ...] = ()

    @property
    def indices(self) -> frozenset[str]:
        """Those on which the factor or its conditions depend."""
        return free_indices(self.value).union(*map(free_indices, self.conditions))


@dataclass(frozen=True)
class Product:
    """sum over `reduced` of first * second."""

    first: Factor
    second: Factor
    reduced: tuple[str, ...]

    @property
    def factors(self) -> tuple[Factor, Factor]:
        """Both, in the order of the instruction's operands."""
        return self.first, self.second

    def swapped(self) -> Product:
        """The same product with its factors exchanged."""
        return Product(self.second, self.first, self.reduced)


@dataclass(frozen=True)
class Match:
    """A product in the order of the instruction's operands, and who plays which role."""

    product: Product
    groups: Groups


def product(
    item: Reduce, indices: tuple[str, ...], body: Expr, where: Expr | None,
    guarded: Callable[[Factor, Conditions], Conditions] | None = None,
) -> Product:  # fmt: skip
    """A reduction as a product of two factors. `indices`, `body`, `where`: as its pass has them.

    Every factor that has all indices of a condition counts as 0 where that fails. `guarded`: where
    the products are 0 anyway, the conditions that a factor needs nonetheless.
    Raises Unfused, saying why, where it is no such product.
    """
    if item.reducer is not SUM:
        raise Unfused(f"{item.reducer} is no sum of products")
    if value_type(item) is not F32:
        raise Unfused(f"sums are {value_type(item)}, those of products of matrices are f32")
    match widened(body):
        case Apply(function, (a, b)) if function.name == "mul":
            factors = tuple(Factor(_operand(part), _stored(part)) for part in (a, b))
        case Apply(function, args) if function.name == "mul":
            raise Unfused(
                f"a sum is one of products of {len(args)} factors; name all but one of them as one "
                "intermediate of type f16 or bf16 to use the tensor core"
            )
        case _:
            raise Unfused("a sum is not one of products of two factors")
    conditions = () if where is None else tuple(_conditions(where))
    joined = [c for c in conditions if not any(_has(factor, c) for factor in factors)]
    if joined and guarded is None:
        raise Unfused("a condition joins indices of both factors")
    factors = tuple(replace(f, conditions=_own(f, conditions, guarded)) for f in factors)
    first, second = factors
    return Product(first, second, indices)


def _own(
    factor: Factor, conditions: Conditions,
    guarded: Callable[[Factor, Conditions], Conditions] | None,
) -> Conditions:  # fmt: skip
    """The conditions under which a factor does not count as 0."""
    own = tuple(condition for condition in conditions if _has(factor, condition))
    return own if guarded is None else guarded(factor, own)


def _has(factor: Factor, condition: Expr) -> bool:
    return free_indices(condition) <= free_indices(factor.value)


def _conditions(where: Expr) -> Iterator[Expr]:
    """The parts of a condition that all hold where it does."""
    for part, holds in conjuncts(where):
        yield part if holds else call("not", part)


def widened(expr: Expr) -> Expr:
    """The expression without conversions of f32 to f32."""
    while isinstance(expr, Cast) and expr.dtype is F32 and value_type(expr.arg) is F32:
        expr = expr.arg
    return expr


def _operand(part: Expr) -> Expr:
    """A factor's value before it is rounded to storage."""
    part = widened(part)
    return part.arg if isinstance(part, Cast | Round) else part


def _stored(part: Expr) -> DType:
    """The narrowest type that holds a factor as it is."""
    match widened(part):
        case Read(tensor, _):
            return tensor.dtype
        case Cast(dtype, _) | Round(dtype, _):
            return dtype
        case other:
            return value_type(other)


def unify(found: Instruction, item: Product, result: tuple[str, ...]) -> Match:
    """Who plays which role of an instruction for products in `item`, a value at `result`.

    Raises Unfused, saying why, where neither order of the factors has all roles.
    """
    reasons: list[str] = []
    for order in (item, item.swapped()):
        groups = _groups(found, order, result)
        reason = _missing(found, groups) or _types(found.operands, order.factors)
        if not reason:
            return Match(order, groups)
        reasons.append(reason)
    raise Unfused(reasons[0])


def _groups(found: Instruction, item: Product, result: tuple[str, ...]) -> Groups:
    """Every role with the indices that occur exactly where it does, in the statement's order."""
    places = {slot.name: factor.indices for slot, factor in zip(
        found.operands, item.factors, strict=True)}  # fmt: skip
    places[found.result.name] = frozenset(result)
    every = dict.fromkeys((*result, *item.reduced))

    def occurs(index: str) -> frozenset[str]:
        return frozenset(name for name, indices in places.items() if index in indices)

    slots = (found.result, *found.operands)
    return {
        role.name: tuple(
            index
            for index in every
            if occurs(index) == frozenset(slot.name for slot in slots if role.name in slot.roles)
        )
        for role in found.roles
    }


def _missing(found: Instruction, groups: Groups) -> str:
    """Why a role has nobody to play it; "": all are played."""
    for role in found.roles:
        if not groups[role.name]:
            slots = [s.name for s in (found.result, *found.operands) if role.name in s.roles]
            return f"no index is shared by {' and '.join(slots)} alone, as {role.name} of " + (
                f"{found.name} is"
            )
    return ""


def _types(slots: tuple[Slot, ...], factors: tuple[Factor, ...]) -> str:
    """Why the instruction does not take the factors' types; "": it does."""
    for slot, factor in zip(slots, factors, strict=True):
        if factor.dtype not in slot.dtypes:
            wanted = " or ".join(map(str, slot.dtypes))
            return f"a factor is {factor.dtype}; declare it {wanted} to use the tensor core"
    one, *others = dict.fromkeys(str(factor.dtype) for factor in factors)
    return f"the factors are {one} and {others[0]}" if others else ""
