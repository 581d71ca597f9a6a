"""The numbers of level 3: a kernel with bodies run in random interleavings on arrays.

Every operation instance does its level-2 statements on its lanes as `interpret_tile` does them, but
knows nothing except what the channel program hands it: the tiles in the rings and values that it
reads. So the outputs are level 2's, bit by bit, if and only if the channel program moves the right
tiles; faults of the interleaving are those of `interpret_channel`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy.typing as npt

from tensorc.errors import BrokenInvariant
from tensorc.ir import interpret_tile
from tensorc.ir.bodies import body_of, calls, loop_of, makes, named_statements, tiles_of, windows_of
from tensorc.ir.channel import START, Kernel
from tensorc.ir.interpret_channel import interpret
from tensorc.ir.lanes import Lanes, Memory
from tensorc.ir.rounding import Array, round_to
from tensorc.ir.tile import Kernel as TileKernel
from tensorc.ir.tile import Let, Store, TileProgram
from tensorc.ir.tile_block import Block
from tensorc.ir.walk_tile import bound, tiles, whole


def run_bodies(
    kernel: Kernel,
    program: TileProgram,
    arrays: Mapping[str, npt.ArrayLike],
    extents: Mapping[str, int],
    seed: int = 0,
) -> dict[str, Array]:
    """The outputs of `program`, whose one kernel is done by `kernel`.

    All blocks of the grid are tiles of one run if the kernel is persistent, else there is a run for
    each. Raises BrokenInvariant with the trace of a run that has a fault.
    """
    (text,) = program.kernels
    run = interpret_tile.Run(program, Memory(), dict(extents), None)
    for item in program.parameters:
        run.hold(item.tensor, round_to(arrays[item.tensor.name], item.tensor.dtype))
    run.complete_extents()
    for table in program.tables:
        run.hold(table.tensor, run.entries(table))
    run.allocate(text)
    grid = run.blocks({item.index: item.size for item in text.grid})
    for number, group in enumerate([grid] if kernel.persistent else [[b] for b in grid]):
        numbers = Numbers(kernel, text, run, group)
        found = interpret(kernel, numbers.trips, seed + number, numbers.meaning)
        if found.fault is not None:
            raise BrokenInvariant(f"{kernel.name}, seed {seed + number}: {found}")
    for item in program.outputs:
        if not run.memory.stored[item.tensor.name].all():
            raise BrokenInvariant(f"{program.name}: some of {item.tensor.name} was never stored")
    return {item.tensor.name: run.memory.arrays[item.tensor.name] for item in program.outputs}


class Numbers:
    """What the operations of a kernel compute on the blocks of a grid, one for each tile."""

    def __init__(
        self, kernel: Kernel, text: TileKernel, run: interpret_tile.Run,
        grid: Sequence[Mapping[str, int]],
    ) -> None:  # fmt: skip
        self.text, self.run, self.grid = text, run, grid
        self.loop, self.tiles = loop_of(text), tiles(text)
        self.held, self.bodies = tiles_of(kernel, text), body_of(kernel)
        self.windows = windows_of(kernel)
        self.statements = named_statements(text)
        self.calls = {item.call.operation: item for _, item in calls(kernel)}
        self.bases = [self._bases(tile) for tile in range(len(grid))]

    @property
    def trips(self) -> tuple[int, ...]:
        """The trip count of the loop in every block."""
        return tuple(map(len, self.bases))

    def _bases(self, tile: int) -> range:
        """The bases of the loop's blocks, in the order in which it visits them."""
        block = self.block(tile)
        lower, upper = (self.run.number(n, block) for n in (self.loop.lower, self.loop.upper))
        found = range(lower, upper, self.loop.block)
        return found[::-1] if self.loop.down else found

    def block(self, tile: int) -> Block:
        """A block of the grid, with no tiles yet."""
        counts = {item.index: item.size for item in self.text.grid}
        names = bound(self.text), whole(self.text)
        return Block(self.text, (), dict(self.grid[tile]), counts, *names)

    def inside(self, tile: int, at: int) -> Block:
        """A block of the grid in iteration `at` of the loop."""
        block, loop, extent = self.block(tile), self.loop, self.run.extents[self.loop.index]
        base = self.bases[tile][at]
        block.bases[loop.index], block.counts[loop.index] = base, loop.block
        low, high = (self.run.number(limit, block) for limit in loop.full)
        block.full[loop.index] = low <= base and base + loop.block <= high
        done = sum(min(loop.block, extent - other) for other in self.bases[tile][:at])
        block.seen[loop.index] = (done, done + min(loop.block, extent - base))
        return block

    def meaning(self, operation: str, tile: int, at: int, arguments: tuple[object, ...]) -> object:
        """What an operation instance makes: lanes of each tile; `start NAME`: the carry's start."""
        if operation.startswith(START):
            return self.start(operation.removeprefix(f"{START} "), tile)
        item, body = self.calls[operation], self.bodies[operation]
        call = item.call
        block = self.block(tile) if call.at.anchor == "tile" else self.inside(tile, at)
        block.windows.update({w.index: (w.first, w.count) for w in body.windows})
        for read, lanes in zip(call.reads, arguments, strict=True):
            self.receive(block, self.held.read(call, read), read.name, cast(Lanes, lanes))
        for name in body.statements:
            match self.statements[name]:
                case Let() as let:
                    self.run.let(let, block)
                case Store() as store:
                    self.run.store(store, block)
        made = tuple(block.tiles[self.held.held(name)[0]][1] for name in makes(item))
        return made if len(made) > 1 else next(iter(made), None)

    def receive(self, block: Block, name: str, source: str, lanes: Lanes) -> None:
        """A tile, or the part of it that a ring or value holds beside parts from others."""
        tile = self.tiles[name]
        if name not in block.tiles:
            block.tiles[name] = tile.axes, _copied(lanes)
            return
        spans = {w.index: w for w in self.windows.get(source.partition("@")[0], ())}
        everything, part = slice(None), (spans.get(axis) for axis in tile.axes)
        window = tuple(slice(w.first, w.first + w.count) if w else everything for w in part)
        block.tiles[name][1].put(window, lanes.at(window))

    def start(self, name: str, tile: int) -> Lanes:
        """What the registers of a carry hold before the loop."""
        wanted, block = self.held.started(name), self.block(tile)
        carry = next(item for item in self.loop.carries if item.tile.name == wanted)
        block.assign(carry.tile, self.run.start(carry, block))
        return block.tiles[wanted][1]


def _copied(lanes: Lanes) -> Lanes:
    """Lanes that may be written without anybody noticing."""
    return Lanes(lanes.values.copy(), lanes.states.copy())
