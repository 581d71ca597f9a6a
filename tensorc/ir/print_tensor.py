"""Level 1 as text: the language itself, with as few brackets as read back to the same nodes.

`show` prints expressions of both levels (a tile's value is its name; `seen(i)` and `seen'(i)` are
what a loop over i has consumed before and with the current block). `show_program` prints an
operator. What only the compiler makes has its own spelling: names that end in ', fractions `1/3'`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from tensorc.ir.dtypes import BOOL, IMAGINARY, INTEGER, settled
from tensorc.ir.expression import (
    ARITH,
    ATOM,
    BITXOR,
    COMPARE,
    FLAT,
    INFIX,
    NOT,
    POWER,
    UNARY,
)
from tensorc.ir.node import Node, postorder
from tensorc.ir.numbers import show_number
from tensorc.ir.polynomial import Polynomial, extent
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Declaration,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Table,
    Value,
    value_type,
)

WIDTH = 100
_SPELLING: dict[str, tuple[str, int]] = {
    name: (symbol, strength) for symbol, (name, strength) in INFIX.items()
} | {"xor": ("^", BITXOR)}
_COMPARISONS = frozenset(name for name, (_, strength) in _SPELLING.items() if strength == COMPARE)

Shown = tuple[str, int]  # a text, and how strongly its outermost operator binds


def show(expr: Expr, sizes: Mapping[str, str] | None = None) -> str:
    """The expression in the language's syntax.

    `sizes` gives the size to state where a reduction binds an index, `sum[i=4](...)`.
    """
    return _shown(expr, sizes or {})[0]


def _shown(root: Expr, sizes: Mapping[str, str]) -> Shown:
    """Bottom up and iterative: each distinct node is printed once."""
    done: dict[Node, Shown] = {}
    for item in postorder((root,)):
        if isinstance(item, Expr):
            done[item] = _one(item, done, sizes)
    return done[root]


def _one(expr: Expr, done: Mapping[Node, Shown], sizes: Mapping[str, str]) -> Shown:
    match expr:
        case Literal():
            text = _literal(expr)
            return text, UNARY if text.startswith("-") else ATOM
        case Position(index):
            return index, ATOM
        case Extent(index):
            return f"|{index}|", ATOM
        case Read(tensor, subscripts):
            inside = _list(subscripts, done)
            return f"{tensor.name}[{inside}]" if subscripts else tensor.name, ATOM
        case Apply(function, args):
            return _apply(function.name, args, done)
        case Select(condition, yes, no):
            return f"select({_list((condition, yes, no), done)})", ATOM
        case Cast(dtype, arg):
            return f"{dtype}({done[arg][0]})", ATOM
        case Bitcast(dtype, arg):
            return f"bitcast({dtype}, {done[arg][0]})", ATOM
        case Round(dtype, arg):
            return f"{dtype}'({done[arg][0]})", ATOM
        case Reduce():
            return _reduce(expr, done, sizes), ATOM
        case Value(tile, _, _):
            return tile, ATOM
        case Seen(index, after):
            return f"seen{chr(39) * after}({index})", ATOM


def _list(args: tuple[Expr, ...], done: Mapping[Node, Shown]) -> str:
    return ", ".join(done[arg][0] for arg in args)


def _apply(name: str, args: tuple[Expr, ...], done: Mapping[Node, Shown]) -> Shown:
    shown = [done[arg] for arg in args]
    if short := _chain(name, args, done) or _clamp(name, args, done):
        return short
    match name:
        case "neg":
            # A minus before a number would become part of it.
            return f"-{_within(shown[0], ATOM + 1 if _is_number(args[0]) else UNARY)}", UNARY
        case "invert":
            return f"~{_within(shown[0], UNARY)}", UNARY
        case "not":
            return f"not {_within(shown[0], NOT)}", NOT
        case "pow":
            return f"{_within(shown[0], ATOM)} ** {_within(shown[1], UNARY)}", POWER
        case _ if name in _SPELLING:
            return _infix(name, args, shown)
        case _:
            return f"{name}({', '.join(text for text, _ in shown)})", ATOM


def _chain(name: str, args: tuple[Expr, ...], done: Mapping[Node, Shown]) -> Shown | None:
    """`0 <= i < n`, which is read as `0 <= i and i < n`."""
    links = [arg for arg in args if isinstance(arg, Apply) and arg.function.name in _COMPARISONS]
    linked = all(a.args[1] is b.args[0] for a, b in pairwise(links))
    if name != "and" or len(links) < len(args) or not linked:
        return None
    text = _within(done[links[0].args[0]], COMPARE + 1)
    for link in links:
        symbol, _ = _SPELLING[link.function.name]
        text += f" {symbol} {_within(done[link.args[1]], COMPARE + 1)}"
    return text, COMPARE


def _clamp(name: str, args: tuple[Expr, ...], done: Mapping[Node, Shown]) -> Shown | None:
    """`clamp(x, low, high)`, which is read as min(max(x, low), high)."""
    inner = args[0]
    if name != "min" or len(args) != 2 or not isinstance(inner, Apply):
        return None
    if inner.function.name != "max" or len(inner.args) != 2:
        return None
    return f"clamp({_list((*inner.args, args[1]), done)})", ATOM


def _is_number(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.dtype is not BOOL and not isinstance(expr.value, str)


def _infix(name: str, args: tuple[Expr, ...], shown: list[Shown]) -> Shown:
    """The first operand may bind as weakly as the operator itself, unless it would merge."""
    symbol, strength = _SPELLING[name]
    first = args[0]
    merges = isinstance(first, Apply) and first.function.name == name and name in FLAT
    least = strength + 1 if merges or strength == COMPARE else strength
    texts = [_within(shown[0], least), *(_within(part, strength + 1) for part in shown[1:])]
    return f" {symbol} ".join(texts), strength


def _within(shown: Shown, least: int) -> str:
    """The text, in brackets if its operator binds less strongly than `least`."""
    text, strength = shown
    return text if strength >= least else f"({text})"


def _reduce(expr: Reduce, done: Mapping[Node, Shown], sizes: Mapping[str, str]) -> str:
    names = [_bound(index, sizes) for index in expr.indices]
    dtype = [str(expr.dtype)] if expr.dtype is not None else []
    body = done[expr.body][0]
    where = f" where {done[expr.where][0]}" if expr.where is not None else ""
    return f"{expr.reducer}[{', '.join(names + dtype)}]({body}{where})"


def _bound(index: str, sizes: Mapping[str, str]) -> str:
    return f"{index}={sizes[index]}" if index in sizes else index


def _literal(literal: Literal) -> str:
    value, dtype = literal.value, literal.dtype
    if isinstance(value, str):
        return "-0.0" if value == "-0" else value
    if dtype is BOOL:
        return "true" if value else "false"
    sign = "-" if value < 0 else ""
    if dtype is IMAGINARY:
        return f"{sign}{_imaginary(abs(value))}"
    return f"{sign}{show_number(abs(value), dtype is not INTEGER)}"


def _imaginary(value: Fraction) -> str:
    """Decimals alone take a j; what is not a short decimal is an exact fraction."""
    text = show_number(value, value.denominator != 1)
    if text.startswith("0x"):
        text = f"{value.numerator}/{value.denominator}'"
    return f"{text}j"


def show_program(program: Program) -> str:
    """The operator as a `.tc` text, with the tables that it reads above it.

    A size is stated where its index first occurs, unless the index's extent is its own unknown.
    """
    sizes = _stated(program)
    tables = [_table(table) for table in program.tables]
    header = _header(program, sizes)
    outputs = {item.tensor.name for item in program.outputs}
    lines = [f"  {_equation(item, outputs, sizes)}" for item in program.equations]
    return "\n".join([*tables, header, *lines]) + "\n"


def _stated(program: Program) -> dict[str, str]:
    """The indices whose size must be written, with it; printing removes what it has written."""
    own = {name for name, size in program.extents if size is extent(name)}
    return {name: str(size) for name, size in program.extents if name not in own}


def _header(program: Program, sizes: dict[str, str]) -> str:
    parameters = [_declaration(item, sizes) for item in program.parameters]
    outputs = ", ".join(_declaration(item, sizes) for item in program.outputs)
    line = f"op {program.name}({', '.join(parameters)}) -> {outputs}"
    if len(line) <= WIDTH or not parameters:
        return line
    inside = "".join(f"    {item},\n" for item in parameters)
    return f"op {program.name}(\n{inside}) -> {outputs}"


def _declaration(item: Declaration, sizes: dict[str, str]) -> str:
    const = "const " if item.const else ""
    pairs = zip(item.dims, item.tensor.shape, strict=True)
    dims = ", ".join(_dimension(name, size, sizes) for name, size in pairs)
    return f"{item.tensor.name}: {const}{item.tensor.dtype}{f'[{dims}]' if dims else ''}"


def _dimension(name: str | None, size: Polynomial, sizes: dict[str, str]) -> str:
    if name is None:
        return str(size)
    text = _bound(name, sizes)
    sizes.pop(name, None)
    return text


def _equation(item: Equation, outputs: set[str], sizes: dict[str, str]) -> str:
    body = item.body
    if isinstance(body, Round) and body.dtype is item.tensor.dtype:
        body = body.arg
    # An output's type stands in the header.
    declared = item.tensor.dtype is not settled(value_type(body))
    dtype = f": {item.tensor.dtype}" if declared and item.tensor.name not in outputs else ""
    left = ", ".join(_bound(index, sizes) for index in item.indices)
    for index in item.indices:
        sizes.pop(index, None)
    indices = f"[{left}]" if item.indices else ""
    return f"{item.tensor.name}{dtype}{indices} = {show(body, sizes)}"


def _table(table: Table) -> str:
    dims = ", ".join(map(str, table.tensor.shape))
    shape = [size.constant or 0 for size in table.tensor.shape]
    entries = [_within(_shown(value, {}), ARITH) for value in table.values]
    declared = f"{table.tensor.name}: {table.tensor.dtype}{f'[{dims}]' if dims else ''}"
    return f"const {declared} = {_rows(entries, shape)}"


def _rows(entries: list[str], shape: list[int]) -> str:
    if not shape:
        return entries[0]
    step = len(entries) // shape[0] if shape[0] else 0
    rows = [_rows(entries[k * step : (k + 1) * step], shape[1:]) for k in range(shape[0])]
    return f"[{', '.join(rows)}]"
