"""Loops over the lanes of a statement: which of them are worked on, and where they lie.

A statement's axes are walked one lane at a time, but for one whose lanes go by vectors. Lanes
outside the domain are left out along axes that no statement of the kernel reduces: they change
nothing inside. Along others they are computed, since a reduction takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorc.codegen.llvm_builder import Builder, OpenLoop
from tensorc.codegen.llvm_places import Places
from tensorc.codegen.llvm_scope import ZERO, Scope
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import I64


@dataclass(frozen=True)
class Axis:
    """Lanes [first, end) of an index; `count` of them where that is a number. `stops`: the end is
    cut to the domain. `width`: lanes worked on at once."""

    index: str
    first: Operand
    end: Operand
    count: int | None
    stops: bool
    width: int = 1

    @property
    def single(self) -> bool:
        """Whether all lanes are worked on at once, so that there is nothing to loop over."""
        return self.count == self.width and (self.width > 1 or not self.stops)


class Lanes:
    """Opens and closes loops over lanes. `windows`: first lane and number of those that `Each`
    singles out."""

    def __init__(self, b: Builder, scope: Scope, places: Places) -> None:
        self.b, self.scope, self.places = b, scope, places
        self.windows: dict[str, tuple[Operand, int]] = {}

    def axis(self, index: str, count: int | None, width: int = 1, cut: bool = False) -> Axis:
        """An axis of a statement. `count`: its lanes in tiles; None: as many as its extent.
        `cut`: no lane outside the domain is wanted."""
        first, number = self.windows.get(index, (ZERO, count))
        if number is None:
            return Axis(index, first, self.scope.extents[index], None, True, width)
        end = self.b.add(first, self.b.const(number, I64))
        free = index not in self.places.reduced
        stops = index in self.scope.edges and (cut or free)
        if stops:
            end = self.b.extreme("min", end, self.inside(index))
        return Axis(index, first, end, number, stops, width)

    def inside(self, index: str) -> Operand:
        """How many lanes, from lane 0, are inside the domain."""
        return self.b.minus(self.scope.extents[index], self.scope.bases.get(index, ZERO))

    def over(self, axes: Sequence[Axis], work: Callable[[], None]) -> None:
        """Do some work on the lanes of several axes, the first outermost."""
        if not axes:
            work()
            return
        first, *rest = axes
        loop, kept = self.open(first, [])
        self.over(rest, work)
        self.close(loop, [], kept)

    def open(
        self, axis: Axis, carried: Sequence[Operand], rows: int = 1
    ) -> tuple[OpenLoop | None, State]:
        """Start the loop over an axis, if it needs one; `rows`: lanes that one step goes."""
        scope, index = self.scope, axis.index
        position, outer = scope.positions.get(index), scope.lanes.get(index)
        kept = State(index, position, outer, scope.widths.get(index), index in scope.edges)
        loop = None
        lane = axis.first
        if not axis.single or axis.width == 1 and rows < (axis.count or 0):
            loop = self.b.open_loop(index, axis.width * rows, axis.first, axis.end, carried)
            lane = loop.base
        scope.lanes[index] = lane
        scope.positions[index] = self.b.add(scope.bases.get(index, ZERO), lane)
        if axis.width > 1:
            scope.widths[index] = axis.width
        elif axis.stops:
            scope.edges.discard(index)
        if axis.count is None and axis.width > 1:
            scope.edges.add(index)
        return loop, kept

    def close(
        self, loop: OpenLoop | None, following: Sequence[Operand], kept: State
    ) -> list[Operand]:
        """End the loop over an axis; the carried values after it."""
        scope, index = self.scope, kept.index
        for known, value in ((scope.positions, kept.position), (scope.lanes, kept.lane)):
            known.pop(index, None)
            if value is not None:
                known[index] = value
        scope.widths.pop(index, None)
        if kept.width is not None:
            scope.widths[index] = kept.width
        (scope.edges.add if kept.edge else scope.edges.discard)(index)
        return self.b.close_loop(loop, following) if loop is not None else list(following)


@dataclass(frozen=True)
class State:
    """What held of an index outside a loop over its lanes."""

    index: str
    position: Operand | None
    lane: Operand | None
    width: int | None
    edge: bool
