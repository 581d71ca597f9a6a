"""What operations compute, for interpreters that do not care: terms by default.

A meaning is a function of an operation's name, tile, iteration and arguments. An operation that
makes several values returns a tuple, one for each; anything else is taken apart by terms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tensorc.ir.channel import COPY, SIGNAL, START, Perform, Put, Result
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
    meaning: Meaning, item: Perform | Put, tile: int, at: int, arguments: tuple[object, ...]
) -> tuple[object, ...]:
    """The values that a statement makes in iteration `at`: one for each result, but at least one.

    A start value is asked for as operation `start REGISTERS`: whatever version of a value or copy
    of it lies there first, it starts alike.
    """
    operation = item.call.operation
    results = item.results if isinstance(item, Perform) else ()
    if operation == COPY:
        return arguments
    if operation == SIGNAL:
        return (None,)
    if operation == START:
        return tuple(meaning(f"{START} {started(result)}", tile, at, ()) for result in results)
    value = meaning(operation, tile, at, arguments)
    if len(results) < 2:
        return (value,)
    if isinstance(value, tuple):
        return cast("tuple[object, ...]", value)
    return tuple(Term(result.name, tile, at, (value,)) for result in results)


def started(result: Result) -> str:
    """The value whose start value a result starts with: a copy is called value@role."""
    return result.into.partition("@")[0]
