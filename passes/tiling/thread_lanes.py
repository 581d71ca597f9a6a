"""How many lanes of a block a thread of a plain GPU kernel has.

As many as make an access of 16 bytes to neighbouring elements of the narrowest tensor, 8 at most;
fewer where the domain is small, so that there are enough blocks for all of the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from tensorc.ir.tensor import Read
from tensorc.passes.tiling.contiguity import Along, Units, stride_class

BYTES = 16  # of one access of a thread, at most
MOST = 8  # lanes of a thread
ENOUGH = 264  # blocks that give every multiprocessor of the largest GPU two


def lanes_of_thread(
    index: str, accesses: Iterable[Read], units: Units, threads: int, extent: int | None,
    others: Iterable[int | None] = (),
) -> int:  # fmt: skip
    """Lanes of a thread along `index`: a power of two.

    `accesses`: what is read and written; `extent`: of the index, and `others` those of the grid
    beside it, None where they are not known.
    """
    bits = [a.tensor.dtype.bits for a in accesses if stride_class(a, index, units) is Along.NEXT]
    if not bits:
        return 1
    each = min(MOST, BYTES * 8 // min(bits))
    if extent is not None:
        while each > 1 and threads * each // 2 >= extent:
            each //= 2
    sizes = [extent, *others]
    if None not in sizes:
        total = prod(size for size in sizes if size is not None)
        while each > 1 and total < ENOUGH * threads * each:
            each //= 2
    return each


def known(indices: Iterable[str], static: Mapping[str, int]) -> list[int | None]:
    """The extents of indices, None where they are not known."""
    return [static.get(index) for index in indices]
