"""The meaning of level 2: programs run statement by statement, block by block, on NumPy arrays.

Every value is computed in its value type (f32 in float32) and rounded where it is stored: in a tile
of a narrow type, at a cast, in a tensor. A reduction starts from `onto` (else from its neutral
element) and adds lane by lane, ascending, the last listed axis fastest, each partial rounded to the
tile's type; the order of a kernel on a machine may differ, its rounding points do not.

Asserted on the way, as BrokenInvariant: nothing without a value, or whose storage was taken, is
stored or decides anything; guards hold on every lane of full blocks; loops stay inside extents;
each element is stored once (or combined), and all of every output; reads without a check stay
inside their tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from tensorc.errors import BrokenInvariant, OutOfRange
from tensorc.ir.dtypes import BOOL, F32, I64
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.lanes import KNOWN, Axis, Lanes, Memory, Site
from tensorc.ir.polynomial import Atom, Opaque, Polynomial, Symbol, polynomial, substitute
from tensorc.ir.rounding import Array, numpy_dtype, round_to
from tensorc.ir.source import Diagnostic
from tensorc.ir.tensor import Expr, Select, Table, Tensor, free_indices
from tensorc.ir.tile import (
    Carry,
    Each,
    Kernel,
    Let,
    Loop,
    Statement,
    Store,
    Tile,
    TileProgram,
    Use,
)
from tensorc.ir.tile_block import Axes, Block, batch, combined, exact, lowest, neutral, parts
from tensorc.ir.walk_tile import bound, whole

T = TypeVar("T")
_COMBINE: dict[Reducer, np.ufunc] = {
    SUM: np.add, PROD: np.multiply, MAX: np.maximum, MIN: np.minimum,
    ANY: np.logical_or, ALL: np.logical_and,
}  # fmt: skip


def interpret(
    program: TileProgram,
    arrays: Mapping[str, npt.ArrayLike],
    extents: Mapping[str, int],
    order: np.random.Generator | None = None,
) -> dict[str, Array]:
    """The outputs of `program` by name, in their storage types.

    `arrays`: every parameter. `extents`: the extent of every index (those that follow from others
    may be left out). `order`: draws the order in which the blocks of every grid, and the parts of
    every `Each`, run one by one; None: blocks of one lane that do the same run together, others in
    row-major order.

    BrokenInvariant: see above. OutOfRange (R704): a checked subscript leaves its dimension.
    """
    run = Run(program, Memory(), dict(extents), order)
    for item in program.parameters:
        run.hold(item.tensor, round_to(arrays[item.tensor.name], item.tensor.dtype))
    run.complete_extents()
    for table in program.tables:
        run.hold(table.tensor, run.entries(table))
    for kernel in program.kernels:
        run.kernel(kernel)
    for item in program.outputs:
        if not run.memory.stored[item.tensor.name].all():
            raise BrokenInvariant(f"{program.name}: some of {item.tensor.name} was never stored")
    return {item.tensor.name: run.memory.arrays[item.tensor.name] for item in program.outputs}


@dataclass
class Run:
    """A program with the memory and sizes it runs on."""

    program: TileProgram
    memory: Memory
    extents: dict[str, int]
    order: np.random.Generator | None

    # --- tensors and sizes ----------------------------------------------------------------------

    def hold(self, tensor: Tensor, values: Array) -> None:
        """A tensor that is there before any kernel runs."""
        self.memory.arrays[tensor.name] = values
        self.memory.stored[tensor.name] = np.ones(values.shape, bool)

    def complete_extents(self) -> None:
        """Extents that follow from others."""
        for index, size in self.program.extents:
            if index not in self.extents:
                self.extents[index] = self.number(size, None)

    def entries(self, table: Table) -> Array:
        """A table's array."""
        shape = tuple(self.number(size, None) for size in table.tensor.shape)
        site = self.site(None, ())
        found = [site.stored(value, table.tensor.dtype).values for value in table.values]
        return np.array(found, numpy_dtype(table.tensor.dtype)).reshape(shape)

    def number(self, size: Polynomial, block: Block | None) -> int:
        """The value of a size or bound."""

        def known(atom: Atom) -> Polynomial | None:
            match atom:
                case Symbol(name, "extent"):
                    return polynomial(self.extents[name])
                case Symbol(name, "base"):
                    assert block is not None
                    return polynomial(block.bases[name])
                case Symbol(name, _):
                    return polynomial(int(self.memory.arrays[name]))
                case Opaque(expr):
                    return polynomial(self.scalar(cast(Expr, expr), block))
                case _:
                    return None

        value = substitute(size, known).constant
        if value is None:
            raise BrokenInvariant(f"{self.program.name}: {size} has no value")
        return value

    def scalar(self, expr: Expr, block: Block | None) -> int:
        """A data read in a bound."""
        lanes = self.site(block, ()).value(expr, I64)
        if lanes.states.any():
            raise BrokenInvariant(f"{block}: a bound reads what has no value")
        return int(lanes.values)

    # --- kernels, blocks and loops --------------------------------------------------------------

    def kernel(self, kernel: Kernel) -> None:
        """All blocks of one kernel."""
        self.allocate(kernel)
        together = batch(kernel, self.extents) if self.order is None else ()
        apart = {item.index: item.size for item in kernel.grid}
        for axis in together:
            del apart[axis.index]
        names, lanes = bound(kernel), whole(kernel)
        for bases in self.blocks(apart):
            self.body(kernel.body, Block(kernel, together, bases, dict(apart), names, lanes))

    def allocate(self, kernel: Kernel) -> None:
        """Memory for what a kernel stores, unless it is there."""
        for tensor in kernel.writes:
            shape = tuple(self.number(size, None) for size in tensor.shape)
            self.memory.arrays.setdefault(tensor.name, np.zeros(shape, numpy_dtype(tensor.dtype)))
            self.memory.stored.setdefault(tensor.name, np.zeros(shape, bool))

    def blocks(self, grid: Mapping[str, int]) -> list[dict[str, int]]:
        """The bases of every block of the grid, in the order of this run."""
        ranges = [range(0, self.extents[index], size) for index, size in grid.items()]
        names = list(grid)
        found = [dict(zip(names, bases, strict=True)) for bases in product(*ranges)]
        return self.drawn(found)

    def drawn(self, items: list[T]) -> list[T]:
        """The items in the order of this run."""
        if self.order is None:
            return items
        return [items[int(place)] for place in self.order.permutation(len(items))]

    def body(self, body: tuple[Statement, ...], block: Block) -> None:
        """Statements in order."""
        for item in body:
            match item:
                case Let():
                    self.let(item, block)
                case Store():
                    self.store(item, block)
                case Loop():
                    self.loop(item, block)
                case Each():
                    self.each(item, block)

    def each(self, each: Each, block: Block) -> None:
        """The body on one part of the lanes after another."""
        outer = block.windows.get(each.index)
        lanes = block.counts.get(each.index, block.whole.get(each.index, 0))
        start, count = outer or (0, lanes)
        for offset in self.drawn(list(range(start, start + count, each.block))):
            block.windows[each.index] = (offset, each.block)
            self.body(each.body, block)
        del block.windows[each.index]
        if outer is not None:
            block.windows[each.index] = outer

    def loop(self, loop: Loop, block: Block) -> None:
        """The blocks of a loop; the value of a carry stands under its own name."""
        lower, upper = self.number(loop.lower, block), self.number(loop.upper, block)
        extent = self.extents[loop.index]
        if lower < upper and (lower < 0 or lower % loop.block or upper > extent):
            raise BrokenInvariant(f"{block}: loop {loop.index}: {lower} to {upper} of {extent}")
        bases = range(lower, upper, loop.block)
        for carry in loop.carries:
            block.assign(carry.tile, self.start(carry, block))
            if isinstance(carry.start, Tile) and carry.tile.space != "register":
                block.overwrite(carry.start)
        seen = 0
        for base in reversed(bases) if loop.down else bases:
            block.bases[loop.index], block.counts[loop.index] = base, loop.block
            low, high = (self.number(limit, block) for limit in loop.full)
            block.full[loop.index] = low <= base and base + loop.block <= high
            after = seen + min(loop.block, extent - base)
            block.seen[loop.index], seen = (seen, after), after
            self.body(loop.body, block)
            for carry in loop.carries:
                following = block.tiles[carry.tile.name + "'"][1].at(block.window(carry.tile))
                block.assign(carry.tile, following)
        for state in (block.bases, block.counts, block.full, block.seen):
            state.pop(loop.index, None)

    def start(self, carry: Carry, block: Block) -> Lanes:
        """The value of a carried tile before the first iteration."""
        match carry.start:
            case Tile():
                return block.fetch(carry.start)
            case str():
                return Lanes(np.asarray(lowest(carry.tile.dtype)), np.asarray(KNOWN))
            case _:
                return self.site(block, ()).stored(carry.start, carry.tile.dtype)

    # --- statements -----------------------------------------------------------------------------

    def axes(self, names: Iterable[str], exprs: tuple[Expr, ...], block: Block) -> Axes:
        """The lanes on which a statement with these axes works, of all blocks done together."""
        own = (self.axis(name, block.lanes_of(name, exprs), block) for name in names)
        return (*block.batch, *own)

    def axis(self, index: str, lanes: int | None, block: Block) -> Axis:
        start, count = block.windows.get(index, (0, lanes))
        positions = index in block.counts or index not in block.bound
        extent = self.extents[index] if positions else None
        count = self.extents[index] if count is None else count
        return Axis(index, block.bases.get(index, 0), start, count, extent)

    def site(self, block: Block | None, axes: Axes, by: Use | None = None) -> Site:
        """Where expressions of a statement are computed."""
        fill = by.fill if by else None
        checked = frozenset(item.read for item in self.program.checks)
        if block is None:
            return Site(self.memory, self.extents, axes, {}, {}, {}, fill, checked)
        return Site(
            self.memory, self.extents, axes, block.bases, block.seen, block.tiles, fill, checked
        )

    def let(self, let: Let, block: Block) -> None:
        """Define a tile."""
        axes = self.axes((*let.tile.axes, *let.reduced), (let.body,), block)
        if let.op is None:
            site = self.site(block, axes, let.by)
            lanes = site.stored(let.body, let.tile.dtype)
            self.reads_inside(site, lanes, block)
        else:
            lanes = self.reduced(let, let.op, axes, block)
        self.guard(let.body, let.edge, axes, block)
        block.assign(let.tile, lanes)
        if let.into is not None:
            block.overwrite(let.into)

    def reduced(self, let: Let, op: Reducer, axes: Axes, block: Block) -> Lanes:
        """All lanes of the reduced axes, or those inside the domain along exact ones."""
        rank = len(block.batch) + len(let.tile.axes)
        outer = axes[:rank]
        inner = tuple(exact(axis) if axis.index in let.by.exact else axis for axis in axes[rank:])
        total = block.fetch(let.onto) if let.onto else None
        for part in parts(outer, inner):
            site = self.site(block, (*outer, *part), let.by)
            converted = let.tile.dtype if op in (SUM, PROD) else site.wanted(let.body, F32)
            lanes = site.stored(let.body, converted)
            self.reads_inside(site, lanes, block)
            self.values_inside(site, lanes, rank, let, block)
            total = combined(op, total, lanes, site.shape, rank)
        assert total is not None
        return Lanes(round_to(total.values, let.tile.dtype), total.states)

    def store(self, store: Store, block: Block) -> None:
        """Write the lanes inside the domain to memory."""
        if any(block.bases[index] for index in store.once):
            return
        exprs = (*store.subscripts, store.value)
        together = {axis.index for axis in block.batch}
        names = sorted(frozenset[str]().union(*map(free_indices, exprs)) - together)
        axes = self.axes(names, exprs, block)
        site = self.site(block, axes, store.by)
        lanes = site.stored(store.value, store.tensor.dtype)
        places = [site.value(item, I64) for item in store.subscripts]
        self.guard(store.value, store.edge, axes, block)
        inside = np.broadcast_to(site.inside(axis.index for axis in axes), site.shape)
        for item in (lanes, *places):
            self.reads_inside(site, item, block)
            if (np.broadcast_to(item.states, site.shape)[inside] != KNOWN).any():
                raise BrokenInvariant(
                    f"{block}: store {store.tensor.name}: a lane inside the domain has no value"
                )
        chosen = [item.chosen(inside).values for item in places]
        self.write(store, chosen, lanes.chosen(inside), block)

    def write(self, store: Store, places: list[Array], lanes: Lanes, block: Block) -> None:
        """Each element once, or combined with what is there."""
        array = self.memory.arrays[store.tensor.name]
        held = self.memory.stored[store.tensor.name]
        for place, size in zip(places, array.shape, strict=True):
            if ((place < 0) | (place >= size)).any():
                raise BrokenInvariant(f"{block}: store outside {store.tensor.name}")
        flat, values = self.flat(places, array), lanes.values
        if store.combine is not None:
            fresh = ~held.reshape(-1)[flat]
            array.reshape(-1)[flat[fresh]] = neutral(store.combine, array.dtype)
            _COMBINE[store.combine].at(array.reshape(-1), flat, values)
        elif len(np.unique(flat)) < len(flat) or held.reshape(-1)[flat].any():
            raise BrokenInvariant(f"{block}: an element of {store.tensor.name} is stored twice")
        else:
            array.reshape(-1)[flat] = values
        held.reshape(-1)[flat] = True

    def flat(self, places: list[Array], array: Array) -> Array:
        """Places as positions in row-major order."""
        return np.ravel_multi_index(places, array.shape) if places else np.zeros(1, np.int64)

    # --- assertions -----------------------------------------------------------------------------

    def reads_inside(self, site: Site, lanes: Lanes, block: Block) -> None:
        """No lane inside the domain rests on a read outside its tensor."""
        for number, (read, axis) in enumerate(site.faults):
            bad = (lanes.states == 2 + number) & site.inside(axis.index for axis in site.axes)
            if not bad.any():
                continue
            subscript = site.value(read.subscripts[axis], I64).values
            place = int(np.broadcast_to(subscript, bad.shape)[bad][0])
            size = self.memory.arrays[read.tensor.name].shape[axis]
            said = f"{read.tensor.name}: subscript {axis} is {place}, allowed are 0..{size - 1}"
            if any(item.read is read and item.axis == axis for item in self.program.checks):
                raise OutOfRange([Diagnostic("R704", said)])
            raise BrokenInvariant(f"{block}: {said}")

    def values_inside(self, site: Site, lanes: Lanes, rank: int, let: Let, block: Block) -> None:
        """No lane outside the domain spoils a reduction of lanes inside."""
        missing = np.broadcast_to(lanes.states != KNOWN, site.shape)
        kept = site.inside(axis.index for axis in site.axes[:rank])
        beyond = missing & kept & ~site.inside(axis.index for axis in site.axes[rank:])
        if beyond.any():
            raise BrokenInvariant(
                f"{block}: {let.tile.name} reduces lanes of {', '.join(let.reduced)} that lie "
                "outside the domain and have no value; guard them, or walk the index exactly"
            )

    def guard(self, body: Expr, edge: tuple[str, ...], axes: Axes, block: Block) -> None:
        """The condition of a guard holds on every lane of full blocks."""
        if not edge or not all(self.full(index, axes, block) for index in edge):
            return
        assert isinstance(body, Select)
        holds = self.site(block, axes).value(body.condition, BOOL)
        if not holds.values.all() or (holds.states != KNOWN).any():
            raise BrokenInvariant(
                f"{block}: a guard of {', '.join(edge)} fails in a full block: "
                f"{sum(not each for each in holds.values.flat)} lanes"
            )

    def full(self, index: str, axes: Axes, block: Block) -> bool:
        """Whether the lanes of an index here are those of a full block."""
        if index in block.full:
            return block.full[index]
        return all(axis.inside.all() for axis in axes if axis.index == index)
