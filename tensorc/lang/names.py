"""Names and sizes given as Python strings: of indices, operators and definitions."""

from __future__ import annotations

from dataclasses import replace

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import fault
from tensorc.ir.expression import ARITH, Parser
from tensorc.ir.source import Place, Source
from tensorc.ir.syntax import Syntax
from tensorc.ir.tokens import one_statement


def accept(name: str, place: Place) -> None:
    """Raise NotationError at `place` unless the language allows the name (E106, E108, E117)."""
    _read(name, place, sized=False)


def dimension(text: str, place: Place) -> tuple[str, Syntax | None]:
    """`name` or `name=size`: the name and the size. NotationError at `place` for anything else."""
    return _read(text, place, sized=True)


def _read(text: str, place: Place, sized: bool) -> tuple[str, Syntax | None]:
    source = Source("<name>", text)
    try:
        line = one_statement(source)
        if line.fault is not None:
            raise NotationError([line.fault])
        parser = Parser(source, line.tokens)
        name = parser.name().text
        size = parser.whole(ARITH) if sized and parser.accept("=") else None
        if size is None and parser.token.kind != "end":
            what = "a name, or name=size" if sized else "a name"
            raise NotationError([fault("E108", place, what=what, token=f'"{text}"')])
        parser.finish()
    except NotationError as error:
        raise NotationError([replace(item, span=place) for item in error.diagnostics]) from None
    return name, size
