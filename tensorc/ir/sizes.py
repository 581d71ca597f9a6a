"""The extents of a call: from the shapes of its arrays and given sizes, in exact integers.

`bind` finds the value of every index's extent and refuses what cannot be run: arrays that disagree
(E201), impossible sizes (E206), missing ones (E214, E225), reductions over nothing (E205), accesses
out of range at these sizes (E216, E217), arrays too large (E301). Whoever allocates intermediates
asks `check_intermediates` (E302). Contents of arrays are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from operator import index as as_int
from typing import SupportsIndex

from tensorc.errors import ArgumentError
from tensorc.ir import polynomial as p
from tensorc.ir.decide import decide
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BOOL, DType
from tensorc.ir.functions import ARGMAX, ARGMIN
from tensorc.ir.integers import scalars_of
from tensorc.ir.intervals import LARGEST
from tensorc.ir.node import Node, children, postorder
from tensorc.ir.polynomial import Polynomial, Symbol
from tensorc.ir.source import Diagnostic
from tensorc.ir.tensor import (
    Condition,
    Declaration,
    Equation,
    Program,
    Read,
    Reduce,
    Tensor,
    value_type,
)
from tensorc.ir.wording import dimensions

LIMIT = 16 << 30  # bytes of one array that a call allocates, unless the caller says otherwise
MOST_ELEMENTS = 1 << 63


def bind(
    program: Program,
    shapes: Mapping[str, tuple[int, ...]],
    given: Mapping[str, SupportsIndex] | None = None,
    limit: int = LIMIT,
) -> dict[str, int]:
    """The extent of every index of `program`.

    `shapes`: of the arrays at hand, by parameter or output name; `given`: extents by index name
    and `const` integers by parameter name; `limit`: bytes of one output. ArgumentError: all faults
    of the first kind of check that finds any, so that no fault is a consequence of another.
    """
    binding = _Binding(program, shapes, given or {})
    _refuse(binding.gather())
    _refuse(binding.missing())
    _refuse(binding.impossible())
    _refuse(binding.disagreeing())
    extents = binding.extents()
    _refuse(binding.too_large(limit))
    _refuse(_empty_reductions(program, extents))
    _refuse(_out_of_range(binding, extents))
    return extents


def check_intermediates(
    program: Program, extents: Mapping[str, int], limit: int = LIMIT, only: Sequence[str] = ()
) -> None:
    """E302 where a named intermediate (of `only`, if given) is over `limit` bytes by itself."""
    outputs = {item.tensor.name for item in program.outputs}
    faults: list[Diagnostic] = []
    for equation in program.equations:
        name = equation.tensor.name
        if name in outputs or (only and name not in only):
            continue
        shape = tuple(extents[index] for index in equation.indices)
        faults += _over("E302", equation.tensor, shape, limit)
    _refuse(faults)


class _Binding:
    """The values found so far, and where each was found."""

    def __init__(
        self,
        program: Program,
        shapes: Mapping[str, tuple[int, ...]],
        given: Mapping[str, SupportsIndex],
    ) -> None:
        self.program = program
        self.shapes = shapes
        self.given = given
        self.values: dict[Symbol, int] = {}
        self.origin: dict[Symbol, str] = {}
        self.declarations = (*program.parameters, *program.outputs)
        self.scalars = scalars_of(program) if program.conditions else {}

    def gather(self) -> Iterator[Diagnostic]:
        """Values of symbols, from what is given and from arrays; what does not fit together."""
        for name, value in self.given.items():
            yield from self._given(name, value)
        for item in self.declarations:
            shape = self.shapes.get(item.tensor.name)
            if shape is not None:
                yield from self._array(item, shape)

    def _given(self, name: str, value: object) -> Iterator[Diagnostic]:
        number = _integer(value)
        if number is None and self._other_constant(name):
            return  # a const parameter that is no integer is no size
        if number is None:
            yield fault("E206.kind", size=name, value=repr(value))
            return
        if any(item.tensor.name == name for item in self.program.parameters):
            self._set(Symbol(name, "parameter"), number, "the arguments")
        elif name in self.program.extent_of:
            if number < 0:
                yield _negative(name, number)
            elif self._symbol(self.program.extent_of[name]) is not None:
                self._set(Symbol(name, "extent"), number, "the given sizes")
        else:
            known = ", ".join(self.program.extent_of)
            yield fault("E204.size", allowed=known, name=self.program.name, size=name)

    def _other_constant(self, name: str) -> bool:
        found = [item for item in self.program.parameters if item.tensor.name == name]
        return any(not item.tensor.dtype.integral or item.dims for item in found)

    def _array(self, item: Declaration, shape: tuple[int, ...]) -> Iterator[Diagnostic]:
        name, dims = item.tensor.name, item.tensor.shape
        if len(shape) != len(dims):
            yield fault(
                "E204.array",
                item.span,
                name=name,
                rank=len(dims),
                dims=dimensions(item.tensor),
                count=len(shape),
            )
            return
        for size, extent in zip(shape, dims, strict=True):
            symbol = self._symbol(extent)
            if symbol is None:
                continue
            known = self.values.get(symbol)
            if known is None:
                self._set(symbol, int(size), name)
            elif known != size:
                yield fault(
                    "E201.call",
                    item.span,
                    index=symbol.name,
                    here=size,
                    array=name,
                    there=known,
                    other=self.origin[symbol],
                )

    def _symbol(self, extent: Polynomial) -> Symbol | None:
        """The symbol if an extent is one."""
        found = [atom for atom in p.atoms(extent) if isinstance(atom, Symbol)]
        one = found[0] if len(found) == 1 and extent is p.of_atom(found[0]) else None
        return one if one is not None and one.kind == "extent" else None

    def _set(self, symbol: Symbol, value: int, origin: str) -> None:
        self.values.setdefault(symbol, value)
        self.origin.setdefault(symbol, origin)

    def _sizes(self) -> Iterator[tuple[str, Polynomial]]:
        """Every size of the program with what to call it; indices first."""
        yield from self.program.extents
        for item in self.declarations:
            for axis, extent in enumerate(item.tensor.shape):
                if item.dims[axis] is None:
                    yield f"dimension {axis} of {item.tensor.name}", extent

    def missing(self) -> Iterator[Diagnostic]:
        """Symbols that a size needs and nothing gives."""
        sizes = [size for _, size in self._sizes()]
        sizes += [divisor for divisor, _ in self.program.divisors]
        sizes += [part for item in self.program.conditions for part in self._asked(item)]
        needed = {s for size in sizes for s in p.symbols(size) if s.kind != "index"}
        for symbol in sorted(needed - set(self.values), key=str):
            if symbol.kind == "parameter":
                yield fault("E225", name=symbol.name)
            else:
                yield fault("E214.call", index=symbol.name)

    def _asked(self, condition: Condition) -> Iterator[Polynomial]:
        """What a size condition needs to be decided."""
        yield from (condition.value, condition.limit)
        for item in postorder(condition.guards):
            if isinstance(item, Read) and item.tensor.name in self.scalars:
                yield self.scalars[item.tensor.name]

    def impossible(self) -> Iterator[Diagnostic]:
        """Divisors below 1 and negative sizes; a size with a bad divisor is not evaluated."""
        bad: set[str] = set()
        for divisor, name in self.program.divisors:
            value = p.evaluate(divisor, self.values)
            if value < 1:
                bad.add(name)
                yield fault("E206.divisor", size=name, value=f"{divisor} = {value}")
        for name, size in self._sizes():
            value = p.evaluate(size, self.values)
            if value < 0 and not bad:
                yield _negative(f"{name} = {size}", value)

    def disagreeing(self) -> Iterator[Diagnostic]:
        """Arrays and given sizes that differ from what the program makes of the others."""
        for item in self.declarations:
            shape = self.shapes.get(item.tensor.name, ())
            for axis, (size, extent) in enumerate(zip(shape, item.tensor.shape, strict=False)):
                wanted = p.evaluate(extent, self.values)
                if size != wanted and self._symbol(extent) is None:
                    name = item.dims[axis] or f"dimension {axis}"
                    there = f"{wanted}" if extent.constant is not None else f"{extent} = {wanted}"
                    array = item.tensor.name
                    yield fault(
                        "E201.fixed", item.span, index=name, here=size, array=array, there=there
                    )
        for name, value in self.given.items():
            extent = self.program.extent_of.get(name)
            if extent is None or any(item.tensor.name == name for item in self.declarations):
                continue
            wanted = p.evaluate(extent, self.values)
            if wanted != as_int(value):
                array, there = "the given sizes", f"{extent} = {wanted}"
                do = "give the other sizes that make it so, or leave it out"
                yield fault("E201.fixed", do=do, index=name, here=value, array=array, there=there)

    def extents(self) -> dict[str, int]:
        """The value of every index's extent."""
        return {name: p.evaluate(size, self.values) for name, size in self.program.extents}

    def too_large(self, limit: int) -> Iterator[Diagnostic]:
        """Arrays beyond what can be addressed, and outputs beyond the limit."""
        for item in self.declarations:
            shape = tuple(p.evaluate(size, self.values) for size in item.tensor.shape)
            output = item in self.program.outputs
            yield from _over("E301", item.tensor, shape, limit if output else None)


def _over(
    code: str, tensor: Tensor, shape: tuple[int, ...], limit: int | None
) -> Iterator[Diagnostic]:
    """A fault if the shape has too many elements or, with a limit, bytes."""
    elements = prod(shape)
    text = " * ".join(map(str, shape)) or "1"
    if elements >= MOST_ELEMENTS or max(shape, default=0) > LARGEST:
        most = f"below {MOST_ELEMENTS} elements, {LARGEST} along one dimension"
        yield fault(
            code, name=tensor.name, shape=text, product=elements, unit="elements", limit=most
        )
        return
    size = elements * storage_bytes(tensor.dtype)
    if limit is not None and size > limit:
        yield fault(
            code,
            name=tensor.name,
            shape=f"{text} of {tensor.dtype}",
            product=size,
            unit="bytes",
            limit=f"{limit} bytes",
        )


def storage_bytes(dtype: DType) -> int:
    """Bytes of one stored element; a bool takes one."""
    return 1 if dtype is BOOL else dtype.bits // 8


def _empty_reductions(program: Program, extents: Mapping[str, int]) -> Iterator[Diagnostic]:
    """E205: an evaluated integer max or min, argmax or argmin over an extent of 0."""
    for equation in program.equations:
        if all(extents[name] for name in equation.indices):
            yield from _empty_in(equation, extents)


def _empty_in(equation: Equation, extents: Mapping[str, int]) -> Iterator[Diagnostic]:
    seen: set[Node] = set()
    stack: list[Node] = [equation.body]
    while stack:
        item = stack.pop()
        if item in seen:
            continue
        seen.add(item)
        empty = _empty_index(item, extents)
        if empty is None:
            stack.extend(children(item))
        elif isinstance(item, Reduce) and _undefined_when_empty(item):
            yield fault("E205", equation.span, reduction=item.reducer, index=empty)


def _empty_index(item: Node, extents: Mapping[str, int]) -> str | None:
    if not isinstance(item, Reduce):
        return None
    return next((name for name in item.indices if extents[name] == 0), None)


def never_empty(program: Program) -> set[str]:
    """The indices over which E205 may refuse an extent of 0."""
    nodes = postorder([equation.body for equation in program.equations])
    found = [item for item in nodes if isinstance(item, Reduce) and _undefined_when_empty(item)]
    return {name for item in found for name in item.indices}


def _undefined_when_empty(item: Reduce) -> bool:
    whole = value_type(item.body).integral or value_type(item.body) is BOOL
    return item.reducer.nonempty and (item.reducer in (ARGMAX, ARGMIN) or whole)


def _out_of_range(binding: _Binding, extents: Mapping[str, int]) -> Iterator[Diagnostic]:
    """E216 and E217 from the program's size conditions."""
    values = binding.values
    scalars = {
        name: p.polynomial(p.evaluate(size, values))
        for name, size in binding.scalars.items()
        if p.symbols(size) <= set(values)
    }
    for condition in binding.program.conditions:
        found = decide(condition, values, extents, scalars)
        if found is not None:
            yield found


def _negative(what: str, value: int) -> Diagnostic:
    return fault("E206", size=what, value=value)


def _integer(value: object) -> int | None:
    """A Python or NumPy integer as int; None for bools and everything else."""
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return as_int(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return None


def _refuse(faults: Iterator[Diagnostic] | Sequence[Diagnostic]) -> None:
    found = list(faults)
    if found:
        raise ArgumentError(found)
