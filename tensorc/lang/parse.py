"""`.tc` files and signatures to the surface tree: headers, equations, constant tables.

    file     = { op | table }
    op       = "op" NAME "(" [ params ] ")" "->" outputs NL { equation NL }
    outputs  = params | "(" params ")"
    param    = NAME ":" [ "const" ] DTYPE [ "[" [ dims ] "]" ]
    dim      = INT | NAME [ "=" arith ]
    table    = "const" param "=" rows NL         rows = "[" rows { "," rows } "]" | arith
    equation = NAME [ ":" DTYPE ] [ "[" [ subs ] "]" ] "=" expr NL

A trailing comma is legal in every list. Planned forms are read to their end, then refused (E118).
One fault is reported for each statement, all faults of a file together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from tensorc.errors import NotationError
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import INTEGER
from tensorc.ir.expression import ARITH, ATOM, INFIX, Item, Parser
from tensorc.ir.functions import REDUCERS
from tensorc.ir.names import RESERVED
from tensorc.ir.source import Diagnostic, Place, Source
from tensorc.ir.syntax import Binding, Constant, Syntax
from tensorc.ir.tokens import Line, one_statement, statements
from tensorc.lang.surface import Constants, Dimension, Module, Operator, Parameter, Statement

MOST_BYTES = 256 * 1024
MOST_STATEMENTS = 5000


@dataclass(frozen=True)
class Limits:
    """How large a file may be (E103); the command line has options of these names."""

    bytes: int = MOST_BYTES
    statements: int = MOST_STATEMENTS


def read_source(path: str | os.PathLike[str], limits: Limits = Limits()) -> Source:
    """The text of a file as a Source named by its path.

    Raises NotationError: larger than the limit (E103; it is not read), not UTF-8 (E102). OSError:
    as opening it does. A byte order mark is dropped.
    """
    with Path(path).open("rb") as file:
        return read_stream(file, os.fspath(path), limits)


def read_stream(file: BinaryIO, name: str, limits: Limits = Limits()) -> Source:
    """What a file opened for bytes holds, as a Source of that name; as `read_source`."""
    data = file.read(limits.bytes + 1)
    if len(data) > limits.bytes:
        size = f"{os.fstat(file.fileno()).st_size}" if file.seekable() else f"over {limits.bytes}"
        raise NotationError([_over(name, size, "bytes", limits.bytes)])
    try:
        return Source(name, data.decode("utf-8").removeprefix("\ufeff"))
    except UnicodeDecodeError as error:
        raise NotationError([fault("E102", None, offset=error.start, file=name)]) from None


def parse_file(source: Source, limits: Limits = Limits(), primes: bool = False) -> Module:
    """The operators and tables of a file.

    `primes` reads the compiler's own printed programs, whose names may end in '. Raises
    NotationError with every fault: E101 to E109, E115, E117 to E119, one for each
    statement, and E220 for a second operator of a name.
    """
    _check_file(source, limits)
    lines = statements(source, primes)
    if not lines:
        raise NotationError([fault("E101", None, file=source.name)])
    if len(lines) > limits.statements:
        over = _over(source.name, len(lines), "statements", limits.statements)
        raise NotationError([over])
    reader = _File(source)
    for line in lines:
        reader.take(line)
    return reader.finished()


def parse_signature(source: Source) -> Operator:
    """`[ params ] "->" outputs`: an operator without name and statements.

    Line ends count as spaces. Raises NotationError with the first fault.
    """
    _check_file(source, Limits())
    line = one_statement(source)
    if line.fault is not None:
        raise NotationError([line.fault])
    parser = Parser(source, line.tokens)
    first = parser.token
    if parser.at("op"):
        parser.unexpected(_DECLARED, do="a signature is parameters -> outputs, without a name")
    parameters = _declarations(parser, "->")
    outputs = _outputs(parser)
    parser.finish("a comma or the end of the signature")
    return Operator("", parameters, outputs, (), parser.since(first))


def _check_file(source: Source, limits: Limits) -> None:
    size = len(source.text.encode("utf-8", "surrogatepass"))
    if size > limits.bytes:
        raise NotationError([_over(source.name, size, "bytes", limits.bytes)])
    at = source.text.find("\0")
    if at >= 0:
        offset = len(source.text[:at].encode("utf-8", "surrogatepass"))
        raise NotationError([fault("E102.nul", None, offset=offset, file=source.name)])


def _over(name: str, size: int | str, unit: str, limit: int) -> Diagnostic:
    option = f"--max-{unit}"
    return fault("E103", None, file=name, size=size, unit=unit, limit=limit, option=option)


class _File:
    """The statements of a file so far, and the faults among them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.faults: list[Diagnostic] = []
        self.tables: list[Constants] = []
        self.operators: list[Operator] = []
        self._places: dict[str, Place] = {}  # of the operators' headers, by name
        self._body: list[Statement] | None = None  # of the operator above; None: there is none

    def take(self, line: Line) -> None:
        """Read one statement, or note its fault."""
        if line.tokens[0].text == "op":
            self._close()
            self._body = []
        try:
            if line.fault is not None:
                raise NotationError([line.fault])
            self._statement(Parser(self.source, line.tokens))
        except NotationError as error:
            self.faults += error.diagnostics

    def finished(self) -> Module:
        """What was read, if no statement has a fault."""
        if self.faults:
            raise NotationError(self.faults)
        self._close()
        return Module(tuple(self.tables), tuple(self.operators))

    def _close(self) -> None:
        """Give the operator above the equations below it."""
        if self._body and self.operators and not self.faults:
            last = self.operators.pop()
            self.operators.append(replace(last, statements=tuple(self._body)))
        self._body = None

    def _statement(self, parser: Parser) -> None:
        match parser.token.text:
            case "op":
                self._operator(_header(parser))
            case "const":
                self.tables.append(_table(parser))
                self._close()
            case "monoid":
                _monoid(parser)
            case _:
                self._equation(parser)

    def _operator(self, found: Operator) -> None:
        before = self._places.setdefault(found.name, found.span)
        if before is not found.span:
            related = (("first defined here", before),)
            self.faults.append(fault("E220.twice", found.span, name=found.name, related=related))
        self.operators.append(found)

    def _equation(self, parser: Parser) -> None:
        token = parser.token
        if token.kind != "name":
            parser.unexpected(_STATEMENT, do=_CONTINUE if token.text in _CONTINUES else "")
        if self._body is None and token.text not in RESERVED:
            parser.unexpected("op or const", do="an equation stands below its operator's header")
        if token.text == "def":
            parser.fail("E118", token, form="def", core=_HELPER)
        statement = _equation(parser)
        if self._body is not None:
            self._body.append(statement)


_DECLARED = "a declaration, as x: f32[n]"
_STATEMENT = "op, const or an equation"
_CONTINUES = frozenset(INFIX) | {"=", ",", ")", "]"}
_CONTINUE = "an equation goes on in the next line only inside brackets"
_HELPER = "write an equation with a name, or a Python function"


def _header(parser: Parser) -> Operator:
    first = parser.expect("op")
    name = parser.name("the operator's name")
    parser.open("(")
    parameters = _declarations(parser, ")")
    parser.close(")", "a comma or )")
    outputs = _outputs(parser)
    parser.finish("a comma or the end of the line")
    return Operator(name.text, parameters, outputs, (), parser.since(first))


def _outputs(parser: Parser) -> tuple[Parameter, ...]:
    parser.expect("->")
    bracketed = parser.at("(")
    if bracketed:
        parser.open("(")
    outputs = _declarations(parser, ")" if bracketed else "")
    if bracketed:
        parser.close(")", "a comma or )")
    if not outputs:
        parser.unexpected("an output, as y: f32[n]")
    return outputs


def _declarations(parser: Parser, end: str) -> tuple[Parameter, ...]:
    """Parameters up to the token `end`, which is left."""
    found: list[Parameter] = []
    while not parser.at(end):
        found.append(_declaration(parser))
        if not parser.accept(","):
            break
    return tuple(found)


def _declaration(parser: Parser) -> Parameter:
    first = parser.name(_DECLARED)
    parser.expect(":", ": and a dtype")
    const = parser.accept("const") is not None
    dtype = parser.dtype()
    dimensions = _dimensions(parser) if parser.at("[") else ()
    found = Parameter(first.text, const, dtype, dimensions, parser.since(first))
    _planned_declaration(parser)
    return found


def _planned_declaration(parser: Parser) -> None:
    """`as format(...)` and `in lower .. upper` behind a declaration: planned forms."""
    if first := parser.accept("as"):
        parser.name("the name of a format")
        if parser.at("("):
            parser.open("(")
            while not parser.at(")"):
                parser.whole()
                if not parser.accept(","):
                    break
            parser.close(")", "a comma or )")
        parser.planned(first, "a storage format", "leave it out: it does not change the meaning")
    if first := parser.accept("in"):
        parser.whole(ARITH)
        parser.expect("..", "an operator or ..")
        parser.whole(ARITH)
        parser.planned(first, "a range of values", "leave it out: the kernel compares subscripts")


def _dimensions(parser: Parser) -> tuple[Dimension, ...]:
    found: list[Dimension] = []
    parser.open("[")
    while not parser.at("]"):
        found.append(_dimension(parser))
        if not parser.accept(","):
            break
    if parser.token.text in INFIX:
        parser.unexpected("a comma or ]", do="name the dimension and state its size: p=...")
    parser.close("]", "a comma or ]")
    return tuple(found)


def _dimension(parser: Parser) -> Dimension:
    first = parser.token
    if first.kind == "number":
        size = parser.whole(ATOM)
        if isinstance(size, Constant) and size.literal.dtype is not INTEGER:
            parser.fail("E108", first, what="an integer", token=first.text)
        return Dimension(None, size, parser.since(first))
    name = parser.name("the name of a dimension")
    if parser.accept("@"):
        parser.name("the name of a mesh axis")
        parser.planned(first, "a sharded dimension", "leave it out: it does not change the meaning")
    size = parser.whole(ARITH) if parser.accept("=") else None
    return Dimension(name.text, size, parser.since(first))


def _table(parser: Parser) -> Constants:
    first = parser.expect("const")
    found = _declaration(parser)
    parser.expect("=")
    shape, entries = _rows(parser)
    parser.finish("the end of the line")
    table = Parameter(found.name, True, found.dtype, found.dimensions, found.span)
    return Constants(table, shape, entries, parser.since(first))


def _rows(parser: Parser) -> tuple[tuple[int, ...], tuple[Syntax, ...]]:
    """Nested rows as their shape and their entries in row-major order."""
    if not parser.at("["):
        return (), (parser.whole(ARITH),)
    parser.open("[")
    shapes: list[tuple[int, ...]] = []
    entries: list[Syntax] = []
    while not parser.at("]"):
        first = parser.token
        shape, row = _rows(parser)
        if shapes and shape != shapes[0]:
            here, above = _shape(shape), _shape(shapes[0])
            where = parser.since(first)
            parser.keep(fault("E108.rows", where, row_shape=here, shape=above))
        shapes.append(shape)
        entries += row
        if not parser.accept(","):
            break
    parser.close("]", "a comma or ]")
    if not shapes:
        parser.unexpected("an entry before ]")
    return (len(shapes), *shapes[0]), tuple(entries)


def _shape(shape: tuple[int, ...]) -> str:
    return f"shape [{', '.join(map(str, shape))}]" if shape else "a single entry"


def _monoid(parser: Parser) -> None:
    """monoid NAME(a, b) = expr unit expr: a planned form."""
    first = parser.expect("monoid")
    parser.name("the monoid's name")
    parser.open("(")
    parser.name()
    parser.expect(",")
    parser.name()
    parser.close(")")
    parser.expect("=")
    parser.whole()
    if parser.name("unit").text == "unit":
        parser.whole()
    core = f"use one of {', '.join(REDUCERS)}"
    parser.planned(first, "a monoid of one's own", core)
    parser.finish()


def _equation(parser: Parser) -> Statement:
    name = parser.name(_STATEMENT)
    dtype = parser.dtype() if parser.accept(":") else None
    left = _left(parser) if parser.at("[") else ()
    parser.expect("=", "=" if left else "=, or [ and the indices,")
    body = parser.whole()
    if parser.at("init"):
        first = parser.next()
        parser.whole()
        parser.planned(first, "init", "write a closed form: sum[u](x[u] where u <= t)")
    parser.finish()
    return Statement(name.text, dtype, left, body, parser.where(name), parser.since(name))


def _left(parser: Parser) -> tuple[Binding, ...]:
    """The indices of a left side: `i` or `i=4`."""
    items: list[Item] = []
    parser.open("[")
    while not parser.at("]"):
        first = parser.token
        items.append(parser.special_item() or Item(first, parser.whole()))
        if not parser.accept(","):
            break
    parser.close("]", "a comma or ]")
    return parser.bindings(items)
