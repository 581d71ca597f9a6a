"""The extent of every index of an operator (language 2.2), as canonical polynomials.

An index gets its extent from the first rule that applies: (a) a stated size, (b) a parameter's
dimension, (c) the output's dimension at its place on the left, (d) a dimension that it subscripts
as it is, (e) an affine subscript outside conditions in which it is the only unknown. The rules run
to a fixed point over the surface tree, before any node is built, since a node that reads an
intermediate needs its shape. A size is converted to a polynomial here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tensorc.ir import polynomial as p
from tensorc.ir import syntax as s
from tensorc.ir.dtypes import INTEGER
from tensorc.ir.polynomial import Polynomial, Symbol
from tensorc.ir.source import Place
from tensorc.lang.surface import Operator, Parameter, Statement
from tensorc.lang.uses import Use, bool_tensors, uses_of

Lookup = Callable[[str], Polynomial | None]


@dataclass
class Extents:
    """What is known of an operator's indices while the rules run.

    `known`: index to extent; `origin`: where each extent was found; `stated`: the sizes written
    for an index; `scalars`: what 0-d names are worth in sizes; `shapes`: the extents of each
    dimension of every tensor, None where not yet known.
    """

    tables: dict[str, tuple[int, ...]]
    known: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])
    origin: dict[str, Place] = field(default_factory=dict[str, Place])
    stated: dict[str, list[tuple[s.Syntax, Place]]] = field(
        default_factory=dict[str, list[tuple[s.Syntax, Place]]]
    )
    scalars: dict[str, Polynomial] = field(default_factory=dict[str, Polynomial])
    order: dict[str, Place] = field(default_factory=dict[str, Place])

    def size(self, item: s.Syntax) -> Polynomial | None:
        """A size as a polynomial; None if it is not made of known integers."""
        return convert(item, self.known.get, self.scalars.get, lambda name: None)

    def settle(self, name: str, extent: Polynomial, span: Place) -> bool:
        """Record the extent of an index that has none yet; whether that was news."""
        if name in self.known or name in self.stated:
            return False
        self.known[name], self.origin[name] = extent, span
        return True


def infer(operator: Operator, tables: dict[str, tuple[int, ...]]) -> Extents:
    """Run the rules on `operator`; indices that no rule reaches stay out of `known`."""
    extents = Extents(tables)
    _declare(operator, extents)
    bools = bool_tensors(operator)
    uses = [uses_of(statement.body, bools) for statement in operator.statements]
    while _progress(operator, uses, extents):
        pass
    return extents


def _declare(operator: Operator, extents: Extents) -> None:
    for parameter in operator.parameters:
        if parameter.const and not parameter.dimensions and parameter.dtype.integral:
            symbol = p.of_atom(Symbol(parameter.name, "parameter"))
            extents.scalars[parameter.name] = symbol
    for binding in bindings_of(operator):
        extents.order.setdefault(binding.name, binding.span)
        if binding.size is not None:
            extents.stated.setdefault(binding.name, []).append((binding.size, binding.span))
    for parameter in operator.parameters:
        for dim in parameter.dimensions:
            if dim.name is not None:
                extents.settle(dim.name, p.extent(dim.name), dim.span)


def bindings_of(operator: Operator) -> Iterator[s.Binding]:
    """Every place that introduces an index: dimensions, left sides, reductions, in order."""
    for parameter in (*operator.parameters, *operator.outputs):
        for dim in parameter.dimensions:
            if dim.name is not None:
                yield s.Binding(dim.name, dim.size, dim.span)
    for statement in operator.statements:
        yield from statement.left
        for item in s.postorder(statement.body):
            if isinstance(item, s.Reduction):
                yield from item.bindings


def _progress(operator: Operator, uses: list[list[Use]], extents: Extents) -> bool:
    """One round of the rules, in their order; whether it found an extent or a size."""
    shapes = Shapes(operator, extents)
    return (
        any([_stated(extents), _scalars(operator, extents)])
        or _left_sides(operator, shapes, extents)
        or any([_bare(use.access, shapes, extents) for group in uses for use in group])
        or _affine(uses, shapes, extents)
    )


def _stated(extents: Extents) -> bool:
    news = False
    for name, sizes in extents.stated.items():
        for size, span in sizes:
            value = extents.size(size)
            if name not in extents.known and value is not None:
                extents.known[name], extents.origin[name] = value, span
                news = True
    return news


def _scalars(operator: Operator, extents: Extents) -> bool:
    """A 0-d equation made of a size is a size."""
    news = False
    for statement in operator.statements:
        if statement.left or statement.name in extents.scalars or statement.dtype is not None:
            continue
        value = extents.size(statement.body)
        if value is not None:
            extents.scalars[statement.name] = value
            news = True
    return news


def _left_sides(operator: Operator, shapes: Shapes, extents: Extents) -> bool:
    news = False
    for statement in operator.statements:
        output = shapes.outputs.get(statement.name)
        if output is None:
            continue
        for binding, size in zip(statement.left, shapes.declared(output), strict=False):
            if size is not None:
                news |= extents.settle(binding.name, size, binding.span)
    return news


def _bare(access: s.Access, shapes: Shapes, extents: Extents) -> bool:
    news = False
    for sub, size in zip(access.subscripts, shapes.of(access.name), strict=False):
        if isinstance(sub, s.Name) and sub.name in extents.order and size is not None:
            news |= extents.settle(sub.name, size, sub.span)
    return news


def _affine(uses: list[list[Use]], shapes: Shapes, extents: Extents) -> bool:
    """Rule (e), for the first index that it can decide: the least over its subscripts."""
    found: dict[str, list[Polynomial]] = {}
    place: dict[str, Place] = {}
    for use in (use for group in uses for use in group if not use.guarded):
        for sub, size in zip(use.access.subscripts, shapes.of(use.access.name), strict=False):
            solved = _solve(sub, size, extents) if size is not None else None
            if solved is not None:
                found.setdefault(solved[0], []).append(solved[1])
                place.setdefault(solved[0], sub.span)
    for name, sizes in found.items():
        extents.settle(name, p.bound("min", tuple(sizes)), place[name])
    return bool(found)


def _solve(sub: s.Syntax, size: Polynomial, extents: Extents) -> tuple[str, Polynomial] | None:
    """(index, its extent) if `sub` is affine with one unknown of positive constant factor."""

    def position(name: str) -> Polynomial | None:
        return p.of_atom(Symbol(name, "index")) if name in extents.order else None

    value = convert(sub, extents.known.get, extents.scalars.get, position)
    if value is None:
        return None
    names = [symbol.name for symbol in p.symbols(value) if symbol.kind == "index"]
    unknown = [name for name in names if name not in extents.known and name not in extents.stated]
    if len(unknown) != 1:
        return None
    factor, rest = p.linear(value, Symbol(unknown[0], "index"))
    number = factor.constant if factor is not None else None
    top = greatest(rest, extents.known.get) if number is not None and number > 0 else None
    if number is None or top is None:
        return None
    return unknown[0], (size - 1 - top) // number + 1


def greatest(value: Polynomial, extent_of: Lookup) -> Polynomial | None:
    """The greatest value of an affine polynomial over its indices; None where a sign is open."""
    for symbol in sorted(p.symbols(value), key=str):
        if symbol.kind != "index":
            continue
        factor, rest = p.linear(value, symbol)
        extent = extent_of(symbol.name)
        if factor is None or extent is None:
            return None
        if all(c >= 0 for _, c in factor.terms):
            value = rest + factor * (extent - 1)
        elif all(c <= 0 for _, c in factor.terms):
            value = rest
        else:
            return None
    return value


class Shapes:
    """The dimensions of every tensor as far as extents are known."""

    def __init__(self, operator: Operator, extents: Extents) -> None:
        self.extents = extents
        self.outputs = {output.name: output for output in operator.outputs}
        self.parameters = {item.name: item for item in operator.parameters}
        self.statements: dict[str, Statement] = {}
        for statement in operator.statements:
            self.statements.setdefault(statement.name, statement)

    def of(self, name: str) -> Sequence[Polynomial | None]:
        """The extents of the tensor's dimensions, None where unknown; empty if there is none."""
        if name in self.parameters:
            return self.declared(self.parameters[name])
        if name in self.outputs:
            return self.declared(self.outputs[name])
        if name in self.statements:
            left = self.statements[name].left
            return [self.extents.known.get(binding.name) for binding in left]
        return [p.polynomial(size) for size in self.extents.tables.get(name, ())]

    def declared(self, parameter: Parameter) -> list[Polynomial | None]:
        """The extents of a parameter's or output's dimensions."""
        found: list[Polynomial | None] = []
        for dim in parameter.dimensions:
            if dim.name is not None:
                found.append(self.extents.known.get(dim.name))
            else:
                found.append(self.extents.size(dim.size) if dim.size is not None else None)
        return found


def convert(root: s.Syntax, extent: Lookup, scalar: Lookup, position: Lookup) -> Polynomial | None:
    """A surface expression of integers as a polynomial; None where a part has no value there."""
    found: dict[int, Polynomial | None] = {}
    for item in s.postorder(root):
        match item:
            case s.Constant(literal, _) if literal.dtype is INTEGER:
                whole = literal.value
                found[id(item)] = p.polynomial(int(whole)) if isinstance(whole, Fraction) else None
            case s.Name(name, _):
                found[id(item)] = position(name) or scalar(name)
            case s.SizeOf(name, _):
                found[id(item)] = extent(name)
            case s.Call(name, args, _):
                values = [found[id(arg)] for arg in args]
                known = [value for value in values if value is not None]
                found[id(item)] = arithmetic(name, known) if len(known) == len(values) else None
            case _:
                found[id(item)] = None
    return found[id(root)]


def arithmetic(name: str, args: Sequence[Polynomial]) -> Polynomial | None:
    """An operation of sizes on polynomials; None if `name` is not one."""
    match name, args:
        case "add", _:
            return _total(args)
        case "mul", _:
            return p.product(args)
        case "sub", (a, b):
            return a - b
        case (("neg" | "pos"), (a,)):
            return -a if name == "neg" else a
        case "floordiv", (a, b):
            return a // b
        case "mod", (a, b):
            return a % b
        case (("min" | "max"), _):
            return p.bound(name, tuple(args))
        case "clamp", (x, low, high):
            return p.bound("min", (p.bound("max", (x, low)), high))
        case _:
            return None


def _total(args: Iterable[Polynomial]) -> Polynomial:
    return sum(args, p.polynomial(0))
