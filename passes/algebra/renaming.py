"""Expressions of level 1 under other index names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tensorc.ir.node import Node, rebuild, replaced
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import Expr, Position, Read, Reduce, free_indices

N = TypeVar("N", bound=Node)
Names = Mapping[str, str]  # index names here to index names there


class Unsuitable(Exception):
    """The program has something that terms cannot say; it stays as it is."""


def renamed(expr: Expr, names: Names, reads: dict[Read, set[Read]]) -> Expr:
    """`expr` with its free indices under other names; every read is noted with its new form."""
    made = replaced(expr, lambda item: _renamed(item, names, reads))
    assert isinstance(made, Expr)
    return made


def _renamed(item: Node, names: Names, reads: dict[Read, set[Read]]) -> Node | None:
    """What a node becomes if its parts are not all there is to it."""
    match item:
        case Position(index):
            return Position(names.get(index, index))
        case Reduce(_, indices, _, _, _):
            inner = {old: new for old, new in names.items() if old not in indices}
            caught = {inner[name] for name in free_indices(item) if name in inner}
            if caught & set(indices) and not item.reducer.keeps:
                raise Unsuitable(f"{show(item)} would capture an index")
            return _parts(item, inner, reads)
        case Read():
            made = _parts(item, names, reads)
            reads.setdefault(item, set()).add(made)
            return made
        case _:
            return None


def _parts(item: N, names: Names, reads: dict[Read, set[Read]]) -> N:
    return rebuild(item, lambda part: replaced(part, lambda n: _renamed(n, names, reads)))
