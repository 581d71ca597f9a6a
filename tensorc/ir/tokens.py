"""Characters to tokens, and lines to statements. Knows no grammar beyond brackets.

A statement ends with its line, except inside brackets and before a line that starts with `->`.
Inside brackets a line must be deeper than the statement or start with a closing bracket; anything
else shows that a bracket was never closed, and starts the next statement.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tensorc.ir.diagnostics import fault
from tensorc.ir.source import Diagnostic, Range, Source

LONGEST_NAME = 64


class Token(NamedTuple):
    """Kind "name", "number", "mark", "newline", "end" or "bad" (a character not allowed)."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Line:
    """One statement: its tokens without the line's end, its column (from 0), its first fault."""

    tokens: tuple[Token, ...]
    indent: int
    fault: Diagnostic | None


_PATTERN = r"""
    (?P<space>[ \t]+|\#[^\n]*)
  | (?P<newline>\r?\n)
  | (?P<number>
        {exact}
        (?: 0[xX][0-9a-fA-F]+ (?: (?:\.(?!\.)[0-9a-fA-F]*)? [pP][+-]?[0-9]+ )?
          | [0-9]+ (?:\.(?!\.)[0-9]*)? (?:[eE][+-]?[0-9]+)? [jJ]?
          | \.[0-9] )
        (?:[A-Za-z0-9_]|\.(?!\.))*
    )
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*'*)
  | (?P<mark>->|\*\*|//|<<|>>|<=|>=|==|!=|\.\.|[-+*/%&|^~<>=()\[\],:@])
"""
_USER = re.compile(_PATTERN.format(exact=""), re.VERBOSE)
_COMPILER = re.compile(_PATTERN.format(exact=r"[0-9]+(?:/[0-9]+)?'j? |"), re.VERBOSE)
_WORD = re.compile(r"(?:[A-Za-z0-9_]|[^\x00-\x7f\s])*")
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")

CLOSING = {"(": ")", "[": "]"}
_OPENING = {")": "(", "]": "["}

# What people paste, and what the language spells instead.
_SPELLED = {
    "\u2212": "-", "\u2013": "-", "\u00d7": "*", "\u00b7": "*", "\u2217": "*", "\u00f7": "/",
    "\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u2192": "->", "\u221e": "inf",
    "\u03c0": "pi", "\u2211": "sum[i](...)", "\u2227": "and", "\u2228": "or", "\u00ac": "not",
    "\u00a0": "a plain space", "\u3000": "a plain space", "!": "not", "\u00b2": "** 2",
    ".": "|i| for the extent of i", ";": "one equation a line", "$": "a name without it",
}  # fmt: skip


def scan(source: Source, primes: bool = False) -> Iterator[Token]:
    """The tokens of a source, line ends among them, spaces and comments not.

    `primes` allows the compiler's own spellings: names that end in ' and exact numbers `1/3'`.
    """
    text, position = source.text, 0
    pattern = _COMPILER if primes else _USER
    while position < len(text):
        match = pattern.match(text, position)
        kind = match.lastgroup if match else None
        end = match.end() if match else position
        if kind in (None, "name", "number") and end < len(text) and _foreign(text[end]):
            kind, end = "bad", _word_end(text, position)
        elif match is None or (kind == "space" and _DIRECTION.search(text, position, end)):
            kind, position, end = "bad", *_one_bad(text, position)
        if kind != "space":
            yield Token(str(kind), text[position:end], position, end)
        position = end


def _foreign(char: str) -> bool:
    return char > "\x7f" and not char.isspace()


def _word_end(text: str, position: int) -> int:
    found = _WORD.match(text, position)
    return max(position + 1, found.end() if found else 0)


def _one_bad(text: str, position: int) -> tuple[int, int]:
    """The bad character at or after `position` (inside a comment it comes later)."""
    found = _DIRECTION.search(text, position) if text[position] in " \t#" else None
    start = found.start() if found else position
    return start, start + 1


def check_token(source: Source, token: Token, primes: bool) -> Diagnostic | None:
    """E106: a character that is not allowed, a name too long or the compiler's own."""
    where = Range(source, token.start, token.end)
    if token.kind == "bad":
        return _bad(token.text, where)
    name = token.text.rstrip("'")
    if token.kind != "name" or (len(name) <= LONGEST_NAME and (primes or name == token.text)):
        return None
    if len(name) > LONGEST_NAME:
        return fault("E106.long", where, text=f"{name[:20]}...", length=len(name))
    return fault("E106.prime", where, text=_shortened(token.text))


def _bad(text: str, where: Range) -> Diagnostic:
    points = list(dict.fromkeys(c for c in text if c > "\x7f" or len(text) == 1))
    shown = ", ".join(f"U+{ord(c):04X}" for c in points[:4])
    spelled = _SPELLED.get(text[0]) if len(text) == 1 else None
    if spelled:
        return fault("E106", where, text=text, points=shown, do=f"write {spelled}")
    named = any(c.isalnum() or c == "_" for c in text)
    code = "E106.name" if named else "E106"
    return fault(code, where, text=_shortened(text), points=shown + _names(points))


def _names(points: list[str]) -> str:
    """The Unicode name of a single character, which tells a look-alike from its original."""
    name = unicodedata.name(points[0], "") if len(points) == 1 else ""
    return f" {name.lower()}" if name else ""


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def statements(source: Source, primes: bool = False) -> list[Line]:
    """The statements of a source, each with its first fault of characters or brackets."""
    lines: list[Line] = []
    open_line: _Open | None = None
    line_start, fresh = 0, True
    for token in scan(source, primes):
        if token.kind == "newline":
            line_start, fresh = token.end, True
            continue
        indent = len(source.text[line_start : token.start].expandtabs(8)) if fresh else 0
        if open_line is None or (fresh and not open_line.continues(token, indent)):
            lines += [open_line.line()] if open_line else []
            open_line = _Open(source, indent, primes)
        fresh = False
        open_line.add(token)
    return [*lines, open_line.line()] if open_line else lines


def one_statement(source: Source, primes: bool = False) -> Line:
    """The whole source as one statement: line ends count as spaces."""
    whole = _Open(source, 0, primes)
    for token in scan(source, primes):
        if token.kind != "newline":
            whole.add(token)
    return whole.line()


class _Open:
    """A statement while its lines are collected."""

    def __init__(self, source: Source, indent: int, primes: bool) -> None:
        self.source, self.indent, self.primes = source, indent, primes
        self.tokens: list[Token] = []
        self.brackets: list[Token] = []
        self.count = dict.fromkeys(CLOSING, 0)  # of the open brackets, by kind
        self.fault: Diagnostic | None = None

    def continues(self, token: Token, indent: int) -> bool:
        """Whether a line that starts with `token` belongs to this statement."""
        inside = self.brackets and (indent > self.indent or token.text in _OPENING)
        return bool(inside) or token.text == "->"

    def add(self, token: Token) -> None:
        self.tokens.append(token)
        self.fault = self.fault or check_token(self.source, token, self.primes)
        if token.text in CLOSING:
            self.brackets.append(token)
            self.count[token.text] += 1
        elif token.text in _OPENING:
            self._close(_OPENING[token.text])
        elif token.text == "->" and self.brackets:  # an arrow never stands in brackets
            self._unclosed()

    def _close(self, opening: str) -> None:
        if not self.count[opening]:
            return  # closes nothing: the grammar will say so
        if self.brackets[-1].text != opening:
            self._unclosed()
        while self._pop().text != opening:
            pass

    def _pop(self) -> Token:
        bracket = self.brackets.pop()
        self.count[bracket.text] -= 1
        return bracket

    def _unclosed(self) -> None:
        bracket = self.brackets[-1]
        where = Range(self.source, bracket.start, bracket.end)
        closing = CLOSING[bracket.text]
        found = fault("E109", where, bracket=bracket.text, closing=closing)
        self.fault = self.fault or found
        if self.tokens[-1].text == "->":
            self.brackets.clear()
            self.count = dict.fromkeys(CLOSING, 0)

    def line(self) -> Line:
        if self.brackets:
            self._unclosed()
        return Line(tuple(self.tokens), self.indent, self.fault)
