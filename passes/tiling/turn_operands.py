"""Operands of products that run along the summed index are copied first, turned, on a CPU.

    y[m, n] = sum[k](a[m, k] * b[n, k])         b_turned[k, n] = b[n, k]
                                                y[m, n] = sum[k](a[m, k] * b_turned[k, n])

True afterwards: what all rows of a product share runs along its columns, so that several columns
make a vector and no sum is taken across lanes, wherever there are enough rows to pay for the copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tensorc.ir.functions import SUM
from tensorc.ir.node import postorder, replaced
from tensorc.ir.tensor import Equation, Expr, Position, Program, Read, Reduce, Tensor, free_indices
from tensorc.passes.tiling.contiguity import Along, Units, reads_in, stride_class

ENOUGH = 32  # rows that share a copy, and elements along both of its sides


def turn_operands(program: Program, units: Units, static: Mapping[str, int]) -> Program:
    """A canonical program with such copies as equations. Only extents in `static` count: an
    unknown one may be small."""
    taken = {name for name, _ in program.extents}
    taken |= {item.tensor.name for item in (*program.parameters, *program.equations)}
    taken |= {item.tensor.name for item in (*program.outputs, *program.tables)}
    found: list[Equation] = []
    made: dict[tuple[Read, str], Equation] = {}
    for equation in program.equations:
        change: dict[Read, Read] = {}
        for read, column in _across(equation, units, static):
            if (read, column) not in made:
                made[read, column] = _copy(read, column, taken)
                found.append(made[read, column])
            copy = made[read, column]
            change[read] = Read(copy.tensor, tuple(map(Position, copy.indices)))
        found.append(replace(equation, body=_changed(equation.body, change)))
    return replace(program, equations=tuple(found)) if made else program


def _across(
    equation: Equation, units: Units, static: Mapping[str, int]
) -> Iterator[tuple[Read, str]]:
    """The reads to copy, each with the index that should run along its last dimension."""
    written = Read(equation.tensor, tuple(map(Position, equation.indices)))
    columns = [i for i in equation.indices if stride_class(written, i, units) is Along.NEXT]
    for item in postorder([equation.body]):
        if not isinstance(item, Reduce) or item.reducer is not SUM or len(item.indices) != 1:
            continue
        for column in columns:
            reads = [read for read in reads_in(item) if column in free_indices(read)]
            rows = set(equation.indices) & free_indices(item) - {column}
            alone = len(reads) == 1 and _pays(reads[0], rows, item.indices[0], column, static)
            if alone and _turns(reads[0], item.indices[0], column, units):
                yield reads[0], column


def _pays(
    read: Read, rows: Iterable[str], summed: str, column: str, static: Mapping[str, int]
) -> bool:
    sharing = [static.get(row, 0) for row in rows if row not in free_indices(read)]
    sides = (static.get(summed, 0), static.get(column, 0))
    return max(sharing, default=0) >= ENOUGH and min(sides) >= ENOUGH


def _turns(read: Read, summed: str, column: str, units: Units) -> bool:
    """Whether a read has neighbours along the summed index, not along the columns, and each
    dimension an index of its own."""
    indices = [item.index for item in read.subscripts if isinstance(item, Position)]
    plain = len(set(indices)) == len(read.subscripts)
    far = stride_class(read, column, units) is Along.FAR
    return plain and far and stride_class(read, summed, units) is Along.NEXT


def _copy(read: Read, column: str, taken: set[str]) -> Equation:
    """The equation of the copy, with `column` last."""
    pairs = zip(read.subscripts, read.tensor.shape, strict=True)
    shape = {item.index: size for item, size in pairs if isinstance(item, Position)}
    indices = (*(index for index in shape if index != column), column)
    name = f"{read.tensor.name}_turned"
    while name in taken:
        name += "_"
    taken.add(name)
    tensor = Tensor(name, read.tensor.dtype, tuple(shape[index] for index in indices))
    return Equation(tensor, indices, read)


def _changed(body: Expr, change: Mapping[Read, Read]) -> Expr:
    made = replaced(body, lambda item: change.get(item) if isinstance(item, Read) else None)
    assert isinstance(made, Expr)
    return made
