"""The grid, loops and parts of level 2 as LLVM IR.

A loop is emitted as up to three in a row: blocks that may be partial or whose guards may fail, full
ones, and partial ones again, from one body. Only in full blocks are the guards left out. So is the
grid: once for its full blocks and once for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tensorc.codegen.llvm_builder import Builder, integer_of
from tensorc.codegen.llvm_convert import convert
from tensorc.codegen.llvm_places import Places
from tensorc.codegen.llvm_reduce import lowest
from tensorc.codegen.llvm_scope import ZERO, Scope, Walk
from tensorc.codegen.llvm_sizes import Sizes
from tensorc.codegen.llvm_statements import Statements
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import BOOL, I64, value_of
from tensorc.ir.polynomial import extent
from tensorc.ir.tensor import Value
from tensorc.ir.tile import Block, Carry, Each, Let, Loop, Statement, Store, Tile

Key = tuple[str, int]
COPIES = 9  # of a body that short loops are unrolled to, as those of a small window are


@dataclass(frozen=True)
class Section:
    """Blocks of a loop, from `lower` to below `upper`, all full or not (`edge`)."""

    block: int
    edge: bool
    lower: Operand
    upper: Operand


class Loops:
    """Emits statements with bodies."""

    def __init__(
        self, b: Builder, scope: Scope, places: Places, sizes: Sizes, plain: Statements,
        part: Callable[[str], tuple[Operand, Operand] | None],
    ) -> None:  # fmt: skip
        """`part`: the blocks of a loop that this call runs, if it does not run all."""
        self.b, self.scope, self.places = b, scope, places
        self.sizes, self.plain, self.part = sizes, plain, part
        self.t, self.w = plain.t, plain.w

    # --- the grid -------------------------------------------------------------------------------

    def grid(self, blocks: Sequence[Block], body: Sequence[Statement]) -> None:
        """One loop over the flattened grid, from which the indices are recovered."""
        self.wholes()
        if not blocks:
            self.statements(body)
            return
        begin, end = (Operand(f"%{name}", I64, 1, 0) for name in ("begin", "end"))
        loop = self.b.open_loop(None, 1, begin, end)
        rest = loop.base
        for block in reversed(blocks[1:]):
            size = self.number_of(block)
            self.open(block.index, block.size, self.times(self.b.op("urem", rest, size), block))
            rest = self.b.op("udiv", rest, size)
        self.open(blocks[0].index, blocks[0].size, self.times(rest, blocks[0]))
        self.full_or_not([block for block in blocks if self.cut(block)], body)
        self.b.close_loop(loop)

    def wholes(self) -> None:
        """Indices that lie whole in tiles may have fewer positions than lanes."""
        for index, lanes in self.places.whole.items():
            if integer_of(self.scope.extents[index]) != lanes:
                self.scope.edges.add(index)

    def open(self, index: str, lanes: int, base: Operand) -> None:
        """An index has a block here."""
        self.scope.bases[index] = self.scope.positions[index] = base
        self.w.blocks[index] = lanes

    def times(self, number: Operand, block: Block) -> Operand:
        return self.b.mul(number, self.sizes.number(block.size))

    def number_of(self, block: Block) -> Operand:
        """How many blocks an index has."""
        size = self.scope.extents[block.index]
        raised = self.b.add(size, self.sizes.number(block.size - 1))
        return self.sizes.floor(raised, self.sizes.number(block.size))

    def cut(self, block: Block) -> bool:
        """Whether the last block of a grid index may be partial."""
        return block.size > 1 and not self.sizes.divides(block.size, extent(block.index))

    def full_or_not(self, cut: Sequence[Block], body: Sequence[Statement]) -> None:
        """Twice, for full blocks without masks and for others, where that makes a difference."""
        twice = [block for block in cut if self.places.differs(block.index)]
        once = {block.index for block in cut if block not in twice}
        self.scope.edges |= once
        if not twice:
            self.statements(body)
        else:
            self.both(twice, body)
        self.scope.edges -= once

    def both(self, cut: Sequence[Block], body: Sequence[Statement]) -> None:
        full: Operand | None = None
        for block in cut:
            after = self.b.add(self.scope.bases[block.index], self.sizes.number(block.size))
            inside = self.b.op("icmp sle", after, self.scope.extents[block.index], BOOL)
            full = inside if full is None else self.b.op("and", full, inside)
        assert full is not None
        if not any(self.small(block) for block in cut):
            with self.plain.when(full):
                self.scope.full.update((block.index, self.b.depth) for block in cut)
                self.statements(body)
                self.scope.full.clear()
        partial = self.b.op("xor", full, self.b.const(1, BOOL))
        self.scope.edges.update(block.index for block in cut)
        with self.plain.when(partial):
            self.statements(body)
        self.scope.edges.difference_update(block.index for block in cut)

    def small(self, block: Block) -> bool:
        """Whether no block of a grid index is full."""
        size = integer_of(self.scope.extents[block.index])
        return size is not None and size < block.size

    # --- statements -----------------------------------------------------------------------------

    def statements(self, body: Sequence[Statement]) -> None:
        """Statements in order."""
        for item in body:
            match item:
                case Let():
                    self.plain.let(item)
                case Store():
                    self.plain.store(item)
                case Loop():
                    self.loop(item)
                case Each():
                    self.each(item)

    def each(self, item: Each) -> None:
        """The body on one part of the lanes after another."""
        lanes, index = self.plain.l, item.index
        outer = lanes.windows.get(index)
        count = self.w.blocks.get(index, self.places.whole.get(index, 0))
        start, number = outer or (ZERO, count)
        for tile in _defined(item.body):
            self.t.define(tile)
        end = self.b.add(start, self.sizes.number(number))
        if index in self.scope.edges and index not in self.places.reduced:
            end = self.b.extreme("min", end, lanes.inside(index))
        loop = self.b.open_loop(None, item.block, start, end)
        lanes.windows[index] = (loop.base, item.block)
        self.statements(item.body)
        self.b.close_loop(loop)
        del lanes.windows[index]
        if outer is not None:
            lanes.windows[index] = outer

    # --- loops ----------------------------------------------------------------------------------

    def loop(self, item: Loop) -> None:
        """All blocks of a loop; carried values run through its sections."""
        lower, upper = self.sizes.value(item.lower), self.sizes.value(item.upper)
        if (part := self.part(item.index)) is not None:
            lower, end = (self.b.mul(one, self.sizes.number(item.block)) for one in part)
            upper = self.b.extreme("min", end, upper)
        carried = [value for carry in item.carries for value in self.begin(carry)]
        outer = self.scope.walks.get(item.index)
        self.scope.walks[item.index] = self.walk(item, lower, upper)
        sections = self.sections(item, lower, upper)
        for section in reversed(sections) if item.down else sections:
            carried = self.section(item, section, carried)
        for key, value in zip(self.carried(item), carried, strict=True):
            self.scope.tiles[key] = value
        del self.scope.walks[item.index]
        if outer is not None:
            self.scope.walks[item.index] = outer

    def walk(self, item: Loop, lower: Operand, upper: Operand) -> Walk:
        """Where the loop starts to consume elements."""
        if not item.down:
            return Walk(lower, None, item.block)
        past = self.b.add(self.last(item.block, lower, upper), self.sizes.number(item.block))
        end = self.b.extreme("min", past, self.scope.extents[item.index])
        return Walk(lower, end, item.block)

    def last(self, block: int, lower: Operand, upper: Operand) -> Operand:
        """The base of the last block that starts below `upper`."""
        before = self.b.minus(self.b.minus(upper, lower), self.sizes.number(1))
        return self.b.add(lower, self.sizes.multiple(before, block))

    def sections(self, item: Loop, lower: Operand, upper: Operand) -> list[Section]:
        """Blocks before the full range, in it and after it, as far as there may be any."""
        b, block = self.b, item.block
        if block == 1:
            return [Section(1, False, lower, upper)]
        first, behind = (self.sizes.value(limit) for limit in item.full)
        if behind.ref == self.sizes.value(item.upper).ref and self.sizes.divides(block, item.upper):
            behind = upper
        else:
            behind = b.extreme("min", behind, self.scope.extents[item.index])
            behind = self.sizes.multiple(behind, block)
        found: list[Section] = []
        begin = lower
        if first.ref not in ("0", lower.ref):
            begin = b.extreme("max", lower, self.sizes.multiple(first, block, up=True))
            found.append(Section(block, True, lower, b.extreme("min", begin, upper)))
        rest = (1, False) if self.by_rows(item) else (block, True)
        if behind.ref == upper.ref:
            found.append(Section(block, False, begin, upper))
        elif integer_of(behind) == 0:
            found.append(Section(*rest, begin, upper))
        else:
            end = b.extreme("max", begin, behind)
            found.append(Section(block, False, begin, b.extreme("min", end, upper)))
            found.append(Section(*rest, end, upper))
        return [section for section in found if self.may_run(section)]

    def may_run(self, section: Section) -> bool:
        low, high = integer_of(section.lower), integer_of(section.upper)
        if low is not None and high is not None:
            return low < high
        return section.lower.ref != section.upper.ref

    def by_rows(self, item: Loop) -> bool:
        """Whether a block's rows are unrolled, so that the rest is done row by row."""
        return item.index == self.places.rows

    def section(self, item: Loop, section: Section, carried: list[Operand]) -> list[Operand]:
        """Blocks of one kind, one after another."""
        index, hidden = item.index, self.w.unrolled
        lower, upper = section.lower, section.upper
        if 0 < self.copies(item) <= COPIES:
            return self.unrolled(item, carried)
        if item.down:
            last = self.last(section.block, lower, upper)
            span = self.b.add(self.b.minus(last, lower), self.sizes.number(section.block))
            loop = self.b.open_loop(index, section.block, ZERO, span, carried)
            base = self.b.op("sub", last, loop.base)
        else:
            loop = self.b.open_loop(index, section.block, lower, upper, carried)
            base = loop.base
        self.open(index, section.block, base)
        if section.edge:
            self.scope.edges.add(index)
        if self.by_rows(item):
            self.w.unrolled, self.w.blocks[index] = (index, section.block), 1
        self.scope.tiles.update(zip(self.carried(item), loop.values, strict=True))
        self.statements(item.body)
        after = self.b.close_loop(loop, self.following(item))
        self.w.unrolled = hidden
        self.scope.edges.discard(index)
        for known in (self.scope.bases, self.scope.positions, self.w.blocks):
            known.pop(index, None)
        return after

    def copies(self, item: Loop) -> int:
        """How often the statements of a short loop over points would stand if it were unrolled, and
        those within; 0: it is not short."""
        low, high = (integer_of(self.sizes.value(one)) for one in (item.lower, item.upper))
        plain = item.block == 1 and not item.down and self.part(item.index) is None
        if low is None or high is None or not plain or not self.carried(item):
            return 0
        if any(isinstance(part, Each) for part in item.body):
            return 0
        inner = [self.copies(part) for part in item.body if isinstance(part, Loop)]
        return max(0, high - low) * math.prod(inner)

    def unrolled(self, item: Loop, carried: list[Operand]) -> list[Operand]:
        """The body of a short loop once for every point: what it carries stays in the registers
        where it is."""
        low, high = (integer_of(self.sizes.value(one)) or 0 for one in (item.lower, item.upper))
        for point in range(low, high):
            self.open(item.index, 1, self.sizes.number(point))
            self.scope.tiles.update(zip(self.carried(item), carried, strict=True))
            self.statements(item.body)
            carried = self.following(item)
        for known in (self.scope.bases, self.scope.positions, self.w.blocks):
            known.pop(item.index, None)
        return carried

    # --- carried tiles --------------------------------------------------------------------------

    def keys(self, tile: Tile) -> list[Key]:
        """The names under which the rows of an SSA tile are kept; a buffer has none."""
        if self.places.is_buffer(tile.name):
            return []
        index, count = self.w.unrolled
        return [(tile.name, row) for row in range(count if index in tile.axes else 1)]

    def carried(self, item: Loop) -> list[Key]:
        """The names of the SSA values that a loop carries."""
        return [key for carry in item.carries for key in self.keys(carry.tile)]

    def begin(self, carry: Carry) -> list[Operand]:
        """The values of a carried tile before the loop; a buffer is filled."""
        tile, start = carry.tile, carry.start
        keys = self.keys(tile)
        if keys:
            return [self.start(carry, row) for _, row in keys]
        self.t.define(tile)
        buffer = self.scope.buffers[tile.name]
        if isinstance(start, Tile):
            if self.scope.buffers.get(start.name) is not buffer:
                self.copy(tile, start)
        else:
            self.plain.fill(tile, lambda: self.constant(carry))
        buffer.version += 1
        return []

    def start(self, carry: Carry, row: int) -> Operand:
        tile, start = carry.tile, carry.start
        if isinstance(start, Tile) and self.places.is_buffer(start.name):
            return self.plain.loaded(start)
        if isinstance(start, Tile):
            value = self.scope.tiles[start.name, row if len(self.keys(start)) > 1 else 0]
        else:
            value = self.constant(carry)
        kind = value_of(tile.dtype)
        return self.b.splat(convert(self.b, value, kind), self.places.lanes(tile))

    def constant(self, carry: Carry) -> Operand:
        """A start that is the same on every lane."""
        kind = carry.tile.dtype
        match carry.start:
            case "lowest":
                return lowest(self.b, kind)
            case str() | Tile():
                raise ValueError(f"unknown start {carry.start!r}")
            case expr:
                return self.plain.constant(expr, kind)

    def copy(self, tile: Tile, source: Tile) -> None:
        """Set a buffer to another tile's value."""
        read = Value(source.name, source.axes, source.dtype)
        self.plain.fill(tile, lambda: self.t.read(read))

    def following(self, item: Loop) -> list[Operand]:
        """The next values of carried tiles; a buffer is copied to where the carry lies."""
        found: list[Operand] = []
        for carry in item.carries:
            tile = carry.tile
            name, rest = f"{tile.name}'", (tile.axes, tile.sizes, tile.dtype, tile.space)
            after = Tile(name, *rest, tile.layout)
            if not self.places.is_buffer(tile.name):
                keys = [(after.name, row) for _, row in self.keys(tile)]
                found += [self.scope.tiles[key] for key in keys]
            elif self.scope.buffers.get(after.name) is not self.scope.buffers[tile.name]:
                self.copy(tile, after)
        return found


def _defined(body: Sequence[Statement]) -> list[Tile]:
    """The tiles that statements define, their own bodies apart."""
    return [item.tile for item in body if isinstance(item, Let)]
