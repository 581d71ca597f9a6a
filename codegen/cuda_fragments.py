"""Register tiles of warps as C++ arrays: their shapes, and which element a register holds.

A warp has `i` blocks of 16 rows and `j` blocks of 8 columns of a frame, in each of which a lane
holds registers `reg` = 0 .. 3: `c[i][j][reg]`; a tile without columns has `r[i][reg / 2]`, one
without rows `b[j][reg % 2]`. Operands come in steps `s` of 16 along k: `A[s][i]`, and for second
operands `B[s][t]`, t counting pairs of blocks, each a `u32[4]`. Where an element lies in the tile
is taken from the tables of `machine.fragments`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tensorc.codegen.cuda_index import Index
from tensorc.ir.placement import Placement
from tensorc.ir.tile import Frame, Operand, Tile
from tensorc.machine.fragments import fragment

ROWS, COLUMNS, STEP = 16, 8, 16  # of one block of a fragment; along k
LANE = Index.of("lane", 32)


@dataclass(frozen=True)
class Blocks:
    """How many blocks of rows and of columns of a frame one warp has; 0: it has no such axes."""

    rows: int
    columns: int


def groups(tile: Tile) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes of a frame's rows and columns that the tile has."""
    match tile.layout:
        case _ if not tile.axes:
            return (), ()
        case Frame(_, rows, columns):
            kept = set(tile.axes)
            return tuple(a for a in rows if a in kept), tuple(a for a in columns if a in kept)
        case _:
            raise NotImplementedError(f"{tile.name} is no accumulator: {tile.layout}")


def lanes(tile: Tile, axes: tuple[str, ...]) -> int:
    """How many lanes some axes of a tile have together."""
    return math.prod(tile.sizes[tile.axes.index(axis)] for axis in axes)


def blocks(tile: Tile, placement: Placement) -> Blocks:
    """Of a frame."""
    rows, columns = groups(tile)
    return Blocks(
        lanes(tile, rows) // (ROWS * placement.rows) if rows else 0,
        lanes(tile, columns) // (COLUMNS * placement.columns) if columns else 0,
    )


def dimensions(tile: Tile, placement: Placement) -> tuple[int, ...]:
    """The dimensions of the C++ array that holds a frame or an operand in one lane."""
    match tile.layout:
        case Operand(_, "A", rows, along):
            return lanes(tile, along) // STEP, lanes(tile, rows) // (ROWS * placement.rows), 4
        case Operand(_, _, columns, along):
            count = lanes(tile, columns) // (2 * COLUMNS * placement.columns)
            return lanes(tile, along) // STEP, count, 4
        case _:
            own = blocks(tile, placement)
            if own.rows and own.columns:
                return own.rows, own.columns, 4
            return (own.rows or own.columns, 2) if own.rows or own.columns else ()


def element(tile: Tile, name: str, placement: Placement) -> str:
    """The register of a frame at the block and register of the loops around."""
    own = blocks(tile, placement)
    if own.rows and own.columns:
        return f"{name}[i][j][reg]"
    if own.rows:
        return f"{name}[i][reg / 2]"
    return f"{name}[j][reg % 2]" if own.columns else name


def row(own: Blocks, placement: Placement) -> Index:
    """The row in the tile of an element at `i` and `reg`."""
    found = _place(Index.of("reg", 4))[0]
    return (
        Index.of("warp_m", placement.rows) * (ROWS * own.rows)
        + Index.of("i", own.rows) * ROWS
        + found
    )


def column(own: Blocks, placement: Placement) -> Index:
    """The column in the tile of an element at `j` and `reg`."""
    found = _place(Index.of("reg", 4))[1]
    return (
        Index.of("warp_n", placement.columns) * (COLUMNS * own.columns)
        + Index.of("j", own.columns) * COLUMNS
        + found
    )


def _place(register: Index) -> tuple[Index, Index]:
    lane: Any = LANE  # the tables are arithmetic on whatever has //, %, * and +
    found = fragment("m16n8").element(lane, cast(Any, register))
    return cast(tuple[Index, Index], found)


def named(which: str, transposed: bool) -> tuple[Index, Index]:
    """The (row, position along k) that a lane names to ldmatrix in 16 by 16 elements of an operand:
    lane 8 i + r names row r of matrix i, which is register i of the lanes; of second operands two
    registers belong to each of two blocks. `transposed`: matrices lie in memory with k as rows."""
    matrix: Any = LANE // 8
    zero: Any = Index.number(0)
    if which == "A":
        place = fragment("m16n8", "A").element(zero, 2 * matrix)
        first, along = cast(tuple[Index, Index], place)
    else:
        place = fragment("m16n8", "B").element(zero, 2 * (matrix % 2))
        first, along = cast(tuple[Index, Index], place)
        first = first + cast(Index, matrix // 2) * COLUMNS
    inside = LANE % 8
    return (first, along + inside) if transposed else (first + inside, along)


def positions(axes: tuple[str, ...], sizes: Mapping[str, int], flat: Index) -> dict[str, Index]:
    """The lane of each axis of a group at one place of the group, the last axis fastest."""
    found: dict[str, Index] = {}
    for axis in reversed(axes):
        found[axis] = flat % sizes[axis] if axis != axes[0] else flat
        flat = flat // sizes[axis]
    return found
