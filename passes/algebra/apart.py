"""Parts of joined tensors as what they are parts of: how a check reads a merged program.

Merging adds tensors with a dimension of their own, of which other equations read parts. Here every
read of such a tensor becomes its body at the subscripts of the read, and a selection between parts
the part that the subscripts decide. Nothing here knows how the tensors came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorc.ir.node import Node, postorder, replaced
from tensorc.ir.polynomial import Atom, Floor, Polynomial, of_atom, polynomial, substitute
from tensorc.ir.ranges import Ranges
from tensorc.ir.tensor import (
    Apply,
    Equation,
    Expr,
    Position,
    Program,
    Read,
    Select,
    Tensor,
    free_indices,
)
from tensorc.passes.fusion.inline import Inliner


def apart(result: Program, source: Program) -> tuple[Program, Program]:
    """The result without tensors of which others read parts, but for those of `source`; and the
    source, with its subscripts in the same form."""
    own = {item.tensor for item in (*source.equations, *source.outputs)}
    joined = {tensor.name for tensor in _viewed(result) - own}
    if not joined:
        return result, source
    while joined:
        result = _without(result, joined)
        joined = {tensor.name for tensor in _viewed(result) - own}
    return result, _without(source, set())


def _viewed(program: Program) -> set[Tensor]:
    """Equations that some read shifts, or reads at one position, without asking data."""
    made = {item.tensor for item in program.equations}
    found: set[Tensor] = set()
    for item in postorder(equation.body for equation in program.equations):
        if isinstance(item, Read) and item.tensor in made:
            shifted = [sub for sub in item.subscripts if not isinstance(sub, Position)]
            if shifted and not any(isinstance(part, Read) for part in postorder(shifted)):
                found.add(item.tensor)
    return found


def _without(program: Program, joined: set[str]) -> Program:
    kept = [item for item in program.equations if item.tensor.name not in joined]
    inliner = Inliner(program, [item.tensor.name for item in kept])
    bodies = inliner.named([inliner.whole(item.body) for item in kept], inliner.extents)
    extents = {name: size for name, size in inliner.extents.items() if "@" not in name}
    made = [_picked(item, body, extents) for item, body in zip(kept, bodies, strict=True)]
    return replace(program, equations=tuple(made), extents=tuple(extents.items()))


def _picked(item: Equation, body: Expr, extents: Mapping[str, Polynomial]) -> Equation:
    """The equation with this body, its selections decided where positions decide them."""
    scope = {part.index for part in postorder([body]) if isinstance(part, Position)}
    picker = _Picker(Ranges(extents, scope | set(item.indices)), extents)
    made = replaced(body, picker.change)
    assert isinstance(made, Expr)
    return replace(item, body=made)


class _Picker:
    """Decides comparisons of positions, and writes subscripts that are one position as that."""

    def __init__(self, ranges: Ranges, extents: Mapping[str, Polynomial]) -> None:
        self.ranges, self.extents = ranges, extents

    def change(self, item: Node) -> Node | None:
        """What a node becomes if more than its parts change."""
        match item:
            case Select(condition, yes, no) if (found := self.decided(condition)) is not None:
                return replaced(yes if found else no, self.change)
            case Read(tensor, subscripts):
                return Read(tensor, tuple(map(self.bare, subscripts)))
            case _:
                return None

    def decided(self, condition: Expr) -> bool | None:
        """Whether a comparison holds everywhere, or nowhere; else None."""
        if not isinstance(condition, Apply) or condition.function.name != "lt":
            return None
        low, high = map(self.ranges.integers.polynomial, condition.args)
        if self.ranges.holds(high - low - 1):
            return True
        return False if self.ranges.holds(low - high) else None

    def bare(self, subscript: Expr) -> Expr:
        """A subscript in its shortest form."""
        if isinstance(subscript, Position):
            return subscript
        found = substitute(self.ranges.integers.polynomial(subscript), self.digit)
        for name in sorted(free_indices(subscript)):
            other = self.ranges.integers.polynomial(Position(name))
            if found is other:
                return Position(name)
        made = replaced(subscript, self.change)
        assert isinstance(made, Expr)
        return made

    def digit(self, atom: Atom) -> Polynomial:
        """A quotient that is always 0 as 0, anything else as it is."""
        value = of_atom(atom)
        if isinstance(atom, Floor) and self.ranges.holds(value) and self.ranges.holds(-value):
            return polynomial(0)
        return value
