"""Level 3 from its text: the inverse of `print_channel`, with a place in every error.

Reads any text of the form shown there; whether the program it describes makes sense is the
verifier's business. Comments and empty lines are skipped, indentation says what lies in what.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, cast

from tensorc.errors import NotationError
from tensorc.ir.channel import (
    Area,
    At,
    Body,
    Call,
    Done,
    Filling,
    Get,
    Holds,
    Kernel,
    Pass,
    Perform,
    Period,
    Put,
    Read,
    Result,
    Ring,
    Role,
    Statement,
    Token,
    Turn,
    Wait,
    When,
    Window,
)
from tensorc.ir.source import Diagnostic, Source

LIMIT = 1 << 20  # characters of a text
DEEPEST = 32  # nested When

_NAME = r"[^\s,:=()\[\]#]+"
_N = r"[0-9]{1,15}"
_AT = r"(?:\[[^\]]*\])?"
_READS = r"\(([^()]*)\)"
_CALL = rf"({_NAME}){_READS}"

_KERNEL = re.compile(rf"kernel ({_NAME}) for ({_NAME})(, persistent)?")
_RING = re.compile(
    rf"ring ({_NAME}): ({_N}) bytes x ({_N})( per tile)? in ({_NAME}) at ({_N}), "
    rf"by (copy|threads|commit), full ({_N})(?: \+ ({_N}) bytes)?, empty ({_N})"
)
_TOKEN = re.compile(
    rf"token ({_NAME}): turn of ({_NAME}) on ({_NAME}), barrier ({_N})(?:, given ({_N}))?"
)
_AREA = re.compile(rf"area ({_NAME}): ({_N}) bytes in ({_NAME}) at ({_N})")
_NAMES = rf"{_NAME}(?:, {_NAME})*"
_HOLD = re.compile(rf"hold ({_NAME}): ({_NAMES})")
_SPAN = rf"{_NAME} {_N}\.\.{_N}"
_BODY = re.compile(rf"body ({_NAME}): ({_NAMES})(?: on ({_SPAN}(?:, {_SPAN})*))?")
_ROLE = re.compile(rf"role ({_NAME}): ({_N}) warps?, ({_N}) registers")
_STEADY = re.compile(rf"steady i from ({_N})")
_LEFT = rf"{_NAME}{_AT}(?: into {_NAME})?"
_RESULTS = re.compile(rf"({_LEFT}(?:, {_LEFT})*) = {_CALL}(?: in flight on ({_NAME}))?")
_RESULT = re.compile(rf"({_NAME})({_AT})(?: into ({_NAME}))?")
_DO = re.compile(rf"do ({_NAME})({_AT}){_READS}(?: in flight on ({_NAME}))?")
_PUT = re.compile(rf"put ({_NAME})({_AT}) = {_CALL}")
_GET = re.compile(rf"get ({_NAME})({_AT})")
_DONE = re.compile(rf"done ({_NAME})({_AT})( on completion)?")
_TURN = re.compile(rf"(turn|pass) ({_NAME})")
_WAIT = re.compile(rf"wait ({_N}) on ({_NAME})")
_WHEN = re.compile(rf"when ({_AT}) exists")
_READ = re.compile(rf"({_NAME})({_AT})")
_ITERATION = re.compile(rf"(?:(-?{_N})|([iT])(?: ([+-]) ({_N}))?)")


@dataclass(frozen=True)
class _Line:
    """A line that says something: its indentation, its text and where it starts."""

    indent: int
    text: str
    start: int


def read_channel(text: str, name: str = "<channel>") -> Kernel:
    """The kernel that `text` describes.

    `name` is how errors cite the text. Raises NotationError (E103: too long; E104: nested too
    deep; E108: a line that is not of the expected form).
    """
    if len(text) > LIMIT:
        message = f"the text has {len(text):,} characters, the limit is {LIMIT:,}"
        raise NotationError([Diagnostic("E103", message)])
    return _Reader(Source(name, text)).kernel()


class _Reader:
    """The lines of one text and how far they are read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.lines = list(_lines(source.text))
        self.at = 0

    def kernel(self) -> Kernel:
        found = self.take(0, _KERNEL, "kernel NAME for MACHINE[, persistent]")
        rings, tokens, roles = list[Ring](), list[Token](), list[Role]()
        areas, holds, bodies = list[Area](), list[Holds](), list[Body]()
        while self.indented(2):
            match self.lines[self.at].text.split(" ", 1)[0]:
                case "ring":
                    rings.append(self.ring())
                case "token":
                    tokens.append(self.token())
                case "area":
                    areas.append(self.area())
                case "hold":
                    name, tiles = self.take(2, _HOLD, "hold NAME: TILE, ...").groups()
                    holds.append(Holds(name, tuple(tiles.split(", "))))
                case "body":
                    bodies.append(self.operation())
                case _:
                    roles.append(self.role())
        if self.at < len(self.lines):
            self.fail("a ring, token, area, hold, body or role, two columns in")
        return Kernel(
            found[1], found[2], found[3] is not None, tuple(rings), tuple(tokens), tuple(roles),
            tuple(areas), tuple(holds), tuple(bodies),
        )  # fmt: skip

    def area(self) -> Area:
        found = self.take(2, _AREA, "area NAME: BYTES bytes in MEMORY at OFFSET")
        return Area(found[1], found[3], int(found[2]), int(found[4]))

    def operation(self) -> Body:
        found = self.take(2, _BODY, "body OPERATION: STATEMENT, ... [on INDEX FIRST..LAST, ...]")
        windows = list[Window]()
        for index, span in (part.split(" ") for part in (found[3] or "").split(", ") if part):
            first, last = map(int, span.split(".."))
            windows.append(Window(index, first, last - first))
        return Body(found[1], tuple(found[2].split(", ")), tuple(windows))

    def ring(self) -> Ring:
        form = "ring NAME: BYTES bytes x DEPTH [per tile] in MEMORY at OFFSET, by FILL, full N, ..."
        found = self.take(2, _RING, form)
        period: Period = "tile" if found[4] else "iteration"
        filling = cast(Filling, found[7])  # the pattern allows no other word
        offset, arrivals, copied, empty = map(int, (found[6], found[8], found[9] or 0, found[10]))
        return Ring(
            found[1], found[5], int(found[2]), offset, int(found[3]), filling,
            arrivals, copied, empty, period,
        )  # fmt: skip

    def token(self) -> Token:
        form = "token NAME: turn of ROLE on UNIT, barrier N[, given N]"
        found = self.take(2, _TOKEN, form)
        return Token(found[1], found[3], found[2], int(found[4]), int(found[5] or 0))

    def role(self) -> Role:
        found = self.take(2, _ROLE, "role NAME: N warps, N registers")
        prologue = self.section("prologue")
        first = int(self.take(4, _STEADY, "steady i from N")[1])
        steady = self.body(6, 0)
        epilogue = self.section("epilogue")
        warps, registers = int(found[2]), int(found[3])
        return Role(found[1], warps, registers, first, prologue, steady, epilogue)

    def section(self, word: str) -> tuple[Statement, ...]:
        if not (self.indented(4) and self.lines[self.at].text == word):
            return ()
        self.at += 1
        return self.body(6, 0)

    def body(self, indent: int, depth: int) -> tuple[Statement, ...]:
        if depth > DEEPEST:
            self.fail(f"at most {DEEPEST} nested `when`", "E104")
        found = list[Statement]()
        while self.indented(indent):
            found.append(self.statement(indent, depth))
        return tuple(found)

    def statement(self, indent: int, depth: int) -> Statement:
        line = self.lines[self.at]
        when = _WHEN.fullmatch(line.text)
        if when:
            at = self.iteration(when[1])
            self.at += 1
            return When(at, self.body(indent + 2, depth + 1))
        item = self.simple(line.text)
        self.at += 1
        return item

    def simple(self, text: str) -> Statement:
        forms: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Statement]], ...] = (
            (_PUT, lambda f: Put(f[1], self.call(f[3], f[2], f[4]))),
            (_GET, lambda f: Get(f[1], self.iteration(f[2]))),
            (_DONE, lambda f: Done(f[1], self.iteration(f[2]), f[3] is not None)),
            (_TURN, lambda f: Turn(f[2]) if f[1] == "turn" else Pass(f[2])),
            (_WAIT, lambda f: Wait(f[2], int(f[1]))),
            (_DO, lambda f: Perform(self.call(f[1], f[2], f[3]), (), f[4] or "")),
            (_RESULTS, lambda f: self.results(f[1], f[2], f[3], f[4] or "")),
        )
        for pattern, make in forms:
            found = pattern.fullmatch(text)
            if found:
                return make(found)
        self.fail("put, get, done, turn, pass, wait, when, do, or VALUE[AT] = OPERATION(READS)")

    def results(self, left: str, operation: str, reads: str, flight: str) -> Perform:
        found = [_RESULT.fullmatch(part) for part in left.split(", ")]
        parts = [part for part in found if part]
        if len({part[2] for part in parts}) != 1:
            self.fail("all results of one iteration")
        results = tuple(Result(part[1], part[3] or part[1]) for part in parts)
        return Perform(self.call(operation, parts[0][2], reads), results, flight)

    def call(self, operation: str, at: str, reads: str) -> Call:
        return Call(operation, self.iteration(at), tuple(map(self.read, _split(reads))))

    def read(self, text: str) -> Read:
        found = _READ.fullmatch(text)
        if not found:
            self.fail(f"NAME[ITERATION] where it says {text!r}")
        return Read(found[1], self.iteration(found[2]))

    def iteration(self, text: str) -> At:
        if not text:
            return At("tile")
        found = _ITERATION.fullmatch(text[1:-1])
        if not found:
            self.fail(f"[2], [i - 1] or [T - 1] where it says {text!r}")
        if found[1]:
            return At("start", int(found[1]))
        offset = int(found[4] or 0) * (-1 if found[3] == "-" else 1)
        return At("step" if found[2] == "i" else "end", offset)

    def indented(self, indent: int) -> bool:
        return self.at < len(self.lines) and self.lines[self.at].indent == indent

    def take(self, indent: int, pattern: re.Pattern[str], form: str) -> re.Match[str]:
        found = pattern.fullmatch(self.lines[self.at].text) if self.indented(indent) else None
        if not found:
            self.fail(f"`{form}`, {indent} columns in")
        self.at += 1
        return found

    def fail(self, expected: str, code: str = "E108") -> NoReturn:
        end = len(self.source.text)
        line = self.lines[self.at] if self.at < len(self.lines) else _Line(0, "", end)
        shown = f"{line.text!r}, {line.indent} columns in" if line.text else "the end of the text"
        span = self.source.span(line.start, line.start + len(line.text))
        message = f"expected {expected}, found {shown}"
        raise NotationError([Diagnostic(code, message, span)])


def _lines(text: str) -> list[_Line]:
    found = list[_Line]()
    start = 0
    for row in text.split("\n"):
        said = row.split("#", 1)[0].rstrip()
        if said:
            indent = len(said) - len(said.lstrip(" "))
            found.append(_Line(indent, said[indent:], start + indent))
        start += len(row) + 1
    return found


def _split(reads: str) -> list[str]:
    return [part.strip() for part in reads.split(",")] if reads.strip() else []
