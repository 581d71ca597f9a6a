"""What a size condition asks, in words of the language: `(|h| - 1) // (|h| // |g|) < |g|`.

For people (`tensorc check`); nothing is decided by the text. Where the worst point of the box is
known by the direction in which each index moves the value, the value there is shown, else the
condition at every point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tensorc.ir import polynomial as p
from tensorc.ir.integers import Integers, scalars_of
from tensorc.ir.polynomial import Bound, Floor, Opaque, Polynomial, Symbol
from tensorc.ir.print_tensor import show
from tensorc.ir.ranges import Ranges
from tensorc.ir.tensor import Condition, Program


def requirement(program: Program, condition: Condition) -> str:
    """The sides of 0 <= value < limit that are not proved, at the worst point if it is known."""
    extents = program.extent_of
    ranges = Ranges(extents, condition.indices, condition.guards, scalars_of(program))
    value, limit = condition.value, condition.limit
    sides: list[str] = []
    if not ranges.holds(value):
        sides.append(_side(condition, f"0 <= {_worst(condition, ranges.integers, -1)}"))
    if not ranges.holds(limit - 1 - value):
        sides.append(_side(condition, f"{_worst(condition, ranges.integers, 1)} < {limit}"))
    return " and ".join(sides)


def _side(condition: Condition, text: str) -> str:
    names = [name for name in condition.indices if _mentions(text, name)]
    where = " and ".join(show(guard) for guard in condition.guards)
    if not names:
        return text
    return f"{text} for all {', '.join(names)}" + (f" where {where}" if where else "")


def _mentions(text: str, name: str) -> bool:
    """Whether the index stands in the text, not only its extent."""
    return re.search(rf"(?<![\w|]){re.escape(name)}(?![\w|])", text) is not None


def _worst(condition: Condition, integers: Integers, want: int) -> Polynomial:
    """The value at its greatest (`want` 1) or least (-1), or as it is where that is not known."""
    value = condition.value
    if condition.guards:
        return value
    for name in condition.indices:
        index = Symbol(name, "index")
        way = _direction(value, index, integers)
        if way is not None and p.occurs(index, value):
            end = integers.extents[name] - 1 if way == want else p.polynomial(0)
            value = _put(value, index, end, integers)
    return value


def _put(value: Polynomial, index: Symbol, end: Polynomial, integers: Integers) -> Polynomial:
    return p.substitute(value, lambda a: end if a is index else None, integers.divide)


def _direction(value: Polynomial, index: Symbol, integers: Integers) -> int | None:
    """1 if the value never falls as the index grows, -1 if it never rises, 0 if it does neither."""
    ways: set[int] = set()
    for monomial, coefficient in value.terms:
        moving = [atom for atom, _ in monomial if p.occurs(index, p.of_atom(atom))]
        if not moving:
            continue
        others = [atom for atom, _ in monomial if atom is not moving[0]]
        way = _of_atom(moving[0], index, integers)
        if way is None or any(integers.least(atom) is None for atom in others):
            return None
        ways.add(way if coefficient > 0 else -way)
    ways.discard(0)
    return next(iter(ways), 0) if len(ways) < 2 else None


def _of_atom(atom: p.Atom, index: Symbol, integers: Integers) -> int | None:
    match atom:
        case Symbol():
            return 1
        case Floor(numerator, denominator):
            steady = not p.occurs(index, denominator) and integers.at_least(denominator, 0)
            return _direction(numerator, index, integers) if steady else None
        case Bound(_, args):
            ways = {_direction(arg, index, integers) for arg in args} - {0}
            return ways.pop() if len(ways) == 1 else None
        case Opaque():
            return None


def requirements(program: Program) -> Mapping[str, str]:
    """Each size condition of a program: the access, and what it needs."""
    return {item.what: requirement(program, item) for item in program.conditions}
