"""The register tiles of a CPU worth a thought, best first by a closed-form bound.

A tile of `rows` by `vectors` keeps its sums in registers, with one row of vectors and a broadcast
element beside them. For each step of a sum it takes rows * vectors multiply-adds and rows + vectors
loads, as many of either in a cycle; what an edge leaves idle is work too:

    cost = max(rows * vectors, rows + vectors) / (rows * vectors)
           * (rows in whole tiles / rows) * (columns in whole tiles / columns)

Products bound it; for all else a wide tile is as good as a narrow one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorc.ir.tensor import Equation, Position, Program, Read
from tensorc.machine.instruction import Machine
from tensorc.passes.tiling.contiguity import Units, lanes_of, reads_in, rows_of
from tensorc.passes.tiling.lower import Widths

_ROWS = (1, 2, 4, 6, 8, 12, 14)
_VECTORS = (1, 2, 3, 4, 6)


def register_tiles(machine: Machine, first: Widths) -> tuple[Widths, ...]:
    """Tiles that fit the registers of a machine, `first` before the others."""
    others = (
        replace(first, vectors=vectors, rows=rows)
        for rows in _ROWS
        for vectors in _VECTORS
        if rows * vectors + vectors + 1 <= machine.registers
    )
    return tuple(dict.fromkeys((first, *others)))


def ranked(
    program: Program, tiles: tuple[Widths, ...], units: Units, sizes: Mapping[str, int]
) -> list[tuple[float, Widths]]:
    """Tiles with their cost for the products of a canonical program, least first; those of equal
    cost in the given order."""
    costs = [(sum(_cost(e, tile, units, sizes) for e in program.equations), tile) for tile in tiles]
    return sorted(costs, key=lambda item: item[0])


def _cost(item: Equation, tile: Widths, units: Units, sizes: Mapping[str, int]) -> float:
    """The bound of one equation; 0: it has no rows that share what they read."""
    written = Read(item.tensor, tuple(Position(index) for index in item.indices))
    lane = lanes_of(item.indices, (), item.body, written, units)
    rows = rows_of(item.indices, lane, item.body)
    if rows is None or lane is None or not reads_in(item.body):
        return 0.0
    area = tile.rows * tile.vectors
    work = max(area, tile.rows + tile.vectors) / area
    tall, wide = sizes.get(rows), sizes.get(lane)
    return work * _whole(tall, tile.rows) * _whole(wide, tile.lanes * tile.vectors)


def _whole(size: int | None, block: int) -> float:
    """How many times the work is done in whole blocks."""
    return 1.0 if not size else -(-size // block) * block / size
