"""The accesses of an equation, and whether a condition stands over each, before types are known.

Extents are inferred from accesses outside conditions only; whether `&` is a condition depends on
its operands being bools, which their form or declaration tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir import syntax as s
from tensorc.ir.dtypes import BOOL
from tensorc.lang.surface import Operator


@dataclass(frozen=True)
class Use:
    """An access in an equation, and whether every evaluation of it stands under a condition."""

    access: s.Access
    guarded: bool


def uses_of(body: s.Syntax, bools: frozenset[str] = frozenset()) -> list[Use]:
    """Every access below `body` once, in the order of the text; linear in what is shared.

    `bools` names the tensors of type bool: between bools, `&` and `|` guard as `and` and `or` do.
    """
    free: set[int] = set()
    stack = [body]
    while stack:
        item = stack.pop()
        if id(item) not in free:
            free.add(id(item))
            stack.extend(_unguarded(item, bools))
    accesses = [item for item in s.postorder(body) if isinstance(item, s.Access)]
    return [Use(item, id(item) not in free) for item in accesses]


def _unguarded(item: s.Syntax, bools: frozenset[str]) -> tuple[s.Syntax, ...]:
    """The parts that are evaluated wherever `item` is."""
    match item:
        case s.Reduction(where=where) if where is not None:
            return tuple(part for part in s.parts(item) if part is not item.body)
        case s.Call("select" | "and" | "or", args):
            return args[:1]
        case s.Call("bitand" | "bitor", args) if is_bool(args[0], bools):
            return args[:1]
        case _:
            return s.parts(item)


_BOOLEAN = frozenset(
    "lt le gt ge eq ne and or not xor inside isnan isinf any all bitand bitor bitxor invert".split()
)
_EITHER = frozenset("bitand bitor bitxor invert".split())


def is_bool(item: s.Syntax, bools: frozenset[str]) -> bool:
    """Whether an expression is a bool, as far as its form and these names tell."""
    while isinstance(item, s.Call) and item.name in _EITHER | {"select"}:
        item = item.args[1 if item.name == "select" and len(item.args) > 1 else 0]
    match item:
        case s.Chain():
            return True
        case s.Call(name):
            return name in _BOOLEAN
        case s.Reduction(reducer):
            return reducer in ("any", "all")
        case s.Access(name, _) | s.Name(name):
            return name in bools
        case s.Convert(dtype):
            return dtype is BOOL
        case s.Constant(literal):
            return literal.dtype is BOOL
        case s.SizeOf():
            return False


def bool_tensors(operator: Operator) -> frozenset[str]:
    """The names of the operator's tensors of type bool, declared or by the form of their body."""
    found = {item.name for item in operator.parameters if item.dtype is BOOL}
    for statement in operator.statements:
        known = frozenset(found)
        if statement.dtype is BOOL or (statement.dtype is None and is_bool(statement.body, known)):
            found.add(statement.name)
    return frozenset(found)
