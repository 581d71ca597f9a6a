"""The meaning of level 1: programs on NumPy arrays, equation by equation.

Floats in float64 whatever their type, complex in complex128, integers exactly with two's-complement
wrap at their width, positions and extents without width. A fixed `Cast` rounds; a movable `Round`
of a float is the identity, as is the store into a narrow output. The twin (`rounded=True`) computes
every operation in its value type instead, sums in ascending order and rounds at every cast and
store: the yardstick for the rounding error that a kernel may have.

Nothing of the compiler's passes is used here: this is what they are checked against.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tensorc.errors import ArgumentError, OutOfRange
from tensorc.ir.dtypes import DType, value_of
from tensorc.ir.evaluate import Evaluator
from tensorc.ir.functions import SOFTMAX
from tensorc.ir.needed import needed
from tensorc.ir.node import postorder
from tensorc.ir.operands import contraction
from tensorc.ir.rounding import Array, numpy_dtype, round_to
from tensorc.ir.scopes import Escape, Found, Scope
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Equation,
    Expr,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    Table,
    free_indices,
)

POINTS = 1 << 19  # elements of the largest array at once; leading free indices are cut to this


def interpret(
    program: Program,
    arrays: Mapping[str, npt.ArrayLike],
    extents: Mapping[str, int],
    rounded: bool = False,
    extended: bool = False,
) -> dict[str, Array]:
    """The outputs of `program`, by name.

    `arrays`: every parameter, in its declared shape and storage type (or another type whose values
    it holds exactly). `extents`: the extent of every index. Results are float64, complex128, bool
    or the declared integer type, floats not yet rounded; with `rounded`, of the storage type.
    With `extended`, what is f64 or complex128 is computed in long double where the machine has
    one (x86-64: 64 significant bits, `erf` excepted), so that a kernel in f64 has a reference.

    OutOfRange (R704): a subscript read from data leaves its dimension where nothing guards it.
    ArgumentError: another subscript does (E216), or an array does not fit its parameter (E211).
    """
    machine = Evaluator({}, extents, rounded, extended)
    known = run(machine, needed(program), arrays)
    return {output.tensor.name: known[output.tensor.name] for output in program.outputs}


def run(
    machine: Evaluator, program: Program, arrays: Mapping[str, npt.ArrayLike]
) -> dict[str, Array]:
    """The tensors of the program that are outputs, or that no equation reads."""
    load(machine, program, arrays)
    for equation, done in zip(program.equations, last_reads(program), strict=True):
        made = empty(machine, equation)
        for part, found in solved(machine, equation, program):
            made[part] = hold(machine, found.value, equation.tensor.dtype)
        machine.tensors[equation.tensor.name] = made
        for name in done:
            del machine.tensors[name]
    return machine.tensors


def last_reads(program: Program) -> list[set[str]]:
    """For each equation the tensors that it is the last to read: memory to give back."""
    outputs = {output.tensor.name for output in program.outputs}
    seen, found = set[str](), list[set[str]]()
    for equation in reversed(program.equations):
        nodes = postorder((equation.body,))
        read = {item.tensor.name for item in nodes if isinstance(item, Read)} - outputs
        found.append(read - seen)
        seen |= read
    return found[::-1]


def load(machine: Evaluator, program: Program, arrays: Mapping[str, npt.ArrayLike]) -> None:
    """Parameters and tables as the evaluator's tensors."""
    for parameter in program.parameters:
        tensor = parameter.tensor
        array = _argument(np.asarray(arrays[tensor.name]), tensor.name, tensor.dtype)
        machine.tensors[tensor.name] = hold(machine, array, tensor.dtype)
    for table in program.tables:
        machine.tensors[table.tensor.name] = _table(machine, table)


def _argument(array: Array, name: str, dtype: DType) -> Array:
    """An array as its parameter's storage type, which must hold its values exactly."""
    if array.dtype == numpy_dtype(dtype):
        return array
    stored = round_to(array, dtype)
    with np.errstate(invalid="ignore"):
        same = (stored == array) | ((stored != stored) & (array != array))
    if not same.all():
        fault = Diagnostic(
            "E211", f"{name} has elements that {dtype} does not hold", None,
            f"{array.dtype}", f"{dtype}", f"convert it: {name}.astype(...)",
        )  # fmt: skip
        raise ArgumentError([fault])
    return stored


def hold(machine: Evaluator, array: Array, dtype: DType) -> Array:
    """A tensor as the evaluator keeps it: storage type if rounded or exact, else float64."""
    if machine.rounded or not (dtype.floating or dtype.complex):
        return round_to(array, dtype)
    return machine.widened(array, dtype)


def table_values(table: Table) -> Array:
    """A constant table as an array of its storage type."""
    return _table(Evaluator({}, {}, rounded=True), table)


def _table(machine: Evaluator, table: Table) -> Array:
    shape = [int(size.constant or 0) for size in table.tensor.shape]
    dtype, nowhere = table.tensor.dtype, Scope({}, {}, 0)
    cells = [machine.value(Cast(dtype, cell), value_of(dtype), nowhere) for cell in table.values]
    return hold(machine, np.array([cell.value for cell in cells]).reshape(shape), dtype)


def empty(machine: Evaluator, equation: Equation) -> Array:
    """Zeros of an equation's shape, as its tensor is held."""
    shape = tuple(machine.extents[index] for index in equation.indices)
    return hold(machine, np.zeros(shape, np.bool_), equation.tensor.dtype)


def solved(
    machine: Evaluator, equation: Equation, program: Program
) -> Iterator[tuple[tuple[slice, ...], Found]]:
    """Every element of the equation's tensor, block by block: where, and the values there."""
    indices, wanted = equation.indices, value_of(equation.tensor.dtype)
    axes = {name: place - len(indices) for place, name in enumerate(indices)}
    for block in blocks(equation.body, indices, machine.extents):
        scope = Scope(axes, dict(zip(indices, block, strict=True)), len(indices))
        machine.escapes.clear()
        found = machine.met(machine.value(equation.body, wanted, scope), equation.body, wanted)
        if found.fault is not None:
            first = np.broadcast_to(found.fault, tuple(len(span) for span in block))
            if first.any():
                raise escaped(machine, int(first[first > 0][0]), program)
        yield tuple(slice(span.start, span.stop) for span in block), found


def blocks(
    body: Expr, indices: Sequence[str], extents: Mapping[str, int]
) -> Iterator[tuple[range, ...]]:
    """Blocks of the leading indices such that no array of the body exceeds POINTS, if that can be
    had by cutting free indices. Those that a softmax inside runs over stay whole."""
    size = {name: max(extents[name], 1) for name in indices}
    shapes = _shapes(body)
    whole = {name for item in postorder((body,)) for name in _kept_by(item)}
    for name in indices:
        while size[name] > 1 and name not in whole and _largest(shapes, size, extents) > POINTS:
            size[name] = (size[name] + 1) // 2
    spans = [
        [
            range(at, min(at + size[name], extents[name]))
            for at in range(0, extents[name], size[name])
        ]
        for name in indices
    ]
    return itertools.product(*spans)


def _kept_by(item: object) -> tuple[str, ...]:
    return item.indices if isinstance(item, Reduce) and item.reducer is SOFTMAX else ()


def _shapes(body: Expr) -> set[frozenset[str]]:
    """The sets of indices over which the nodes of `body` are computed. A sum of many products has
    no array of them."""
    shapes: set[frozenset[str]] = set()
    for item in postorder((body,)):
        if isinstance(item, Reduce) and not contraction(item):
            shapes.add(free_indices(item) | frozenset(item.indices) | free_indices(item.body))
        elif isinstance(item, Apply):
            shapes.update(free_indices(arg) for arg in item.args)
        elif isinstance(item, Select | Cast | Round | Bitcast | Reduce):
            shapes.add(free_indices(item))
    return shapes | {free_indices(body)}  # last: facts of parts first


def _largest(
    shapes: set[frozenset[str]], size: Mapping[str, int], extents: Mapping[str, int]
) -> int:
    return max(math.prod(size.get(name, extents[name]) for name in shape) for shape in shapes)


# --- reads out of range -------------------------------------------------------------------------


def escaped(machine: Evaluator, number: int, program: Program) -> ArgumentError:
    """The error for fault `number`: R704 where the subscript holds data, else E216."""
    escape = next(e for e in reversed(machine.escapes) if e.first <= number)
    point = np.unravel_index(number - escape.first, escape.bad.shape)
    value = _at(escape.subscripts[escape.axis], point)
    tensor, subscript = escape.read.tensor, escape.read.subscripts[escape.axis]
    size = machine.tensors[tensor.name].shape[escape.axis]
    data = any(isinstance(item, Read | Reduce) for item in postorder((subscript,)))
    named = _named(machine, escape, subscript, point)
    rows = f"{size} rows" if escape.axis == 0 else f"{size} along dimension {escape.axis}"
    allowed = f"0..{size - 1}" if size else "nothing: the dimension is empty"
    fault = Diagnostic(
        "R704" if data else "E216",
        f"{named} = {value}, {tensor.name} has {rows} ({allowed})",
        _span(program, escape.read, escape.axis),
        str(value), allowed,
        "correct the data, or guard the read with where, select or clamp",
    )  # fmt: skip
    return OutOfRange([fault]) if data else ArgumentError([fault])


def _named(machine: Evaluator, escape: Escape, subscript: Expr, point: tuple[np.intp, ...]) -> str:
    """The element that holds the subscript, `tok[3, 17]`, or the subscript and where it stands."""
    if isinstance(subscript, Read):
        from tensorc.ir.dtypes import INDEX

        found = [machine.value(sub, INDEX, escape.scope) for sub in subscript.subscripts]
        places = ", ".join(str(_at(item.value, point)) for item in found)
        return f"{subscript.tensor.name}[{places}]" if places else subscript.tensor.name
    where = ", ".join(
        f"{name} = {span.start + int(point[escape.scope.axes[name]])}"
        for name, span in escape.scope.ranges.items()
        if name in free_indices(subscript) and -escape.scope.axes[name] <= len(point)
    )
    what = f"{escape.read.tensor.name}'s subscript {escape.axis}"
    return f"{what} at {where}" if where else what


def _at(values: Array, point: tuple[np.intp, ...]) -> int:
    """The element of a broadcast array at a point of the trailing axes."""
    own = point[len(point) - values.ndim :] if values.ndim else ()
    return int(values[tuple(min(int(p), n - 1) for p, n in zip(own, values.shape, strict=True))])


def _span(program: Program, read: Read, axis: int) -> Place | None:
    found = [check.span for check in program.checks if check.read is read and check.axis == axis]
    return found[0] if found else None
