"""Which reads of a kernel are fetched ahead: those that pass through large arrays once, in sums.

Hardware follows a stream up to the end of a page, and a vector that lies in two cache lines waits
for both. A read is asked for `AHEAD` bytes before it is loaded if it stands in a loop that carries
values, depends on every index that is walked there, and its tensor is not known to be small. What
is fetched is never looked at: an address behind the array does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from tensorc.ir.polynomial import Symbol, evaluate, symbols
from tensorc.ir.tensor import Read, Tensor, free_indices
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement
from tensorc.ir.walk_tile import expressions, statements, tensors_in

AHEAD = 8192  # bytes from what is loaded to what is fetched
LINE = 64  # bytes
SMALL = 1 << 18  # bytes of an array that stays in a cache


def streams(kernel: Kernel, static: Mapping[str, int]) -> dict[Read, tuple[str, int]]:
    """The reads to fetch ahead, with the index and the block of the loop in which they stand."""
    walked = [block.index for block in kernel.grid if static.get(block.index) != 1]
    return dict(_streams(kernel.body, walked, static))


def _streams(
    body: Sequence[Statement], walked: Sequence[str], static: Mapping[str, int]
) -> Iterator[tuple[Read, tuple[str, int]]]:
    for item in body:
        if not isinstance(item, Loop):
            continue
        once = item.index in static and static[item.index] <= item.block
        inner = [*walked] if once and not item.carries else [*walked, item.index]
        yield from _streams(item.body, inner, static)
        nested = any(isinstance(part, Loop | Each) for part in statements(item.body))
        if nested or item.down or not item.carries:
            continue
        for let in (part for part in item.body if isinstance(part, Let)):
            for read in tensors_in(expressions(let)):
                if free_indices(read) >= set(inner) and not _is_small(read.tensor, static):
                    yield read, (item.index, item.block)


def _is_small(tensor: Tensor, static: Mapping[str, int]) -> bool:
    known = {Symbol(name, "extent"): size for name, size in static.items()}
    if not all(symbols(size) <= known.keys() for size in tensor.shape):
        return False
    elements = math.prod(evaluate(size, known) for size in tensor.shape)
    return elements * tensor.dtype.bits <= 8 * SMALL
