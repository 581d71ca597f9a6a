"""Loops over all of an index, and those that become the grid of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tensorc.ir.polynomial import extent, polynomial
from tensorc.ir.tile import Block, Carry, Loop, Statement


def whole_loop(
    index: str, block: int, carries: tuple[Carry, ...], body: Sequence[Statement]
) -> Loop:  # fmt: skip
    """All of an index; the last block is partial unless the block divides the extent."""
    size = extent(index)
    whole = size // block * block
    return Loop(
        index, block, polynomial(0), size, (polynomial(0), whole), carries, tuple(body)
    )  # fmt: skip


def peel(
    statements: tuple[Statement, ...], most: int
) -> tuple[tuple[Block, ...], tuple[Statement, ...]]:
    """Loops that hold everything and carry nothing become the grid, if their block is at most
    `most`: 1 on a CPU, where lanes stay loops; the threads of a block on a GPU."""
    grid: list[Block] = []
    while len(statements) == 1:
        (only,) = statements
        if not isinstance(only, Loop) or only.block > most or only.carries:
            break
        grid.append(Block(only.index, only.block))
        statements = only.body
    return tuple(grid), statements
