"""How a compiled CPU kernel is called: shared by the emitter and the loader."""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Tensor

Strides = tuple[int | None, ...]  # per dimension, in elements; None: known only at the call
LARGEST_GRID = 2**31 - 1  # blocks of one launch of a GPU
NO_MEMORY = -1  # in the error word: a kernel had no memory for its tiles


@dataclass(frozen=True)
class Slot:
    """One 64-bit argument: "pointer" of `name`, "extent" of index `name`, "size" or "stride" of
    tensor `name` along `axis`, "begin" or "end" of the blocks of loop `name` that are run ("begin"
    of no name: the first block of a launch of a part of a GPU's grid), or "error" (the word that
    failed checks write)."""

    kind: str
    name: str
    axis: int = 0


@dataclass(frozen=True)
class Entry:
    """One kernel: its symbol `void(ptr slots, i64 begin, i64 end)`, its slots in order, and its
    grid as (index, block), of which the flattened range [begin, end) is run. `loops`: likewise the
    loops that hold everything else, of which slots give the blocks."""

    symbol: str
    slots: tuple[Slot, ...]
    grid: tuple[tuple[str, int], ...]
    loops: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Launch:
    """What a call needs beside the code: kernels in order, the intermediate arrays between them,
    and the extents of all indices, those that passes have added included.

    `weights`: by symbol, about how many operations of one lane a kernel does; one that is missing
    has blocks that have to run in order.
    """

    entries: tuple[Entry, ...]
    workspaces: tuple[Tensor, ...]
    extents: tuple[tuple[str, Polynomial], ...]
    weights: tuple[tuple[str, Polynomial], ...] = ()


@dataclass(frozen=True)
class Map:
    """A tensor map that a GPU kernel takes before its slots: boxes of `tensor`, whose elements are
    of type `element`, with `box[n]` of them along dimension n, in shared memory swizzled by
    `swizzle` bytes."""

    tensor: str
    element: str
    box: tuple[int, ...]
    swizzle: int
