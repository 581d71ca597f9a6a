"""What holds of a traced subtree wherever it stands: its free indices, size, nesting, and whether
it may become an equation of its own.

A subtree may be named only where that changes nothing: not in subscripts and conditions, which the
range prover reads; not a weak value, which takes its type from its context; and not under a guard
(`where`, `select`, the right of `and` and `or`), unless all its reads are by bare indices. All
walks are iterative, over distinct objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from tensorc.ir.functions import REDUCERS
from tensorc.ir.syntax import (
    Access,
    Call,
    Chain,
    Constant,
    Convert,
    Name,
    Reduction,
    SizeOf,
    Syntax,
)

CAP = 1 << 40  # sizes are counted up to here
FLAT = frozenset(["add", "mul", "and", "or"])  # operators of any number of operands
_STRONG = frozenset(
    ["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "xor", "inside", "isnan", "isinf"]
    + ["popcount", "exponent"]
)
_OWN_TYPE = frozenset(["shl", "shr", "ldexp"])  # the type of the first operand


class Zone(Enum):
    """How a part of an expression is used."""

    ALWAYS = "evaluated wherever the whole is"
    GUARDED = "evaluated where a condition holds"
    EXACT = "a subscript or a condition: proofs read it, so it stands as it is"


@dataclass(frozen=True)
class Facts:
    """`weak`: its type depends on what it meets. `total`: every read is by bare indices, so it may
    be evaluated at every point. `terms` and `nesting` are those of the expanded tree."""

    free: frozenset[str]
    weak: bool
    total: bool
    terms: int
    nesting: int


Zones = dict[int, list[tuple[Syntax, Zone]]]  # by the id of an object


def zones(item: Syntax) -> list[tuple[Syntax, Zone]]:
    """The expressions below an object in the order of its fields; sizes of indices left out."""
    match item:
        case Constant() | Name() | SizeOf():
            return []
        case Access(_, args, _):
            return [(arg, Zone.EXACT) for arg in args]
        case Call("select", args, _):
            return [(args[0], Zone.EXACT), *((arg, Zone.GUARDED) for arg in args[1:])]
        case Call("and" | "or", args, _):
            return [(args[0], Zone.ALWAYS), *((arg, Zone.GUARDED) for arg in args[1:])]
        case Call(_, args, _) | Chain(_, args, _):
            return [(arg, Zone.ALWAYS) for arg in args]
        case Convert(_, arg, _, _):
            return [(arg, Zone.ALWAYS)]
        case Reduction(_, _, _, body, None, _):
            return [(body, Zone.ALWAYS)]
        case Reduction(_, _, _, body, where, _):
            return [(body, Zone.GUARDED), *((part, Zone.EXACT) for part in (where,) if part)]


def below(item: Syntax) -> list[Syntax]:
    """The expressions below an object."""
    return [part for part, _ in zones(item)]


def objects(
    root: Syntax, parts: Callable[[Syntax], list[Syntax]], known: Collection[int]
) -> list[Syntax]:
    """Every object below and with `root` whose id is not known yet, parts first."""
    seen: set[int] = set()
    order: list[Syntax] = []
    stack: list[tuple[Syntax, bool]] = [(root, False)]
    while stack:
        item, ready = stack.pop()
        if ready:
            order.append(item)
        elif id(item) not in seen and id(item) not in known:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((part, False) for part in reversed(parts(item)))
    return order


def always(root: Syntax, order: list[Syntax], known: Zones) -> set[int]:
    """The ids, in a post-order below `root`, of what is evaluated at every point."""
    found = {id(root)}
    for item in reversed(order):
        if id(item) in found:
            found.update(id(part) for part, zone in known[id(item)] if zone is Zone.ALWAYS)
    return found


def facts(item: Syntax, parts: list[Facts]) -> Facts:
    """The facts of an object from those of what stands below it."""
    return Facts(
        _free(item, parts),
        _weak(item, parts),
        _total(item, parts),
        terms(item, [part.terms for part in parts]),
        nesting(item, [part.nesting for part in parts]),
    )


def terms(item: Syntax, parts: list[int]) -> int:
    """Terms over parts of these: leaves and reads, up to `CAP`."""
    if isinstance(item, Access):
        return min(CAP, 1 + sum(parts) - len(parts))
    return min(CAP, max(1, sum(parts)))


def nesting(item: Syntax, parts: list[int], flat: bool = True) -> int:
    """The nesting over parts of these. A sum whose first operand is a sum that stays in place
    (`flat`) is one sum."""
    if not parts:
        return 1
    match item:
        case Call(name, (Call(first, _, _), *_), _) if flat and name == first and name in FLAT:
            return max([parts[0], *(1 + part for part in parts[1:])])
        case _:
            return 1 + max(parts)


def _free(item: Syntax, parts: list[Facts]) -> frozenset[str]:
    match item:
        case Name(name, _):
            return frozenset([name])
        case Reduction(reducer, bindings, _, _, _, _):
            kept = reducer in REDUCERS and REDUCERS[reducer].keeps
            bound = frozenset[str]() if kept else {index.name for index in bindings}
            return _union(parts) - bound
        case _:
            return _union(parts)


def _union(parts: list[Facts]) -> frozenset[str]:
    """The union of free indices; a set that holds all others is shared, not copied."""
    largest = max((part.free for part in parts), key=len, default=frozenset[str]())
    if all(part.free <= largest for part in parts):
        return largest
    return largest.union(*(part.free for part in parts))


def _weak(item: Syntax, parts: list[Facts]) -> bool:
    match item:
        case Constant() | Name() | SizeOf():
            return True
        case Access() | Chain() | Convert() | Reduction():
            return False
        case Call(name, _, _) if name in _STRONG:
            return False
        case Call(name, _, _):
            first = 1 if name == "select" else 0
            last = first + 1 if name in _OWN_TYPE else None
            return all(part.weak for part in parts[first:last])


def _total(item: Syntax, parts: list[Facts]) -> bool:
    if isinstance(item, Access) and not all(isinstance(part, Name) for part in item.subscripts):
        return False
    return all(part.total for part in parts)
