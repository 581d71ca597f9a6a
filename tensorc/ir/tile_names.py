"""What names mean in a text of level 2, and expressions and bounds made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorc.errors import NotationError
from tensorc.ir import syntax as s
from tensorc.ir.build import Builder
from tensorc.ir.dtypes import INDEX
from tensorc.ir.node import Node, rebuild
from tensorc.ir.polynomial import Opaque, Polynomial, Symbol, bound, extent, of_atom, polynomial
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.tensor import Expr, Literal, Read, Seen, Tensor, Value
from tensorc.ir.tile import Tile

FUNCTIONS = frozenset({"seen", "seen'", "base"})  # what only this level calls


@dataclass
class Names:
    """What names mean: indices, tensors, tiles, and how many lanes an index has."""

    extents: Mapping[str, Polynomial]
    tensors: Mapping[str, Tensor]
    constants: frozenset[str]
    tiles: dict[str, Tile]
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    def index(self, name: str) -> bool:
        """Whether the name is an index; a tile's name is a tile's."""
        return name in self.extents and name not in self.tiles

    def tensor(self, name: str) -> Tensor | None:
        """Tensors, and stand-ins for tiles and counts, which `expr` replaces."""
        if name in self.tiles:
            return Tensor(name, self.tiles[name].dtype, ())
        if name.startswith("seen"):
            return Tensor(name, INDEX, ())
        return self.tensors.get(name)

    def missing(self, name: str, span: Place, bare: bool) -> Diagnostic:
        """The fault for an unknown name."""
        kind = "tile, index or tensor" if bare else "tensor"
        return Diagnostic("E108", f"no {kind} of this text is named {name}", span)

    def expr(self, item: s.Syntax) -> Expr:
        """The node of an expression. NotationError: unknown names, types that do not fit."""
        faults: list[Diagnostic] = []
        found = Builder(self, faults.append).build(self.prepared(item))
        if found is None:
            raise NotationError(faults)
        done = self.resolved(found)
        assert isinstance(done, Expr)
        return done

    def prepared(self, item: s.Syntax) -> s.Syntax:
        """`seen(i)` as a name of its own, which `tensor` knows; no tile with subscripts."""
        match item:
            case s.Call(("seen" | "seen'") as name, (s.Name(index, _),), span):
                return s.Name(f"{name}({index})", span)
            case s.Access(name, _, span) if name in self.tiles:
                message = f"{name} is a tile; it is written without subscripts"
                raise NotationError([Diagnostic("E108", message, span)])
            case s.Access(_, subscripts, _):
                return replace(item, subscripts=tuple(map(self.prepared, subscripts)))
            case s.Call(_, args, _) | s.Chain(_, args, _):
                return replace(item, args=tuple(map(self.prepared, args)))
            case s.Convert(_, arg, _, _):
                return replace(item, arg=self.prepared(arg))
            case _:
                return item

    def resolved(self, item: Node) -> Node:
        """Stand-ins replaced by what they stand for."""
        if isinstance(item, Read) and not item.subscripts:
            name = item.tensor.name
            if name in self.tiles:
                tile = self.tiles[name]
                return Value(name, tile.axes, tile.dtype)
            if name.startswith("seen") and item.tensor.dtype is INDEX:
                head, index = name[:-1].split("(")
                return Seen(index, head.endswith("'"))
        return rebuild(item, self.resolved)

    def bound(self, item: s.Syntax) -> Polynomial:
        """A size or bound: integers, extents, constants, bases, and reads of data."""
        match item:
            case s.Constant(Literal(value), _) if not isinstance(value, str):
                return polynomial(int(value))
            case s.SizeOf(name, _):
                return extent(name)
            case s.Name(name, _) if name in self.constants:
                return of_atom(Symbol(name, "parameter"))
            case s.Call("base", (s.Name(name, _),), _):
                return of_atom(Symbol(name, "base"))
            case s.Call(name, args, span):
                return _arithmetic(name, [self.bound(arg) for arg in args], span)
            case _:
                return of_atom(Opaque(self.expr(item)))


def _arithmetic(name: str, args: Sequence[Polynomial], span: Place) -> Polynomial:
    match name, tuple(args):
        case "add", _:
            return sum(args, polynomial(0))
        case "mul", (first, *rest):
            for item in rest:
                first = first * item
            return first
        case "sub", (a, b):
            return a - b
        case "neg", (a,):
            return -a
        case "floordiv", (a, b):
            return a // b
        case "mod", (a, b):
            return a % b
        case (("min" | "max"), _):
            return bound(name, tuple(args))
        case _:
            raise NotationError([Diagnostic("E108", f"a bound is not made by {name}", span)])
