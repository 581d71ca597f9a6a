"""Beside a level-2 kernel for tensor cores: which warps hold which rows and columns, and how many
slots the rings of its loops have. A pass decides it (`place_warps`), or a schedule; the emitter
only reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """`rows` by `columns` warps, each with adjacent rows and columns of every fragment; `depth`
    slots in shared memory for what a loop copies, of which all but one are filled ahead."""

    rows: int
    columns: int
    depth: int

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.rows * self.columns
