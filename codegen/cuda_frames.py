"""The frame that a statement of warps works on: rows and columns of fragments, and their lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorc.codegen.cuda_fragments import (
    COLUMNS,
    ROWS,
    Blocks,
    blocks,
    column,
    element,
    groups,
    positions,
    row,
)
from tensorc.codegen.cuda_functions import (
    widened,
)
from tensorc.codegen.cuda_index import Index
from tensorc.codegen.cuda_scope import Scope
from tensorc.codegen.cuda_shared import element as shared_element
from tensorc.ir.tensor import Expr
from tensorc.ir.tile import Frame, Tile
from tensorc.ir.walk_tile import values_in


class Frames:
    """The frame that a statement works on: axes of rows and columns with their lanes."""

    def __init__(self, scope: Scope, tiles: Sequence[Tile]) -> None:
        self.scope = scope
        framed = [tile for tile in tiles if isinstance(tile.layout, Frame)]
        found = [groups(tile) for tile in framed]
        self.rows = max((rows for rows, _ in found), key=len, default=())
        self.columns = max((columns for _, columns in found), key=len, default=())
        self.sizes = {a: n for tile in framed for a, n in zip(tile.axes, tile.sizes, strict=True)}
        shape = [blocks(tile, scope.placement) for tile in framed]
        self.blocks = Blocks(
            max((item.rows for item in shape), default=0),
            max((item.columns for item in shape), default=0),
        )
        self.lanes: dict[str, Index] = {}
        if self.rows:
            at = row(self.blocks, scope.placement)
            self.lanes |= positions(self.rows, self.sizes, at)
            for axis, first in scope.windows.items():
                self.lanes |= {axis: self.lanes[axis] + first} if axis in self.rows else {}
        if self.columns:
            at = column(self.blocks, scope.placement)
            self.lanes |= positions(self.columns, self.sizes, at)

    def add(self, axes: Sequence[str]) -> None:
        """Lanes for axes that no tile of the statement has: columns, or rows beside columns."""
        missing = tuple(axis for axis in axes if axis not in self.lanes)
        if not missing:
            return
        self.sizes |= {axis: self.scope.block[axis] for axis in missing}
        count = math.prod(self.sizes[axis] for axis in missing)
        placement = self.scope.placement
        if not self.columns and count % (COLUMNS * placement.columns) == 0:
            self.columns = missing
            self.blocks = Blocks(self.blocks.rows, count // (COLUMNS * placement.columns))
            self.lanes |= positions(missing, self.sizes, column(self.blocks, placement))
        elif not self.rows and count % (ROWS * placement.rows) == 0:
            self.rows = missing
            self.blocks = Blocks(count // (ROWS * placement.rows), self.blocks.columns)
            self.lanes |= positions(missing, self.sizes, row(self.blocks, placement))
        else:
            raise NotImplementedError(f"{count} lanes of {', '.join(missing)} have no place")

    def loops(self) -> str:
        """The heads of the loops over all registers of a lane."""
        parts = [f"TCT_FOR(i, {self.blocks.rows})"] if self.rows else []
        parts += [f"TCT_FOR(j, {self.blocks.columns})"] if self.columns else []
        if self.rows and self.columns:
            return " ".join([*parts, "TCT_FOR(reg, 4)"])
        if self.rows:  # reg counts 0, 2
            return " ".join([*parts, "for (int reg = 0; reg < 4; reg += 2)"])
        return " ".join([*parts, "TCT_FOR(reg, 2)"]) if self.columns else ""

    def pairs(self, axis: str) -> bool:
        """Whether registers 2 n and 2 n + 1 are neighbours along an axis."""
        both = bool(self.rows) and axis in self.columns
        return both and ("(reg % 2)", 1) in self.lanes[axis].factors

    def bind(self, exprs: Sequence[Expr]) -> None:
        """The tiles that expressions read, at the registers of the loops around."""
        for name in values_in(exprs):
            tile = self.scope.tiles[name]
            if tile.space == "shared":
                at = self.scope.region(tile)
                own = {axis: self.lanes[axis] for axis in tile.axes}
                text = widened(shared_element(tile, at, own), tile.dtype)
            else:
                text = element(tile, self.scope.variables[name], self.scope.placement)
            self.scope.e.tiles[name] = text


def frames(scope: Scope, exprs: Sequence[Expr], own: Sequence[Tile]) -> Frames:
    """The frame of a statement with these expressions and results."""
    read = [scope.tiles[name] for name in values_in(exprs)]
    return Frames(scope, [*own, *read])
