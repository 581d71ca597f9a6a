"""A factor of a product as statements: its copy into shared memory, and from there to fragments.

    As[m, k] = a[m, k]           by the machine's copy, which fills with 0 beyond the tensor
    Zs[m, k] = select(k < |k|, f16(x[m, k] * g[k]), 0)     edge k     by threads
    A[m, k]  = As                by ldmatrix

The machine's copy is used where it moves the read and leaves 0 wherever the factor counts as 0:
beyond the end of the sum, and where its conditions fail because the element is not there. All else
is computed by threads, guarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorc.ir.integers import Integers
from tensorc.ir.node import Node, postorder, replaced
from tensorc.ir.polynomial import Polynomial, linear, polynomial, symbols
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Position,
    Read,
    Reduce,
    Round,
    Select,
    Value,
    free_indices,
)
from tensorc.ir.tile import Layout, Let, Linear, Statement, Tile, Use
from tensorc.machine.instruction import Instruction, Slot
from tensorc.passes.canonicalise import call, integer
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.feed import Chain, Copies, Step, chain
from tensorc.passes.tiling.match import Factor, Groups


@dataclass
class Names:
    """Names in use in a kernel."""

    taken: set[str]

    def fresh(self, *stems: str) -> str:
        """The first stem that is free, or the last one with a number."""
        names = [*stems, *(f"{stems[-1]}{n}" for n in range(2, len(self.taken) + 3))]
        name = next(n for n in names if n not in self.taken and f"{n}'" not in self.taken)
        self.taken.add(name)
        return name


@dataclass
class Operands:
    """The factors of one kernel. `groups`: who plays which role, contiguous indices last;
    `lanes`: of every index; `static`: extents that are fixed in the kernel."""

    copies: Copies
    extents: Mapping[str, Polynomial]
    groups: Groups
    lanes: Mapping[str, int]
    names: Names
    done: dict[tuple[Factor, str], Value] = field(default_factory=dict[tuple[Factor, str], Value])

    def placed(self, factor: Factor, slot: Slot) -> tuple[Value, list[Statement]]:
        """A factor where an instruction takes it, and the statements that bring it there."""
        if (factor, slot.name) in self.done:
            return self.done[factor, slot.name], []
        way = self.way(factor, slot)
        tile = self.shared(factor, slot, way)
        made: list[Statement] = [self.copied(tile, factor, stored(factor.value))]
        for step in way.steps:
            let = self.moved(tile, factor, step)
            made.append(let)
            tile = let.tile
        self.done[factor, slot.name] = value(tile)
        return value(tile), made

    def way(self, factor: Factor, slot: Slot) -> Chain:
        """How a factor gets to a slot; its rows in shared memory are those in memory if they can
        be."""
        machine = self.copies.machine
        row = self.copies.row(factor.value, self.axes(slot))
        found = chain(machine, slot, self.groups, row, self.lanes) if row else None
        found = found or chain(machine, slot, self.groups, None, self.lanes)
        if found is None:
            raise Unfused(f"{slot.name} has no way from shared memory to its place")
        return found

    def shared(self, factor: Factor, slot: Slot, way: Chain) -> Tile:
        """The tile of a factor in shared memory."""
        stem = stem_of(factor)
        name = self.names.fresh(f"{stem}s" if way.steps else stem, f"{stem}_s")
        return self.tile(name, _as_read(factor, self.axes(slot)), factor, "shared", way.shared)

    def moved(self, tile: Tile, factor: Factor, step: Step) -> Let:
        """A copy from a tile to where the next instruction takes it."""
        stem = stem_of(factor)
        name = self.names.fresh(stem, f"{stem}_r")
        after = self.tile(name, tile.axes, factor, "register", step.layout)
        by = use(step.instruction, step.groups, self.lanes)
        return Let(after, None, (), value(tile), None, None, by, ())

    def axes(self, slot: Slot) -> tuple[str, ...]:
        """The indices with many lanes that play a slot's roles."""
        return tuple(i for role in slot.roles for i in self.groups[role] if self.lanes[i] > 1)

    def tile(
        self, name: str, axes: tuple[str, ...], factor: Factor, space: str, layout: Layout
    ) -> Tile:
        """A tile of a factor."""
        sizes = tuple(self.lanes[axis] for axis in axes)
        return Tile(name, axes, sizes, factor.dtype, space, layout)

    def copied(self, tile: Tile, factor: Factor, flat: Expr) -> Let:
        """The copy from memory; `flat`: the factor's value as an expression of level 2."""
        partial = [i for i in tile.axes if i in self.groups["k"] and self.partial(i)]
        load = self.copies.load
        if load is not None and self.by_copy(load, tile, factor, partial):
            by = Use(load.name, fill=load.fill)
            return Let(tile, None, (), factor.value, None, None, by, ())
        ends = tuple(call("lt", Position(index), Extent(index)) for index in partial)
        body = where(ends, where(factor.conditions, flat))
        by = Use(self.copies.machine.plain)
        return Let(tile, None, (), body, None, None, by, tuple(partial))

    def by_copy(self, load: Instruction, tile: Tile, factor: Factor, partial: list[str]) -> bool:
        """Whether the machine's copy does it, with 0 wherever the factor counts as 0."""
        read = factor.value
        assert isinstance(tile.layout, Linear)
        row = tile.layout.order[-1]
        if not isinstance(read, Read) or read.tensor.dtype is not tile.dtype:
            return False
        lanes = {axis: self.lanes[axis] for axis in tile.axes}
        return (
            self.copies.fits(load, read, row, lanes)
            and all(self.filled(read, index) for index in partial)
            and all(self.missing(read, condition) for condition in factor.conditions)
        )

    def partial(self, index: str) -> bool:
        """Whether the last block of an index may reach beyond its extent."""
        size = self.copies.value(self.extents[index])
        return size is None or size % self.lanes[index] != 0

    def filled(self, read: Read, index: str) -> bool:
        """Whether elements beyond the end of an index lie beyond their tensor."""
        integers = Integers(self.extents, frozenset(self.extents), {})
        return any(
            self._beyond(integers.polynomial(item), size, index, integers)
            for item, size in zip(read.subscripts, read.tensor.shape, strict=True)
        )

    def _beyond(
        self, place: Polynomial, size: Polynomial, index: str, integers: Integers
    ) -> bool:  # fmt: skip
        """Whether a subscript is at least `size` once the index is at least its extent."""
        least = polynomial(0)
        for symbol in symbols(place):
            if symbol.kind != "index":
                continue
            step, place = linear(place, symbol)
            if step is None or not integers.at_least(step, 1 if symbol.name == index else 0):
                return False
            if symbol.name == index:
                least = step * self.extents[index]
        return least is not polynomial(0) and integers.at_least(place + least - size, 0)

    def missing(self, read: Read, condition: Expr) -> bool:
        """Whether a condition fails only where the element read is not there: it says that a
        subscript is at least 0, or below the size of its dimension."""
        integers = Integers(self.extents, frozenset(self.extents), {})
        match condition:
            case Apply(function, (low, high)) if function.name in ("le", "lt"):
                ends = integers.polynomial(low), integers.polynomial(high)
            case _:
                return False
        for item, size in zip(read.subscripts, read.tensor.shape, strict=True):
            place = integers.polynomial(item)
            if function.name == "le" and ends == (polynomial(0), place):
                return True
            if function.name == "lt" and ends == (place, size):
                return True
        return False


def where(conditions: tuple[Expr, ...], body: Expr) -> Expr:
    """A body where all conditions hold, else 0."""
    if not conditions:
        return body
    every = conditions[0] if len(conditions) == 1 else call("and", *conditions)
    return Select(every, body, integer(0))


def _as_read(factor: Factor, axes: tuple[str, ...]) -> tuple[str, ...]:
    """Axes in the order in which the factor's tensor has them."""
    if not isinstance(factor.value, Read):
        return axes
    order = [index for item in factor.value.subscripts for index in sorted(free_indices(item))]
    return tuple(sorted(axes, key=lambda axis: order.index(axis) if axis in order else -1))


def stem_of(factor: Factor) -> str:
    """A factor's name after the tensor that it is, or is made of."""
    reads = [node for node in postorder([factor.value]) if isinstance(node, Read)]
    name = reads[0].tensor.name if reads else "x"
    return name[0].upper() + name[1:] if name[0].isascii() else "X"


def use(found: Instruction, groups: Groups, lanes: Mapping[str, int]) -> Use:
    """An instruction with the axes of its roles and how many atoms lie along each."""
    axes = {role: tuple(i for i in own if lanes[i] > 1) for role, own in groups.items()}
    counts: list[tuple[str, int]] = []
    for role in found.roles:
        total = 1
        for index in axes[role.name]:
            total *= lanes[index]
        if total // role.atom > 1:
            counts.append((role.name, total // role.atom))
    return Use(found.name, tuple((r.name, axes[r.name]) for r in found.roles), tuple(counts))


def value(tile: Tile) -> Value:
    """A tile as an operand."""
    return Value(tile.name, tile.axes, tile.dtype)


def stored(expr: Expr) -> Expr:
    """An expression of level 1 without reductions as one of level 2: roundings are casts."""

    def changed(item: Node) -> Node | None:
        if isinstance(item, Reduce):
            raise Unfused("a factor holds a reduction")
        return Cast(item.dtype, stored(item.arg)) if isinstance(item, Round) else None

    found = replaced(expr, changed)
    assert isinstance(found, Expr)
    return found
