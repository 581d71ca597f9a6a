"""Bounds of a loop from the conditions of what it reduces: blocks that add nothing are not run.

A condition is necessary if every state of the pass adds its neutral element where it fails: it
stands in the `where` of each, or is what an `any` asks. If it is an inequality with the loop's
index in it once, `rest - i >= 0` or `i + rest >= 0`, and everything else has one value in a block,
it bounds the loop. Nothing here knows what a mask is for.

    sum[n](y where n <= m + w)      loop n in 0..min(|n|, base(m) + w + 1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    of_atom,
    polynomial,
    substitute,
)
from tensorc.ir.tensor import Expr, Extent, Value, free_indices
from tensorc.passes.fusion.reach import outside


def bounds(
    item: Pass, block: int, lanes: Mapping[str, int], extents: Mapping[str, Polynomial]
) -> tuple[Polynomial, Polynomial]:
    """The first base and the end of the loop over the last index of a pass.

    `lanes`: how many each index bound around the loop has.
    """
    index = item.indices[-1]
    lower, upper = [polynomial(0)], [extents[index]]
    if len(item.indices) == 1 and not _counts(item, extents):
        points = frozenset(name for name, count in lanes.items() if count == 1)
        integers = Integers(extents, points | {index}, {})
        for condition in _necessary(item):
            for fact in _facts(integers, condition):
                _limit(fact, index, block, points, lower, upper)
    return (
        lower[0] if len(lower) == 1 else bound("max", tuple(lower)),
        upper[0] if len(upper) == 1 else bound("min", tuple(upper)),
    )


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


def _limit(
    fact: Polynomial, index: str, block: int, points: frozenset[str],
    lower: list[Polynomial], upper: list[Polynomial],
) -> None:  # fmt: skip
    """`fact` >= 0 as a bound of the loop."""
    here = of_atom(Symbol(index, "index"))
    for sign in (1, -1):
        rest = _at_bases(fact - here * sign, index, points)
        if rest is None:
            continue
        if sign == 1:
            lower.append((polynomial(0) - rest) // block * block)
        else:
            upper.append(rest + 1)


def _at_bases(rest: Polynomial, index: str, points: frozenset[str]) -> Polynomial | None:
    """`rest` as a bound, if it has one value in a block."""
    for atom in deep_atoms(rest):
        match atom:
            case Symbol(name, "index"):
                if name == index or name not in points:
                    return None
            case Opaque(expr):
                assert isinstance(expr, Expr)
                if not free_indices(expr) <= points or any(
                    isinstance(node, Value) for node in postorder([expr])
                ):
                    return None
            case _:
                pass

    def based(atom: Atom) -> Polynomial | None:
        match atom:
            case Symbol(name, "index"):
                return of_atom(Symbol(name, "base"))
            case _:
                return None

    return substitute(rest, based)
