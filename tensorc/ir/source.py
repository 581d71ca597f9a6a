"""Where the user wrote it, and how to say so: sources, spans and diagnostics."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol


@dataclass(frozen=True)
class Source:
    """A text and the name under which messages cite it (a path, `<string>`, `<signature>`)."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def _lines(self) -> tuple[list[str], list[int]]:
        """The lines without their ends, and the offset at which each starts."""
        lines = self.text.split("\n")
        starts = [0]
        for line in lines[:-1]:
            starts.append(starts[-1] + len(line) + 1)
        return lines, starts

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its end, or the empty string outside the text."""
        lines, _ = self._lines
        return lines[number - 1].rstrip("\r") if 1 <= number <= len(lines) else ""

    def span(self, start: int, end: int) -> Span:
        """The span of the half-open character range [start, end)."""
        line, column = self._place(start)
        end_line, end_column = self._place(max(start, end))
        return Span(self, line, column, end_line, end_column)

    def _place(self, offset: int) -> tuple[int, int]:
        _, starts = self._lines
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1


@dataclass(frozen=True)
class Span:
    """A half-open range of characters; lines and columns count from 1."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def resolve(self) -> Span:
        """The span itself; a lazily known position computes it here (see `lang.trace`)."""
        return self

    @property
    def place(self) -> str:
        """`file:line:column`."""
        return f"{visible(self.source.name)}:{self.line}:{self.column}"

    def to(self, other: Span) -> Span:
        """From the start of this span to the end of `other`, in the same source."""
        return Span(self.source, self.line, self.column, other.end_line, other.end_column)

    def excerpt(self) -> str:
        """The line and, under it, carets below the spanned characters."""
        text = self.source.line(self.line)
        last = self.end_column if self.end_line == self.line else len(text) + 1
        head, marked = text[: self.column - 1], text[self.column - 1 : last - 1]
        window = _window(len(text), self.column - 1)
        head, marked = head[window:], marked[: 120 - (len(head) - window)] or " "
        shown = text[window : window + 120]
        return f"    {visible(shown)}\n    {' ' * width(head)}{'^' * max(1, width(marked))}"


@dataclass(frozen=True, slots=True)
class Range:
    """The half-open character range [start, end) of a source; placed when a message needs it."""

    source: Source
    start: int
    end: int

    def resolve(self) -> Span:
        """The range in lines and columns."""
        return self.source.span(self.start, self.end)


def _window(length: int, column: int) -> int:
    """First shown column of a long line: the span stays within 120 characters."""
    return 0 if length <= 120 else max(0, min(column - 40, length - 120))


def visible(text: str) -> str:
    """`text` with control, bidirectional and other invisible characters escaped."""
    return "".join(_escaped(c) for c in text)


def _escaped(char: str) -> str:
    if char == "\t":
        return " "
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"<U+{ord(char):04X}>"
    return char


def width(text: str) -> int:
    """Terminal columns of `visible(text)`: wide characters count two, combining ones none."""
    return sum(_columns(c) for c in visible(text))


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


class Place(Protocol):
    """A position that can be resolved to a span, now or only when a message needs it."""

    def resolve(self) -> Span:
        """The span."""
        ...


@dataclass(frozen=True)
class Head:
    """The first word of a place, `name`, where the text there begins with it: `x` of `x[i]`."""

    whole: Place
    name: str

    def resolve(self) -> Span:
        """The span of the word, else of the whole."""
        span = self.whole.resolve()
        if not span.source.line(span.line)[span.column - 1 :].startswith(self.name):
            return span
        return Span(span.source, span.line, span.column, span.line, span.column + len(self.name))


@dataclass(frozen=True)
class Diagnostic:
    """One fault: code, where, one sentence, then the facts and what to do.

    `related` are further places with a word each ("declared here").
    """

    code: str
    message: str
    span: Place | None = None
    found: str = ""
    allowed: str = ""
    do: str = ""
    related: tuple[tuple[str, Place], ...] = ()

    def __str__(self) -> str:
        span = self.span.resolve() if self.span else None
        at = f" at {span.place}" if span else ""
        lines = [f"TC-{self.code}{at}: {visible(self.message)}"]
        if span:
            lines.append(span.excerpt())
        for name, value in (("found", self.found), ("allowed", self.allowed), ("do", self.do)):
            if value:
                lines.append(f"  {name}: {visible(value)}")
        for label, place in self.related:
            where = place.resolve()
            lines += [f"  {visible(label)} at {where.place}", where.excerpt()]
        return "\n".join(lines)
