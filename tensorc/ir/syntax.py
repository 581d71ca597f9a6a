"""The surface tree of expressions: what the user wrote, with a span on every part.

Built by the expression parser, by Python tracing and by einsum strings; turned into level-1 nodes
by the checker. Plain dataclasses, not interned: two uses have two positions. A traced tree may
share subtrees, so consumers remember what they have done with an object.

Operators are calls of their name in `ir.functions` ("add", "lt", ...), n-ary for `add`, `mul`,
`and` and `or`. A chain `a < b <= c` is one `Chain`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir.dtypes import DType
from tensorc.ir.source import Place
from tensorc.ir.tensor import Literal


@dataclass(frozen=True, eq=False)
class Constant:
    """A number, `inf`, `nan`, `pi`, `true` or `false`."""

    literal: Literal
    span: Place


@dataclass(frozen=True, eq=False)
class Name:
    """A bare name: an index, a 0-d tensor or a 0-d parameter."""

    name: str
    span: Place


@dataclass(frozen=True, eq=False)
class SizeOf:
    """|name|."""

    name: str
    span: Place


@dataclass(frozen=True, eq=False)
class Access:
    """name[subscripts]."""

    name: str
    subscripts: tuple[Syntax, ...]
    span: Place


@dataclass(frozen=True, eq=False)
class Call:
    """A function or operator by name, or `clamp`, `inside`, `select`."""

    name: str
    args: tuple[Syntax, ...]
    span: Place


@dataclass(frozen=True, eq=False)
class Chain:
    """args[0] operators[0] args[1] operators[1] ...: comparisons, all of which must hold."""

    operators: tuple[str, ...]
    args: tuple[Syntax, ...]
    span: Place


@dataclass(frozen=True, eq=False)
class Convert:
    """dtype(arg), or bitcast(dtype, arg)."""

    dtype: DType
    arg: Syntax
    bits: bool
    span: Place


@dataclass(frozen=True, eq=False)
class Binding:
    """An index of a left side or a reduction, with its size if stated: `i` or `j=4`."""

    name: str
    size: Syntax | None
    span: Place


@dataclass(frozen=True, eq=False)
class Reduction:
    """reducer[bindings, dtype](body where condition)."""

    reducer: str
    bindings: tuple[Binding, ...]
    dtype: DType | None
    body: Syntax
    where: Syntax | None
    span: Place


Syntax = Constant | Name | SizeOf | Access | Call | Chain | Convert | Reduction


def parts(item: Syntax) -> tuple[Syntax, ...]:
    """The expressions directly below `item`, in the order written."""
    match item:
        case Constant() | Name() | SizeOf():
            return ()
        case Access(_, subscripts, _):
            return subscripts
        case Call(_, args, _) | Chain(_, args, _):
            return args
        case Convert(_, arg, _, _):
            return (arg,)
        case Reduction(_, bindings, _, body, where, _):
            sizes = tuple(binding.size for binding in bindings if binding.size is not None)
            return (*sizes, body) if where is None else (*sizes, body, where)


def height(root: Syntax) -> int:
    """How deep the tree is; a leaf has height 1. Iterative, linear in the distinct objects."""
    heights: dict[int, int] = {}
    stack = [(root, False)]
    while stack:
        item, expanded = stack.pop()
        if expanded:
            heights[id(item)] = 1 + max((heights[id(part)] for part in parts(item)), default=0)
        elif id(item) not in heights:
            stack.append((item, True))
            stack.extend((part, False) for part in parts(item))
    return heights[id(root)]


def postorder(root: Syntax) -> list[Syntax]:
    """Every object below and with `root` once, parts first; iterative, linear in what is shared."""
    seen: set[int] = set()
    order: list[Syntax] = []
    stack: list[tuple[Syntax, bool]] = [(root, False)]
    while stack:
        item, expanded = stack.pop()
        if expanded:
            order.append(item)
        elif id(item) not in seen:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((part, False) for part in reversed(parts(item)))
    return order


def repeated(bindings: tuple[Binding, ...]) -> list[Binding]:
    """The bindings whose name an earlier one has."""
    names = [binding.name for binding in bindings]
    return [b for at, b in enumerate(bindings) if b.name in names[:at]]
