"""How reads move along an index: the analysis behind the choice of vector lanes.

`stride_class` tells, for one read and one index, whether neighbouring values of the index touch
the same element, neighbouring elements, or elements further apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from tensorc.ir.affine import coefficient
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Expr, Read, Reduce, free_indices

Units = Mapping[str, int | None]  # tensor name -> the axis with stride 1; absent: the last


class Along(IntEnum):
    """What one step of an index does to the address of a read."""

    SAME = 0
    NEXT = 1
    FAR = 2


def stride_class(read: Read, index: str, units: Units) -> Along:
    """How the address of `read` moves along `index`."""
    unit = units.get(read.tensor.name, len(read.subscripts) - 1)
    moves = [coefficient(subscript, index) for subscript in read.subscripts]
    if all(move == 0 for move in moves):
        return Along.SAME
    rest = [move for axis, move in enumerate(moves) if axis != unit]
    next_to = unit is not None and moves[unit] == 1 and all(move == 0 for move in rest)
    return Along.NEXT if next_to else Along.FAR


def lanes_of(
    indices: Iterable[str], reduces: Iterable[str], body: Expr, written: Read, units: Units
) -> str | None:
    """The index of a left side that should run along the vector lanes; None: leave the lanes to
    the reductions inside `body`. `written` is the element stored, as a read.

    Counts the accesses that would gather, those inside reductions many times over; ties go to the
    last index. An index over which nothing is read or written next to each other never wins over
    a reduction that has one.
    """
    candidates: list[str | None] = [*indices]
    best_inner = min((_gathers(body, index, units) for index in reduces), default=None)
    costs = {index: _cost(body, written, index, units) for index in candidates if index}
    chosen = min(candidates, key=lambda i: (costs[i or ""], -candidates.index(i)), default=None)
    if chosen is None or best_inner is None:
        return chosen
    return None if best_inner < _gathers(body, chosen, units) else chosen


def rows_of(indices: Iterable[str], lane: str | None, body: Expr) -> str | None:
    """The index of a left side along which several rows should share what they read.

    Several rows of one block multiply the use of a vector that is loaded once: an index qualifies
    if some reduction depends on it while a read inside does not. Ties go to the last index.
    """
    best: tuple[int, str] | None = None
    for index in indices:
        if index == lane:
            continue
        shared = sum(_shared(item, index, lane) for item in _reduces(body))
        if shared and (best is None or shared >= best[0]):
            best = (shared, index)
    return best[1] if best else None


def turned(
    indices: Iterable[str], body: Expr, written: Read, units: Units
) -> tuple[str, str] | None:
    """(the index of a left side along which something is read, the one along which all is
    written), where these differ: a copy that turns rows into columns goes by squares of both. None
    also where something is reduced, which takes longer than to read it."""
    order = [*indices]
    far = next((i for i in order if stride_class(written, i, units) is Along.NEXT), None)
    if far is None or any(True for _ in _reduces(body)):
        return None
    across = [r for r in reads_in(body) if stride_class(r, far, units) is Along.FAR]
    found = [i for i in order for r in across if stride_class(r, i, units) is Along.NEXT]
    return (found[-1], far) if found else None


def _shared(reduce: Reduce, index: str, lane: str | None) -> int:
    """Reads inside a reduction that all rows along `index` have in common."""
    free = free_indices(reduce)
    if index not in free or (lane is not None and lane not in free):
        return 0
    own = [read for read in reads_in(reduce) if index not in free_indices(read)]
    return sum(lane is None or lane in free_indices(read) for read in own)


def _cost(body: Expr, written: Read, index: str, units: Units) -> int:
    store = stride_class(written, index, units) is Along.FAR
    return int(store) + 8 * _gathers(body, index, units)


def _gathers(body: Expr, index: str, units: Units) -> int:
    """Reads that gather along `index`; a read inside a reduction weighs 16."""
    inner = {read for reduce in _reduces(body) for read in reads_in(reduce)}
    return sum(
        16 if read in inner else 1
        for read in reads_in(body)
        if stride_class(read, index, units) is Along.FAR
    )


def _reduces(body: Expr) -> Iterator[Reduce]:
    return (item for item in postorder([body]) if isinstance(item, Reduce))


def reads_in(body: Expr) -> list[Read]:
    """Every read in an expression, once."""
    return [item for item in postorder([body]) if isinstance(item, Read)]


def reduction_lanes(reduce: Reduce, units: Units) -> str:
    """The reduced index that should run along the lanes: the one with the fewest gathers, then
    the most neighbours, then the last."""

    def cost(index: str) -> tuple[int, int, int]:
        classes = [stride_class(read, index, units) for read in reads_in(reduce)]
        position = reduce.indices.index(index)
        return classes.count(Along.FAR), -classes.count(Along.NEXT), -position

    return min(reduce.indices, key=cost)
