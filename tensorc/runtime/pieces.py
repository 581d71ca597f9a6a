"""A kernel's blocks cut into pieces, for threads to take: ranges of its grid and of its loops.

How many pieces there are is a matter of time alone: a block computes the same bits in any of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.ir.launch import Entry, Slot
from tensorc.runtime.threads import RANGES, worth

OPERATIONS, BYTES = 16.0, 10.0  # that one thread does and moves in a nanosecond, about


@dataclass(frozen=True)
class Piece:
    """A range of the flattened grid, and the values of slots that are not as in other pieces."""

    begin: int
    end: int
    slots: tuple[tuple[int, int], ...] = ()


def blocks(entry: Entry, extents: Mapping[str, int]) -> int:
    """How many blocks the whole grid of a kernel has."""
    total = 1
    for index, block in entry.grid:
        total *= -(-extents[index] // block)
    return total


def cut(
    entry: Entry, extents: Mapping[str, int], work: tuple[int, int] | None, most: int
) -> tuple[int, tuple[Piece, ...]]:  # fmt: skip
    """(how many of at most `most` threads share a kernel, its pieces, in the order of its blocks).

    `work`: the operations of all blocks and the bytes that they have to move; None: the blocks run
    in order, by one thread.
    """
    counts = [blocks(entry, extents)]
    counts += [-(-extents[index] // block) for index, block in entry.loops]
    total = 1
    for count in counts:
        total *= count
    nanoseconds = work[0] / OPERATIONS + work[1] / BYTES if work is not None else 0.0
    threads = worth(nanoseconds, total, most)
    if threads == 1:
        return 1, (Piece(0, counts[0]),)
    return threads, _pieces(entry, counts, threads * RANGES)


def _pieces(entry: Entry, counts: list[int], wanted: int) -> tuple[Piece, ...]:
    """At least `wanted` pieces, if there are as many blocks: the grid is cut first, then the loops
    from the outside in, each only as far as needed."""
    ranges: list[list[tuple[int, int]]] = []
    for count in counts:
        parts = min(count, wanted)
        ranges.append([(n * count // parts, (n + 1) * count // parts) for n in range(parts)])
        wanted = -(-wanted // parts)
    slots = [_places(entry, index) for index, _ in entry.loops]
    return tuple(
        Piece(begin, end, tuple(pair for n, one in enumerate(loops) for pair in
                                zip(slots[n], one, strict=True)))
        for (begin, end), *loops in itertools.product(*ranges)
    )  # fmt: skip


def _places(entry: Entry, index: str) -> tuple[int, int]:
    """The slots that say which blocks of a loop are run."""
    return entry.slots.index(Slot("begin", index)), entry.slots.index(Slot("end", index))
