"""Constant tables of a file: their shapes, entries and types."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tensorc.ir import polynomial as p
from tensorc.ir import syntax as s
from tensorc.ir.build import Builder
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import INTEGER, settled
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.stores import literal_fault, stores
from tensorc.ir.tensor import Expr, Table, Tensor, value_type
from tensorc.lang.surface import Constants, Dimension, Module

Report = Callable[[Diagnostic], None]


class _Closed:
    """A scope without names: entries are literals and expressions of literals."""

    def tensor(self, name: str) -> Tensor | None:
        """There are no tensors."""
        return None

    def index(self, name: str) -> bool:
        """There are no indices."""
        return False

    def missing(self, name: str, span: Place, bare: bool) -> Diagnostic:
        """E204: nothing is defined here."""
        return fault("E204.table", span, name=name)


def check_tables(module: Module, report: Report) -> dict[str, Table]:
    """The tables of a module by name; faults are reported, tables with faults left out."""
    found: dict[str, Table] = {}
    for constants in module.tables:
        name = constants.parameter.name
        if name in found:
            report(fault("E220.twice", constants.parameter.span, name=name))
        table = _table(constants, report)
        if table is not None:
            found.setdefault(name, table)
    return found


def _table(constants: Constants, report: Report) -> Table | None:
    parameter = constants.parameter
    if not _shaped(constants, report):
        return None
    builder = Builder(_Closed(), report)
    values = [_entry(entry, constants, builder, report) for entry in constants.entries]
    known = tuple(value for value in values if value is not None)
    if len(known) < len(values):
        return None
    shape = tuple(p.polynomial(size) for size in constants.shape)
    return Table(Tensor(parameter.name, parameter.dtype, shape), known)


def _shaped(constants: Constants, report: Report) -> bool:
    """The rows are as deep as there are dimensions and as long as the numbers say."""
    name, dims, shape = constants.parameter.name, constants.parameter.dimensions, constants.shape
    if len(dims) != len(shape) or prod(shape) != len(constants.entries):
        report(
            fault(
                "E204.rows", constants.parameter.span, name=name, rank=len(dims), depth=len(shape)
            )
        )
        return False
    right = True
    for axis, (dim, rows) in enumerate(zip(dims, shape, strict=True)):
        declared = _number(dim)
        if declared is not None and declared != rows:
            report(fault("E201.rows", dim.span, name=name, declared=declared, axis=axis, rows=rows))
            right = False
    return right


def _number(dim: Dimension) -> int | None:
    match dim.size:
        case s.Constant(literal, _) if literal.dtype is INTEGER and not isinstance(
            literal.value, str
        ):
            return int(literal.value)
        case _:
            return None


def _entry(entry: s.Syntax, constants: Constants, builder: Builder, report: Report) -> Expr | None:
    expr, dtype = builder.build(entry), constants.parameter.dtype
    if expr is None:
        return None
    wrong = literal_fault(expr, dtype, entry.span)
    own = settled(value_type(expr))
    if wrong is None and not stores(own, dtype):
        name = constants.parameter.name
        wrong = fault("E222", entry.span, name=name, dtype=dtype, value=own)
    if wrong is not None:
        report(wrong)
        return None
    return expr
