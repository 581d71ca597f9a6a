"""Where the elements of register fragments and swizzled tiles are: bijections as functions.

Fragment functions take thread and register numbers (integers or arrays) and give coordinates in the
atom; repeats of an atom lie in further registers, rows first. Source of every table: PTX ISA,
"Matrix fragments for mma.m16n8k16 with floating-point type" and "wgmma.mma_async register
fragments"; swizzles: "tensor swizzling modes".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[np.int64]
Coordinates = tuple[Lanes, Lanes]


@dataclass(frozen=True)
class Fragment:
    """A matrix of `shape` held by `threads`, `registers` elements in each.

    `element(thread, register)` is the (row, column) of an element; for the second operand of a
    product rows are columns of the result and columns run along k.
    """

    shape: tuple[int, int]
    threads: int
    registers: int
    element: Callable[[Lanes, Lanes], Coordinates]

    def coordinates(self) -> Coordinates:
        """(row, column) of every element, of shape [threads, registers]."""
        threads = np.arange(self.threads, dtype=np.int64)[:, None]
        registers = np.arange(self.registers, dtype=np.int64)[None, :]
        rows, columns = self.element(threads, registers)
        shape = (self.threads, self.registers)
        return np.broadcast_to(rows, shape), np.broadcast_to(columns, shape)


def _rows(thread: Lanes) -> Lanes:
    """The row of a quad within eight rows; each warp of a warp group has sixteen of its own."""
    return thread // 32 * 16 + thread % 32 // 4


def _sums(thread: Lanes, register: Lanes) -> Coordinates:
    """Accumulators: pairs of neighbours, rows 8 apart, then the next 8 columns."""
    row = _rows(thread) + 8 * (register // 2 % 2)
    return row, 8 * (register // 4) + 2 * (thread % 4) + register % 2


def _first(thread: Lanes, register: Lanes) -> Coordinates:
    """First operand, 16-bit: the accumulators of 16 columns, register for register."""
    return _sums(thread, register)


def _second(thread: Lanes, register: Lanes) -> Coordinates:
    """Second operand, 16-bit: columns by quads, pairs along k, then the next 8 of k."""
    return thread // 4 + 0 * register, 2 * (thread % 4) + register % 2 + 8 * (register // 2)


def fragment(atom: str, which: str = "", columns: int = 8) -> Fragment:
    """The fragment of an atom: "" its accumulators, "A" its first, "B" its second operand.

    `m16n8` belongs to mma.m16n8k16 (32 threads), `wgmma` to wgmma.m64nNk16 with N `columns` (128
    threads). KeyError: there is no such fragment.
    """
    threads, rows = {"m16n8": (32, 16), "wgmma": (128, 64)}[atom]
    if which == "A":
        return Fragment((rows, 16), threads, rows * 16 // threads, _first)
    if which == "B" and atom == "m16n8":
        return Fragment((8, 16), threads, 4, _second)
    if which:
        raise KeyError(which)
    return Fragment((rows, columns), threads, rows * columns // threads, _sums)


def swizzled(address: Lanes, span: int) -> Lanes:
    """A byte address in shared memory under the swizzle of `span` bytes (0: none).

    Bits 4 and up (which chunk of 16 bytes) are exchanged by bits 7 and up (which 128 bytes).
    """
    chunks = {0: 0, 32: 1, 64: 3, 128: 7}[span]
    return address ^ (address >> 7 & chunks) << 4


def offset(coordinates: tuple[Lanes, ...], sizes: tuple[int, ...], item: int, span: int) -> Lanes:
    """The byte offset of an element in a tile of these sizes, last axis fastest.

    `item`: bytes of an element. With a swizzle the last axis is cut into panels of `span` bytes.
    """
    *outer, last = coordinates
    place: Any = np.zeros_like(last)
    for coordinate, size in zip(outer, sizes, strict=False):
        place = place * size + coordinate
    if not span:
        return (place * sizes[-1] + last) * item
    rows = int(np.prod(sizes[:-1]))
    panel, within = last * item // span, last * item % span
    return swizzled(panel * rows * span + place * span + within, span)
