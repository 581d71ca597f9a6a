"""Roles of a level-3 kernel that run the same program on different names.

Two consumer groups of a kernel usually differ only in whose registers, turns and slots they use.
Whoever emits code may print such roles once, with the names looked up by the role's number.
"""

from __future__ import annotations

from dataclasses import dataclass

from tensorc.ir.channel import (
    At,
    Call,
    Done,
    Get,
    Kernel,
    Pass,
    Perform,
    Put,
    Role,
    Statement,
    Turn,
    Wait,
    When,
)


@dataclass(frozen=True)
class Family:
    """Roles alike: `names[k]` has what the first role calls something, as each role calls it.

    Only names that differ are listed. One that all use alike (a ring that all read) is not.
    """

    roles: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]


def families(kernel: Kernel) -> tuple[Family, ...]:
    """All roles of `kernel`, each in the family of the first role that it is like."""
    found = list[tuple[Role, list[tuple[Role, dict[str, str]]]]]()
    for role in kernel.roles:
        for first, others in found:
            renamed = alike(first, role)
            if renamed is not None:
                others.append((role, renamed))
                break
        else:
            found.append((role, []))
    return tuple(_family(first, others) for first, others in found)


def _family(first: Role, others: list[tuple[Role, dict[str, str]]]) -> Family:
    roles = (first.name, *(role.name for role, _ in others))
    all_names = dict.fromkeys(name for _, renamed in others for name in renamed)
    rows = ((name, *(renamed[name] for _, renamed in others)) for name in all_names)
    return Family(roles, tuple(row for row in rows if len(set(row)) > 1))


def alike(one: Role, two: Role) -> dict[str, str] | None:
    """How names of `one` become those of `two`, if nothing else differs; else None.

    The renaming is one to one, and names of the same thing (value, ring, operation, token) stay
    names of one thing.
    """
    if (one.warps, one.registers, one.first) != (two.warps, two.registers, two.first):
        return None
    pairs = list[tuple[str, str]]()
    for mine, other in (
        (one.prologue, two.prologue),
        (one.steady, two.steady),
        (one.epilogue, two.epilogue),
    ):
        if not _paired(mine, other, pairs):
            return None
    there, back = dict[str, str](), dict[str, str]()
    for mine, other in pairs:
        if there.setdefault(mine, other) != other or back.setdefault(other, mine) != mine:
            return None
    return there


def _paired(
    mine: tuple[Statement, ...], other: tuple[Statement, ...], pairs: list[tuple[str, str]]
) -> bool:
    """Whether two bodies have one shape; adds the names that stand at the same places."""
    if len(mine) != len(other):
        return False
    for one, two in zip(mine, other, strict=True):
        if isinstance(one, When) and isinstance(two, When):
            if one.at is not two.at or not _paired(one.body, two.body, pairs):
                return False
        elif _shape(one) != _shape(two):
            return False
        pairs += zip(_names(one), _names(two), strict=False)
    return True


def _shape(item: Statement) -> object:
    """All of a statement but its names."""
    match item:
        case Perform(call, results, flight):
            return "do", _call_shape(call), len(results), flight
        case Put(_, call):
            return "put", _call_shape(call)
        case Get(_, at):
            return "get", at
        case Done(_, at, deferred):
            return "done", at, deferred
        case Turn():
            return "turn"
        case Pass():
            return "pass"
        case Wait(unit, pending):
            return "wait", unit, pending
        case When(at, _):
            return "when", at


def _call_shape(call: Call) -> tuple[At, ...]:
    return (call.at, *(read.at for read in call.reads))


def _names(item: Statement) -> list[str]:
    match item:
        case Perform(call, results, _):
            made = [name for result in results for name in (result.name, result.into)]
            return [*made, *_call_names(call)]
        case Put(ring, call):
            return [ring, *_call_names(call)]
        case Get(ring, _) | Done(ring, _, _):
            return [ring]
        case Turn(token) | Pass(token):
            return [token]
        case Wait() | When():
            return []


def _call_names(call: Call) -> list[str]:
    return [f"{call.operation}()", *(read.name for read in call.reads)]
