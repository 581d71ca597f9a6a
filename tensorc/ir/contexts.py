"""Where an expression is evaluated: which indices have values, and which conditions hold there.

`Judge` shares provers between accesses; `accesses` walks a whole program of level-1 nodes, parents
first. The same walk over the surface, which knows positions in the text, is `lang.accesses`. A
shared part is judged once per different set of conditions; beyond `MOST_CONTEXTS` sets it is judged
under what they have in common, and what is then not proved is left to the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.integers import Integers
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.ranges import Finding, Ranges, Verdict
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Value,
    free_indices,
)

MOST_CONTEXTS = 8
MOST_GUARDS = 24
_WALKED = (Select, Apply, Reduce, Read, Cast, Bitcast, Round)


@dataclass(frozen=True)
class Context:
    """What holds where an expression is evaluated. `exact` is False for a merged context."""

    scope: frozenset[str]
    guards: tuple[Expr, ...] = ()
    exact: bool = True

    def under(self, guard: Expr, holds: bool = True) -> Context:
        """The context with one more condition, or its negation."""
        condition = guard if holds else Apply(FUNCTIONS["not"], (guard,))
        if condition in self.guards:
            return self
        kept = self.guards[-MOST_GUARDS + 1 :]  # the latest; what is lost is not exact
        return Context(self.scope, (*kept, condition), self.exact and len(kept) == len(self.guards))

    def inside(self, names: frozenset[str]) -> Context:
        """The context in a reduction: conditions on an outer index of the same name are hidden."""
        kept = tuple(guard for guard in self.guards if not free_indices(guard) & names)
        return Context(self.scope | names, kept, self.exact)


def add(contexts: list[Context], new: Context) -> None:
    """Add a context to those in which a part is evaluated, merging them all if there are many."""
    if new in contexts:
        return
    contexts.append(new)
    if len(contexts) > MOST_CONTEXTS:
        scope = contexts[0].scope
        for context in contexts:
            scope &= context.scope
        common = [g for g in contexts[0].guards if all(g in c.guards for c in contexts)]
        contexts[:] = [Context(scope, tuple(common), exact=False)]


@dataclass
class Judge:
    """Judges subscripts in contexts; provers and findings are remembered."""

    extents: Mapping[str, Polynomial]
    scalars: Mapping[str, Polynomial]
    _ranges: dict[Context, Ranges] = field(default_factory=dict[Context, Ranges])
    _integers: dict[frozenset[str], Integers] = field(
        default_factory=dict[frozenset[str], Integers]
    )
    _found: dict[tuple[Expr, Polynomial, Context], Finding] = field(
        default_factory=dict[tuple[Expr, Polynomial, Context], Finding]
    )

    def finding(self, subscript: Expr, limit: Polynomial, context: Context) -> Finding:
        """What is known of 0 <= subscript < limit there."""
        key = subscript, limit, context
        if key not in self._found:
            found = self.ranges(context).judge(subscript, limit)
            if not context.exact and found.verdict is not Verdict.PROVED:
                found = Finding(Verdict.DATA)  # what was left out might have helped
            self._found[key] = found
        return self._found[key]

    def value(self, subscript: Expr, context: Context) -> Polynomial:
        """The subscript as a polynomial there."""
        return self.ranges(context).integers.polynomial(subscript)

    def ranges(self, context: Context) -> Ranges:
        """The prover of a context."""
        if context not in self._ranges:
            scope = context.scope
            if scope not in self._integers:
                self._integers[scope] = Integers(self.extents, scope, self.scalars)
            self._ranges[context] = Ranges(
                self.extents, scope, context.guards, self.scalars, self._integers[scope]
            )
        return self._ranges[context]


@dataclass(frozen=True)
class Access:
    """One dimension of a read in one context, judged."""

    read: Read
    axis: int
    context: Context
    value: Polynomial
    finding: Finding


def accesses(program: Program, scalars: Mapping[str, Polynomial]) -> Iterator[Access]:
    """Every access of a program that is no bare index. `scalars`: see `integers.scalars_of`."""
    judge = Judge(program.extent_of, scalars)
    for equation in program.equations:
        start = Context(frozenset(equation.indices))
        contexts: dict[Expr, list[Context]] = {equation.body: [start]}
        below = [item for item in postorder([equation.body]) if isinstance(item, _WALKED)]
        for item in reversed(below):
            for context in contexts.pop(item, []):
                if isinstance(item, Read):
                    yield from _judged(item, context, judge)
                for part, there in parts_in(item, context):
                    add(contexts.setdefault(part, []), there)


def _judged(read: Read, context: Context, judge: Judge) -> Iterator[Access]:
    for axis, (sub, limit) in enumerate(zip(read.subscripts, read.tensor.shape, strict=True)):
        if not isinstance(sub, Position):
            finding = judge.finding(sub, limit, context)
            yield Access(read, axis, context, judge.value(sub, context), finding)


def parts_in(item: Expr, context: Context) -> Iterator[tuple[Expr, Context]]:
    """The expressions directly below `item`, each with the context in which it is evaluated."""
    match item:
        case Select(condition, yes, no):
            yield condition, context
            yield yes, context.under(condition)
            yield no, context.under(condition, holds=False)
        case Apply(function, args) if function.name in ("and", "or"):
            for arg in args:
                yield arg, context
                context = context.under(arg, holds=function.name == "and")
        case Apply(_, args):
            yield from ((arg, context) for arg in args)
        case Reduce(_, indices, body, where, _):
            inner = context.inside(frozenset(indices))
            if where is not None:
                yield where, inner
                inner = inner.under(where)
            yield body, inner
        case Read(_, subscripts):
            yield from ((sub, context) for sub in subscripts)
        case Cast(_, arg) | Bitcast(_, arg) | Round(_, arg):
            yield arg, context
        case Literal() | Position() | Extent() | Value() | Seen():
            pass
