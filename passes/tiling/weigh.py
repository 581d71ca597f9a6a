"""What a kernel costs, as a formula over extents: by it a call is shared among threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tensorc.ir.functions import PROD, SUM
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial, extent, polynomial
from tensorc.ir.tensor import Apply, Cast, Read, Select, free_indices
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store
from tensorc.ir.walk_tile import expressions, statements

_LONG = 8  # operations that a function of many instructions counts as
_SHORT = frozenset(("add", "sub", "mul", "neg", "abs", "min", "max", "and", "or", "not"))

_Turns = tuple[Polynomial, Polynomial]  # of a loop: its points, and how often its body is done


def weigh(kernel: Kernel) -> Polynomial | None:
    """About how many simple operations of one lane the kernel does, over the program's extents;
    None where blocks have to run in order: float sums that meet in memory depend on it.

    Loops count as whole, also where masks shorten them.
    """
    if any(_ordered(item) for item in statements(kernel.body)):
        return None
    around = {block.index: _turns(block.index, block.size) for block in kernel.grid}
    return _weight(kernel.body, around)


def _ordered(item: Statement) -> bool:
    if not isinstance(item, Store) or item.combine not in (SUM, PROD):
        return False
    return item.tensor.dtype.floating or item.tensor.dtype.complex


def _weight(body: Iterable[Statement], around: Mapping[str, _Turns]) -> Polynomial:
    """The operations of a body, `around` being the loops outside it."""
    total = polynomial(0)
    for item in body:
        match item:
            case Let() | Store():
                operations = polynomial(_operations(item))
                for factor in _lanes(item, around):
                    operations = operations * factor
                total = total + operations
            case Loop(index, block):
                total = total + _weight(item.body, {**around, index: _turns(index, block)})
            case Each():
                total = total + _weight(item.body, around)
    return total


def _turns(index: str, block: int) -> _Turns:
    return extent(index), (extent(index) + (block - 1)) // block


def _lanes(item: Let | Store, around: Mapping[str, _Turns]) -> Iterator[Polynomial]:
    """How often a statement is done, as factors: by its own axes, and by the loops around it."""
    axes = _axes(item)
    for index, (points, turns) in around.items():
        yield points if index in axes else turns
    for index in sorted(axes - set(around)):
        yield extent(index)


def _axes(item: Let | Store) -> set[str]:
    if isinstance(item, Let):
        return {*item.tile.axes, *item.reduced}
    return set(free_indices(item.value)).union(*map(free_indices, item.subscripts))


def _operations(item: Let | Store) -> int:
    """Of one lane; a store counts for its traffic."""
    nodes = list(postorder(expressions(item)))
    extra = _LONG if isinstance(item, Store) else int(item.op is not None)
    return sum(map(_cost, nodes)) + extra


def _cost(item: object) -> int:
    match item:
        case Apply(function, args):
            return max(1, len(args) - 1) if function.name in _SHORT else _LONG
        case Select() | Cast() | Read():
            return 1
        case _:
            return 0
