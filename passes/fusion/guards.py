"""Reads that are inside their tensors without the conditions around them, and those that are not.

Fused kernels compute values ahead of the conditions that select them. A read that may leave its
tensor where its condition fails keeps the condition; where a reduction is in between, `guarded`
takes the condition into the reduction.

    select(m > 0, sum[n](x[m - 1, n]), 0)    select(m > 0, sum[n](x[m - 1, n] where m > 0), 0)
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.ir.affine import is_whole
from tensorc.ir.conditions import conjuncts
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.node import rebuild
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.ranges import Ranges, Verdict
from tensorc.ir.tensor import Apply, Expr, Program, Read, Reduce, Select, free_indices
from tensorc.passes.canonicalise import call
from tensorc.passes.fusion.reach import outside

Guards = tuple[Expr, ...]


class Reads:
    """Judges reads of one program; `extents`: of all its indices, those of passes too."""

    def __init__(self, program: Program, extents: Mapping[str, Polynomial]) -> None:
        self.extents = extents
        self.conditions = program.conditions
        self.checked = {(check.read.tensor, check.axis) for check in program.checks}
        self._inside: dict[Read, bool] = {}
        self._guarded: dict[tuple[Expr, Guards], Expr] = {}

    def inside(self, read: Read) -> bool:
        """Whether a read stays inside wherever its indices have values, and nothing compares it."""
        if read not in self._inside:
            self._inside[read] = self._judged(read)
        return self._inside[read]

    def _judged(self, read: Read) -> bool:
        if is_whole(read, self.extents):
            return True
        if any(tensor is read.tensor for tensor, _ in self.checked):
            return False
        judge = Ranges(self.extents, free_indices(read))
        return all(
            judge.judge(item, size).verdict is Verdict.PROVED
            or self._decided(judge.integers.polynomial(item), size)
            for item, size in zip(read.subscripts, read.tensor.shape, strict=True)
        )

    def _decided(self, value: Polynomial, limit: Polynomial) -> bool:
        """Whether a condition that holds at every point, or else no call runs, says so."""
        return any(
            item.value is value and item.limit is limit and not item.guards
            for item in self.conditions
        )

    def guarded(self, expr: Expr, guards: Guards = ()) -> Expr:
        """`expr` with the conditions around reductions taken into those that need them."""
        key = expr, guards
        if key not in self._guarded:
            self._guarded[key] = self._made(expr, guards)
        return self._guarded[key]

    def _made(self, expr: Expr, guards: Guards) -> Expr:
        match expr:
            case Select(condition, yes, no):
                return Select(
                    self.guarded(condition, guards),
                    self.guarded(yes, (*guards, condition)),
                    self.guarded(no, (*guards, call("not", condition))),
                )
            case Apply(function, (first, *rest)) if function.name in ("and", "or"):
                before = first if function.name == "and" else call("not", first)
                made = (self.guarded(item, (*guards, before)) for item in rest)
                return Apply(function, (self.guarded(first, guards), *made))
            case Reduce(reducer, indices, body, where, dtype):
                own = () if where is None else (where,)
                parts = self._kept(expr, guards, own) if self.needs(expr) else own
                inner = self.guarded(body, (*guards, *own))
                return Reduce(reducer, indices, inner, _all(parts), dtype)
            case _:
                return rebuild(
                    expr, lambda n: self.guarded(n, guards) if isinstance(n, Expr) else n
                )

    def _kept(self, item: Reduce, guards: Guards, own: Guards) -> Guards:
        """The conditions that a reduction's reads need: few, and on its own indices if those do,
        so that it depends on no more than before."""
        close = tuple(part for part in _parts(guards) if free_indices(part) <= free_indices(item))
        reads = [node for node in outside(item.body) if isinstance(node, Read)]
        found = [self.needed(read, (*close, *own)) for read in reads]
        if any(wanted is None for wanted in found):
            return (*guards, *own)
        wanted = {part for parts in found for part in parts or ()}
        return (*(part for part in close if part in wanted and part not in own), *own)

    def needed(self, read: Read, conditions: Guards) -> Guards | None:
        """Those of the conditions under which a read stays inside: none, one or all; None: it may
        leave its tensor under all of them."""
        if self.inside(read):
            return ()
        for part in conditions:
            if self._under(read, part):
                return (part,)
        every = _all(conditions)
        return conditions if every is not None and self._under(read, every) else None

    def needs(self, item: Reduce) -> bool:
        """Whether a read in the body may leave its tensor where the reduction's own condition
        holds."""
        reads = [node for node in outside(item.body) if isinstance(node, Read)]
        unsafe = [read for read in reads if not self.inside(read)]
        return not all(item.where is not None and self._under(r, item.where) for r in unsafe)

    def _under(self, read: Read, condition: Expr) -> bool:
        """Whether a read is inside wherever a condition holds."""
        judge = Ranges(self.extents, free_indices(read), (condition,))
        return all(
            judge.judge(item, size).verdict is Verdict.PROVED
            for item, size in zip(read.subscripts, read.tensor.shape, strict=True)
        )


def _parts(guards: Guards) -> Guards:
    """The parts of conditions that all hold."""
    found = (item for guard in guards for item in conjuncts(guard))
    return tuple(part if holds else call("not", part) for part, holds in found)


def _all(conditions: Guards) -> Expr | None:
    different = tuple(dict.fromkeys(conditions))
    if len(different) < 2:
        return different[0] if different else None
    return Apply(FUNCTIONS["and"], different)
