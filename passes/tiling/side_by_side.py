"""Sums of fused kernels on a CPU for several rows side by side, as products want them.

    grid m by 96                                        loop n by 64
    KT[d, n] = k[n, d]                                    read across, so copied once for all rows
    t[m, n] = sum[d](q[m, d] * KT)                        columns n along vectors
    P[m, n] = select(n <= m, exp(t - r'), 0)              a mask goes to the factor with its axes
    a'[m, e] = u + sum[n](P * v[n, e])                    exact n: nothing beyond the end is read

A factor that a mask made 0 stays 0 whatever it is multiplied by, as the numerics policy allows.
"""

from __future__ import annotations

from tensorc.ir.functions import FUNCTIONS, SUM
from tensorc.ir.node import postorder, replaced
from tensorc.ir.plan import State
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Read,
    Reduce,
    Select,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Let, Use
from tensorc.passes.tiling.contiguity import Along, Units, reads_in, stride_class
from tensorc.passes.tiling.neutral import identity
from tensorc.passes.tiling.tile_scopes import Scopes, storage, value

MOST = 96  # rows of a block: a copy of what is read across is paid for by as many
FEWEST = 8  # below these, rows are worked on one by one


def block_of(size: int) -> int:
    """Rows of a block of a grid index with this extent."""
    return min(MOST, -(-size // 6) * 6)  # register tiles have 6 rows


class SideBySide:
    """What the blocks of one kernel add. `rows`: the grid index with many lanes."""

    def __init__(self, scopes: Scopes, rows: str, units: Units) -> None:
        self.scopes, self.rows, self.units = scopes, rows, units

    def applies(self, state: State, index: str) -> bool:
        """Whether a state sums along an index, with a value for each row. What does not depend on
        the index is added up under its guard, as other reductions are."""
        item, parts = state.reduce, [state.body, *([state.where] if state.where else [])]
        varies = any(index in free_indices(part) for part in parts)
        return item.reducer is SUM and self.rows in free_indices(item) and varies

    def by(self, index: str) -> Use:
        """What does it: vectors, that stop at the end of the domain."""
        return Use("vector", exact=(index,))

    def term(self, state: State, index: str) -> Expr:
        """What a block adds to a sum."""
        reduce, body = state.reduce, state.body
        if reduce.dtype is not None and value_type(body) is not reduce.dtype:
            body = Cast(reduce.dtype, body)
        flat = self.scopes.flat(body)
        if state.where is not None:
            flat = self.masked(self.scopes.flat(state.where), flat)
        axes = [i for i in self.scopes.axes(free_indices(reduce)) if i != self.rows]
        return self.turned(flat, index, axes[-1]) if axes else flat

    def masked(self, where: Expr, flat: Expr) -> Expr:
        """The value where a condition holds, else 0."""
        wanted = set(self.scopes.axes(free_indices(where)))
        args = flat.args if isinstance(flat, Apply) and flat.function.name == "mul" else (flat,)
        for place, factor in enumerate(args):
            if isinstance(factor, Value) and wanted <= set(factor.axes):
                kept = self.scopes.let(Select(where, factor, _zero(factor)))
                rest = (*args[:place], kept, *args[place + 1 :])
                return kept if len(rest) == 1 else Apply(FUNCTIONS["mul"], rest)
        return Select(where, flat, _zero(flat))

    def turned(self, flat: Expr, index: str, column: str) -> Expr:
        """The same with a copy of what runs along the summed index, not along the columns."""
        across = {read: self.copy(read, index, column) for read in reads_in(flat)
                  if self.is_across(read, index, column)}  # fmt: skip

        made = replaced(flat, lambda n: across.get(n) if isinstance(n, Read) else None)
        assert isinstance(made, Expr)
        return made

    def is_across(self, read: Read, index: str, column: str) -> bool:
        """Whether all rows share a read that has neighbours along the summed index alone."""
        plain = not any(isinstance(n, Read | Value | Reduce) for s in read.subscripts
                        for n in postorder([s]))  # fmt: skip
        shared = set(self.scopes.axes(free_indices(read))) == {index, column}
        far = stride_class(read, column, self.units) is Along.FAR
        near = stride_class(read, index, self.units) is Along.NEXT
        return plain and shared and far and near and read not in self.scopes.careful

    def copy(self, read: Read, index: str, column: str) -> Value:
        """A tile of what is read, with the columns last."""
        dtype = storage(value_type(read))
        tile = self.scopes.fresh("c", (index, column), dtype, "memory")
        self.scopes.emit(Let(tile, None, (), read, None, None, Use("vector"), ()))
        return value(tile)


def _zero(item: Expr) -> Expr:
    return identity(SUM, storage(value_type(item)))
