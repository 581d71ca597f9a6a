"""Surface expressions as `.tc` text that remembers where each part stands.

For messages about Python code whose source lines are gone, and for the `repr` of traced values.
Checked programs are printed by `ir.print_tensor`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir.dtypes import BOOL, IMAGINARY, INTEGER
from tensorc.ir.expression import ATOM, BITXOR, COMPARE, INFIX, NOT, UNARY
from tensorc.ir.functions import SYMBOLS
from tensorc.ir.numbers import show_number
from tensorc.ir.source import Source
from tensorc.ir.syntax import (
    Access,
    Binding,
    Call,
    Chain,
    Constant,
    Convert,
    Name,
    Reduction,
    SizeOf,
    Syntax,
)
from tensorc.ir.tensor import Literal
from tensorc.lang.spot import Spot

_PREFIX = {"not": NOT, "neg": UNARY, "pos": UNARY, "invert": UNARY}
_LEVELS = {**dict(INFIX.values()), "xor": BITXOR, **_PREFIX}
_SIGNS = SYMBOLS | {"pos": "+"}


def text_of(root: Syntax, limit: int) -> str:
    """The `.tc` form, cut with an ellipsis at `limit` characters."""
    text, _ = _written(root, limit)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def locate(name: str, root: Syntax, head: str) -> None:
    """Tell every `Spot` below `root` its span in the text `head` + the `.tc` form of `root`."""
    text, marks = _written(root, 20_000)
    source = Source(name, head + text)
    marks.sort(key=lambda mark: mark[1] - mark[2])  # a position may cover parts: the whole first
    for spot, start, end in marks:
        spot.written(source.span(len(head) + start, len(head) + end))


def _written(root: Syntax, limit: int) -> tuple[str, list[tuple[Spot, int, int]]]:
    """The text up to about `limit` characters, and the range of each part that has a `Spot`.

    Iterative: an expression may be as deep as a loop in Python made it.
    """
    done: list[str] = []
    marks: list[tuple[Spot, int, int]] = []
    length = 0
    stack: list[str | Syntax | tuple[Spot, int]] = [root]
    while stack and length <= limit:
        match stack.pop():
            case str(text):
                done.append(text)
                length += len(text)
            case (spot, start):
                marks.append((spot, start, length))
            case item:
                if isinstance(item.span, Spot):
                    stack.append((item.span, length))
                stack.extend(reversed(list(_pieces(item))))
    return "".join(done), marks


def _pieces(item: Syntax) -> Iterator[str | Syntax]:
    """The parts of an expression in the order of its text."""
    match item:
        case Constant(literal, _):
            yield _number(literal)
        case Name(name, _):
            yield name
        case SizeOf(name, _):
            yield f"|{name}|"
        case Access(name, subscripts, _):
            yield from _listed(f"{name}[", subscripts, "]") if subscripts else (name,)
        case Call(name, args, _) if name in _SIGNS and len(args) == 1:
            yield _SIGNS[name] + (" " if name == "not" else "")
            yield from _operand(args[0], _LEVELS[name])
        case Call(name, args, _) if name in _SIGNS:
            yield from _infix([name] * (len(args) - 1), args, _LEVELS[name])
        case Call(name, args, _):
            yield from _listed(f"{name}(", args, ")")
        case Chain(operators, args, _):
            yield from _infix(list(operators), args, COMPARE)
        case Convert(dtype, arg, bits, _):
            yield from (f"bitcast({dtype}, " if bits else f"{dtype}(", arg, ")")
        case Reduction():
            yield from _reduction(item)


def _reduction(item: Reduction) -> Iterator[str | Syntax]:
    yield f"{item.reducer}["
    for place, bound in enumerate(item.bindings):
        yield ", " if place else ""
        yield from _binding(bound)
    yield f", {item.dtype}](" if item.dtype else "]("
    yield item.body
    if item.where is not None:
        yield from (" where ", item.where)
    yield ")"


def _binding(item: Binding) -> Iterator[str | Syntax]:
    yield item.name
    if item.size is not None:
        yield from ("=", item.size)


def _infix(names: list[str], args: tuple[Syntax, ...], level: int) -> Iterator[str | Syntax]:
    """Operands between their signs; all but the first need to bind tighter, `**` the reverse."""
    right = names[0] == "pow"
    yield from _operand(args[0], level + 1 if right or level == COMPARE else level)
    for name, arg in zip(names, args[1:], strict=True):
        yield f" {_SIGNS[name]} "
        yield from _operand(arg, UNARY if right else level + 1)


def _operand(item: Syntax, least: int) -> Iterator[str | Syntax]:
    if _level(item) >= least:
        yield item
    else:
        yield from ("(", item, ")")


def _level(item: Syntax) -> int:
    match item:
        case Call(name, _, _) if name in _SIGNS:
            return _LEVELS[name]
        case Chain():
            return COMPARE
        case _:
            return ATOM


def _listed(head: str, items: tuple[Syntax, ...], tail: str) -> Iterator[str | Syntax]:
    yield head
    for place, item in enumerate(items):
        yield ", " if place else ""
        yield item
    yield tail


def _number(item: Literal) -> str:
    if isinstance(item.value, str):
        return "-0.0" if item.value == "-0" else item.value
    if item.dtype is BOOL:
        return "true" if item.value else "false"
    text = show_number(abs(item.value), item.dtype is not INTEGER)
    return f"{'-' * (item.value < 0)}{text}{'j' * (item.dtype is IMAGINARY)}"
