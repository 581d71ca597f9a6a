"""Names and sizes given as Python strings: of indices, operators and definitions."""

from __future__ import annotations

from dataclasses import replace

from tensorc.errors import NotationError
from tensorc.ir.expression import ARITH, Parser
from tensorc.ir.source import Place, Source
from tensorc.ir.syntax import Syntax
from tensorc.ir.tokens import one_statement


def accept(name: str, place: Place) -> None:
    """Raise NotationError at `place` unless the language allows the name (E106, E108, E117)."""
    _, size = dimension(name, place, sized=False)
    assert size is None, "a name alone has no size"


def dimension(text: str, place: Place, sized: bool = True) -> tuple[str, Syntax | None]:
    """`name`, or `name=size` where `sized`: the name and the size.

    Raises NotationError at `place` for anything else.
    """
    source = Source("<name>", text)
    try:
        line = one_statement(source)
        if line.fault is not None:
            raise NotationError([line.fault])
        parser = Parser(source, line.tokens)
        name = parser.name().text
        size = parser.whole(ARITH) if sized and parser.accept("=") else None
        parser.finish("= and a size" if sized else "the end of the name")
    except NotationError as error:
        raise NotationError([replace(item, span=place) for item in error.diagnostics]) from None
    return name, size
