"""Beside a level-2 kernel for tensor cores: which warps do what. Passes decide it (`place_warps`,
`pipeline`); the emitter only reads it."""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir import channel, tile


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


@dataclass(frozen=True)
class Pipelined:
    """Warp groups with roles: the kernel, its rows divided between groups, and its level 3; a
    launch has at most `most` blocks, which take the grid's in turn. `said`: lines about the
    schedule for the text's reader."""

    kernel: tile.Kernel
    roles: channel.Kernel
    most: int
    said: tuple[str, ...] = ()
