"""How subscripts move with an index, and which reads need no guard."""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Apply, Expr, Literal, Position, Read, free_indices


def coefficient(expr: Expr, index: str) -> int | None:
    """c where expr = c * index + (terms free of index); None where it is not of that form."""
    if index not in free_indices(expr):
        return 0
    match expr:
        case Position():
            return 1
        case Apply(function, args):
            parts = [coefficient(arg, index) for arg in args]
            return _combined(function.name, parts, args)
        case _:
            return None


def _combined(name: str, parts: list[int | None], args: tuple[Expr, ...]) -> int | None:
    known = [part for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    if name == "add":
        return sum(known)
    if name == "sub":
        return known[0] - known[1]
    if name == "neg":
        return -known[0]
    if name == "mul":
        return _product(known, args)
    return None


def _product(parts: list[int], args: tuple[Expr, ...]) -> int | None:
    """One factor may move; the others must be integer literals."""
    total = 1
    for part, arg in zip(parts, args, strict=True):
        number = part or literal_integer(arg)
        if number is None:
            return None
        total *= number
    return total if sum(part != 0 for part in parts) == 1 else None


def literal_integer(expr: Expr) -> int | None:
    """The value of an integer literal, else None."""
    if isinstance(expr, Literal) and not isinstance(expr.value, str):
        return expr.value.numerator if expr.value.denominator == 1 else None
    return None


def is_whole(read: Read, extents: Mapping[str, Polynomial]) -> bool:
    """Every dimension is walked whole by its own index: in range wherever the indices are."""
    return all(
        isinstance(item, Position) and extents.get(item.index) is size
        for item, size in zip(read.subscripts, read.tensor.shape, strict=True)
    )
