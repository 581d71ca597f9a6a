"""Reads that are inside their tensors without the conditions around them, and those that are not.

Fused kernels compute values ahead of the conditions that select them. A read that may leave its
tensor where its condition fails keeps the condition; where a reduction is in between, `guarded`
takes the condition into the reduction.

    select(m > 0, sum[n](x[m - 1, n]), 0)    select(m > 0, sum[n](x[m - 1, n] where m > 0), 0)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from tensorc.ir.affine import is_whole
from tensorc.ir.conditions import conjuncts
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.node import rebuild
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.ranges import Ranges
from tensorc.ir.tensor import Apply, Expr, Program, Read, Reduce, Select, free_indices
from tensorc.passes.canonicalise import call
from tensorc.passes.fusion.reach import below, outside, reductions

Guards = tuple[Expr, ...]


class Reads:
    """Judges reads of one program.

    `extents`: of all its indices, those of passes too. `checked`: reads of which a subscript is
    compared when running. `bound`: gives a reduction whose condition has changed the names that it
    should bind.
    """

    def __init__(
        self, program: Program, extents: Mapping[str, Polynomial], checked: Container[Read],
        bound: Callable[[Reduce], Expr] = lambda item: item,
    ) -> None:  # fmt: skip
        self.extents, self.checked, self.bound = extents, checked, bound
        self.conditions = program.conditions
        self._inside: dict[Read, bool] = {}
        self._proved: dict[tuple[Read, Guards], bool] = {}
        self._taken: dict[tuple[Reduce, Guards], Guards] = {}
        self._forms: dict[Reduce, dict[Guards, None]] = {}
        self._seen: set[tuple[Expr, Guards]] = set()
        self._made: dict[tuple[Expr, Guards], Expr] = {}

    def inside(self, read: Read) -> bool:
        """Whether a read stays inside wherever its indices have values, and nothing compares it."""
        if read not in self._inside:
            self._inside[read] = self._judged(read)
        return self._inside[read]

    def _judged(self, read: Read) -> bool:
        if is_whole(read, self.extents):
            return True
        if read in self.checked:
            return False
        judge = Ranges(self.extents, free_indices(read))
        values = [judge.integers.polynomial(item) for item in read.subscripts]
        return all(
            _holds(judge, value, size) or self._decided(value, size)
            for value, size in zip(values, read.tensor.shape, strict=True)
        )

    def _decided(self, value: Polynomial, limit: Polynomial) -> bool:
        """Whether a condition that holds at every point, or else no call runs, says so."""
        return any(
            item.value is value and item.limit is limit and not item.guards
            for item in self.conditions
        )

    # --- conditions into reductions -------------------------------------------------------------

    def guarded(self, exprs: Sequence[Expr]) -> list[Expr]:
        """The expressions of one kernel, with the conditions around reductions taken into those
        that need them.

        Those are the conditions that prove the reads inside; all where something is compared. A
        reduction that takes more in one place than in another where fewer hold takes only those:
        it is computed there anyway, and stays one node.
        """
        for expr in exprs:
            self._find(expr, ())
        return [self._safe(expr, ()) for expr in exprs]

    def _find(self, expr: Expr, guards: Guards) -> None:
        """Note which conditions each reduction takes where it stands."""
        if (expr, guards) in self._seen or not reductions(expr):
            return
        self._seen.add((expr, guards))
        if isinstance(expr, Reduce):
            self._forms.setdefault(expr, {})[self.taken(expr, guards)] = None
        for part, more in _parts(expr):
            self._find(part, (*guards, *more))

    def _safe(self, expr: Expr, guards: Guards) -> Expr:
        """`expr`, which stands under these conditions, made safe."""
        if not reductions(expr):
            return expr
        if (expr, guards) not in self._made:
            self._made[expr, guards] = self._anew(expr, guards)
        return self._made[expr, guards]

    def _anew(self, expr: Expr, guards: Guards) -> Expr:
        parts = [self._safe(part, (*guards, *more)) for part, more in _parts(expr)]
        match expr:
            case Reduce(reducer, indices, _, _, dtype):
                fitting = [form for form in self._forms[expr] if set(form) <= set(guards)]
                taken = min(fitting, key=len)
                around = [self._safe(c, guards[: guards.index(c)]) for c in taken]
                condition = _all((*around, *parts[:-1]))
                return self.bound(Reduce(reducer, indices, parts[-1], condition, dtype))
            case Select():
                return Select(*parts)
            case Apply(function, _):
                return Apply(function, tuple(parts))
            case _:
                made = dict(zip(below(expr), parts, strict=True))
                return rebuild(expr, lambda n: made[n] if isinstance(n, Expr) else n)

    def taken(self, item: Reduce, guards: Guards) -> Guards:
        """Those of the conditions around a reduction without which its reads might be outside."""
        if (item, guards) not in self._taken:
            own = () if item.where is None else (item.where,)
            free = free_indices(item)
            found = self._proofs(item.body, guards, own, free)
            if item.where is not None:
                found |= self._proofs(item.where, guards, (), free)
            for place in reversed(range(len(guards))):  # what is asked is read too
                if guards[place] in found:
                    found |= self._proofs(guards[place], guards[:place], (), free)
            self._taken[item, guards] = tuple(c for c in guards if c in found)
        return self._taken[item, guards]

    def _proofs(self, expr: Expr, guards: Guards, own: Guards, free: frozenset[str]) -> set[Expr]:
        """Conditions that prove the reads outside of inner reductions, beside `own`: few, and on
        `free` indices if those do, so that the reduction depends on no more than before."""
        found = set[Expr]()
        close = tuple(c for c in reversed(guards) if free_indices(c) <= free)
        others = tuple(c for c in reversed(guards) if c not in close)
        for read in outside(expr):
            if isinstance(read, Read) and not self.inside(read):
                wanted = self.needed(read, (*close, *others), own)
                found |= set(guards) if wanted is None else set(wanted)
        return found

    def needed(self, read: Read, conditions: Guards, own: Guards = ()) -> Guards | None:
        """Those of the conditions under which a read stays inside where `own` hold: none, one or
        all; None: it may leave its tensor, or is compared, under all of them."""
        if self.inside(read) or self._under(read, own):
            return ()
        one = next((c for c in conditions if self._under(read, (*own, c))), None)
        if one is not None:
            return (one,)
        return conditions if self._under(read, (*own, *conditions)) else None

    def exposed(self, expr: Expr, reads: Container[Read]) -> bool:
        """Whether one of `reads`, outside of reductions, may be outside its tensor, or is compared,
        in spite of the conditions around it in `expr`."""
        seen = set[tuple[Expr, Guards]]()
        waiting: list[tuple[Expr, Guards]] = [(expr, ())]
        while waiting:
            item, guards = waiting.pop()
            if (item, guards) in seen or isinstance(item, Reduce):
                continue
            seen.add((item, guards))
            if isinstance(item, Read) and item in reads and not self._under(item, guards):
                return True
            waiting += [(part, (*guards, *more)) for part, more in _parts(item)]
        return False

    def _under(self, read: Read, guards: Guards) -> bool:
        """Whether a read is inside, and not compared, wherever conditions hold."""
        if read in self.checked or not guards:
            return False
        if (read, guards) not in self._proved:
            judge = Ranges(self.extents, free_indices(read), guards)
            values = [judge.integers.polynomial(item) for item in read.subscripts]
            sizes = read.tensor.shape
            self._proved[read, guards] = all(
                _holds(judge, value, size) for value, size in zip(values, sizes, strict=True)
            )
        return self._proved[read, guards]


def _holds(judge: Ranges, value: Polynomial, limit: Polynomial) -> bool:
    return judge.holds(value) and judge.holds(limit - 1 - value)


def _parts(expr: Expr) -> list[tuple[Expr, Guards]]:
    """What stands directly in an expression, each with the conditions under which it does."""
    match expr:
        case Select(condition, yes, no):
            return [(condition, ()), (yes, _holding(condition)), (no, _failing(condition))]
        case Apply(function, args) if function.name in ("and", "or"):
            before = _holding if function.name == "and" else _failing
            guards = [before(arg) for arg in args]
            return [(arg, sum(guards[:place], ())) for place, arg in enumerate(args)]
        case Reduce(_, _, body, where, _):
            return [(body, ())] if where is None else [(where, ()), (body, _holding(where))]
        case _:
            return [(child, ()) for child in below(expr)]


def _holding(condition: Expr) -> Guards:
    """The parts of a condition that all hold."""
    return tuple(part if holds else call("not", part) for part, holds in conjuncts(condition))


def _failing(condition: Expr) -> Guards:
    return _holding(call("not", condition))


def _all(conditions: Guards) -> Expr | None:
    different = tuple(dict.fromkeys(conditions))
    if len(different) < 2:
        return different[0] if different else None
    return Apply(FUNCTIONS["and"], different)
