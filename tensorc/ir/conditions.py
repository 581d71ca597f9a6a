"""Conditions as alternatives of inequalities between integers, and what they are made of.

A case is a tuple of polynomials that are all >= 0; a condition is a tuple of cases, one of which
holds. Comparisons become cases in `ir.integers`, which knows what their sides are worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensorc.ir.dtypes import BOOL
from tensorc.ir.node import fact
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Apply, Expr, Literal, value_type

Case = tuple[Polynomial, ...]  # every one of these is >= 0
MOST_CASES = 12
_MANY = 1 << 30
COMPARED = frozenset("lt le gt ge eq ne".split())
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def conjuncts(condition: Expr, holds: bool = True) -> tuple[tuple[Expr, bool], ...]:
    """The parts of a condition that all hold (or all fail) where it does (or does not), each
    once."""
    found: dict[tuple[Expr, bool], None] = {}
    seen: set[tuple[Expr, bool]] = set()
    stack = [(condition, holds)]
    while stack:
        part = stack.pop()
        if part in seen:
            continue
        seen.add(part)
        match part:
            case Apply(function, args), True if function.name == "and":
                stack += [(arg, True) for arg in reversed(args)]
            case Apply(function, args), False if function.name == "or":
                stack += [(arg, False) for arg in reversed(args)]
            case Apply(function, (arg,)), truth if function.name == "not":
                stack.append((arg, not truth))
            case _:
                found[part] = None
    return tuple(found)


@fact
def on_integers(condition: Expr) -> bool:
    """Whether a condition is made of comparisons of integers alone."""
    match condition:
        case Literal():
            return True
        case Apply(function, args) if function.name in ("and", "or", "not"):
            return all(on_integers(arg) for arg in args)
        case Apply(function, args):
            return function.name in COMPARED and all(map(is_integer, args))
        case _:
            return False


def whole_cases(condition: Expr, holds: bool) -> bool:
    """Whether `Integers.cases` says all that the condition (or its negation) does."""
    return _alternatives(condition)[not holds] <= MOST_CASES


@fact
def _alternatives(condition: Expr) -> tuple[int, int]:
    """How many cases the condition and its negation have; many where it is not on integers."""
    match condition:
        case Literal():
            return 1, 1
        case Apply(function, (arg,)) if function.name == "not":
            yes, no = _alternatives(arg)
            return no, yes
        case Apply(function, args) if function.name in ("and", "or"):
            parts = [_alternatives(arg) for arg in args]
            every = function.name == "and"
            products = [min(_MANY, prod(part[at] for part in parts)) for at in (0, 1)]
            sums = [min(_MANY, sum(part[at] for part in parts)) for at in (0, 1)]
            return (products[0], sums[1]) if every else (sums[0], products[1])
        case Apply(function, _) if on_integers(condition):
            return {"eq": (1, 2), "ne": (2, 1)}.get(function.name, (1, 1))
        case _:
            return _MANY, _MANY


def comparisons(condition: Expr) -> list[Expr]:
    """The comparisons that a condition on integers is made of, each once."""
    found: list[Expr] = []
    seen: set[Expr] = set()
    stack = [condition]
    while stack:
        part = stack.pop()
        if part in seen:
            continue
        seen.add(part)
        if isinstance(part, Apply) and part.function.name in ("and", "or", "not"):
            stack += reversed(part.args)
        else:
            found.append(part)
    return found


def compared(name: str, gap: Polynomial) -> tuple[Case, ...]:
    """The cases of a `name` b, where gap = b - a."""
    match name:
        case "lt":
            return ((gap - 1,),)
        case "le":
            return ((gap,),)
        case "gt":
            return ((-gap - 1,),)
        case "ge":
            return ((-gap,),)
        case "eq":
            return ((gap, -gap),)
        case _:
            return (gap - 1,), (-gap - 1,)


def all_of(parts: Sequence[tuple[Case, ...] | None]) -> tuple[Case, ...] | None:
    """Every part: parts that say nothing are left out."""
    known = [part for part in parts if part is not None]
    total: tuple[Case, ...] = ((),)
    for part in known:
        if len(total) * len(part) <= MOST_CASES:
            total = tuple((*a, *b) for a in total for b in part)
    return total if known else None


def one_of(parts: Sequence[tuple[Case, ...] | None]) -> tuple[Case, ...] | None:
    """Some part: one that says nothing makes the whole say nothing."""
    total: list[Case] = []
    for part in parts:
        if part is None or len(total) + len(part) > MOST_CASES:
            return None
        total += part
    return tuple(total)


def is_integer(expr: Expr) -> bool:
    """Whether an expression is an integer or a bool."""
    return value_type(expr).integral or value_type(expr) is BOOL
