"""Kernels of a CPU whose rows lie whole in tiles, so that no function is computed twice.

    kernel y: grid m by 1; whole n by 1008                y[m, n] = softmax[n](x[m, n]), |n| = 1000
      r = max[n](select(n < |n|, x[m, n], -inf))
      e[n] = exp(x[m, n] - r)                             in memory: the sum and the store share it
      s = sum[n](select(n < |n|, e, 0))
      store y[m, n] = e / s

True afterwards: a kernel all of whose reductions run along one index of a fixed, not too large
extent takes a row at a time, from the nearest cache at every walk but the first. Other kernels
re-base their running values instead (see `tile_pass`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tensorc.ir.functions import PROD, SUM, accumulator
from tensorc.ir.node import postorder
from tensorc.ir.plan import PlannedKernel
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Position,
    Read,
    Reduce,
    Select,
    free_indices,
    value_type,
)
from tensorc.passes.canonicalise import call
from tensorc.passes.fusion.inline import Inliner
from tensorc.passes.fusion.reach import below, needed, outside
from tensorc.passes.tiling.contiguity import Along, Units, reads_in, stride_class
from tensorc.passes.tiling.neutral import identity
from tensorc.passes.tiling.tile_scopes import COSTLY, Scopes, storage, value

LONGEST = 1 << 15  # elements of a row: with what is kept of it, it stays in the second cache


def row_index(
    kernel: PlannedKernel, extents: Mapping[str, Polynomial], sizes: Mapping[str, int], units: Units
) -> str | None:
    """The index along which rows may lie whole, if all reductions of a kernel run along it and
    share something with each other or with an output. `sizes`: the extents that are fixed."""
    roots = [output.body for output in kernel.outputs]
    found = needed(roots, lambda item: False)
    if not found or any(len(item.indices) != 1 for item in found):
        return None
    size = extents[found[0].indices[0]]
    if any(extents[item.indices[0]] is not size for item in found):
        return None
    along = [i for i in kernel.grid if extents[i] is size]
    index = along[-1] if along else found[0].indices[0]
    if not 1 < sizes.get(index, 0) <= LONGEST or len(found) + len(along) < 2:
        return None
    free = frozenset[str]().union(*map(free_indices, found))
    nested = any(item.indices[0] in free_indices(r) for item in found for r in found)
    reads = [(r, i) for r in reads_in_all(roots) for i in (index, *(f.indices[0] for f in found))]
    far = any(stride_class(read, i, units) is Along.FAR for read, i in reads)
    data = any(reads_in(s) for read, _ in reads for s in read.subscripts)
    return None if index in free or nested or far or data else index


def reads_in_all(roots: Iterable[Expr]) -> list[Read]:
    """Every read in several expressions, once."""
    return [item for item in postorder(roots) if isinstance(item, Read)]


class WholeRows:
    """Emits the reductions of one kernel whose rows run along `index`. `kept`: what several of its
    walks share, and so is worth a tile."""

    def __init__(self, scopes: Scopes, index: str, inliner: Inliner, roots: list[Expr]) -> None:
        self.scopes, self.index, self.inliner = scopes, index, inliner
        self.bodies = {item: self.placed(item) for item in needed(roots, scopes.knows)}
        parts = [part for pair in self.bodies.values() for part in pair if part is not None]
        self.kept = frozenset(shared([*parts, *roots]))

    @property
    def pays(self) -> bool:
        """Whether something of a row would be computed twice without a tile."""
        return any(self.index in free_indices(item) for item in self.kept)

    def define(self) -> None:
        """Every reduction in the outputs' values, inner ones first; afterwards they are known."""
        self.scopes.kept = self.kept
        for item, (body, where) in self.bodies.items():
            self.reduction(item, body, where)

    def placed(self, item: Reduce) -> tuple[Expr, Expr | None]:
        """What a reduction takes, and where, over the index of the rows."""
        names: dict[str, Expr] = {item.indices[0]: Position(self.index)}
        where = None if item.where is None else self.inliner.moved(item.where, names)
        body = item.body if item.dtype is None else Cast(item.dtype, item.body)
        return self.inliner.moved(body, names), where

    def reduction(self, item: Reduce, body: Expr, where: Expr | None) -> None:
        """Its value, in a tile without axes."""
        sums = item.reducer in (SUM, PROD)
        flat = self.scopes.flat(body)
        own = storage(value_type(item))
        if sums:
            own = accumulator(item.reducer, value_type(item.body), item.dtype)
        neutral = identity(item.reducer, own if sums else storage(value_type(flat)))
        if where is not None:
            flat = Select(self.scopes.flat(where), flat, neutral)
        inside = call("lt", Position(self.index), Extent(self.index))
        tile = self.scopes.fresh("r", (), own)
        self.scopes.define(
            tile, Select(inside, flat, neutral), op=item.reducer, over=(self.index,),
            edge=(self.index,),
        )  # fmt: skip
        self.scopes.know(item, value(tile))


def shared(roots: Iterable[Expr]) -> Iterator[Expr]:
    """The largest costly parts that several of these expressions have outside of reductions."""
    every = list(roots)
    counts = Counter(node for root in every for node in set(outside(root)) if _is_costly(node))
    waiting = every
    while waiting:
        item = waiting.pop()
        if counts[item] > 1:
            yield item
        elif not isinstance(item, Reduce):
            waiting += below(item)


def _is_costly(node: Expr) -> bool:
    return isinstance(node, Apply) and node.function.name in COSTLY
