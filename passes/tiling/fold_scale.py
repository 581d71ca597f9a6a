"""Take scales out of scores and into the exponentials that are made of them.

    x[m, n] = t / sqrt(|d|)                      s[m, n] = select(n < |n|, t, -inf)
    s[m, n] = select(n < |n|, x, -inf)           r'[m] = max(r, max[n](s))
    r'[m] = max(r, max[n](s))              ->    z[m] = max(log2(e) / sqrt(|d|) * r', lowest)
    z[m] = max(r', lowest)                       y[m, n] = exp2(log2(e) / sqrt(|d|) * s - z)
    y[m, n] = exp(s - z)

True afterwards: a positive constant that multiplies what is only masked, compared for its maximum
and raised as a power is multiplied in the exponent, which is one fused multiply-add; and every
exponential of a difference to what a product is part of is a power of two. The maximum is carried
without the scale, and multiplied by it where it is used.

Products of a tensor core have errors of several units of their largest term, so a rounding of the
scaled difference in the exponent is within what the scores are off already; exponentials of exact
differences are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from tensorc.ir.constants import fold
from tensorc.ir.dtypes import F32
from tensorc.ir.functions import MAX
from tensorc.ir.node import Node, postorder, replaced
from tensorc.ir.tensor import Apply, Expr, Literal, Select, Value, value_type
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store, Tile
from tensorc.ir.walk_tile import constant, expressions, statements, values_in
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.tiling.neutral import identity

LOG2E = call("log2", call("exp", integer(1)))
LEAST = identity(MAX, F32)
LOWEST = Fraction(-(2**24 - 1) * 2**104)  # the least finite number of f32, for any that is less
Change = Callable[[Statement], Statement | None]


def fold_scale(kernel: Kernel, static: Mapping[str, int]) -> Kernel:
    """The kernel with scales folded into exponents; `static`: extents that are fixed."""
    for let in [item for item in statements(kernel.body) if isinstance(item, Let)]:
        found = _scale(let, static)
        if found is not None:
            kernel = _without(kernel, let, *found)
    return _powers(kernel)


# --- scales ---------------------------------------------------------------------------------------


def _scale(let: Let, static: Mapping[str, int]) -> tuple[Value, Expr] | None:
    """The tile and the constant that a statement multiplies, where a mask holds if it has one;
    None: it does something else."""
    match _unmasked(let.body):
        case Apply(function, (Value() as base, factor)) if function.name in ("mul", "div"):
            made = factor if function.name == "mul" else call("div", integer(1), factor)
        case Apply(function, (factor, Value() as base)) if function.name == "mul":
            made = factor
        case _:
            return None
    if let.op is not None or let.tile.dtype is not F32 or base.dtype is not F32:
        return None
    number = fold(made, static) if constant(made) and value_type(made).weak else None
    return (base, made) if isinstance(number, Fraction) and number > 0 else None


def _unmasked(body: Expr) -> Expr:
    return body.yes if isinstance(body, Select) and body.no is LEAST else body


def _without(kernel: Kernel, let: Let, base: Value, factor: Expr) -> Kernel:
    """The kernel in which what is made of a scaled tile is made of the tile itself, if all of it is
    masked, compared or raised; else as it is."""
    family = _family(kernel, let)
    if family is None or any(family & _fixed(item) for item in statements(kernel.body)):
        return kernel
    mask = let.body if isinstance(let.body, Select) else None
    known = {} if mask else {let.tile.name: base}

    def plain(item: Node) -> Node | None:
        return known.get(item.tile) if isinstance(item, Value) else None

    def scaled(item: Node) -> Node | None:
        if isinstance(item, Value) and item.tile in family:
            return call("mul", factor, known.get(item.tile, item))
        return None

    def change(item: Statement) -> Statement | None:
        if item is let:
            return replace(let, body=replace(mask, yes=base)) if mask else None
        inner = isinstance(item, Let) and item.tile.name in family
        return with_exprs(item, plain if inner else scaled)

    return replace(kernel, body=tuple(changed(kernel.body, change)))


def _family(kernel: Kernel, let: Let) -> frozenset[str] | None:
    """The tiles that have the scale of one as a factor; None where one of them is used otherwise
    than as a score is."""
    found, left = {let.tile.name}, [let.tile.name]
    loops = [item for item in statements(kernel.body) if isinstance(item, Loop)]
    while left:
        name = left.pop()
        for item in statements(kernel.body):
            if isinstance(item, Loop) or name not in values_in(expressions(item)):
                continue
            masked = isinstance(item, Let) and _masks(item, name)
            if masked and isinstance(item, Let):
                made = {item.tile.name}
            elif isinstance(item, Let) and item.op is MAX and isinstance(item.body, Value):
                carried = _carried(item, loops)
                if carried is None:
                    return None
                made = {item.tile.name, carried}
            elif name in _raised(item) or name not in _scores(kernel, let):
                continue
            else:
                return None
            left += made - found
            found |= made
    return frozenset(found) if any(_raises(kernel, name) for name in found) else None


def _fixed(item: Statement) -> frozenset[str]:
    """Tiles whose values a loop starts from, or goes by."""
    if not isinstance(item, Loop):
        return frozenset()
    starts = {c.start.name for c in item.carries if isinstance(c.start, Tile)}
    return frozenset(starts | values_in(expressions(item)).keys())


def _scores(kernel: Kernel, let: Let) -> frozenset[str]:
    """Tiles as large as the scaled one: multiplying them costs what the scale costs now."""
    lets = (item for item in statements(kernel.body) if isinstance(item, Let))
    return frozenset(i.tile.name for i in lets if i.tile.axes == let.tile.axes)


def _masks(item: Let, name: str) -> bool:
    """Whether a statement keeps a tile, or puts -inf in its place."""
    match item.body:
        case Select(condition, Value(tile), no) if item.op is None and no is LEAST:
            return tile == name and name not in values_in([condition])
        case _:
            return False


def _carried(item: Let, loops: list[Loop]) -> str | None:
    """The carry, from -inf, of which a statement makes the next value."""
    for loop in loops:
        for carry in loop.carries:
            if f"{carry.tile.name}'" == item.tile.name and item.onto is carry.tile:
                return carry.tile.name if carry.start is LEAST else None
    return None


# --- powers ---------------------------------------------------------------------------------------


def _difference(item: Node) -> tuple[Expr, Expr] | None:
    """a and b of exp(a - b) in f32."""
    match item:
        case Apply(function, (Apply(minus, (a, b)) as power,)) if (
            function.name == "exp" and minus.name == "sub" and value_type(power) is F32
        ):
            return a, b
        case _:
            return None


def _raised(item: Statement) -> frozenset[str]:
    """The tiles that a statement reads in exponents alone."""
    inside = set[str]()

    def cut(node: Node) -> Node | None:
        pair = _difference(node)
        if pair is None:
            return None
        inside.update(values_in(pair))
        return integer(0)

    outside = [replaced(expr, cut) for expr in expressions(item)]
    return frozenset(inside - values_in([cast(Expr, expr) for expr in outside]).keys())


def _raises(kernel: Kernel, name: str) -> bool:
    return any(name in _raised(i) for i in statements(kernel.body) if not isinstance(i, Loop))


def _powers(kernel: Kernel) -> Kernel:
    """Exponentials of differences to scores as powers of two."""
    inexact = _inexact(kernel)
    shifts = _Shifts.of(kernel, inexact)

    def two(node: Node) -> Node | None:
        pair = _difference(node)
        if pair is None or not inexact & values_in(pair).keys():
            return None
        return call("exp2", call("sub", *(shifts.scaled(part) for part in pair)))

    def change(item: Statement) -> Statement:
        if isinstance(item, Let) and item.tile.name in shifts.names:
            return replace(item, body=times(LOG2E, item.body))
        return with_exprs(item, two)

    return replace(kernel, body=tuple(changed(kernel.body, change)))


def _inexact(kernel: Kernel) -> frozenset[str]:
    """Tiles that a product is part of."""
    found = set[str]()
    for item in statements(kernel.body):
        if isinstance(item, Let):
            product = bool(item.by.roles) and item.op is not None
            if product or found & values_in([item.body]).keys():
                found.add(item.tile.name)
                found.add(item.tile.name.rstrip("'"))
    return frozenset(found)


@dataclass(frozen=True)
class _Shifts:
    """Tiles that are read nowhere but as one side of such a difference: they are made scaled."""

    names: frozenset[str]

    @staticmethod
    def of(kernel: Kernel, inexact: frozenset[str]) -> _Shifts:
        sides, others = set[str](), set[str]()
        for item in statements(kernel.body):
            if isinstance(item, Loop):
                continue
            for node in postorder(expressions(item)):
                pair = _difference(node)
                if pair is not None and inexact & values_in(pair).keys():
                    sides |= {part.tile for part in pair if isinstance(part, Value)}
            others |= values_in(expressions(item)).keys() - _whole_sides(item, inexact)
            if isinstance(item, Let) and (item.op is not None or item.tile.dtype is not F32):
                others.add(item.tile.name)
        carried = {c.tile.name for i in statements(kernel.body) if isinstance(i, Loop)
                   for c in i.carries}  # fmt: skip
        made = {
            i.tile.name
            for i in statements(kernel.body)
            if isinstance(i, Let) and isinstance(i.body, Apply) and i.body.function is _MAX
        }
        return _Shifts(frozenset((sides & made) - others - carried - {f"{c}'" for c in carried}))

    def scaled(self, part: Expr) -> Expr:
        """One side of a difference, times log2 e."""
        if isinstance(part, Value) and part.tile in self.names:
            return part
        return times(LOG2E, part)


_MAX = call("max", integer(0), integer(0)).function


def _whole_sides(item: Statement, inexact: frozenset[str]) -> frozenset[str]:
    """The tiles that a statement reads as sides of such differences alone."""
    sides = set[str]()

    def cut(node: Node) -> Node | None:
        pair = _difference(node)
        if pair is None or not inexact & values_in(pair).keys():
            return None
        whole = [part for part in pair if isinstance(part, Value)]
        sides.update(part.tile for part in whole)
        rest = [part for part in pair if not isinstance(part, Value)]
        return call("add", integer(0), *rest) if rest else integer(0)

    outside = [replaced(expr, cut) for expr in expressions(item)]
    return frozenset(sides - values_in([cast(Expr, expr) for expr in outside]).keys())


def times(factor: Expr, expr: Expr) -> Expr:
    """factor * expr, the constant joined to one that is there; what is at least the lowest number
    stays so."""
    match expr:
        case Apply(function, (first, Literal(value))) if function.name == "max" and value == LOWEST:
            return call("max", times(factor, first), expr.args[1])
        case Apply(function, (first, second)) if function.name == "mul" and constant(first):
            return call("mul", _joined(factor, first), second)
        case _:
            return call("mul", factor, expr)


def _joined(factor: Expr, other: Expr) -> Expr:
    """The product of two constants; over a divisor where the other is 1 over it."""
    match other:
        case Apply(function, (Literal(value), below)) if function.name == "div" and value == 1:
            return call("div", factor, below)
        case _:
            return call("mul", factor, other)


# --- statements -----------------------------------------------------------------------------------


def with_exprs(item: Statement, change: Callable[[Node], Node | None]) -> Statement:
    """A statement that is no loop with its expressions changed."""
    match item:
        case Let(body=body):
            return replace(item, body=cast(Expr, replaced(body, change)))
        case Store(subscripts=subscripts, value=value):
            made = tuple(cast(Expr, replaced(part, change)) for part in subscripts)
            return replace(item, subscripts=made, value=cast(Expr, replaced(value, change)))
        case Loop() | Each():
            return item


def changed(body: tuple[Statement, ...], change: Change) -> Iterator[Statement]:
    """Statements changed one by one, at every depth; None: it goes."""
    for item in body:
        if isinstance(item, Loop | Each):
            yield replace(item, body=tuple(changed(item.body, change)))
        elif (made := change(item)) is not None:
            yield made
