"""Loops of a planned pass: states carried, moved to new shifts, and advanced block by block.

In a block, shifts are computed from the states before it; then, state by state, those that it is
relative to after it, the old value moved to them, and what the block adds. Partial sums of a block
are added up before they meet a scalar state, so that long sums lose little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tensorc.ir.dtypes import REAL, DType, settled
from tensorc.ir.functions import FUNCTIONS, MAX, PROD, SUM, accumulator
from tensorc.ir.node import Node, postorder, rebuild, replaced
from tensorc.ir.plan import Pass, State
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Seen,
    Select,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Carry, Tile, Use
from tensorc.passes.canonicalise import call, highest, integer
from tensorc.passes.fusion.bounds import Range, bounds
from tensorc.passes.fusion.share import Moved, passes
from tensorc.passes.tiling.contiguity import Along, Units, stride_class
from tensorc.passes.tiling.frames import Term
from tensorc.passes.tiling.neutral import identity
from tensorc.passes.tiling.side_by_side import SideBySide
from tensorc.passes.tiling.tile_scopes import Scopes, following, storage, value

LONG, WIDE = 256, 64  # lanes of a pass whose states are scalars, and of one with rows of states
_JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


class Blocks(Protocol):
    """What is decided about a pass elsewhere, for GPUs. `lanes`: of every index."""

    @property
    def lanes(self) -> Mapping[str, int]: ...

    def lies_whole(self, item: Pass) -> bool:
        """Whether a pass needs no loop."""
        ...

    def limits(self, item: Pass, block: int) -> Range:
        """The range of the innermost loop of a pass."""
        ...

    def mask(self, item: Pass) -> None:
        """Mask what the states of a pass are made of, where that is done once for all."""
        ...

    def term(self, state: State, item: Pass, index: str) -> Term:
        """What a block adds to a state."""
        ...


class Walks:
    """The passes of one kernel. `lanes`: elements of a vector; `sizes`: extents as far as known;
    `moved`: puts expressions for positions; `frames`: how tiles lie on a GPU."""

    def __init__(
        self, scopes: Scopes, sizes: Mapping[str, int], lanes: int, units: Units, moved: Moved,
        frames: Blocks | None = None,
    ) -> None:  # fmt: skip
        self.scopes, self.sizes, self.lanes = scopes, sizes, lanes
        self.units, self.moved, self.frames = units, moved, frames
        self.side: SideBySide | None = None  # where rows are worked on side by side

    def level(self, roots: Sequence[Expr]) -> None:
        """Every reduction in `roots` that this scope can compute and that is not there yet."""
        bound = frozenset(self.scopes.bound)
        extents = self.scopes.extents
        for item in passes(roots, bound, extents, self.moved, self.scopes.knows):
            self.run(item)

    def run(self, item: Pass) -> None:
        """The loops of a pass; afterwards its reductions are known."""
        if self.frames is not None and self.frames.lies_whole(item):
            self._whole(item, self.frames)
            return
        *outer, last = item.indices
        block = self._block(item, last)
        limits = self._limits(item, block)
        tiles = [self._carried(state, item) for state in item.states]
        starts: list[Expr | Tile] = [self._start(state) for state in item.states]
        self._nest(item, list(outer), last, block, tiles, starts, limits)
        for state, tile in zip(item.states, tiles, strict=True):
            self.scopes.know(state.reduce, self._final(state, tile))

    def _limits(self, item: Pass, block: int) -> Range:
        """The range of the innermost loop of a pass."""
        if self.frames is not None:
            return self.frames.limits(item, block)
        around = {
            index: lanes for index, lanes in self.scopes.bound.items()
            if lanes == 1 or self.side is not None and index == self.side.rows
        }  # fmt: skip
        found = bounds(item, block, around, self.scopes.extents)
        return Range(found.lower, found.upper, None, None)

    def _whole(self, item: Pass, frames: Blocks) -> None:
        """A pass over indices that lie whole in tiles: its reductions one by one, no loop."""
        for state in item.states:
            wheres = () if state.where is None else (state.where,)
            self.level([state.body, *wheres])
            term = frames.term(state, item, item.indices[-1])
            axes = self.scopes.axes(free_indices(state.reduce))
            tile = self.scopes.fresh(state.name, axes, _dtype(state))
            self.scopes.define(tile, term.body, op=state.reduce.reducer, over=item.indices,
                               edge=term.edge, by=term.by)  # fmt: skip
            self.scopes.know(state.reduce, self._final(state, tile))

    def _nest(
        self, item: Pass, outer: list[str], last: str, block: int, tiles: list[Tile],
        starts: list[Expr | Tile], limits: Range,
    ) -> None:  # fmt: skip
        """Loops over the outer indices of a pass one by one, then the innermost."""
        carries = tuple(Carry(tile, start) for tile, start in zip(tiles, starts, strict=True))
        if not outer:
            self.scopes.open(last, block)
            self._block_body(item, last, block, tiles)
            self.scopes.close(last, carries, limits)
            return
        self.scopes.open(outer[0], 1)
        inner = [self.scopes.fresh(tile.name, tile.axes, tile.dtype, tile.space) for tile in tiles]
        self._nest(item, outer[1:], last, block, inner, list(tiles), limits)
        for tile, inside in zip(tiles, inner, strict=True):
            into = inside if tile.space != "register" else None
            self.scopes.define(following(tile), value(inside), into)
        self.scopes.close(outer[0], carries)

    def _carried(self, state: State, item: Pass) -> Tile:
        axes = self.scopes.axes(free_indices(state.reduce))
        dtype = _dtype(state)
        big = self.scopes.is_long(axes) and not _old_is_read(state, item)
        return self.scopes.fresh(state.name, axes, dtype, "memory" if big else "register")

    def _start(self, state: State) -> Expr:
        return identity(state.reduce.reducer, _dtype(state))

    def _final(self, state: State, tile: Tile) -> Expr:
        """The state after its pass; not a number where a maximum that it is relative to is no
        number's."""
        found: Expr = value(tile)
        for top in state.poison:
            reached = self.scopes.known(top)
            assert reached is not None
            nothing = call("eq", reached, identity(top.reducer, storage(value_type(top))))
            found = self.scopes.let(Select(nothing, Literal("nan", REAL), found))
        return found

    def _block(self, item: Pass, index: str) -> int:
        """Lanes of the innermost index of a pass: many, unless another index runs along vectors."""
        if self.frames is not None:
            return self.frames.lanes[index]
        axes = [self._columns(state) for state in item.states]
        most = max(map(len, axes), default=0)
        if most >= 2:
            return 1
        side = self.side is not None and all(self.side.applies(s, index) for s in item.states)
        size = self.sizes.get(index, LONG)
        long = min(WIDE if most else LONG, max(self.lanes, power(size)))
        lanes = {axis for group in axes for axis in group}
        rows = all(axes) and len(lanes) == 1 and not _nested(item, index)
        if rows and not side and self._far(item, *lanes) <= self._far(item, index):
            return 1
        return long

    def _columns(self, state: State) -> list[str]:
        """The axes of a state's tile, but for rows that are worked on side by side."""
        rows = None if self.side is None else self.side.rows
        return [i for i in self.scopes.axes(free_indices(state.reduce)) if i != rows]

    def _far(self, item: Pass, index: str) -> int:
        reads = [n for s in item.states for n in postorder([s.body]) if isinstance(n, Read)]
        return sum(stride_class(read, index, self.units) is Along.FAR for read in reads)

    def _block_body(self, item: Pass, index: str, block: int, tiles: list[Tile]) -> None:
        old = {s.name: value(t) for s, t in zip(item.states, tiles, strict=True)}
        new = {s.name: value(following(t)) for s, t in zip(item.states, tiles, strict=True)}
        for state in item.states:
            self.scopes.know(state.reduce, old[state.name])
        before = self._shifts(item, index, False)
        empty = {state.name: self._empty(state, index) for state in item.states}
        for state in item.states:
            self.scopes.know(state.reduce, new[state.name])
        after: dict[str, Expr] = {}
        wheres = [state.where for state in item.states if state.where is not None]
        self.level([*(state.body for state in item.states), *wheres])
        if self.frames is not None:
            self.frames.mask(item)
        for state, tile in zip(item.states, tiles, strict=True):
            self._shifted(item, state, index, after)
            names = {**old, **before, **{f"{k}'": v for k, v in after.items()}}
            names.update({f"{name}'": value for name, value in new.items()})
            self._advance(state, tile, index, block, names, empty[state.name], item)

    def _shifts(self, item: Pass, index: str, after: bool) -> dict[str, Expr]:
        """The shifts before the block, from the states before it."""
        found: dict[str, Expr] = {}
        used = {n.tile for s in item.states if s.moved for n in postorder([s.moved]) if (
            isinstance(n, Value))}  # fmt: skip
        for shift in item.shifts:
            if shift.name in used:
                found[shift.name] = self._shift_value(item, shift.value, index, after)
        return found

    def _shift_value(self, item: Pass, value: Expr, index: str, after: bool) -> Expr:
        """A shift's value: |i| counts what was seen, and unbounded maxima are kept finite."""
        floors = {top for state in item.states for top in state.poison}
        memo: dict[Node, Node] = {}

        def seen(node: Node) -> Node:
            match node:
                case Extent(name) if self.scopes.extents[name] is self.scopes.extents[index]:
                    return Seen(index, after)
                case Reduce():
                    found = self.scopes.known(node)
                    assert found is not None
                    return _finite(node, found) if node in floors else found
                case _:
                    if node not in memo:
                        memo[node] = rebuild(node, seen) if isinstance(node, Expr) else node
                    return memo[node]

        made = seen(value)
        assert isinstance(made, Expr)
        return self.scopes.let(self.scopes.flat(made))

    def _shifted(self, item: Pass, state: State, index: str, after: dict[str, Expr]) -> None:
        """Shifts that the state's body reads, after the block, as soon as all they need is."""
        nodes = set(postorder([state.body]))
        for shift in item.shifts:
            if shift.value in nodes and shift.name not in after:
                after[shift.name] = self._shift_value(item, shift.value, index, True)
                self.scopes.know(shift.value, after[shift.name])

    def _empty(self, state: State, index: str) -> Expr | None:
        """Whether nothing was added to the state before this block."""
        found: Expr | None = None
        for item in state.empty:
            plain = item
            while isinstance(plain, Cast):
                plain = plain.arg
            count = Seen(index, False) if isinstance(plain, Extent) else self.scopes.flat(plain)
            none = call("eq", count, integer(0))
            found = none if found is None else call("or", found, none)
        return None if found is None else self.scopes.let(found)

    def _advance(
        self, state: State, tile: Tile, index: str, block: int, names: Mapping[str, Expr],
        empty: Expr | None, item: Pass,
    ) -> None:  # fmt: skip
        """The next value of a state: the old one moved, and this block added."""
        moved: Expr | None = None
        if state.moved is not None:
            moved = self.scopes.flat(_named(state.moved, names))
            if empty is not None:
                moved = Select(empty, value(tile), moved)
        element, by, edge = self._term(state, item, index, block, tile.dtype)
        after, reducer = following(tile), state.reduce.reducer
        keep = None if _old_is_read(state, item) else tile
        if block == 1:
            start = moved if moved is not None else value(tile)
            joined = Apply(FUNCTIONS[_JOIN[reducer.name]], (start, element))
            self.scopes.define(after, joined, keep)
            return
        if not tile.axes and reducer in (SUM, PROD):
            part = self.scopes.fresh("p", (), tile.dtype)
            self.scopes.define(part, element, op=reducer, over=(index,), edge=edge, by=by)
            start = moved if moved is not None else value(tile)
            joined = Apply(FUNCTIONS[_JOIN[reducer.name]], (start, value(part)))
            self.scopes.define(after, joined)
            return
        onto = tile
        if moved is not None:
            onto = self.scopes.fresh("u", tile.axes, tile.dtype, tile.space)
            self.scopes.define(onto, moved, keep)
            keep = onto
        self.scopes.define(
            after, element, keep, op=reducer, over=(index,), onto=onto, edge=edge, by=by
        )

    def _term(
        self, state: State, item: Pass, index: str, block: int, dtype: DType
    ) -> tuple[Expr, Use | None, tuple[str, ...]]:
        """What a block adds, what does it (None: anything), and the edges that it guards."""
        found = self.frames.term(state, item, index) if self.frames else None
        if found is not None:
            return found.body, found.by, found.edge
        if self.side is not None and block > 1 and self.side.applies(state, index):
            return self.side.term(state, index), self.side.by(index), ()
        return self._element(state, index, block, dtype), None, (index,) if block > 1 else ()

    def _element(self, state: State, index: str, block: int, dtype: DType) -> Expr:
        """What the block adds: the reduction's operand, neutral where it is not selected."""
        item = state.reduce
        body = state.body
        if item.dtype is not None and value_type(body) is not item.dtype:
            body = Cast(item.dtype, body)
        flat = self.scopes.flat(body)
        kind = dtype if item.reducer in (SUM, PROD) else settled(value_type(flat))
        neutral = identity(item.reducer, kind)
        if state.where is not None:
            flat = Select(self.scopes.flat(state.where), flat, neutral)
        if block > 1:
            flat = Select(call("lt", Position(index), Extent(index)), flat, neutral)
        return flat


def _old_is_read(state: State, item: Pass) -> bool:
    """Whether another state's rule reads this one's value before the block."""
    others = [other.moved for other in item.states if other is not state and other.moved]
    return any(isinstance(n, Value) and n.tile == state.name for n in postorder(others)) or any(
        state.reduce in set(postorder([shift.value])) for shift in item.shifts
    )


def _nested(item: Pass, index: str) -> bool:
    """Whether states reduce something along another index for every point of this one."""
    nodes = postorder([state.body for state in item.states])
    return any(isinstance(node, Reduce) and index in free_indices(node) for node in nodes)


def _named(expr: Expr, names: Mapping[str, Expr]) -> Expr:
    """A formula of the plan over tiles."""
    made = replaced(expr, lambda item: names[item.tile] if isinstance(item, Value) else None)
    assert isinstance(made, Expr)
    return made


def _finite(top: Reduce, value: Expr) -> Expr:
    """A running maximum or minimum, no further than the finite numbers go."""
    largest = Literal(highest(value_type(top)), REAL)
    if top.reducer is MAX:
        return call("max", value, call("neg", largest))
    return call("min", value, largest)


def _dtype(state: State) -> DType:
    item = state.reduce
    if item.reducer in (SUM, PROD):
        return accumulator(item.reducer, value_type(item.body), item.dtype)
    return storage(value_type(item))


def power(size: int) -> int:
    """The least power of two that is at least `size`."""
    return 1 << max(0, size - 1).bit_length()
