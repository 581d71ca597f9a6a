"""Level-2 statements from the lines of a text; see `read_tile` for what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn, Protocol

from tensorc.ir import syntax as s
from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.expression import ATOM, Parser
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, REDUCERS, SUM, Reducer
from tensorc.ir.polynomial import Polynomial, extent, polynomial
from tensorc.ir.tensor import Expr, Literal
from tensorc.ir.tile import (
    Blocked,
    Carry,
    Each,
    Frame,
    Layout,
    Let,
    Linear,
    Loop,
    Operand,
    Panel,
    Statement,
    Store,
    Strided,
    Tile,
    Use,
)
from tensorc.ir.tile_names import Names

_NOTES = ("into", "once", "combine", "edge")
COLUMNS = frozenset({*BY_NAME, *_NOTES, "by"})  # first words of all columns but the first
_ONTO: dict[str, Reducer] = {
    "add": SUM, "mul": PROD, "max": MAX, "min": MIN, "or": ANY, "and": ALL,
}  # fmt: skip
_FRAME = re.compile(r"([\w.]+?)(?:\.([AB]))?\(([\w' ]*); ?([\w' ]*)\)")
_BLOCKED = re.compile(r"blocked\(([\w']+), (\d{1,9}) x (\d{1,9})\)")
_PANEL = re.compile(r"panel ([\w']+) (\d{1,9})")
_LINEAR = re.compile(r"(?:linear)?(?:\(([\w' ]+)\))?(?: ?swizzle (\d{1,9}))?")
_USE = re.compile(
    r"by (?P<name>[\w.]+)(?: \((?P<roles>[^)]*)\))?(?: exact (?P<exact>[\w' ]+?))?"
    r"(?: fill (?P<fill>\S+))?"
)
_ROLE = re.compile(r"(\w+): ([\w' ]+?)(?: x (\d{1,9}))?")

Column = tuple[str, int]  # a text and its offset


def number(parser: Parser) -> int:
    """Consume a count of lanes."""
    if not re.fullmatch(r"\d{1,9}", parser.token.text):
        parser.unexpected("a number of lanes")
    return int(parser.next().text)


class HasColumns(Protocol):
    """A line of the text."""

    @property
    def depth(self) -> int:
        """Its indentation."""
        ...

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""
        ...

    @property
    def word(self) -> str:
        """Its first word."""
        ...


class HasTokens(Protocol):
    """The text that lines come from."""

    def parser(self, column: Column, skip: int = 0) -> Parser:
        """Reads the tokens of a column."""
        ...

    def fail(self, column: Column, message: str) -> NoReturn:
        """Raise a fault at a column."""
        ...


class Statements:
    """Reads the statements of one kernel."""

    def __init__(self, text: HasTokens, names: Names) -> None:
        self.text, self.names = text, names

    def body(self, lines: Sequence[HasColumns]) -> tuple[Statement, ...]:
        """Lines of one depth and, after each loop, its deeper ones."""
        found: list[Statement] = []
        at = 0
        while at < len(lines):
            line, end = lines[at], at + 1
            while end < len(lines) and lines[end].depth > line.depth:
                end += 1
            found.append(self.statement(line, lines[at + 1 : end]))
            at = end
        return tuple(found)

    def statement(self, line: HasColumns, inner: Sequence[HasColumns]) -> Statement:
        """One statement with its body."""
        match line.word:
            case "loop":
                return self.loop(line, inner)
            case "each":
                parser = self.text.parser(line.columns[0], 1)
                index, block = self.block(parser)
                parser.finish("by or the end of the line")
                return Each(index, block, self.body(inner))
            case _ if inner:
                self.text.fail(inner[0].columns[0], "only loops have deeper lines")
            case "store":
                return self.store(line)
            case _:
                return self.let(line)

    def block(self, parser: Parser) -> tuple[str, int]:
        """NAME [by INT]."""
        name = parser.name("the name of an index").text
        if not parser.accept("by"):
            return name, 1
        return name, number(parser)

    def loop(self, line: HasColumns, inner: Sequence[HasColumns]) -> Loop:
        """loop NAME [by INT] [in L..U] [full L..U] [down], then its carries and body."""
        parser = self.text.parser(line.columns[0], 1)
        index, block = self.block(parser)
        size = extent(index)
        limits = self.range(parser, "in") or (polynomial(0), size)
        full = self.range(parser, "full") or (polynomial(0), size // block * block)
        down = bool(parser.accept("down"))
        parser.finish("in, full, down or the end of the line")
        outside = self.names.sizes.get(index)
        self.names.sizes[index] = block
        heads = [item for item in inner if item.word == "carry" and item.depth == line.depth + 1]
        carries = tuple(self.carry(item) for item in heads)
        body = self.body([item for item in inner if item not in heads])
        del self.names.sizes[index]
        if outside is not None:
            self.names.sizes[index] = outside
        return Loop(index, block, *limits, full, carries, body, down)

    def range(self, parser: Parser, word: str) -> tuple[Polynomial, Polynomial] | None:
        if not parser.accept(word):
            return None
        low = self.names.bound(parser.expression())
        parser.expect("..")
        return low, self.names.bound(parser.expression())

    def carry(self, line: HasColumns) -> Carry:
        parser = self.text.parser(line.columns[0], 1)
        name, axes, sizes = self.left(parser, line)
        start: Expr | str | Tile
        if parser.at("lowest"):
            start = parser.next().text
        elif parser.token.text in self.names.tiles:
            start = self.names.tiles[parser.next().text]
        else:
            start = self.names.expr(parser.whole())
        parser.finish()
        return Carry(self.tile(name, axes, sizes, line), start)

    def left(
        self, parser: Parser, line: HasColumns
    ) -> tuple[str, tuple[str, ...], tuple[int, ...]]:  # fmt: skip
        """NAME [axes] =, an axis being NAME or NAME=lanes."""
        name = parser.name("the name of a tile").text
        axes: dict[str, int] = {}
        if parser.accept("["):
            while not parser.at("]"):
                axis = parser.name("the name of an index").text
                if parser.accept("="):
                    axes[axis] = number(parser)
                elif axis in self.names.sizes:
                    axes[axis] = self.names.sizes[axis]
                else:
                    self.text.fail(line.columns[0], f"nothing says how many lanes {axis} has")
                if not parser.accept(","):
                    break
            parser.expect("]")
        parser.expect("=")
        return name, tuple(axes), tuple(axes.values())

    def tile(
        self, name: str, axes: tuple[str, ...], sizes: tuple[int, ...], line: HasColumns
    ) -> Tile:  # fmt: skip
        """A tile from the column with its type; it is in scope from here on."""
        for column in line.columns[1:]:
            dtype, *rest = column[0].split(" ", 2)
            if dtype in BY_NAME:
                where = rest[1] if len(rest) > 1 else ""
                layout = self.layout(where, axes, column)
                tile = Tile(name, axes, sizes, BY_NAME[dtype], rest[0] if rest else "", layout)
                self.names.tiles[name] = tile
                return tile
        self.text.fail(line.columns[0], "a column with the tile's type and space is missing")

    def layout(self, text: str, axes: tuple[str, ...], column: Column) -> Layout:
        """The layout that `print_tile.layout` prints."""
        if not text:
            return Strided()
        if found := _FRAME.fullmatch(text):
            atom, which, *groups = found.groups()
            rows, columns = (tuple(group.split()) for group in groups)
            return Operand(atom, which, rows, columns) if which else Frame(atom, rows, columns)
        if found := _BLOCKED.fullmatch(text):
            return Blocked(int(found[2]), int(found[3]), found[1])
        if found := _PANEL.fullmatch(text):
            return Panel(found[1], int(found[2]))
        if found := _LINEAR.fullmatch(text):
            order, swizzle = found.groups()
            return Linear(tuple(order.split()) if order else axes, int(swizzle or 0))
        self.text.fail(column, f"{text} is no layout")

    def let(self, line: HasColumns) -> Let:
        parser = self.text.parser(line.columns[0])
        name, axes, sizes = self.left(parser, line)
        right = parser.whole()
        parser.finish()
        op, reduced, body, onto = self.reduction(right)
        expr = self.names.expr(body)
        notes = self.notes(line)
        into = self.named(notes.get("into", ""), line) if "into" in notes else None
        edge = tuple(notes.get("edge", "").split())
        by = self.use(line)
        return Let(self.tile(name, axes, sizes, line), op, reduced, expr, onto, into, by, edge)

    def reduction(
        self, right: s.Syntax
    ) -> tuple[Reducer | None, tuple[str, ...], s.Syntax, Tile | None]:
        """The parts of `T + sum[k](body)`, of a reduction alone, or of an expression."""
        match right:
            case s.Reduction(reducer, bindings, None, body, None, _):
                return REDUCERS[reducer], tuple(item.name for item in bindings), body, None
            case s.Call(name, (s.Name(onto, _), s.Reduction(reducer) as inner), _) if (
                _ONTO.get(name) is REDUCERS[reducer] and onto in self.names.tiles
            ):
                op, reduced, body, _ = self.reduction(inner)
                return op, reduced, body, self.names.tiles[onto]
            case _:
                return None, (), right, None

    def store(self, line: HasColumns) -> Store:
        parser = self.text.parser(line.columns[0], 1)
        target = parser.expression(ATOM)
        parser.expect("=")
        value = self.names.expr(parser.whole())
        parser.finish()
        if not isinstance(target, s.Access | s.Name) or target.name not in self.names.tensors:
            self.text.fail(line.columns[0], "a store is to a tensor that is declared")
        places = target.subscripts if isinstance(target, s.Access) else ()
        subscripts = tuple(self.names.expr(item) for item in places)
        notes = self.notes(line)
        combine = REDUCERS.get(notes.get("combine", ""))
        once, edge = (tuple(notes.get(word, "").split()) for word in ("once", "edge"))
        tensor = self.names.tensors[target.name]
        return Store(tensor, subscripts, value, combine, once, self.use(line), edge)

    def named(self, name: str, line: HasColumns) -> Tile:
        if name not in self.names.tiles:
            self.text.fail(line.columns[0], f"there is no tile {name}")
        return self.names.tiles[name]

    def notes(self, line: HasColumns) -> dict[str, str]:
        """into, once, combine and edge, with what follows each."""
        found: dict[str, str] = {}
        for column in line.columns[1:]:
            word = column[0].split()[0]
            if word in BY_NAME or word == "by":
                continue
            for note in column[0].split(", "):
                word, _, rest = note.partition(" ")
                if word not in _NOTES or word in found:
                    self.text.fail(column, "into, once, combine, edge, by or a type is expected")
                found[word] = rest
        return found

    def use(self, line: HasColumns) -> Use:
        """The column that starts with by."""
        columns = [column for column in line.columns[1:] if column[0].startswith("by ")]
        if len(columns) != 1:
            self.text.fail(line.columns[0], "one column with the instruction, by ..., is expected")
        found = _USE.fullmatch(columns[0][0])
        parts = (found["roles"] or "").split(", ") if found else []
        roles = [_ROLE.fullmatch(part) for part in parts if part]
        if found is None or any(role is None for role in roles):
            self.text.fail(columns[0], "by NAME (role: axes x count, ...) exact axes fill number")
        known = [role for role in roles if role is not None]
        return Use(
            found["name"],
            tuple((role[1], tuple(role[2].split())) for role in known),
            tuple((role[1], int(role[3])) for role in known if role[3]),
            tuple((found["exact"] or "").split()),
            self.fill(found["fill"], columns[0]),
        )

    def fill(self, text: str | None, column: Column) -> Literal | None:
        if text is None:
            return None
        start = column[1] + len(column[0]) - len(text)
        found = self.names.expr(self.text.parser((text, start)).whole())
        if not isinstance(found, Literal):
            self.text.fail(column, "a fill is a number")
        return found
