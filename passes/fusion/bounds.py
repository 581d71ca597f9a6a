"""Bounds of a loop from the conditions of what it reduces: blocks that add nothing are not run.

A condition is necessary if every state of the pass adds its neutral element where it fails: it
stands in the `where` of each, or is what an `any` asks. If it is an inequality with the loop's
index in it once, `rest - i >= 0` or `i + rest >= 0`, and everything else has one value in a block,
it bounds the loop. Nothing here knows what a mask is for.

    sum[n](y where n <= m + w)      loop n in 0..min(|n|, base(m) + w + 1)      one m a block
                                    loop n in 0..min(|n|, base(m) + w + 128)    128 of them
                                           full 0..base(m) + w + 1

Where other indices have many lanes, a block runs if one of them needs it, and is full where all do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tensorc.ir.conditions import conjuncts
from tensorc.ir.functions import ANY
from tensorc.ir.integers import Integers, deep_atoms
from tensorc.ir.node import postorder
from tensorc.ir.plan import Pass, State
from tensorc.ir.polynomial import (
    Atom,
    Opaque,
    Polynomial,
    Symbol,
    bound,
    linear,
    of_atom,
    polynomial,
    substitute,
    symbols,
)
from tensorc.ir.tensor import Expr, Extent, Value, free_indices
from tensorc.passes.fusion.reach import outside


@dataclass(frozen=True)
class Range:
    """The first base and the end of a loop; and the range in which a block must lie for every
    condition that bounds the loop to hold on all its lanes (None: anywhere)."""

    lower: Polynomial
    upper: Polynomial
    first: Polynomial | None
    last: Polynomial | None


def bounds(
    item: Pass, block: int, lanes: Mapping[str, int], extents: Mapping[str, Polynomial]
) -> Range:
    """The range of the loop over the last index of a pass.

    `lanes`: how many each index has whose blocks are bound around the loop.
    """
    conditions, last = _necessary(item), item.indices[-1]
    if len(item.indices) > 1 or _counts(item, extents):
        conditions = []
    return limits(conditions, last, block, lanes, extents)


def limits(
    conditions: Iterable[Expr], index: str, block: int, lanes: Mapping[str, int],
    extents: Mapping[str, Polynomial],
) -> Range:  # fmt: skip
    """The range of a loop in which all conditions hold on some lane, and on every lane."""
    found = _Limits(index, block, lanes, [polynomial(0)], [extents[index]], [], [])
    integers = Integers(extents, frozenset(lanes) | {index}, {})
    for condition in conditions:
        for fact in _facts(integers, condition):
            found.add(fact)
    return found.range


def bounding(
    conditions: Iterable[Expr], index: str, lanes: Mapping[str, int],
    extents: Mapping[str, Polynomial],
) -> list[Expr]:  # fmt: skip
    """Those of the conditions that are said in full by the `first` and `last` of a range."""
    found: list[Expr] = []
    integers = Integers(extents, frozenset(lanes) | {index}, {})
    for condition in conditions:
        facts = list(_facts(integers, condition))
        own = _Limits(index, 1, lanes, [], [], [], [])
        for fact in facts:
            own.add(fact)
        if facts and len(own.first) + len(own.last) == len(facts):
            found.append(condition)
    return found


@dataclass
class _Limits:
    """Bounds of one loop being collected."""

    index: str
    block: int
    lanes: Mapping[str, int]
    lower: list[Polynomial]
    upper: list[Polynomial]
    first: list[Polynomial]
    last: list[Polynomial]

    @property
    def range(self) -> Range:
        return Range(
            _bound("max", self.lower), _bound("min", self.upper),
            _bound("max", self.first) if self.first else None,
            _bound("min", self.last) if self.last else None,
        )  # fmt: skip

    def add(self, fact: Polynomial) -> None:
        """`fact` >= 0 as a bound of the loop."""
        here = of_atom(Symbol(self.index, "index"))
        for sign in (1, -1):
            rest = fact - here * sign
            most, least = (_at_bases(rest, self.index, self.lanes, up) for up in (True, False))
            if most is None or least is None:
                continue
            if sign == 1:
                self.lower.append((polynomial(0) - most) // self.block * self.block)
                self.first.append(polynomial(0) - least)
            else:
                self.upper.append(most + 1)
                self.last.append(least + 1)


def _bound(which: str, parts: list[Polynomial]) -> Polynomial:
    return parts[0] if len(parts) == 1 else bound(which, tuple(parts))


def _counts(item: Pass, extents: Mapping[str, Polynomial]) -> bool:
    """Whether a shift of the pass counts the elements that were seen."""
    sizes = {extents[index] for index in item.indices}
    nodes = [node for shift in item.shifts for node in outside(shift.value)]
    return any(isinstance(node, Extent) and extents[node.index] in sizes for node in nodes)


def _necessary(item: Pass) -> list[Expr]:
    """Conditions without which no state changes."""
    first, *rest = [_asked(state) for state in item.states]
    return [condition for condition in first if all(condition in other for other in rest)]


def _asked(state: State) -> dict[Expr, None]:
    found = dict.fromkeys(part for part, holds in conjuncts(state.where) if holds) if (
        state.where is not None) else {}  # fmt: skip
    if state.reduce.reducer is ANY:
        found.update(dict.fromkeys(part for part, holds in conjuncts(state.body) if holds))
    return found


def _facts(integers: Integers, condition: Expr) -> Iterator[Polynomial]:
    """What is at least 0 where the condition holds."""
    cases = integers.cases(condition, True)
    if cases is not None and len(cases) == 1:
        yield from cases[0]


def _at_bases(
    rest: Polynomial, index: str, lanes: Mapping[str, int], most: bool
) -> Polynomial | None:
    """The most or the least of `rest` over the lanes of a block; None: it cannot be told."""
    for symbol in sorted(symbols(rest), key=str):
        if symbol.kind != "index" or lanes.get(symbol.name, 0) == 1:
            continue
        step, others = linear(rest, symbol)
        count = step.constant if step is not None else None
        if symbol.name == index or symbol.name not in lanes or count is None:
            return None
        lane = lanes[symbol.name] - 1 if (count > 0) == most else 0
        rest = others + (of_atom(Symbol(symbol.name, "base")) + lane) * count
    points = frozenset(name for name, count in lanes.items() if count == 1)
    if not all(_known(atom, points) for atom in deep_atoms(rest)):
        return None

    def based(atom: Atom) -> Polynomial | None:
        match atom:
            case Symbol(name, "index"):
                return of_atom(Symbol(name, "base"))
            case _:
                return None

    return substitute(rest, based)


def _known(atom: Atom, points: frozenset[str]) -> bool:
    """Whether an atom has one value in a block."""
    match atom:
        case Symbol(name, "index"):
            return name in points
        case Opaque(expr):
            assert isinstance(expr, Expr)
            tiles = any(isinstance(node, Value) for node in postorder([expr]))
            return free_indices(expr) <= points and not tiles
        case _:
            return True
