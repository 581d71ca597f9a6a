"""The invariants of level 1, each with its number. `verify` returns every fault it finds.

Names
 L1  a name is defined once: parameters, tables and equations; every output has an equation
 L2  a read is of a parameter, a table, or the tensor of an earlier equation, exactly that tensor
 L3  the equation of an output defines the tensor that is declared
Indices and extents
 L4  every index that occurs has one extent in the program
 L5  an extent is made of free extents |i|, which map to themselves, and of parameters
 L6  the left indices are distinct, and their extents are the tensor's shape
 L7  every free index of a body is on the left
 L8  a reduction names at least one index, each once
Accesses
 L9  a subscript is an integer, and a bare position walks its whole dimension
 L10 every access is proved in range, or a condition or a check of the program speaks of it
Types
 L11 every node has a type; sum, prod, mean, logsumexp and softmax may have an accumulator's
 L12 the conditions of select and where are bools (and, or, not of others have no type)
 L13 a rounding stands at the root of a body, is to the tensor's storage type, and stands there
     exactly if that differs from the body's settled type; no store changes the kind downwards
 L14 nothing of level 2 occurs
 L15 a literal's value belongs to its type, and an integer fits where it meets a strong type
 L16 a bitcast keeps the width
Program
 L17 a table has one closed value for each element
 L18 a condition is about its own indices and free of data; a check's read occurs in an equation

L10 runs the prover (`ir.ranges`) on every access; `verify(program, accesses=False)` leaves it out.
The sizes of a call are not its business: `ir.sizes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tensorc.ir import polynomial as p
from tensorc.ir.contexts import accesses as every_access
from tensorc.ir.dtypes import BOOL, IMAGINARY, INTEGER, REAL, settled
from tensorc.ir.integers import deep_atoms, scalars_of
from tensorc.ir.node import Node, postorder
from tensorc.ir.polynomial import Opaque, Polynomial, Symbol
from tensorc.ir.ranges import Verdict
from tensorc.ir.source import Source
from tensorc.ir.stores import accumulates, literal_fault, storage_of, stores
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Equation,
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
    operand_types,
    value_type,
)
from tensorc.ir.wording import brief, brief_read

_NOWHERE = Source("<verify>", "").span(0, 0)
_WORDS = {REAL: ("inf", "nan", "pi", "-0"), IMAGINARY: ("inf", "nan", "pi", "-0")}


def verify(program: Program, accesses: bool = True) -> list[str]:
    """All faults of `program`, each with its number and equation; empty if it is right."""
    faults = [*_names(program), *_extents(program), *_tables(program)]
    for equation in program.equations:
        found = [*_types(equation), *_left(program, equation), *_nodes(program, equation)]
        faults += [f"{fault} (in {equation.tensor.name})" for fault in found]
    if faults:
        return faults
    faults += _open_questions(program)
    return faults + (list(_accesses(program)) if accesses else [])


def _names(program: Program) -> Iterator[str]:
    inputs = [item.tensor for item in program.parameters] + [t.tensor for t in program.tables]
    defined = [equation.tensor for equation in program.equations]
    for name, count in Counter(tensor.name for tensor in (*inputs, *defined)).items():
        if count > 1:
            yield f"L1: {name} is defined {count} times"
    known = {tensor.name: tensor for tensor in inputs}
    for equation in program.equations:
        for item in postorder([equation.body]):
            if isinstance(item, Read) and known.get(item.tensor.name) is not item.tensor:
                where = f"in {equation.tensor.name}"
                yield f"L2: {item.tensor.name} is read {where}, and not so defined above"
        known[equation.tensor.name] = equation.tensor
    for output in program.outputs:
        own = [tensor for tensor in defined if tensor.name == output.tensor.name]
        if not own:
            yield f"L1: the output {output.tensor.name} has no equation"
        elif own[0] is not output.tensor:
            yield f"L3: {output.tensor.name} is not defined as it is declared"


def _extents(program: Program) -> Iterator[str]:
    counts = Counter(name for name, _ in program.extents)
    extent_of = program.extent_of
    for name, count in counts.items():
        if count > 1:
            yield f"L4: {name} has {count} extents"
    for name in sorted(_indices(program) - set(counts)):
        yield f"L4: {name} has no extent"
    tensors = [item.tensor for item in (*program.parameters, *program.outputs)]
    tensors += [equation.tensor for equation in program.equations]
    sizes = [*program.extents, *((t.name, size) for t in tensors for size in t.shape)]
    for name, size in sizes:
        if any(not _free(symbol, extent_of) for symbol in p.symbols(size)) or _on_data(size):
            yield f"L5: the extent of {name} is {size}, which is not made of free extents"


def _free(symbol: Symbol, extent_of: Mapping[str, Polynomial]) -> bool:
    if symbol.kind == "extent":
        return extent_of.get(symbol.name) is p.of_atom(symbol)
    return symbol.kind == "parameter"


def _on_data(value: Polynomial) -> bool:
    return any(isinstance(atom, Opaque) for atom in deep_atoms(value))


def _indices(program: Program) -> set[str]:
    found = {name for equation in program.equations for name in equation.indices}
    for item in postorder(equation.body for equation in program.equations):
        match item:
            case Position(name) | Extent(name):
                found.add(name)
            case Reduce(indices=names):
                found.update(names)
            case _:
                pass
    return found


def _left(program: Program, equation: Equation) -> Iterator[str]:
    indices, extent_of = equation.indices, program.extent_of
    if len(set(indices)) < len(indices):
        yield f"L6: an index stands twice on the left, {', '.join(indices)}"
    shape = tuple(extent_of.get(name) for name in indices)
    if shape != equation.tensor.shape:
        yield f"L6: the indices {', '.join(indices)} do not have the extents of the tensor"
    for name in sorted(free_indices(equation.body) - set(indices)):
        yield f"L7: {name} is free and not on the left"


def _nodes(program: Program, equation: Equation) -> Iterator[str]:
    extent_of = program.extent_of
    for item in postorder([equation.body]):
        match item:
            case Value() | Seen():
                yield f"L14: {type(item).__name__} belongs to level 2"
            case Read():
                yield from _read(item, extent_of)
            case Reduce():
                yield from _reduce(item)
            case Select(condition):
                yield from _condition(condition, "select")
            case Apply():
                yield from _apply(item)
            case Literal():
                yield from _literal(item)
            case Bitcast(dtype, arg) if storage_of(arg).bits != dtype.bits:
                yield f"L16: a bitcast from {storage_of(arg)} to {dtype}"
            case Round() if item is not equation.body:
                yield f"L13: a rounding to {item.dtype} inside an expression"
            case _:
                pass


def _read(item: Read, extent_of: Mapping[str, Polynomial]) -> Iterator[str]:
    for axis, (sub, size) in enumerate(zip(item.subscripts, item.tensor.shape, strict=True)):
        if _typed(sub) and not value_type(sub).integral:
            yield f"L9: subscript {axis} of {brief(item)} is {value_type(sub)}"
        if isinstance(sub, Position) and extent_of.get(sub.index, size) is not size:
            own = extent_of[sub.index]
            yield f"L9: {sub.index} has extent {own}, dimension {axis} of {brief(item)} has {size}"


def _reduce(item: Reduce) -> Iterator[str]:
    if not item.indices or len(set(item.indices)) < len(item.indices):
        yield f"L8: {item.reducer}[{', '.join(item.indices)}] names no index or one twice"
    if item.dtype is not None and _typed(item.body):
        own = value_type(item.body)
        if not item.reducer.accumulates or not accumulates(item.reducer, own, item.dtype):
            yield f"L11: {item.reducer} of {own} accumulates in {item.dtype}"
    if item.where is not None:
        yield from _condition(item.where, "where")


def _condition(condition: Expr, what: str) -> Iterator[str]:
    if _typed(condition) and value_type(condition) is not BOOL:
        yield f"L12: the condition of {what} is {value_type(condition)}"


def _apply(item: Apply) -> Iterator[str]:
    if not _typed(item):
        return
    if value_type(item).weak:
        return
    wanted = operand_types(item, settled(value_type(item)))
    for arg, dtype in zip(item.args, wanted, strict=True):
        fault = literal_fault(arg, dtype, _NOWHERE)
        if fault is not None:
            yield f"L15: {fault.message}"


def _literal(item: Literal) -> Iterator[str]:
    value, dtype = item.value, item.dtype
    if isinstance(value, str):
        right = value in _WORDS.get(dtype, ())
    elif dtype is BOOL:
        right = value in (0, 1)
    else:
        right = dtype in (REAL, IMAGINARY) or (dtype is INTEGER and value.denominator == 1)
    if not right:
        yield f"L15: {value} is no {dtype}"


def _typed(expr: Expr) -> bool:
    try:
        value_type(expr)
    except TypeError:
        return False
    return True


def _types(equation: Equation) -> Iterator[str]:
    """L11 and L13; nothing is said of the types of what has none."""
    for item in postorder([equation.body]):
        if isinstance(item, Apply | Select | Reduce) and not _typed(item):
            yield f"L11: {brief(item)} has no type"
            return
    dtype, body = equation.tensor.dtype, equation.body
    inner = body.arg if isinstance(body, Round) else body
    own = settled(value_type(inner))
    if not stores(own, dtype):
        yield f"L13: a {own} is stored as {dtype}"
    if isinstance(body, Round) and (body.dtype is not dtype or own is dtype):
        yield f"L13: a rounding of {own} to {body.dtype} where {dtype} is stored"
    if not isinstance(body, Round) and own is not dtype:
        yield f"L13: {own} is stored as {dtype} without a rounding"


def _tables(program: Program) -> Iterator[str]:
    for table in program.tables:
        count = 1
        for size in table.tensor.shape:
            count *= size.constant if size.constant is not None else -1
        if count != len(table.values):
            yield f"L17: {table.tensor.name} has {len(table.values)} values for its shape"
        if any(isinstance(n, Read | Position | Extent | Reduce) for n in postorder(table.values)):
            yield f"L17: a value of {table.tensor.name} is not closed"


def _open_questions(program: Program) -> Iterator[str]:
    reads = set(_reads(program))
    for condition in program.conditions:
        parts = {s.name for s in p.symbols(condition.value) if s.kind == "index"}
        for guard in condition.guards:
            parts |= free_indices(guard)
        foreign = sorted(parts - set(condition.indices))
        if foreign or _on_data(condition.value):
            yield f"L18: the condition on {condition.what} is not about its indices alone"
    for check in program.checks:
        if check.read not in reads or check.axis >= len(check.read.subscripts):
            yield f"L18: a check is about {brief_read(check.read)}, which no equation reads"


def _reads(program: Program) -> Iterator[Node]:
    for item in postorder(equation.body for equation in program.equations):
        if isinstance(item, Read):
            yield item


def _accesses(program: Program) -> Iterator[str]:
    """L10: what the prover leaves open is in the program's conditions and checks."""
    conditions = {(item.value, item.limit) for item in program.conditions}
    checks = {(item.read, item.axis) for item in program.checks}
    for found in every_access(program, scalars_of(program)):
        key = found.value, found.read.tensor.shape[found.axis]
        what = f"dimension {found.axis} of {brief_read(found.read)}"
        match found.finding.verdict:
            case Verdict.PROVED:
                pass
            case Verdict.REFUTED:
                yield f"L10: {what} is out of range for all sizes"
            case Verdict.CONDITION if key not in conditions:
                yield f"L10: {what} depends on sizes, and no condition speaks of it"
            case Verdict.DATA if (found.read, found.axis) not in checks:
                yield f"L10: {what} depends on data, and no check speaks of it"
            case _:
                pass
