"""Every access of an operator, with the conditions under which it is evaluated, judged.

The walk goes down from each equation, parents first, and carries what holds: the indices that have
values and the conditions of `where`, `select`, `and` and `or` (`ir.contexts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tensorc.ir import syntax as s
from tensorc.ir.build import Builder
from tensorc.ir.contexts import Context, Judge, add
from tensorc.ir.diagnostics import fault
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.ranges import Finding, Verdict
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.tensor import Apply, Check, Condition, Position, Read
from tensorc.ir.wording import brief, brief_read, dimension
from tensorc.lang.surface import Statement


@dataclass
class Accesses:
    """Judges accesses and collects what the call (`conditions`) and kernels (`checks`) decide."""

    extents: Mapping[str, Polynomial]
    scalars: Mapping[str, Polynomial]
    builder: Builder
    report: Callable[[Diagnostic], None]
    conditions: dict[Condition, None] = field(default_factory=dict[Condition, None])
    checks: dict[Check, None] = field(default_factory=dict[Check, None])

    def __post_init__(self) -> None:
        self.judge = Judge(self.extents, self.scalars)

    def statement(self, statement: Statement) -> None:
        """Judge every access of one equation."""
        start = Context(frozenset(binding.name for binding in statement.left), ())
        contexts: dict[int, list[Context]] = {id(statement.body): [start]}
        for item in reversed(s.postorder(statement.body)):
            for context in contexts.pop(id(item), []):
                if isinstance(item, s.Access):
                    self._access(item, context)
                for part, there in self._below(item, context):
                    add(contexts.setdefault(id(part), []), there)

    def _below(self, item: s.Syntax, context: Context) -> Iterator[tuple[s.Syntax, Context]]:
        match item:
            case s.Reduction():
                yield from self._reduction(item, context)
            case s.Call("select", args):
                yield args[0], context
                yield args[1], self._under(context, args[0], True)
                yield args[2], self._under(context, args[0], False)
            case s.Call(_, args) if self._logic(item) is not None:
                holds = self._logic(item) == "and"
                for arg in args:
                    yield arg, context
                    context = self._under(context, arg, holds)
            case _:
                for part in s.parts(item):
                    yield part, context

    def _reduction(self, item: s.Reduction, context: Context) -> Iterator[tuple[s.Syntax, Context]]:
        names = frozenset(binding.name for binding in item.bindings)
        inner = context.inside(names)
        if item.where is not None:
            yield item.where, inner
            inner = self._under(inner, item.where, True)
        yield item.body, inner

    def _logic(self, item: s.Call) -> str | None:
        """ "and" or "or", also where it was written `&` or `|` between bools."""
        expr = self.builder.built(item)
        name = expr.function.name if isinstance(expr, Apply) else None
        return name if name in ("and", "or") else None

    def _under(self, context: Context, item: s.Syntax, holds: bool) -> Context:
        guard = self.builder.built(item)
        if guard is None:
            return context
        return context.under(guard, holds)

    def _access(self, item: s.Access, context: Context) -> None:
        read = self.builder.built(item)
        if not isinstance(read, Read):
            return
        for axis, (sub, limit) in enumerate(zip(read.subscripts, read.tensor.shape, strict=True)):
            if isinstance(sub, Position):
                continue  # a bare index: its extent is the dimension's
            finding = self.judge.finding(sub, limit, context)
            place = item.subscripts[axis].span
            self._act(finding, read, axis, context, place)

    def _act(self, finding: Finding, read: Read, axis: int, context: Context, span: Place) -> None:
        match finding.verdict:
            case Verdict.PROVED:
                pass
            case Verdict.REFUTED:
                self.report(out_of_range(read, axis, finding, span))
            case Verdict.CONDITION:
                self._condition(read, axis, context, span)
            case Verdict.DATA:
                self.checks.setdefault(Check(read, axis, span))

    def _condition(self, read: Read, axis: int, context: Context, span: Place) -> None:
        value = self.judge.value(read.subscripts[axis], context)
        names = tuple(name for name in self.extents if name in context.scope)
        limit = read.tensor.shape[axis]
        what = brief_read(read)
        self.conditions.setdefault(Condition(value, limit, names, context.guards, what, span))


def out_of_range(read: Read, axis: int, finding: Finding, span: Place) -> Diagnostic:
    """E215: how far the access reaches, and where its dimension ends."""
    size = read.tensor.shape[axis]
    dim = dimension(size)
    return fault(
        "E215.low" if finding.low else "E215",
        span,
        name=read.tensor.name,
        subscript=brief(read.subscripts[axis]),
        reach=finding.reach,
        dim=dim if dim.isidentifier() else axis,
        bound=size - 1,
    )
