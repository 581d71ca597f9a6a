"""A position among the tokens of one statement, and the faults of syntax at it.

Every reader (files, expressions, level 2) is built on it: look, consume, fail with E108.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import fault, filled
from tensorc.ir.dtypes import BY_NAME, DType
from tensorc.ir.entry import Message
from tensorc.ir.names import RESERVED, like_dtype
from tensorc.ir.source import Diagnostic, Place, Range, Source
from tensorc.ir.tokens import Token

_INSTEAD = {
    "if": "write select(condition, a, b)",
    "else": "write select(condition, a, b)",
    "where": "a condition stands in a reduction, sum[i](... where c), or write select(c, a, b)",
    "for": "an equation holds for every value of its indices; it needs no loop",
    "=": "equality is ==",
    "not": "put brackets around not ...",
    "[": "name the value in an equation of its own, then read it at subscripts",
    "(": "multiplication is written *",
    ")": "no ( is open here",
    "]": "no [ is open here",
    "==": "an equation is written with =",
}


class Cursor:
    """Walks over tokens; methods raise NotationError at the first fault of syntax.

    Faults that leave the structure clear (an unknown function, a planned form) are kept, and
    raised by `finish`.
    """

    def __init__(self, source: Source, tokens: Sequence[Token]) -> None:
        self.source = source
        last = tokens[-1].end if tokens else 0
        self._tokens = (*tokens, Token("end", "", last, last))
        self._index = 0
        self._kept: Diagnostic | None = None

    @property
    def token(self) -> Token:
        """The next token; kind "end" after the last."""
        return self._tokens[self._index]

    def at(self, text: str) -> bool:
        """Whether the next token is `text`; the empty text is the end."""
        return self.token.text == text

    def peek(self, ahead: int = 1) -> Token:
        """The token `ahead` places after the next one."""
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Consume one token."""
        token = self._tokens[self._index]
        self._index = min(self._index + 1, len(self._tokens) - 1)
        return token

    def accept(self, text: str) -> Token | None:
        """Consume the next token if it is `text`."""
        return self.next() if self.token.text == text else None

    def expect(self, text: str, what: str = "") -> Token:
        """Consume `text`, or fail with E108; `what` says what else could have stood here."""
        return self.accept(text) or self.unexpected(what or text)

    def name(self, what: str = "a name") -> Token:
        """Consume a name that is not reserved (E117)."""
        token = self.token
        if token.kind != "name":
            self.unexpected(what)
        if token.text in RESERVED:
            self.fail("E117", token, name=token.text)
        return self.next()

    def dtype(self) -> DType:
        """Consume the name of a storage type."""
        found = BY_NAME.get(self.token.text)
        if found is None:
            self.unexpected("a dtype", do=like_dtype(self.token.text))
        self.next()
        return found

    def where(self, token: Token) -> Range:
        """The characters of one token."""
        return Range(self.source, token.start, token.end)

    def since(self, token: Token) -> Range:
        """From the start of `token` to the end of the last one consumed."""
        return Range(self.source, token.start, self._tokens[max(0, self._index - 1)].end)

    def fail(self, code: str, at: Token, *, do: str = "", **fields: object) -> NoReturn:
        """Raise the fault `code` at a token."""
        raise NotationError([filled(code, self.where(at), fields, Message("", do=do))])

    def unexpected(self, what: str, do: str = "") -> NoReturn:
        """Raise E108 at the next token: `what` was expected there."""
        token = self.token
        found = "the end of the line" if token.kind == "end" else _cut(token.text)
        self.fail("E108", token, what=what, token=found, do=do or self._instead(token))

    def _instead(self, token: Token) -> str:
        """What to write instead of a token that other languages have here."""
        if token.text == ":":
            if self.peek().kind == "end":
                return "leave the colon out"
            return "there are no slices: read at an index, x[i + 1]"
        return _INSTEAD.get(token.text, "")

    def keep(self, item: Diagnostic) -> None:
        """Remember a fault that leaves the structure clear; `finish` raises the first."""
        self._kept = self._kept or item

    def finish(self, what: str = "an operator or the end of the line") -> None:
        """Raise what is left: tokens after the end (E108), then the first fault that was kept."""
        if self.token.kind != "end":
            value = self.token.kind in ("name", "number") and self.token.text not in RESERVED
            self.unexpected(what, do="multiplication is written *" if value else "")
        if self._kept is not None:
            raise NotationError([self._kept])

    def planned(self, token: Token, form: str, core: str) -> None:
        """Keep E118: `form`, from `token` on, is planned; `core` says what to write today."""
        self.keep(fault("E118", self.since(token), form=form, core=core))


def shown(place: Place) -> str:
    """The first line of the text at a place, cut where it is long."""
    span = place.resolve()
    end = span.end_column - 1 if span.end_line == span.line else None
    return _cut(span.source.line(span.line)[span.column - 1 : end])


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
