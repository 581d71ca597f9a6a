"""What is no fault but worth a line: unused parameters (W201), narrow integer stores (W202), and
equations that no output needs (W203)."""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir import syntax as s
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BOOL, integer_range
from tensorc.ir.intervals import usual_interval
from tensorc.ir.needed import needed
from tensorc.ir.node import postorder
from tensorc.ir.source import Diagnostic
from tensorc.ir.tensor import Expr, Program, Read, Round
from tensorc.lang.surface import Operator, Parameter


def warnings(operator: Operator, program: Program) -> Iterator[Diagnostic]:
    """The warnings of a program without faults, in order."""
    yield from _unused(operator, program)
    yield from _narrowing(operator, program)
    yield from _idle(operator, program)


def _unused(operator: Operator, program: Program) -> Iterator[Diagnostic]:
    """Parameters that nothing reads, neither as a value nor for an extent that only they give."""
    bodies = [equation.body for equation in program.equations]
    read = {item.tensor.name for item in postorder(bodies) if isinstance(item, Read)}
    mentioned = set(_mentioned(operator))
    for item in operator.parameters:
        others = (*(o for o in operator.parameters if o is not item), *operator.outputs)
        elsewhere = {dim.name for other in others for dim in other.dimensions}
        only = {dim.name for dim in item.dimensions} - elsewhere
        if item.name not in read and item.name not in mentioned and not only & mentioned:
            yield fault("W201", item.span, name=item.name)


def _idle(operator: Operator, program: Program) -> Iterator[Diagnostic]:
    """Equations whose values go into no output: they are not computed."""
    kept = {item.tensor.name for item in needed(program).equations}
    for statement in operator.statements:
        if statement.name not in kept:
            yield fault("W203", statement.name_span, name=statement.name)


def _mentioned(operator: Operator) -> Iterator[str]:
    """The names in sizes, and the extents that are used as values."""
    declared: list[Parameter] = [*operator.parameters, *operator.outputs]
    roots = [dim.size for item in declared for dim in item.dimensions if dim.size is not None]
    for statement in operator.statements:
        yield from (binding.name for binding in statement.left)
        roots += [binding.size for binding in statement.left if binding.size is not None]
        roots.append(statement.body)
    for root in roots:
        for item in s.postorder(root):
            if isinstance(item, s.SizeOf | s.Name):
                yield item.name


def _narrowing(operator: Operator, program: Program) -> Iterator[Diagnostic]:
    """Stores of integers that are not known to fit. Positions are taken to fit an i32."""
    places = {statement.name: statement.body.span for statement in operator.statements}
    for equation in program.equations:
        match equation.body:
            case Round(dtype, arg) if dtype.integral or dtype is BOOL:
                low, high = integer_range(dtype)
                for part in postorder([arg]):
                    if isinstance(part, Expr):
                        usual_interval(part)  # parts first, so that no call goes deep
                known = usual_interval(arg)
                if known is not None and not (low <= known[0] and known[1] <= high):
                    name = equation.tensor.name
                    found, allowed = f"{known[0]} to {known[1]}", f"{low} to {high}"
                    yield fault(
                        "W202", places[name], found=found, allowed=allowed, name=name, dtype=dtype
                    )
            case _:
                pass
