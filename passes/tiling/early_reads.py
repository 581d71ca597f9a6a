"""Conditions under which a reduction that is computed early may be computed at all.

What stands in a loop or under a condition is read only there. Moved out, it is read only under a
condition that says so, unless its reads cannot leave their tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from tensorc.ir.affine import is_whole
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Apply, Expr, Extent, Read, Reduce
from tensorc.passes.canonicalise import call, integer

T = TypeVar("T")


def may_leave(item: Reduce, extents: Mapping[str, Polynomial]) -> bool:
    """Whether a read inside might leave its tensor where a guard does not hold."""
    reads = [read for read in postorder([item]) if isinstance(read, Read)]
    return not all(is_whole(read, extents) for read in reads)


def entered(
    item: Reduce, left: Iterable[str], extents: Mapping[str, Polynomial],
    static: Mapping[str, int],
) -> Iterator[Expr]:  # fmt: skip
    """That the loops over `left`, out of which a reduction is moved, are entered at all.

    Nothing is said of extents known to be positive, and of loops that the reduction has itself:
    without elements it reads nothing.
    """
    if may_leave(item, extents):
        for index in left:
            known = static.get(index, extents[index].constant)
            if index not in item.indices and not known:
                yield call("lt", integer(0), Extent(index))


def conjunction(conditions: tuple[Expr, ...]) -> Expr | None:
    """That all hold; None if there are none."""
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Apply(FUNCTIONS["and"], conditions)


def optional(item: T | None) -> tuple[T, ...]:
    """The item, if there is one."""
    return () if item is None else (item,)
