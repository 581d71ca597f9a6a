"""The ways to tile the products of a CPU worth a thought, best first by a closed form.

A candidate is a register tile of `rows` by `vectors`, its sums in registers with one row of vectors
and a broadcast element beside them, with what rows share read where it lies or packed in panels
first. A product of m rows, n columns and a sum over k takes, in cycles,

    columns' tiles * (m // rows * k * step(rows) + m % rows * k * step(1)) + packing
    step(r) = the largest, and a tenth of the others, of r * vectors / 2 multiply-adds, 4 of
              latency, (r + 1.5 * vectors) / 2 loads, and 64 * vectors bytes / what the cache that
              holds a panel delivers

where a panel of k rows of vectors is in the first cache, the second, or neither: because it is too
large, or because its rows lie so far apart that they share few of the sets. What is no product
costs nothing here, and equal costs keep the order of the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorc.ir.polynomial import Symbol, evaluate, symbols
from tensorc.ir.tensor import Program, Read
from tensorc.machine.cpu import CACHES
from tensorc.machine.instruction import Machine
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.panels import BLOCK, Product, product_of
from tensorc.passes.tiling.turn_operands import turn_operands

_ROWS = (1, 2, 4, 6, 8, 12, 14)
_VECTORS = (1, 2, 4, 6)
GHZ = 3.8
LATENCY = 4.0  # cycles from one multiply-add to the next on the same sum
UNALIGNED = 1.5  # loads of a vector that may lie in two lines, and what that costs a cache
HIDDEN = 0.1  # part of the other bounds' time that does not overlap with the largest


@dataclass(frozen=True)
class Candidate:
    """One way to tile a program's products: predicted seconds, the vector registers that a tile
    takes, and the bytes of the largest panel that should stay in the second cache."""

    widths: Widths
    seconds: float
    registers: int
    panel: int


def register_tiles(machine: Machine, first: Widths) -> tuple[Widths, ...]:
    """Tiles that fit the registers of a machine, `first` before the others, packed ones last: at
    most 64."""
    others = [
        replace(first, vectors=vectors, rows=rows)
        for rows in _ROWS
        for vectors in _VECTORS
        if rows * vectors + vectors + 1 <= machine.registers
    ]
    packed = [replace(item, packed=True) for item in (first, *others) if BLOCK % item.rows == 0]
    large = [item for item in packed if item.rows * item.vectors >= machine.registers // 2]
    return tuple(dict.fromkeys((first, *others, *large)))


def ranked(
    program: Program, tiles: tuple[Widths, ...], units: Units, sizes: Mapping[str, int]
) -> list[Candidate]:
    """The candidates of a canonical program, the least prediction first. `sizes`: of the indices,
    as far as they are known."""
    turned = turn_operands(program, units, sizes)
    sizes = _every(program, sizes)
    found = [item for e in turned.equations if (item := product_of(e, units)) is not None]
    known = [item for item in found if _sizes(item, sizes) is not None]
    made = [_candidate(known, tile, sizes, turned) for tile in tiles]
    return sorted(made, key=lambda item: item.seconds)


def best(program: Program, machine: Machine, first: Widths, units: Units,
         sizes: Mapping[str, int]) -> Widths:  # fmt: skip
    """The tile of a canonical program with the least prediction."""
    return ranked(program, register_tiles(machine, first), units, sizes)[0].widths


def _candidate(
    found: list[Product], tile: Widths, sizes: Mapping[str, int], program: Program
) -> Candidate:
    cycles = sum(_cycles(item, tile, sizes, program) for item in found)
    panel = max((_summed(item, sizes) * tile.vectors * tile.lanes * 4 for item in found), default=0)
    registers = tile.rows * tile.vectors + tile.vectors + 1
    return Candidate(tile, cycles / GHZ / 1e9, registers, panel)


def _sizes(item: Product, sizes: Mapping[str, int]) -> tuple[int, int, int] | None:
    """Rows, columns and elements of the sum, if they are known and there are any."""
    m, n = (sizes.get(index, 0) for index in (item.rows, item.columns))
    found = (m, n, _summed(item, sizes))
    return found if all(found) else None


def _summed(item: Product, sizes: Mapping[str, int]) -> int:
    return math.prod(sizes.get(index, 0) for index in item.summed)


def _every(program: Program, given: Mapping[str, int]) -> dict[str, int]:
    """The given extents, and those that follow from them."""
    known = {Symbol(name, "extent"): size for name, size in given.items()}
    derived = {n: e for n, e in program.extents if symbols(e) <= known.keys()}
    return {**{n: evaluate(e, known) for n, e in derived.items()}, **given}


def _cycles(item: Product, tile: Widths, sizes: Mapping[str, int], program: Program) -> float:
    """Of one product, for all points of its other indices."""
    m, n, k = _sizes(item, sizes) or (0, 0, 0)
    others = [i for i in item.equation.indices if i not in (item.rows, item.columns)]
    batch = math.prod(sizes.get(index, 1) for index in others)
    packed = tile.packed and item.packs(sizes)
    rows = 6 if packed and tile.rows > 6 else tile.rows
    width = tile.lanes * tile.vectors
    panels = -(-n // width)
    rate = math.inf
    if m > tile.rows:  # else nothing of a panel is read again
        rate = _rate(item, tile, packed, sizes, program)
    bytes_of = 4 * width

    def step(r: int) -> float:
        loads = (r + (1 if packed else UNALIGNED) * tile.vectors) / 2
        bounds = (r * tile.vectors / 2, loads, LATENCY, bytes_of / rate)
        return max(bounds) + HIDDEN * (sum(bounds) - max(bounds))

    work = panels * k * (m // rows * step(rows) + m % rows * step(1))
    copies = panels * k * bytes_of / CACHES.far * 2 if packed else 0.0
    return batch * (work + copies + (m * panels * bytes_of / CACHES.near if packed else 0.0))


def _rate(
    item: Product, tile: Widths, packed: bool, sizes: Mapping[str, int], program: Program
) -> float:
    """Bytes a cycle at which a panel is read for the next rows."""
    lines = _summed(item, sizes) * tile.vectors
    if lines * 64 <= CACHES.first // 2 and packed:
        return math.inf
    if packed:
        return CACHES.near if lines * 64 <= CACHES.second else CACHES.far
    step = max((_step(read, sizes, program) for read in item.panels), default=64)
    apart = CACHES.span // math.gcd(step, CACHES.span) if step else CACHES.span // 64
    sets = min(apart * max(1, min(step, 64 * tile.vectors) // 64), CACHES.span // 64)
    if lines > sets * CACHES.ways:
        return CACHES.far
    return math.inf if lines * 64 <= CACHES.first // 2 else CACHES.near / UNALIGNED


def _step(read: Read, sizes: Mapping[str, int], program: Program) -> int:
    """Bytes from one row of what is read to the next; 0: not known."""
    last = read.tensor.shape[-1]
    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    if not symbols(last) <= known.keys():
        return 0
    return evaluate(last, known) * read.tensor.dtype.bits // 8
