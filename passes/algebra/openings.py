"""What a program's equations allow before they become terms: which names may be opened up, which
maxima are mere shifts, which indices walk one dimension."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from tensorc.ir.dtypes import F32, F64, REAL, DType, value_of
from tensorc.ir.functions import MAX
from tensorc.ir.node import Node, children, postorder
from tensorc.ir.rounding import LARGEST
from tensorc.ir.tensor import (
    Apply,
    Equation,
    Expr,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    value_type,
)
from tensorc.passes.algebra.exponentials import EXPONENTIALS


def openable(program: Program, dtype: DType) -> Iterable[Equation]:
    """Names that stand for their bodies: no outputs, of the program's type, and read only under
    distinct bare indices, but for one subscript that may hold data."""
    outputs = {item.tensor.name for item in program.outputs}
    plain = {item.tensor.name: True for item in program.equations}
    for item in postorder(equation.body for equation in program.equations):
        if isinstance(item, Read) and item.tensor.name in plain:
            names = {sub.index for sub in item.subscripts if isinstance(sub, Position)}
            whole = len(names) == len(item.subscripts)
            plain[item.tensor.name] &= whole or gathered_axis(item) is not None
    for equation in program.equations:
        body, tensor = equation.body, equation.tensor
        inside = body.arg if isinstance(body, Round) else body
        fits = value_of(tensor.dtype) is dtype and value_type(inside) in (dtype, REAL)
        if tensor.name not in outputs and plain[tensor.name] and fits:
            yield equation


def shifts(program: Program) -> set[Expr]:
    """Maxima kept finite that are only ever subtracted before an exponential, or added to the
    logarithm of a sum of such: there any finite value may stand for an infinite one."""
    parents: dict[Node, list[Node]] = {}
    for item in postorder(equation.body for equation in program.equations):
        for part in item.args if isinstance(item, Apply) else children(item):
            parents.setdefault(part, []).append(item)
    found: set[Expr] = set()
    for item in parents:
        if _finite_maximum(item) and all(_shifting(up, item, parents) for up in parents[item]):
            assert isinstance(item, Apply)
            found.add(item)
    roots = {equation.body for equation in program.equations}
    return found - roots


def _finite_maximum(item: Node) -> bool:
    """max(max[...](x), the lowest finite number)."""
    match item:
        case Apply(function, (Reduce(reducer, _, _, _, _), Literal(value, _))):
            lowest = (-Fraction(LARGEST[F32]), -Fraction(LARGEST[F64]))
            return function.name == "max" and reducer is MAX and value in lowest
        case _:
            return False


def _shifting(up: Node, item: Node, parents: Mapping[Node, list[Node]]) -> bool:
    match up:
        case Apply(function, (_, second)) if function.name == "sub" and second is item:
            uses = parents.get(up, [])
            return bool(uses) and all(
                isinstance(use, Apply) and use.function.name in EXPONENTIALS for use in uses
            )
        case Apply(function, (first, Apply(log, _))) if function.name == "add" and first is item:
            return log.name == "log"
        case _:
            return False


def alike(program: Program) -> dict[str, list[str]]:
    """For each index those that walk the same dimension of some tensor, in order of appearance."""
    group = {name: name for name, _ in program.extents}

    def top(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    def meet(tensor: str, axis: int, index: str) -> None:
        group[top(index)] = top(f"{tensor} {axis}")

    for equation in program.equations:
        for axis, index in enumerate(equation.indices):
            meet(equation.tensor.name, axis, index)
        for item in postorder([equation.body]):
            if isinstance(item, Read):
                for axis, sub in enumerate(item.subscripts):
                    if isinstance(sub, Position):
                        meet(item.tensor.name, axis, sub.index)
    names = [name for name, _ in program.extents]
    size = program.extent_of
    return {
        name: [other for other in names if top(other) == top(name) and size[other] is size[name]]
        for name in names
    }


def gathered_axis(read: Read) -> int | None:
    """The one dimension that data pick a position of, the others under distinct bare indices."""
    data = [number for number, sub in enumerate(read.subscripts) if _holds_data(sub)]
    plain = {sub for sub in read.subscripts if isinstance(sub, Position)}
    return data[0] if len(data) == 1 and len(plain) + 1 == len(read.subscripts) else None


def _holds_data(expr: Expr) -> bool:
    return any(isinstance(item, Read) for item in postorder([expr]))
