"""Text to level 2: what `print_tile` prints, and what people write by hand in its form.

    program NAME for MACHINE
    index NAME [= size], ...              input NAME: [const] DTYPE[dims]     output ...
    workspace NAME: DTYPE[sizes]          table NAME: DTYPE[sizes] = entries
    kernel NAME(tensors) -> tensors
      grid NAME [by INT], ...             raster ...          whole NAME by INT, ...
      statements, two spaces deeper in each loop
      check INT READ axis INT         the number is the place of the check in the program

Columns of a statement are two spaces or more apart; after the first their order is free, and they
may continue on the next line. Comments start with #, blank lines are skipped. Nothing is verified.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from tensorc.errors import NotationError
from tensorc.ir.expression import Parser
from tensorc.ir.polynomial import Polynomial, extent
from tensorc.ir.read_statement import COLUMNS, Statements, number
from tensorc.ir.source import Diagnostic, Range, Source
from tensorc.ir.tensor import Check, Declaration, Read, Table, Tensor
from tensorc.ir.tile import Block, Kernel, TileProgram
from tensorc.ir.tile_names import FUNCTIONS, Names
from tensorc.ir.tokens import Token, scan

_CONSTANT = re.compile(r"^input (\w+): const ", re.MULTILINE)  # what sizes may be made of
_HEADERS = ("index", "input", "output", "workspace", "table", "check")


@dataclass(frozen=True)
class Line:
    """A line with its depth (in steps of two spaces) and its columns: text and offset."""

    depth: int
    columns: tuple[tuple[str, int], ...]

    @property
    def word(self) -> str:
        """The first word."""
        match = re.match(r"[A-Za-z_0-9]+", self.columns[0][0])
        return match.group() if match else ""


class Text:
    """A source as lines with columns, and as tokens."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = [item for item in scan(source, primes=True) if item.kind != "newline"]
        self.starts = [item.start for item in self.tokens]
        self.lines = _lines(source.text)

    def parser(self, column: tuple[str, int], skip: int = 0) -> Parser:
        """Reads the tokens of one column, without its first `skip`."""
        text, start = column
        first, last = (bisect_left(self.starts, at) for at in (start, start + len(text)))
        return Parser(self.source, self.tokens[first + skip : last], FUNCTIONS)

    def fail(self, column: tuple[str, int], message: str) -> NoReturn:
        """Raise a fault at a column."""
        text, start = column
        where = Range(self.source, start, start + len(text))
        raise NotationError([Diagnostic("E108", message, where)])


def _lines(text: str) -> list[Line]:
    """Lines that start with a column other than the first continue the line above."""
    lines: list[Line] = []
    start = 0
    for line in text.split("\n"):
        body = line.split("#")[0].rstrip()
        columns = tuple(
            (found.group(), start + found.start()) for found in re.finditer(r"\S+(?: \S+)*", body)
        )
        start += len(line) + 1
        if not columns:
            continue
        if lines and columns[0][0].split()[0] in COLUMNS:
            lines[-1] = Line(lines[-1].depth, lines[-1].columns + columns)
        else:
            indent = len(body) - len(body.lstrip(" "))
            lines.append(Line(indent // 2, columns))
    return lines


def read(text: str | Source) -> TileProgram:
    """The program that a text describes. NotationError: at the first fault of its syntax."""
    source = text if isinstance(text, Source) else Source("<tile>", text)
    return _Program(Text(source), frozenset(_CONSTANT.findall(source.text))).read()


@dataclass
class _Program:
    """What has been read of a program."""

    text: Text
    constants: frozenset[str]
    extents: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])
    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    parameters: list[Declaration] = field(default_factory=list[Declaration])
    outputs: list[Declaration] = field(default_factory=list[Declaration])
    workspaces: list[Tensor] = field(default_factory=list[Tensor])
    tables: list[Table] = field(default_factory=list[Table])
    checks: dict[int, Check] = field(default_factory=dict[int, Check])

    def read(self) -> TileProgram:
        lines = self.text.lines
        if not lines or lines[0].word != "program":
            raise NotationError([Diagnostic("E108", "a text of level 2 starts with program")])
        first = lines[0].columns[0]
        head = first[0].split()
        if len(head) != 4 or head[2] != "for":
            self.text.fail(first, "program NAME for MACHINE is expected")
        starts = [n for n, line in enumerate(lines) if line.word == "kernel" and line.depth == 0]
        for line in lines[1 : min(starts, default=len(lines))]:
            self.header(line)
        ends = [*starts[1:], len(lines)]
        kernels = [self.kernel(lines[a:b]) for a, b in zip(starts, ends, strict=False)]
        return TileProgram(
            head[1], head[3], tuple(self.parameters), tuple(self.outputs),
            tuple(self.workspaces), tuple(self.extents.items()), tuple(kernels),
            tuple(self.tables), tuple(check for _, check in sorted(self.checks.items())),
        )  # fmt: skip

    def names(self) -> Names:
        """What names mean outside kernels."""
        return Names(self.extents, self.tensors, self.constants, {})

    def header(self, line: Line) -> None:
        """One line above the kernels."""
        if line.word not in _HEADERS or line.columns[1:]:
            self.text.fail(line.columns[0], f"one of {', '.join(_HEADERS)} or kernel is expected")
        parser = self.text.parser(line.columns[0], 1)
        match line.word:
            case "check":
                return self.check(line, self.names())
            case "index":
                self.indices(parser)
            case "workspace":
                self.workspaces.append(self.tensor(parser))
            case "table":
                self.table(parser)
            case _:
                item = self.declaration(parser)
                (self.parameters if line.word == "input" else self.outputs).append(item)
        parser.finish()

    def indices(self, parser: Parser) -> None:
        while True:
            name = parser.name("the name of an index").text
            self.extents[name] = extent(name)
            if parser.accept("="):
                self.extents[name] = self.names().bound(parser.expression())
            if not parser.accept(","):
                return

    def declaration(self, parser: Parser) -> Declaration:
        """NAME: [const] DTYPE[dims], a dimension being an index or a size."""
        name = parser.name().text
        parser.expect(":")
        const = bool(parser.accept("const"))
        dtype = parser.dtype()
        dims: list[str | None] = []
        sizes: list[Polynomial] = []
        for _ in _listed(parser):
            token = parser.token
            named = token.text in self.extents and parser.peek().text in ("=", ",", "]")
            dims.append(parser.next().text if named else None)
            if named and not parser.accept("="):
                sizes.append(self.extents[token.text])
            else:
                sizes.append(self.names().bound(parser.expression()))
        self.tensors[name] = Tensor(name, dtype, tuple(sizes))
        return Declaration(self.tensors[name], tuple(dims), const)

    def tensor(self, parser: Parser) -> Tensor:
        """NAME: DTYPE[sizes]."""
        name = parser.name().text
        parser.expect(":")
        dtype = parser.dtype()
        sizes = [self.names().bound(parser.expression()) for _ in _listed(parser)]
        self.tensors[name] = Tensor(name, dtype, tuple(sizes))
        return self.tensors[name]

    def table(self, parser: Parser) -> None:
        tensor = self.tensor(parser)
        parser.expect("=")
        values = [self.names().expr(parser.expression())]
        while parser.accept(","):
            values.append(self.names().expr(parser.expression()))
        self.tables.append(Table(tensor, tuple(values)))

    def kernel(self, lines: list[Line]) -> Kernel:
        """A kernel's head, the lines about its indices, its body and its checks."""
        parser = self.text.parser(lines[0].columns[0], 1)
        name = parser.name().text
        reads = [self.known(parser) for _ in _listed(parser, "(", ")")]
        parser.expect("->")
        writes = [self.known(parser)]
        while parser.accept(","):
            writes.append(self.known(parser))
        parser.finish()
        grid: tuple[Block, ...] = ()
        raster, sizes = "", dict[str, int]()
        body = list(lines[1:])
        while body and body[0].word in ("grid", "raster", "whole"):
            line = body.pop(0)
            if line.word == "raster":
                raster = line.columns[0][0].removeprefix("raster ")
                continue
            found = tuple(self.blocks(self.text.parser(line.columns[0], 1)))
            if line.word == "grid":
                grid = found
            else:
                sizes = {block.index: block.size for block in found}
        names = self.names()
        names.sizes.update(sizes)
        names.sizes.update({block.index: block.size for block in grid})
        checks = [line for line in body if line.word == "check" and line.depth == 1]
        statements = Statements(self.text, names).body(
            [item for item in body if item not in checks]
        )
        for line in checks:
            self.check(line, names)
        return Kernel(name, tuple(reads), tuple(writes), grid, statements, raster)

    def known(self, parser: Parser) -> Tensor:
        """The name of a declared tensor."""
        token = parser.name("the name of a tensor")
        if token.text not in self.tensors:
            self.undeclared(token)
        return self.tensors[token.text]

    def undeclared(self, token: Token) -> NoReturn:
        self.text.fail((token.text, token.start), f"{token.text} is not declared")

    def blocks(self, parser: Parser) -> Iterator[Block]:
        """NAME [by INT], ..."""
        while True:
            name = parser.name("the name of an index").text
            size = number(parser) if parser.accept("by") else 1
            yield Block(name, size)
            if not parser.accept(","):
                parser.finish()
                return

    def check(self, line: Line, names: Names) -> None:
        """INT READ axis INT."""
        parser = self.text.parser(line.columns[0], 1)
        place = number(parser)
        read = names.expr(parser.expression())
        parser.expect("axis")
        axis = number(parser)
        parser.finish()
        if not isinstance(read, Read):
            self.text.fail(line.columns[0], "check INT READ axis INT is expected")
        self.checks[place] = Check(read, axis)


def _listed(parser: Parser, opening: str = "[", closing: str = "]") -> Iterator[None]:
    """Steps through a bracketed list; the caller consumes one item at each."""
    if not parser.accept(opening):
        return
    while not parser.at(closing):
        yield
        if not parser.accept(","):
            break
    parser.expect(closing)
