"""Sums that every thread keeps its own part of until their loop is over.

    u[m] = l * x;  l'[m] = u + sum[n](y)

What a row's four threads add up is linear in what they hold: a carry from 0 that is only multiplied
by numbers of its row and added to may stay in four parts, whose sum is taken once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorc.ir.dtypes import F32
from tensorc.ir.functions import SUM
from tensorc.ir.tensor import Apply, Literal, Value
from tensorc.ir.tile import Carry, Frame, Let, Loop, Store
from tensorc.ir.walk_tile import expressions, reads, statements, values_in


def partial_sums(loop: Loop) -> frozenset[str]:
    """The carries of a loop that may stay in parts, by name."""
    body = [item for item in statements(loop.body) if isinstance(item, Let | Store)]
    return frozenset(c.tile.name for c in loop.carries if _in_parts(c, body))


def _in_parts(carry: Carry, body: Sequence[Let | Store]) -> bool:
    start, tile = carry.start, carry.tile
    rows = isinstance(tile.layout, Frame) and tile.axes and set(tile.axes) <= set(tile.layout.m)
    if not (isinstance(start, Literal) and start.value == 0 and rows and tile.dtype is F32):
        return False
    name, after = tile.name, f"{tile.name}'"
    for _ in body:
        readers = [item for item in body if name in reads(item)]
        item = readers[0] if len(readers) == 1 else None
        if not isinstance(item, Let):
            return False
        if item.tile.name == after:
            sum_ = item.op is SUM and item.onto is not None and item.onto.name == name
            return sum_ and name not in values_in(expressions(item)) and not _read(after, body)
        if not _scaled(item, name):
            return False
        name = item.tile.name
    return False


def _read(name: str, body: Sequence[Let | Store]) -> bool:
    return any(name in reads(item) for item in body)


def _scaled(item: Let, name: str) -> bool:
    """Whether a statement multiplies the tile by something that is not made of it."""
    match item.body:
        case Apply(function, (Value() as a, b)) if function.name == "mul" and item.op is None:
            other = b if a.tile == name else a
            return name in values_in([item.body]) and name not in values_in([other])
        case _:
            return False
