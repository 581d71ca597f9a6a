"""Loop problems as JSON, to send them to a solver's process and to key a cache by.

Every node is an object with its class under `is`; fractions are strings. Reading accepts exactly
what writing produces, field by field with its type, and builds nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import cast

from tensorc.ir import schedule as ir
from tensorc.ir.node import Node, fields_of

CLASSES: dict[str, Callable[..., Node]] = {
    made.__name__: made
    for made in (
        ir.Figure,
        ir.Unit,
        ir.Use,
        ir.Operation,
        ir.Transfer,
        ir.Dependence,
        ir.Ring,
        ir.Value,
        ir.Role,
        ir.Memory,
        ir.Registers,
        ir.LoopProblem,
    )
}

_DEEPEST = 16
_LONGEST = 16 << 20


def problem_to_json(problem: ir.LoopProblem) -> str:
    """The problem as one line of JSON; equal problems give equal text."""
    return json.dumps(_plain(problem), separators=(",", ":"), sort_keys=True)


def problem_from_json(text: str) -> ir.LoopProblem:
    """The problem that `text` encodes. Raises ValueError for anything else."""
    if len(text) > _LONGEST:
        raise ValueError(f"a problem of {len(text)} characters, at most {_LONGEST}")
    made = _node(json.loads(text), 0)
    if not isinstance(made, ir.LoopProblem):
        raise ValueError("the text is no loop problem")
    return made


def names_of(made: object) -> tuple[str, ...]:
    """The fields of a node class, in order."""
    return cast("tuple[str, ...]", getattr(made, "__match_args__"))  # noqa: B009


def _plain(value: object) -> object:
    match value:
        case Node():
            made = type(value)
            fields = dict(zip(names_of(made), map(_plain, fields_of(value)), strict=True))
            return {"is": made.__name__, **fields}
        case tuple():
            return [_plain(part) for part in cast("tuple[object, ...]", value)]
        case Fraction():
            return {"is": "Fraction", "of": str(value)}
        case _:
            return value


def _node(value: object, depth: int) -> object:
    if depth > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} deep")
    match value:
        case dict():
            fields = dict(cast("dict[str, object]", value))
            kind = fields.pop("is", None)
            if kind == "Fraction":
                return Fraction(str(fields["of"]))
            if kind not in CLASSES:
                raise ValueError(f"there is no class {kind!r}")
            made = CLASSES[str(kind)]
            if set(fields) != set(names_of(made)):
                raise ValueError(f"the fields of {kind} are not {', '.join(sorted(fields))}")
            return made(**{name: _node(part, depth + 1) for name, part in fields.items()})
        case list():
            return tuple(_node(part, depth + 1) for part in cast("list[object]", value))
        case None | bool() | int() | str():
            return value
        case _:
            raise ValueError(f"{value!r} stands in no problem")
