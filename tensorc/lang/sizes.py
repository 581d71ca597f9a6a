"""Sizes as they are written: what they may be made of, and that each index has one.

E214 (nothing fixes an extent), E206 (not an integer, negative, divisor below 1) and E201 (two
sizes for one index) at definition. What only the numbers of a call show is `ir.sizes`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir import syntax as s
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import INTEGER
from tensorc.ir.polynomial import MOST_TERMS, Polynomial
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.wording import article
from tensorc.lang.extents import Extents
from tensorc.lang.surface import Operator

_ALLOWED = frozenset("add sub mul floordiv mod neg pos min max clamp".split())


def faults(operator: Operator, extents: Extents) -> Iterator[Diagnostic]:
    """All faults in the sizes of an operator."""
    written = [*_named(extents), *_anonymous(operator)]
    for name, size, span in written:
        yield from _size(name, size, span, extents)
    for name, span in extents.order.items():
        if name not in extents.known and name not in extents.stated:
            yield fault("E214", span, index=name)
    yield from _conflicts(extents)


def _named(extents: Extents) -> Iterator[tuple[str, s.Syntax, Place]]:
    for name, stated in extents.stated.items():
        for size, span in stated:
            yield name, size, span


def _anonymous(operator: Operator) -> Iterator[tuple[str, s.Syntax, Place]]:
    for item in (*operator.parameters, *operator.outputs):
        for number, dim in enumerate(item.dimensions):
            if dim.name is None and dim.size is not None:
                yield f"dimension {number} of {item.name}", dim.size, dim.span


def _size(name: str, size: s.Syntax, span: Place, extents: Extents) -> Iterator[Diagnostic]:
    wrong = _not_a_size(size, extents)
    if wrong is not None:
        yield wrong
        return
    value = extents.size(size)
    names = [item.name for item in s.postorder(size) if isinstance(item, s.SizeOf)]
    if value is None and all(name in extents.known for name in names):
        yield fault("E206.form", span, size=f"a product of more than {MOST_TERMS} terms")
        return
    if value is None:
        yield fault("E214.itself", span, index=name)
        return
    if value.constant is not None and value.constant < 0:
        yield fault("E206", size.span, size=name, value=value.constant, do="state a size >= 0")
    for divisor, place in divisors(size, extents):
        if divisor.constant is not None and divisor.constant < 1:
            do = "divide by at least 1"
            yield fault("E206.divisor", place, do=do, size=name, value=divisor.constant)


def divisors(size: s.Syntax, extents: Extents) -> Iterator[tuple[Polynomial, Place]]:
    """What a size is divided by, where that is known as a polynomial."""
    for item in s.postorder(size):
        if isinstance(item, s.Call) and item.name in ("floordiv", "mod") and len(item.args) == 2:
            value = extents.size(item.args[1])
            if value is not None:
                yield value, item.args[1].span


def open_divisors(operator: Operator, extents: Extents) -> Iterator[tuple[Polynomial, str]]:
    """The divisors that only a call knows, each with the name of the size it stands in.

    0-d equations that are sizes count too, since others may be made of them.
    """
    scalars = [
        (item.name, item.body)
        for item in operator.statements
        if not item.left and item.name in extents.scalars
    ]
    written = [(name, size) for name, size, _ in (*_named(extents), *_anonymous(operator))]
    for name, size in (*written, *scalars):
        for divisor, _ in divisors(size, extents):
            if divisor.constant is None:
                yield divisor, name


def _not_a_size(size: s.Syntax, extents: Extents) -> Diagnostic | None:
    """The first part that no size is made of."""
    for item in s.postorder(size):
        match item:
            case s.SizeOf(name, span) if name not in extents.order:
                return fault("E214.unknown", span, index=name)
            case s.Name(name, span) if name not in extents.scalars:
                do = f"write |{name}|" if name in extents.order else ""
                return fault("E206.const", span, do=do, size=name)
            case s.Constant(literal, span) if literal.dtype is not INTEGER:
                return fault("E206.form", span, size=article(literal.dtype))
            case s.Call(name, _, span) if name not in _ALLOWED:
                return fault("E206.form", span, size=f"the operation {name}")
            case s.Access(_, _, span) | s.Chain(_, _, span) | s.Convert(_, _, _, span):
                return fault("E206.form", span, size="this expression")
            case s.Reduction(span=span):
                return fault("E206.form", span, size="a reduction")
            case _:
                pass
    return None


def _conflicts(extents: Extents) -> Iterator[Diagnostic]:
    """Two sizes stated for one index must be the same polynomial."""
    for name, stated in extents.stated.items():
        first = extents.known.get(name)
        for size, span in stated:
            value = extents.size(size)
            if value is not None and first is not None and value is not first:
                place = extents.origin[name].resolve().place
                yield fault("E201", span, index=name, here=value, there=first, place=place)
