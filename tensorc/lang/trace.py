"""Running a Python function on symbols: its signature and body as a surface tree.

The function is called once with a `Tensor` per parameter; what it returns are the outputs, what it
named with `tc.let` the equations before them. The tree is the one that the text parser builds for
the same operator; nothing is checked here that the checker checks for both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from dis import get_instructions
from itertools import count
from types import CodeType
from typing import cast

from tensorc.errors import NotationError
from tensorc.ir.dtypes import BY_NAME, DType
from tensorc.ir.functions import CALLABLE, REDUCERS, SUGAR
from tensorc.ir.source import Diagnostic
from tensorc.ir.syntax import Binding, Name, Reduction, SizeOf, Syntax, parts
from tensorc.lang.lift import Statements, reading
from tensorc.lang.spot import Spot, located, raised
from tensorc.lang.surface import Operator, Parameter, Statement
from tensorc.lang.tensors import Definition, Reading, Tensor, parameter
from tensorc.lang.value import Expr, taken
from tensorc.lang.written import locate

_CALLED = "|".join(sorted(CALLABLE | SUGAR | set(BY_NAME)))
_REDUCED = "|".join(sorted(REDUCERS))

Traced = Callable[..., object]


def trace(signature: Operator, function: Traced) -> Operator:
    """The signature's operator with the equations that `function` computes.

    Raises NotationError: E110 to E115 at the user's operator, E116 where what is returned does not
    fit the outputs, E103 to E105 for programs beyond the limits of the language.
    """
    owner = object()
    given = {item.name: parameter(item, owner) for item in signature.parameters}
    returned = _returned(signature, _run(function, given), function)
    values = [_output(item, owner, function) for item in returned]
    defined = _definitions(values)
    _all_returned(defined, values)
    fresh = _Fresh(_mentioned(signature, defined, values))
    names = _names(signature, values, defined, fresh)
    statements = Statements(fresh, names.__getitem__)
    statements.order(_dimensions(signature))
    for item in defined:
        dtype = None if item.dtype is _stored(signature, names[item]) else item.dtype
        body, name = item.body.syntax, names[item]
        statements.add(Statement(name, dtype, item.left, body, item.spot, item.spot), body)
    for output, value in zip(signature.outputs, values, strict=True):
        if not (isinstance(value, Definition) and names[value] == output.name):
            _store(statements, output, value, names)
    return replace(signature, statements=tuple(statements.done))


def _run(function: Traced, given: dict[str, Tensor]) -> object:
    return function(**given)


def _returned(signature: Operator, value: object, function: Traced) -> list[object]:
    """What the function returned, one value for each output."""
    several = isinstance(value, tuple | list)
    values = list(cast("tuple[object, ...]", value)) if several else [value]
    if len(values) == len(signature.outputs) and value is not None:
        return values
    returned = "no value is" if value is None else _counted(len(values), "value")
    declared = _counted(len(signature.outputs), "output")
    raise raised("E116.count", _end(function), count=returned, outputs=declared)


def _counted(number: int, what: str) -> str:
    return f"1 {what} is" if number == 1 else f"{number} {what}s are"


def _end(function: Traced) -> Spot:
    """The last `return` of a function, or its last statement if it has none."""
    plain = getattr(function, "func", function)  # what functools.partial holds
    plain = getattr(plain, "__func__", plain)
    code = getattr(plain, "__code__", None)
    if not isinstance(code, CodeType):
        return Spot(())
    ends = [item.offset for item in get_instructions(code) if item.opname.startswith("RETURN_")]
    return Spot(((code, ends[-1]),))


def _output(value: object, owner: object, function: Traced) -> Expr | Definition:
    """A returned value: an expression, or a definition that becomes the output itself."""
    if isinstance(value, Tensor) and value.definition is not None:
        return value.definition
    made = value if isinstance(value, Expr) else taken(value, _end(function))
    if made.owner is not None and made.owner is not owner:
        raise raised("E114", made.syntax.span, type="what another traced function made")
    return made


def _definitions(values: list[Expr | Definition]) -> list[Definition]:
    """Every definition that the outputs need, in the order in which they were made."""
    found: dict[Definition, None] = {}
    seen: set[int] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if isinstance(value, Definition):
            if value in found:
                continue
            found[value] = None
            value = value.body
        for item in _fresh_parts(value.syntax, seen):
            if isinstance(item, Reading) and item.definition is not None:
                todo.append(item.definition)
    return sorted(found, key=lambda item: item.number)


def _fresh_parts(root: Syntax, seen: set[int]) -> Iterator[Syntax]:
    """The objects below `root` that no earlier call gave."""
    todo = [root]
    while todo:
        item = todo.pop()
        if id(item) not in seen:
            seen.add(id(item))
            todo.extend(parts(item))
            yield item


class _Fresh:
    """Names that nothing else in the operator has: t1, t2, ... or one wished for."""

    def __init__(self, used: set[str]) -> None:
        self._used, self._numbers = used, count(1)

    def __call__(self) -> str:
        return self.take("t", next(self._numbers))

    def take(self, wish: str, number: int | None = None) -> str:
        """`wish` with the first number that makes it new; without one if that is new already."""
        name = wish if number is None else f"{wish}{number}"
        numbers = self._numbers if number is not None else count(2)
        while name in self._used:
            name = f"{wish}{next(numbers)}"
        self._used.add(name)
        return name


def _names(
    signature: Operator,
    values: list[Expr | Definition],
    defined: list[Definition],
    fresh: _Fresh,
) -> dict[Definition, str]:
    """The final name of each definition: the output's that it is, the one wished for, or new."""
    names: dict[Definition, str] = {}
    for output, value in zip(signature.outputs, values, strict=True):
        if isinstance(value, Definition) and value.dtype in (None, output.dtype):
            names.setdefault(value, output.name)
    for item in defined:
        if item not in names:
            names[item] = fresh.take(item.wish) if item.wish else fresh()
    return names


def _all_returned(defined: list[Definition], values: list[Expr | Definition]) -> None:
    returned = {id(value) for value in values}
    for item in defined:
        if item.result and id(item) not in returned:
            raise raised("E116.result", item.spot)


def _mentioned(
    signature: Operator, defined: list[Definition], values: list[Expr | Definition]
) -> set[str]:
    """Every name that the operator has: of tensors, dimensions and indices."""
    used = {item.name for item in (*signature.parameters, *signature.outputs)}
    used |= {signature.name, *_dimensions(signature)}
    roots = [item.body.syntax for item in defined]
    roots += [value.syntax for value in values if isinstance(value, Expr)]
    used |= {bound.name for item in defined for bound in item.left}
    seen: set[int] = set()
    for root in roots:
        for item in _fresh_parts(root, seen):
            if isinstance(item, Name | SizeOf):
                used.add(item.name)
            elif isinstance(item, Reduction):
                used |= {bound.name for bound in item.bindings}
    return used


def _dimensions(signature: Operator) -> list[str]:
    """The names of dimensions, in order of first appearance."""
    items = (*signature.parameters, *signature.outputs)
    return [dim.name for item in items for dim in item.dimensions if dim.name is not None]


def _stored(signature: Operator, name: str) -> DType | None:
    """The declared type of an output; None for another name."""
    return next((item.dtype for item in signature.outputs if item.name == name), None)


def _store(
    statements: Statements,
    output: Parameter,
    value: Expr | Definition,
    names: dict[Definition, str],
) -> None:
    """The equation of an output, its dimensions bound from left to right."""
    if isinstance(value, Definition):
        left, place = value.left, value.spot
        body: Syntax = reading(names[value], left, place)
    else:
        body = value.syntax
        left, place = _left(output, body, statements), body.span
    statements.add(Statement(output.name, None, left, body, place, place), body)


def _left(output: Parameter, body: Syntax, statements: Statements) -> tuple[Binding, ...]:
    """The left side of an output whose value is an expression, or E116."""
    place = body.span
    names = [dim.name for dim in output.dimensions]
    if None in names or len(set(names)) < len(names):
        dims = ", ".join(name or "a number" for name in names)
        raise raised("E116.names", place, name=output.name, dims=dims)
    free = statements.free(body)
    missing = ", ".join(sorted(free - set(names)))
    if missing:
        dims = ", ".join(name for name in names if name)
        do = f"reduce {missing}"
        if len(free) == len(names):
            do += f", or order the indices: tc.result[{', '.join(sorted(free))}](...)"
        raise raised("E116.free", place, do=do, name=output.name, dims=dims, free=missing)
    sizes = statements.sizes
    return tuple(Binding(name, sizes.get(name), place) for name in names if name)


def relocate(error: NotationError, operator: Operator) -> NotationError:
    """The error with the calls that led to each place; `.tc` lines stand in for missing ones."""
    for statement in operator.statements:
        left = ", ".join(bound.name for bound in statement.left)
        head = f"{statement.name}[{left}] = " if left else f"{statement.name} = "
        locate(f"<traced {operator.name}>", statement.body, head)
    return NotationError([_in_python(located(item)) for item in error.diagnostics])


def _in_python(item: Diagnostic) -> Diagnostic:
    """Advice in the words of the Python surface: `tc.clamp(i, 0, n.size - 1)`."""
    if not isinstance(item.span, Spot):
        return item
    do = re.sub(
        rf"(?<![.\w])({_CALLED})(?=\(|…)|(?<![.\w])({_REDUCED})(?=\[)", r"tc.\g<0>", item.do
    )
    do = re.sub(r"\|(\w+)\|", r"\1.size", do)
    do = re.sub(r"write (\w+)=size where \1 is bound", r'write tc.index("\1=size")', do)
    return replace(item, do=do)
