"""Where the tiles of a kernel lie, and along which index each statement runs vectors.

`Places` looks at a whole kernel before it is emitted. A register tile is an SSA vector if it has
one axis of lanes, not too many, that every statement can take at once; other tiles are buffers.
The lanes of a loop with small blocks are rows, each with SSA vectors of its own, where all its
tiles allow that and another axis runs along the vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensorc.codegen.llvm_scope import Storage, values_in
from tensorc.ir.affine import coefficient, literal_integer
from tensorc.ir.dtypes import BOOL
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Apply, Expr, Literal, Position, Read, Value, free_indices
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store, Tile
from tensorc.ir.walk_tile import expressions, statements, tensors_in, tiles, whole

MOST_VECTORS = 16  # of 32-bit elements that an SSA vector takes
MOST_ROWS = 14  # of a block whose rows are unrolled
GATHER, SCATTER, ACROSS, SPREAD = 4, 5, 1, 1  # what these cost beside a vector of neighbours
Counts = Mapping[str, int]


class Places:
    """The decisions for one kernel. `vector`: bytes of a vector register; `storage`: the strides
    of the tensors, by name."""

    def __init__(self, kernel: Kernel, vector: int, storage: Mapping[str, Storage]) -> None:
        self.kernel, self.vector, self.storage = kernel, vector, storage
        self.tiles, self.whole = tiles(kernel), whole(kernel)
        every = list(statements(kernel.body))
        lets = [item for item in every if isinstance(item, Let)]
        self.views = {item.tile.name: item.body for item in lets if is_view(item)}
        self.reduced = frozenset(index for item in lets for index in item.reduced)
        self.parted = frozenset(item.index for item in every if isinstance(item, Each))
        self.rows = self._rows(every)
        self.buffers = {tile.name for tile in self.tiles.values() if not self._fits(tile)}
        carries = [carry.tile.name for i in every if isinstance(i, Loop) for carry in i.carries]
        self._settle(carries)
        self.roots = self._roots(lets, every)

    # --- questions ------------------------------------------------------------------------------

    def is_buffer(self, name: str) -> bool:
        """Whether the tile lies in memory."""
        return name in self.buffers and name not in self.views

    def root(self, name: str) -> str:
        """The tile whose buffer this one shares; itself if none."""
        while name in self.roots:
            name = self.roots[name]
        return name

    def lane_axes(self, tile: Tile) -> list[str]:
        """The axes with several lanes that are no rows."""
        pairs = zip(tile.axes, tile.sizes, strict=True)
        return [axis for axis, size in pairs if size > 1 and axis != self.rows]

    def lane_axis(self, name: str) -> str | None:
        """The axis of an SSA vector's lanes; None: it is one value."""
        return next(iter(self.lane_axes(self.tiles[name])), None)

    def lanes(self, tile: Tile) -> int:
        """Elements of an SSA vector; its rows are values of their own."""
        pairs = zip(tile.axes, tile.sizes, strict=True)
        return math.prod(size for axis, size in pairs if axis != self.rows)

    def count(self, index: str, exprs: Sequence[Expr], blocks: Counts) -> int | None:
        """The lanes of an index in a statement: those of its open block, those of the tiles that
        it reads, those of whole tiles; None: as many as its extent."""
        if index in blocks:
            return blocks[index]
        for item in (value for expr in exprs for value in values_in(expr)):
            tile = self.tiles[item.tile]
            if index in tile.axes:
                return tile.sizes[tile.axes.index(index)]
        return self.whole.get(index)

    def width(self, count: int) -> int:
        """Lanes worked on at once of so many: a power of two that divides them, at most four
        vectors of 32-bit elements."""
        return min(count & -count, self.vector)

    def differs(self, index: str) -> bool:
        """Whether full blocks of a grid index are cheaper than others: something in memory runs
        along it, so that it is masked, or something guards it."""
        for item in statements(self.kernel.body):
            if isinstance(item, Let | Store) and index in item.edge:
                return True
            if isinstance(item, Store) and self._runs(index, Read(item.tensor, item.subscripts)):
                return True
            if any(self._runs(index, read) for read in tensors_in(expressions(item))):
                return True
        return False

    def _runs(self, index: str, read: Read) -> bool:
        return index in free_indices(read) and self._read(index, 1, read) == 0

    def vector_axis(
        self, candidates: Sequence[str], exprs: Sequence[Expr], result: Tile | None,
        counts: Counts, reduced: Iterable[str] = (), written: Read | None = None,
    ) -> str | None:  # fmt: skip
        """The index that runs along vectors: the fewest accesses out of order, then the most
        lanes, then the last. `written`: the element that is stored."""
        able = [axis for axis in candidates if self.width(counts[axis]) > 1]
        across = set(reduced)

        def cost(axis: str) -> tuple[int, int, int]:
            total = ACROSS if axis in across else 0
            width = self.width(counts[axis])
            total += sum(self._expression(axis, width, expr) for expr in exprs)
            if result is not None:
                total += SCATTER * (self._tile(axis, result) >= GATHER)
            if written is not None:
                total += SCATTER * (self._read(axis, width, written) > 0)
            return total, -self.width(counts[axis]), -able.index(axis)

        return min(able, key=cost, default=None)

    def _expression(self, axis: str, width: int, expr: Expr) -> int:
        total = 0
        for item in postorder([expr]):
            if isinstance(item, Read):
                total += self._read(axis, width, item)
            elif isinstance(item, Value) and item.tile in self.views:
                total += self._expression(axis, width, self.views[item.tile])
            elif isinstance(item, Value):
                total += self._tile(axis, self.tiles[item.tile])
        return total

    def _read(self, axis: str, width: int, read: Read) -> int:
        if axis not in free_indices(read):
            return 0
        strides = self.storage[read.tensor.name].strides
        places, bits = [s.ref for s in strides], read.tensor.dtype.bits
        return 0 if step_of(read.subscripts, places, axis, width, bits) else GATHER

    def _tile(self, axis: str, tile: Tile) -> int:
        lanes = self.lane_axes(tile)
        if tile.name in self.buffers:
            return GATHER if axis in lanes and axis != tile.axes[-1] else 0
        return SPREAD if lanes and axis not in lanes else 0

    # --- decisions ------------------------------------------------------------------------------

    def _fits(self, tile: Tile) -> bool:
        """Whether a tile may be an SSA vector, looked at alone. Masks of an odd number of lanes
        are taken apart bit by bit where they live from block to block."""
        axes = self.lane_axes(tile)
        lanes = self.lanes(tile)
        alone = len(axes) <= 1 and not set(axes) & self.parted
        odd = tile.dtype is BOOL and lanes & (lanes - 1) != 0
        return tile.space == "register" and alone and self._short(lanes) and not odd

    def _settle(self, carries: Sequence[str]) -> None:
        """SSA vectors whose statement runs its vectors along another index become buffers, and so
        does a carried tile with its next value."""
        before = -1
        while before != len(self.buffers):
            before = len(self.buffers)
            self.buffers.update(self._crossed(self.kernel.body, self._grid()))
            for name in carries:
                if {name, f"{name}'"} & self.buffers:
                    self.buffers |= {name, f"{name}'"}

    def _grid(self) -> dict[str, int]:
        return {block.index: block.size for block in self.kernel.grid}

    def _crossed(self, body: Sequence[Statement], blocks: Counts) -> Iterator[str]:
        for item in body:
            match item:
                case Let():
                    if item.op is not None and self._crosses(item, blocks):
                        yield item.tile.name
                case Loop():
                    yield from self._crossed(item.body, {**blocks, item.index: item.block})
                case Each():
                    yield from self._crossed(item.body, {**blocks, item.index: item.block})
                case Store():
                    pass

    def _crosses(self, item: Let, blocks: Counts) -> bool:
        axis = self.lane_axis(item.tile.name)
        if axis is None or item.tile.name in self.buffers:
            return False
        counts = {i: self.count(i, (item.body,), blocks) or 1 for i in item.reduced}
        counts[axis] = self.lanes(item.tile)
        inner = [index for index in item.reduced if index != self.rows]
        chosen = self.vector_axis([axis, *inner], (item.body,), item.tile, counts, item.reduced)
        return chosen != axis

    def _rows(self, every: Sequence[Statement]) -> str | None:
        """The index whose blocks are rows."""
        loops = [item for item in every if isinstance(item, Loop)]
        grid = {block.index for block in self.kernel.grid}
        for loop in loops:
            same = [item for item in loops if item.index == loop.index]
            if loop.index not in grid | self.reduced and all(map(self._by_rows, same)):
                return loop.index
        return None

    def _by_rows(self, loop: Loop) -> bool:
        index = loop.index
        own = [tile for tile in self.tiles.values() if index in tile.axes]
        plain = all(tile.space == "register" and self._one_row(tile, index) for tile in own)
        carried = any(index in carry.tile.axes for carry in loop.carries)
        wide = [tile for tile in own if len(tile.axes) > 1]
        outside = bool(wide) and all(tile.axes[-1] != index for tile in wide)
        odd = loop.block & (loop.block - 1) != 0  # no number of lanes of a vector
        small = 1 < loop.block <= MOST_ROWS and (odd or outside) and not loop.down
        return small and plain and not carried and index not in self.parted

    def _one_row(self, tile: Tile, index: str) -> bool:
        """Whether each row of a tile is an SSA vector."""
        rest = [size for a, size in zip(tile.axes, tile.sizes, strict=True) if a != index]
        lanes = math.prod(rest)
        several = sum(size > 1 for size in rest)
        return several <= 1 and self._short(lanes)

    def _short(self, lanes: int) -> bool:
        """Whether an SSA vector may have so many lanes: a power of two, or whole vectors."""
        whole = lanes & (lanes - 1) == 0 or lanes % (self.vector // 4) == 0
        return whole and lanes <= MOST_VECTORS * self.vector // 4

    def _roots(self, lets: Sequence[Let], every: Sequence[Statement]) -> dict[str, str]:
        """The tile whose buffer each tile takes. Reuse that would let one carried value stand in
        the buffer of another is not taken up: it is allowed, not asked for, in registers."""
        found = {
            item.tile.name: item.into.name
            for item in lets
            if item.into is not None and self._same_place(item.tile, item.into)
        }
        for loop in (item for item in every if isinstance(item, Loop)):
            for carry in loop.carries:
                start = carry.start
                if isinstance(start, Tile) and carry.tile.space != "register":
                    found[carry.tile.name] = start.name
        return {a: b for a, b in found.items() if self._harmless(a, found, every)}

    def _same_place(self, tile: Tile, into: Tile) -> bool:
        return tile.name in self.buffers and into.name in self.buffers

    def _harmless(self, name: str, found: Mapping[str, str], every: Sequence[Statement]) -> bool:
        if self.tiles[name].space != "register":
            return True
        old = name
        while old in found:
            old = found[old]
        carried = {c.tile.name for i in every if isinstance(i, Loop) for c in i.carries}
        return old not in carried or name.removesuffix("'") == old or old not in self._others(name)

    def _others(self, name: str) -> frozenset[str]:
        """Carried tiles that this one is not a next value of, but that live as long."""
        loops = [item for item in statements(self.kernel.body) if isinstance(item, Loop)]
        return frozenset(
            carry.tile.name
            for loop in loops
            if any(f"{carry.tile.name}'" == name for carry in loop.carries)
            for carry in loop.carries
        )


def is_view(item: Let) -> bool:
    """Whether a statement only names a part of a tensor or tile where that lies."""
    return item.by.instruction == "view"


def step_of(
    subscripts: Sequence[Expr], strides: Sequence[str], index: str, width: int, bits: int
) -> int:
    """How far apart `width` lanes of an index, from a multiple of that on, lie in memory: 1 if they
    are side by side, 2 if every other element is theirs (as the parts of complex numbers, in
    elements of at least 32 bits, whose lanes loads can be masked by), 0 if nothing is known.

    Every subscript is affine in the index there, and the strides add up to that constant.
    """
    moves = [_step(subscript, index, width) for subscript in subscripts]
    active = [(move, stride) for move, stride in zip(moves, strides, strict=True) if move != 0]
    if active == [(1, "1")]:
        return 1
    return 2 if bits >= 32 and active in ([(1, "2")], [(2, "1")]) else 0


def _step(subscript: Expr, index: str, width: int) -> int | None:
    """What a step of the index adds to a subscript, if that is the same for all the lanes. Digits
    of the index are: it stays within a block of `width`."""
    match subscript:
        case Apply(function, (Position(name), Literal() as divisor)) if name == index:
            number = literal_integer(divisor)
            if function.name in ("floordiv", "mod") and number and number % width == 0:
                return 1 if function.name == "mod" else 0
        case _:
            pass
    return coefficient(subscript, index)
