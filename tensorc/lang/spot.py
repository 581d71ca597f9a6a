"""Where in the user's Python an expression was made: recorded as numbers, read only for a message.

A `Spot` holds code objects and instruction offsets, innermost call first; `resolve` turns them into
a span of the source line with the columns of the very operator. Where no source exists (a string
run by `exec`, some consoles) the span lies in the expression's `.tc` form, if `written` was told.
Nothing here parses Python.
"""

from __future__ import annotations

import linecache
import re
import sys
from dataclasses import replace
from itertools import islice
from types import CodeType, FrameType

from tensorc.errors import NotationError
from tensorc.ir import diagnostics
from tensorc.ir.source import Diagnostic, Place, Source, Span

# Frames of these modules are ours: the user's code is the first frame outside them.
_SURFACE = "spot tensors unknown value binders vocabulary names trace"
_OURS = frozenset(
    ["tensorc", "tensorc.operators", *(f"tensorc.lang.{m}" for m in _SURFACE.split())]
)
_RUNNER = "tensorc.lang.trace"
_DEEPEST = 64  # calls remembered between an operator and the traced function

Site = tuple[CodeType, int]


class Spot:
    """A position in running Python code; a `Place`."""

    __slots__ = ("sites", "_text")

    def __init__(self, sites: tuple[Site, ...]) -> None:
        self.sites = sites
        self._text: Span | None = None

    def written(self, span: Span) -> None:
        """Tell where the expression stands in its `.tc` form, for code without source lines."""
        if self._text is None:
            self._text = span

    def resolve(self) -> Span:
        """The span in the user's file, or in the `.tc` form, or of an empty text."""
        found = _span(self.sites[0]) if self.sites else None
        return found or self._text or Span(Source(self._file(), ""), self._line(), 1, 1, 1)

    def calls(self) -> tuple[tuple[str, Spot], ...]:
        """The calls through which helpers were reached, nearest first; at most three."""
        outer = [Spot((site,)) for site in self.sites[1:] if _span(site) is not None]
        shown = outer if len(outer) <= 3 else [*outer[:2], outer[-1]]
        return tuple(("called", spot) for spot in shown)

    def text(self) -> str:
        """The source text spanned, or the empty string."""
        span = _span(self.sites[0]) if self.sites else None
        if span is None or span.end_line != span.line:
            return ""
        return span.source.line(span.line)[span.column - 1 : span.end_column - 1]

    def _file(self) -> str:
        return self.sites[0][0].co_filename if self.sites else "<expression>"

    def _line(self) -> int:
        return (_position(self.sites[0])[0] or 1) if self.sites else 1


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of this package's Python surface."""
    return frame.f_globals.get("__name__") in _OURS


def here() -> Spot:
    """The position of the innermost running code that is not ours, with the calls around it.

    The calls reach up to the traced function; outside of tracing only the innermost is kept.
    """
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return Spot(())
    first = (frame.f_code, frame.f_lasti)
    outer = frame.f_back
    if outer is not None and outer.f_globals.get("__name__") == _RUNNER:
        return Spot((first,))
    return Spot((first, *_calls(outer)))


def _calls(frame: FrameType | None) -> list[Site]:
    """The sites from `frame` up to the traced function; none when nothing is being traced."""
    sites: list[Site] = []
    while frame is not None:
        if frame.f_globals.get("__name__") == _RUNNER:
            return sites if len(sites) <= _DEEPEST else [*sites[: _DEEPEST - 1], sites[-1]]
        sites.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return []


def _position(site: Site) -> tuple[int | None, int | None, int | None, int | None]:
    """Line, last line, first and last column (in bytes of UTF-8) of an instruction."""
    code, offset = site
    found = next(islice(code.co_positions(), offset // 2, None), None)
    return found or (None, None, None, None)


def _span(site: Site) -> Span | None:
    """The span of an instruction in its source file; None where there is no source line."""
    line, last, start, end = _position(site)
    lines = linecache.getlines(site[0].co_filename)
    if line is None or line > len(lines):
        return None
    source = Source(site[0].co_filename, "".join(lines))
    text = lines[line - 1].rstrip("\n")
    if last is None or start is None or end is None or last > len(lines):
        indent = len(text) - len(text.lstrip())
        return Span(source, line, indent + 1, line, len(text) + 1)
    return Span(source, line, _column(text, start), last, _column(lines[last - 1], end))


def _column(text: str, offset: int) -> int:
    """The column (from 1, in characters) at a byte offset of the line."""
    return len(text.encode()[:offset].decode(errors="ignore")) + 1


def callee(text: str) -> str:
    """The name of what `text` calls: "math.sqrt" of "math.sqrt(x)"; empty if it calls nothing."""
    found = re.match(r"\s*((?:\w+\s*\.\s*)*\w+)\s*\(", text)
    return found[1] if found else ""


def raised(code: str, spot: Place | None, *, do: str = "", **fields: object) -> NotationError:
    """The error of one fault of the catalogue at a spot, with the calls that led there.

    `do` replaces the catalogue's advice, `fields` fill its message.
    """
    item = diagnostics.filled(code, spot, fields)
    return NotationError([located(replace(item, do=do or item.do))])


def located(item: Diagnostic) -> Diagnostic:
    """The diagnostic with the calls that led to its place, if it lies in a Python helper."""
    calls = item.span.calls() if isinstance(item.span, Spot) else ()
    return replace(item, related=(*item.related, *calls))
