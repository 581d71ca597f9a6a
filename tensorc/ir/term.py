"""What operations compute, for interpreters that do not care: terms by default.

A meaning is a function of an operation's name, tile, iteration and arguments. An operation that
makes several values returns a tuple, one for each; anything else is taken apart by terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tensorc.ir.channel import COPY, SIGNAL, START
from tensorc.ir.node import Node, node

Meaning = Callable[[str, int, int, tuple[object, ...]], object]


@node
class Term(Node):
    """The result of an operation instance, as the expression that computes it."""

    operation: str
    tile: int
    iteration: int
    arguments: tuple[object, ...]


def symbolic(operation: str, tile: int, at: int, arguments: tuple[object, ...]) -> object:
    """The default meaning: the term itself."""
    return Term(operation, tile, at, arguments)


def apply(
    meaning: Meaning,
    operation: str,
    tile: int,
    at: int,
    arguments: tuple[object, ...],
    names: tuple[str, ...],
) -> tuple[object, ...]:
    """The values that an operation instance makes: as many as `names`, but at least one.

    A start value is asked for as operation `start NAME`.
    """
    if operation == COPY:
        return arguments
    if operation == SIGNAL:
        return (None,)
    if operation == START:
        return tuple(meaning(f"{START} {name}", tile, at, ()) for name in names)
    value = meaning(operation, tile, at, arguments)
    if len(names) < 2:
        return (value,)
    if isinstance(value, tuple):
        return cast("tuple[object, ...]", value)
    return tuple(Term(name, tile, at, (value,)) for name in names)
