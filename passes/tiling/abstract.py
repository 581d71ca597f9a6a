"""What a value is where a mask is false: enough to see that nothing is added there.

A masked score is -inf; what exponentials, sums with finite numbers and products make of it follows.
Values that do not depend on the masked index are taken to be finite: where they are not, so is the
result. A factor that a mask made 0 annihilates, as everywhere in the language's `fast` arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tensorc.ir.tensor import Apply, Cast, Expr, Literal, Round, Select, free_indices


class Masked(Enum):
    """A value on masked lanes."""

    LOWEST = "-inf"
    ZERO = "0"
    FINITE = "finite"
    POSITIVE = "finite and above 0"
    ANY = "anything"


def masked(expr: Expr, known: Mapping[Expr, Masked], indices: frozenset[str]) -> Masked:
    """The value of an expression on masked lanes. `known`: of some nodes; `indices`: those along
    which lanes are masked."""
    if expr in known:
        return known[expr]
    match expr:
        case Literal(value, _) if not isinstance(value, str):
            return Masked.ZERO if value == 0 else Masked.POSITIVE if value > 0 else Masked.FINITE
        case Cast(_, arg) | Round(_, arg):
            found = masked(arg, known, indices)
            return found if found in (Masked.LOWEST, Masked.ZERO) else Masked.ANY
        case Select(_, yes, no):
            both = {masked(yes, known, indices), masked(no, known, indices)}
            return both.pop() if len(both) == 1 else Masked.ANY
        case Apply(function, args):
            parts = [masked(arg, known, indices) for arg in args]
            if all(part in (Masked.FINITE, Masked.POSITIVE, Masked.ANY) for part in parts):
                return Masked.ANY if free_indices(expr) & indices else Masked.FINITE
            return _applied(function.name, parts)
        case _:
            return Masked.ANY if free_indices(expr) & indices else Masked.FINITE


def _applied(name: str, parts: list[Masked]) -> Masked:
    """A function of masked values, one of them -inf or 0."""
    first, *rest = parts
    match name:
        case "exp" | "exp2" if first is Masked.LOWEST:
            return Masked.ZERO
        case "mul" if Masked.ZERO in parts and Masked.LOWEST not in parts:
            return Masked.ZERO
        case "mul" if all(part in (Masked.LOWEST, Masked.POSITIVE) for part in parts):
            return Masked.LOWEST if parts.count(Masked.LOWEST) == 1 else Masked.ANY
        case "div" if first is Masked.ZERO:
            return Masked.ZERO
        case "div" if first is Masked.LOWEST and rest == [Masked.POSITIVE]:
            return Masked.LOWEST
        case "sub" if first is Masked.LOWEST and rest[0] in _NUMBERS:
            return Masked.LOWEST
        case "add" if parts.count(Masked.LOWEST) == 1:
            return Masked.LOWEST if set(parts) - {Masked.LOWEST} <= _NUMBERS else Masked.ANY
        case _:
            return Masked.ANY


_NUMBERS = {Masked.FINITE, Masked.POSITIVE, Masked.ZERO}
