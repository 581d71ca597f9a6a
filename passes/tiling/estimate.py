"""How long a level-2 kernel takes on a GPU, in closed form: bounds, not a simulation.

Every statement keeps one unit of a multiprocessor busy for its work over the unit's rate; units
work side by side as well as they can, so a block takes at least as long as its busiest unit, and
what the others do is hidden but in part:

    T_u = sum over statements of trips * work / rate_u      block = max_u T_u + 0.15 * sum_u T_u
    kernel = max((blocks of a processor * block + waves * start) / clock, bytes / bandwidth)
             + launch

All rates are those of the machine's product file. Bounds of loops are taken at the middle of the
grid, which for a triangle of blocks is their mean. What does not fit is told apart: shared memory
with two slots for what a loop copies, and the registers of one multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tensorc.ir.node import postorder
from tensorc.ir.polynomial import (
    Atom,
    Opaque,
    Polynomial,
    Symbol,
    evaluate,
    polynomial,
    substitute,
    symbols,
)
from tensorc.ir.tensor import Apply, Cast, Expr, Read, Select, Tensor, Value
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store, Tile
from tensorc.ir.walk_tile import expressions, statements, tiles
from tensorc.machine.instruction import Machine
from tensorc.machine.product import Product

SLOTS = 2  # slots of a ring that a copy in a loop fills, at least
HIDDEN = 0.15  # part of the other units' work that does not overlap with the busiest one's
START = 1500  # cycles until a block's first tiles are there and after its last are stored
LAUNCH = 3e-6  # seconds from one kernel to the next
GUESS = 1024  # an extent of which nothing is known
SPECIAL = frozenset("exp exp2 log log2 div rsqrt sqrt tanh sigmoid sin cos erf pow".split())
SIMPLE = frozenset("min max lt le gt ge eq ne and or not".split())


@dataclass(frozen=True)
class Estimate:
    """Seconds of a kernel; cycles of each unit in one block; bytes of shared memory, and of
    registers that tiles fill, in one block; blocks of the grid."""

    seconds: float
    units: Mapping[str, float]
    shared: int
    registers: int
    blocks: int

    def misfit(self, product: Product) -> str:
        """What does not fit on a multiprocessor; "": all does."""
        shared, registers = product.whole("size.shared"), 4 * product.whole("size.registers")
        if self.shared > shared:
            return f"{self.shared:,} bytes of shared memory, there are {shared:,}"
        if self.registers > 0.8 * registers:
            return f"{self.registers:,} bytes of tiles in registers, there are {registers:,}"
        return ""


def estimate(
    kernel: Kernel, machine: Machine, product: Product, extents: Mapping[str, Polynomial],
    sizes: Mapping[str, int],
) -> Estimate:  # fmt: skip
    """The estimate of a kernel at extents as far as they are known; others are guessed."""
    lanes = {item.index: item.block for item in statements(kernel.body) if isinstance(item, Loop)}
    walk = _Walk(machine, product, extents, sizes, tiles(kernel), lanes)
    bases = {b.index: max(0, walk.extent(b.index) - b.size) // 2 for b in kernel.grid}
    walk.body(kernel.body, 1.0, False, bases)
    blocks = math.prod(math.ceil(walk.extent(b.index) / b.size) for b in kernel.grid)
    processors, registers = product.whole("chip.processors"), walk.registers(kernel)
    busy = max(walk.units.values(), default=0.0) + HIDDEN * sum(walk.units.values())
    waves = math.ceil(blocks / (processors * _resident(walk.shared, registers, product)))
    cycles = math.ceil(blocks / processors) * busy + waves * START
    computing = cycles / (float(product["chip.clock"]) * 1e6)
    moved = sum(walk.bytes(tensor) for tensor in (*kernel.reads, *kernel.writes))
    moving = moved / (float(product["chip.dram"]) * 1e9)
    seconds = max(computing, moving) + LAUNCH
    return Estimate(seconds, walk.units, walk.shared, registers, blocks)


@lru_cache(maxsize=4096)
def _value(size: Polynomial, values: tuple[tuple[Symbol, int], ...]) -> int:
    """A size where its symbols have these values."""
    return evaluate(size, dict(values))


def _resident(shared: int, registers: int, product: Product) -> int:
    """How many blocks of this much memory run on a multiprocessor at a time, at most 8."""
    by_shared = product.whole("size.shared_processor") // (shared + product.whole("size.reserved"))
    by_registers = 4 * product.whole("size.registers") // max(1, 2 * registers)
    return max(1, min(by_shared, by_registers, 8))


@dataclass
class _Walk:
    """One walk over a kernel's text."""

    machine: Machine
    product: Product
    extents: Mapping[str, Polynomial]
    sizes: Mapping[str, int]
    tiles: Mapping[str, Tile]
    blocks: Mapping[str, int]
    units: dict[str, float] = field(default_factory=dict[str, float])
    shared: int = 0

    def extent(self, index: str) -> int:
        """An extent, guessed if it is not known."""
        found = self.sizes.get(index)
        return found if found is not None else self.value(self.extents[index], {})

    def value(self, size: Polynomial, bases: Mapping[str, int]) -> int:
        """A size or bound; what depends on data counts as much."""

        def known(atom: Atom) -> Polynomial | None:
            match atom:
                case Symbol(name, "base"):
                    return polynomial(bases.get(name, 0))
                case Symbol(name, _):
                    return polynomial(self.sizes.get(name, GUESS))
                case Opaque():
                    return polynomial(1 << 20)
                case _:
                    return None

        return substitute(size, known).constant or 0

    def bytes(self, tensor: Tensor) -> int:
        """Bytes of a tensor in memory."""
        total = tensor.dtype.bits
        for size in tensor.shape:
            used = sorted(symbols(size), key=str)
            total *= _value(size, tuple((s, self.sizes.get(s.name, GUESS)) for s in used))
        return total // 8

    def body(
        self, body: tuple[Statement, ...], trips: float, looped: bool, bases: Mapping[str, int]
    ) -> None:
        """Statements that run so many times in a block."""
        for item in body:
            match item:
                case Let() | Store():
                    self.statement(item, trips, looped)
                case Loop(index, block, lower, upper):
                    length = self.value(upper, bases) - max(0, self.value(lower, bases))
                    count = max(0, math.ceil(length / block))
                    self.body(item.body, trips * count, True, {**bases, index: 0})
                case Each():
                    self.body(item.body, trips, looped, bases)

    def statement(self, item: Let | Store, trips: float, looped: bool) -> None:
        """The work of one statement."""
        for rate, work in self.work(item):
            name = rate.removeprefix("rate.")
            cycles = trips * work / float(self.product[rate])
            self.units[name] = self.units.get(name, 0.0) + cycles
        if isinstance(item, Let) and item.tile.space == "shared":
            self.shared += _bytes(item.tile) * (SLOTS if looped else 1)

    def work(self, item: Let | Store) -> Iterator[tuple[str, float]]:
        """Rates that a statement is priced by, and how much work it is."""
        found = self.machine.instructions[item.by.instruction]
        lanes = self.lanes(item)
        if found.op is not None:
            yield found.cost.rate, lanes
            return
        if found.body is not None:
            bits = item.tile.dtype.bits if isinstance(item, Let) else item.tensor.dtype.bits
            yield found.cost.rate, lanes * bits / 8
            return
        yield from self.threads(item, lanes)

    def lanes(self, item: Let | Store) -> float:
        """The lanes on which a statement works."""
        if isinstance(item, Let):
            inner = math.prod(self.lanes_of(item.body, index) for index in item.reduced)
            return math.prod(item.tile.sizes) * inner
        values = [n for n in postorder([item.value]) if isinstance(n, Value)]
        return max((math.prod(self.tiles[v.tile].sizes) for v in values), default=1)

    def lanes_of(self, body: Expr, index: str) -> int:
        """Lanes along a reduced index, from the tiles that have it."""
        for node in postorder([body]):
            if isinstance(node, Value) and index in node.axes:
                return self.tiles[node.tile].sizes[node.axes.index(index)]
        return self.blocks.get(index, 1)

    def threads(self, item: Let | Store, lanes: float) -> Iterator[tuple[str, float]]:
        """The work of a statement that threads do, function by function."""
        for node in postorder(expressions(item)):
            match node:
                case Apply(function, args) if function.name in SPECIAL:
                    yield "rate.exp", lanes
                case Apply(function, args) if function.name in SIMPLE:
                    yield "rate.alu", lanes * max(1, len(args) - 1)
                case Apply(_, args):
                    yield "rate.fma", lanes * max(1, len(args) - 1)
                case Select():
                    yield "rate.alu", lanes
                case Cast():
                    yield "rate.convert", lanes
                case Read(tensor, _):
                    yield "rate.copy", lanes * tensor.dtype.bits / 8
                case _:
                    pass
        if isinstance(item, Let) and item.op is not None:
            yield "rate.alu" if item.op.name in ("max", "min", "any", "all") else "rate.fma", lanes
        if isinstance(item, Store):
            yield "rate.copy", lanes * item.tensor.dtype.bits / 8

    def registers(self, kernel: Kernel) -> int:
        """Bytes of the register tiles that have storage of their own, carried ones foremost."""
        return sum(_bytes(tile) for tile in _own(kernel.body))


def _own(body: tuple[Statement, ...]) -> Iterator[Tile]:
    """Register tiles that take nobody's storage."""
    for item in body:
        match item:
            case Let(tile) if tile.space == "register" and item.into is None:
                if not tile.name.endswith("'"):
                    yield tile
            case Loop():
                yield from (c.tile for c in item.carries if not isinstance(c.start, Tile))
                yield from _own(item.body)
            case Each():
                yield from _own(item.body)
            case _:
                pass


def _bytes(tile: Tile) -> int:
    return math.prod(tile.sizes) * tile.dtype.bits // 8
