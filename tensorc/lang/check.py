"""A surface module to typed programs: names, extents, types, stores, accesses.

One `Operator` becomes one `Program`; every fault of a module is collected and raised together.
The subjects have their own modules: `lang.extents` (extents of indices), `lang.sizes` (sizes as
written), `ir.build` (expressions and types), `lang.accesses` (ranges). Here are the rules about
declarations and equations, and the order of it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tensorc.errors import NotationError
from tensorc.ir import polynomial as p
from tensorc.ir import syntax as s
from tensorc.ir.build import Builder
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import DType, settled
from tensorc.ir.integers import scalars_of
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.source import Diagnostic, Head, Place
from tensorc.ir.stores import literal_fault, stores
from tensorc.ir.tensor import (
    Declaration,
    Equation,
    Expr,
    Program,
    Read,
    Reduce,
    Round,
    Table,
    Tensor,
    free_indices,
    value_type,
)
from tensorc.ir.wording import nearest
from tensorc.lang import sizes
from tensorc.lang.accesses import Accesses
from tensorc.lang.extents import Extents, Shapes, infer
from tensorc.lang.surface import Module, Operator, Parameter, Statement
from tensorc.lang.tables import check_tables
from tensorc.lang.warnings import warnings


def check(module: Module) -> list[Program]:
    """The programs of a module, in order. NotationError: all its faults."""
    faults: list[Diagnostic] = []
    tables = check_tables(module, faults.append)
    programs = [OperatorCheck(operator, tables, faults).run() for operator in module.operators]
    if faults:
        raise NotationError(in_order(faults))
    return programs


def in_order(faults: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Faults by position, each once; those without a position last."""
    unique = {(item.code, item.message, _position(item)): item for item in faults}
    return sorted(unique.values(), key=_position)


def _position(item: Diagnostic) -> tuple[int, str, int, int]:
    if item.span is None:
        return 1, "", 0, 0
    span = item.span.resolve()
    return 0, span.source.name, span.line, span.column


@dataclass
class OperatorCheck:
    """The state of checking one operator."""

    operator: Operator
    tables: dict[str, Table]
    faults: list[Diagnostic]
    visible: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    equations: list[Equation] = field(default_factory=list[Equation])
    without: set[str] = field(default_factory=set[str])  # names whose equations have no type
    echoes: list[Diagnostic] = field(default_factory=list[Diagnostic])  # faults of their uses

    def run(self) -> Program:
        """The program; faults are appended to `faults`, and the program is then of no use."""
        before = len(self.faults)
        shapes = {name: _numbers(table.tensor.shape) for name, table in self.tables.items()}
        self.extents: Extents = infer(self.operator, shapes)
        self.shapes = Shapes(self.operator, self.extents)
        self.builder = Builder(self, self.faults.append)
        self._names()
        self.faults += sizes.faults(self.operator, self.extents)
        parameters = [self._declare(item) for item in self.operator.parameters]
        for declaration in parameters:
            self.visible.setdefault(declaration.tensor.name, declaration.tensor)
        outputs = [self._declare(item) for item in self.operator.outputs]
        for statement in self.operator.statements:
            self._statement(statement)
        self.faults[:] = [item for item in self.faults if not any(item is e for e in self.echoes)]
        self._undefined()
        self._bare_subscripts()
        program = self._program(parameters, outputs)
        return program if len(self.faults) > before else self._judged(program)

    def _program(
        self, parameters: Sequence[Declaration], outputs: Sequence[Declaration]
    ) -> Program:
        bodies = [equation.body for equation in self.equations]
        read = {item.tensor.name for item in postorder(bodies) if isinstance(item, Read)}
        extents = [(name, self._extent(name)) for name in self.extents.order]
        return Program(
            self.operator.name,
            tuple(parameters),
            tuple(outputs),
            tuple(self.equations),
            tuple(extents),
            tuple(table for name, table in self.tables.items() if name in read),
        )

    def _judged(self, program: Program) -> Program:
        """The program with what the call and the kernel must check, and what was noticed."""
        scalars = scalars_of(program)
        accesses = Accesses(program.extent_of, scalars, self.builder, self.faults.append)
        for statement in self.operator.statements:
            accesses.statement(statement)
        return replace(
            program,
            conditions=tuple(accesses.conditions),
            checks=tuple(accesses.checks),
            divisors=tuple(dict.fromkeys(sizes.open_divisors(self.operator, self.extents))),
            warnings=tuple(warnings(self.operator, program)),
        )

    # The scope in which expressions are built.

    def tensor(self, name: str) -> Tensor | None:
        """The tensor of this name that is defined by now."""
        if name in self.visible:
            return self.visible[name]
        return self.tables[name].tensor if name in self.tables else None

    def index(self, name: str) -> bool:
        """Whether the name is an index of the operator."""
        return name in self.extents.order

    def missing(self, name: str, span: Place, bare: bool) -> Diagnostic:
        """E220 for what is defined later, else E204 with the nearest name."""
        span = Head(span, name)
        later = next((item for item in self.operator.statements if item.name == name), None)
        if later is not None:
            if name in self.without:
                self.echoes.append(fault("E220", span, name=name))
                return self.echoes[-1]
            places = (("defined here", later.name_span),)
            return fault("E220", span, related=places, name=name)
        if any(output.name == name for output in self.operator.outputs):
            return fault("E220", span, name=name, do="define it first")
        known = {*self.visible, *self.tables, *(self.extents.order if bare else ())}
        near = nearest(name, known)
        do = f"did you mean {near}?" if near else ""
        code = "E204.bare" if bare else "E204"
        return fault(code, span, allowed=", ".join(sorted(known)), do=do, name=name)

    # Names and declarations.

    def _names(self) -> None:
        """Each name is declared once, and a scalar is not called like an index."""
        for item in (*self.operator.parameters, *self.operator.outputs):
            if item.name in self.places or item.name in self.tables:
                self._again(item.name, item.span)
            self.places.setdefault(item.name, item.span)
            if not item.dimensions:
                self._not_an_index(item.name, item.span)

    def _again(self, name: str, span: Place) -> None:
        first = self.places.get(name)
        related = (("first here", first),) if first else ()
        self.faults.append(fault("E220.twice", span, related=related, name=name))

    def _not_an_index(self, name: str, span: Place) -> None:
        if name in self.extents.order:
            place = (("an index here", self.extents.order[name]),)
            self.faults.append(fault("E220.scalar", span, related=place, name=name))

    def _declare(self, item: Parameter) -> Declaration:
        shape = [self._or_unknown(size) for size in self.shapes.declared(item)]
        tensor = Tensor(item.name, item.dtype, tuple(shape))
        names = tuple(dim.name for dim in item.dimensions)
        return Declaration(tensor, names, item.const, item.span)

    def _or_unknown(self, size: Polynomial | None) -> Polynomial:
        return size if size is not None else p.extent("?")  # a fault about it is already there

    def _extent(self, name: str) -> Polynomial:
        return self.extents.known.get(name, p.extent(name))

    # Equations.

    def _statement(self, statement: Statement) -> None:
        self._definable(statement)
        names = [binding.name for binding in statement.left]
        if not names:
            self._not_an_index(statement.name, statement.name_span)
        for binding in s.repeated(statement.left):
            self.faults.append(fault("E203", binding.span, index=binding.name))
        body = self.builder.build(statement.body)
        output = self._output(statement.name)
        if output is not None:
            self._matches(statement, output)
        dtype = self._storage(statement, output, body)
        if dtype is None:
            self.without.add(statement.name)
            return
        tensor = Tensor(statement.name, dtype, self._shape(statement, output))
        self.visible.setdefault(statement.name, tensor)
        self.places.setdefault(statement.name, statement.name_span)
        if body is not None and self._indices(statement, body):
            stored = self._stored(statement, body, dtype)
            if stored is not None:
                self.equations.append(Equation(tensor, tuple(names), stored, statement.span))

    def _definable(self, statement: Statement) -> None:
        name, span = statement.name, statement.name_span
        if any(item.name == name for item in self.operator.parameters):
            related = (("declared here", self.places[name]),)
            self.faults.append(fault("E221.parameter", span, related=related, name=name))
        elif name in self.visible or name in self.tables:
            earlier = next(item for item in self.operator.statements if item.name == name)
            self.places[name] = earlier.name_span
            self._again(name, span)

    def _output(self, name: str) -> Parameter | None:
        return next((item for item in self.operator.outputs if item.name == name), None)

    def _matches(self, statement: Statement, output: Parameter) -> None:
        """An output's equation has its rank, its extents and no other dtype."""
        rank, given = len(output.dimensions), len(statement.left)
        if rank != given:
            dims = ", ".join(str(dim.name or "a number") for dim in output.dimensions)
            self.faults.append(
                fault(
                    "E204.left",
                    statement.name_span,
                    name=output.name,
                    rank=rank,
                    dims=dims,
                    count=given,
                )
            )
        if statement.dtype is not None and statement.dtype is not output.dtype:
            self.faults.append(
                fault("E222.header", statement.name_span, name=output.name, declared=output.dtype)
            )
        sizes_there = self.shapes.declared(output)
        for axis, (binding, size) in enumerate(zip(statement.left, sizes_there, strict=False)):
            self._same("E201.left", binding, size, output.name, axis)

    def _same(
        self, code: str, index: s.Name | s.Binding, size: Polynomial | None, name: str, axis: int
    ) -> None:
        """An index that stands for a whole dimension has its extent (language 2.4)."""
        own = self.extents.known.get(index.name)
        if own is None or size is None or own is size:
            return
        places = self._dimension_places(name)
        related = [(f"the extent of {index.name}", self.extents.origin[index.name])]
        if axis < len(places):
            related.append((f"dimension {axis} of {name}", places[axis]))
        self.faults.append(
            fault(
                code,
                index.span,
                related=tuple(related),
                index=index.name,
                extent=own,
                axis=axis,
                name=name,
                size=size,
            )
        )

    def _shape(self, statement: Statement, output: Parameter | None) -> tuple[Polynomial, ...]:
        if output is not None:
            return tuple(self._or_unknown(size) for size in self.shapes.declared(output))
        return tuple(self._extent(binding.name) for binding in statement.left)

    def _storage(
        self, statement: Statement, output: Parameter | None, body: Expr | None
    ) -> DType | None:
        if output is not None:
            return output.dtype
        if statement.dtype is not None or body is None:
            return statement.dtype
        return settled(value_type(body))

    def _stored(self, statement: Statement, body: Expr, dtype: DType) -> Expr | None:
        """The body with the movable rounding of a declared type that is not its own."""
        span, own = statement.body.span, settled(value_type(body))
        wrong = literal_fault(body, dtype, span)
        if wrong is None and not stores(own, dtype):
            do = "write ... != 0" if dtype.name == "bool" else ""
            wrong = fault("E222", span, do=do, name=statement.name, dtype=dtype, value=own)
        if wrong is not None:
            self.faults.append(wrong)
            return None
        return body if own is dtype else Round(dtype, body)

    def _indices(self, statement: Statement, body: Expr) -> bool:
        """Every free index of the body is on the left, and none there is only reduced."""
        left = {binding.name: binding for binding in statement.left}
        missing = sorted(free_indices(body) - set(left))
        for name in missing:
            self.faults.append(fault("E202", self._occurrence(statement.body, name), index=name))
        for name in sorted(set(left) - free_indices(body)):
            if any(isinstance(e, Reduce) and name in e.indices for e in postorder([body])):
                self.faults.append(fault("E218", left[name].span, index=name))
                return False
        return not missing

    def _occurrence(self, item: s.Syntax, name: str) -> Place:
        """Where the index is first free below `item`."""
        part: s.Syntax | None = item
        while part is not None:
            item = part
            part = next((below for below in s.parts(item) if self._free_in(below, name)), None)
            if isinstance(item, s.Reduction) and any(b.name == name for b in item.bindings):
                break  # softmax: its own index, free outside
        return item.span

    def _free_in(self, item: s.Syntax, name: str) -> bool:
        built = self.builder.built(item)
        return built is not None and name in free_indices(built)

    def _undefined(self) -> None:
        for output in self.operator.outputs:
            if output.name not in {item.name for item in self.operator.statements}:
                names = [dim.name or f"i{axis}" for axis, dim in enumerate(output.dimensions)]
                left = f"[{', '.join(names)}]" if names else ""
                self.faults.append(fault("E221", output.span, name=output.name, left=left))

    def _bare_subscripts(self) -> None:
        """A bare index means the whole dimension (language 2.4)."""
        for access in self._accesses():
            sizes_there = self.shapes.of(access.name)
            for axis, (sub, size) in enumerate(zip(access.subscripts, sizes_there, strict=False)):
                if isinstance(sub, s.Name) and self.index(sub.name):
                    self._same("E201.bare", sub, size, access.name, axis)

    def _accesses(self) -> Iterator[s.Access]:
        seen: set[int] = set()
        for statement in self.operator.statements:
            for item in s.postorder(statement.body):
                if isinstance(item, s.Access) and id(item) not in seen:
                    seen.add(id(item))
                    yield item

    def _dimension_places(self, name: str) -> list[Place]:
        for item in (*self.operator.parameters, *self.operator.outputs):
            if item.name == name:
                return [dim.span for dim in item.dimensions]
        statement = self.shapes.statements.get(name)
        if statement is not None:
            return [binding.span for binding in statement.left]
        return []


def _numbers(shape: Sequence[Polynomial]) -> tuple[int, ...]:
    return tuple(size.constant or 0 for size in shape)
