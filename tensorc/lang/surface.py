"""The surface tree of a file: operators, their declarations and equations, constant tables.

What the three surfaces build and `check.py` reads. Expressions are `ir.syntax`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir.dtypes import DType
from tensorc.ir.source import Place
from tensorc.ir.syntax import Binding, Syntax


@dataclass(frozen=True, eq=False)
class Dimension:
    """One dimension of a declaration: `name`, `name=size`, or a number without a name."""

    name: str | None
    size: Syntax | None
    span: Place


@dataclass(frozen=True, eq=False)
class Parameter:
    """name: [const] dtype[dimensions]; an output too."""

    name: str
    const: bool
    dtype: DType
    dimensions: tuple[Dimension, ...]
    span: Place


@dataclass(frozen=True, eq=False)
class Statement:
    """name: dtype[left] = body. `name_span` covers the name alone, `span` the whole statement."""

    name: str
    dtype: DType | None
    left: tuple[Binding, ...]
    body: Syntax
    name_span: Place
    span: Place


@dataclass(frozen=True, eq=False)
class Operator:
    """op name(parameters) -> outputs, and its equations in order."""

    name: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    span: Place


@dataclass(frozen=True, eq=False)
class Constants:
    """const name: dtype[dims] = rows; entries in row-major order, `shape` as nested in the text."""

    parameter: Parameter
    shape: tuple[int, ...]
    entries: tuple[Syntax, ...]
    span: Place


@dataclass(frozen=True, eq=False)
class Module:
    """One file: tables may be read by every operator of the file."""

    tables: tuple[Constants, ...]
    operators: tuple[Operator, ...]
