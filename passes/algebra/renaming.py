"""Expressions of level 1 under other index names."""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.ir.node import Node, rebuild
from tensorc.ir.print_tensor import show
from tensorc.ir.tensor import Expr, Position, Read, Reduce, free_indices

Names = Mapping[str, str]  # index names here to index names there


class Unsuitable(Exception):
    """The program has something that terms cannot say; it stays as it is."""


def renamed(expr: Expr, names: Names, reads: dict[Read, set[Read]]) -> Expr:
    """`expr` with its free indices under other names; every read is noted with its new form."""
    match expr:
        case Position(index):
            return Position(names.get(index, index))
        case Reduce(_, indices, _, _, _):
            inner = {old: new for old, new in names.items() if old not in indices}
            caught = {inner[name] for name in free_indices(expr) if name in inner}
            if caught & set(indices) and not expr.reducer.keeps:
                raise Unsuitable(f"{show(expr)} would capture an index")
            return rebuild(expr, lambda item: _renamed(item, inner, reads))
        case _:
            made = rebuild(expr, lambda item: _renamed(item, names, reads))
            if isinstance(expr, Read) and isinstance(made, Read):
                reads.setdefault(expr, set()).add(made)
            return made


def _renamed(item: Node, names: Names, reads: dict[Read, set[Read]]) -> Node:
    return renamed(item, names, reads) if isinstance(item, Expr) else item
