"""Which parts of a long expression to name, where code is text in which each use is written out.

An expression is a graph; as text it may be exponentially longer. A part that stands in several
places is computed once, before the statement, under the conditions that hold at all of them. That
is safe where it is then asked for in any case, or where computing it can do no harm: its reads
walk whole dimensions, and it divides no integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorc.ir.affine import is_whole
from tensorc.ir.node import Node, children, fact, postorder, written_out
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import Apply, Bitcast, Cast, Expr, Read, Select, value_type
from tensorc.passes.canonicalise import call

LONG = 300  # operations of a text in which nothing is named
_SMALL = 4  # operations that are as well written again
_Guards = tuple[tuple[Expr, bool], ...]  # conditions, and whether they hold or do not


@dataclass(frozen=True)
class Shared:
    """A part to name, and the conditions under which it is computed (all of them hold)."""

    part: Expr
    guards: tuple[Expr, ...]


def shared_parts(expr: Expr, extents: Mapping[str, Polynomial]) -> list[Shared]:
    """The parts to name, each after those that it has itself; none if the text is not long."""
    return [] if written_out(expr) <= LONG else list(_shared_parts(expr, extents))


def _shared_parts(expr: Expr, extents: Mapping[str, Polynomial]) -> Iterator[Shared]:
    nodes = [item for item in postorder([expr]) if isinstance(item, Expr)]
    places = _places(nodes)
    for item in nodes:
        if not isinstance(item, Apply | Select | Cast | Bitcast) or value_type(item).weak:
            continue
        if len(places[item].paths) > 1 and written_out(item) > _SMALL:
            if _harmless(item, extents):
                yield Shared(item, ())
            elif places[item].asked:
                guards = places[item].common
                yield Shared(item, tuple(c if holds else call("not", c) for c, holds in guards))


class _Place:
    """Where a node stands: the guards of each use, those of all, and whether under these it is
    computed in any case."""

    def __init__(self) -> None:
        self.paths: list[tuple[_Guards, bool]] = []  # and whether the user is computed in any case
        self.common: _Guards = ()
        self.asked = False

    def settle(self) -> None:
        """All uses are known."""
        self.common = _prefix([guards for guards, _ in self.paths])
        sure = {guards for guards, asked in self.paths if asked}
        sides = {guards[-1] for guards in sure if guards[:-1] == self.common and guards}
        both = any((condition, not holds) in sides for condition, holds in sides)
        self.asked = self.common in sure or both


def _places(nodes: list[Expr]) -> dict[Expr, _Place]:
    """The place of every node of an expression, given in postorder."""
    found = {item: _Place() for item in nodes}
    found[nodes[-1]].paths.append(((), True))
    for item in reversed(nodes):
        place = found[item]
        place.settle()
        for child, guards in _uses(item):
            found[child].paths.append(((*place.common, *guards), place.asked))
    return found


def _uses(item: Expr) -> Iterator[tuple[Expr, _Guards]]:
    """What a node computes, and under which condition of its own."""
    match item:
        case Select(condition, yes, no):
            yield from ((condition, ()), (yes, ((condition, True),)), (no, ((condition, False),)))
        case Apply(function, (first, *others)) if function.name in ("and", "or"):
            yield first, ()
            for other in others:  # evaluated only after what stands before: that the first holds
                yield other, ((first, function.name == "and"),)
        case _:
            yield from ((child, ()) for child in children(item) if isinstance(child, Expr))


def _prefix(paths: list[_Guards]) -> _Guards:
    """The guards with which all paths begin."""
    first, *others = paths
    length = len(first)
    for other in others:
        same = (a == b for a, b in zip(first[:length], other, strict=False))
        length = next((n for n, equal in enumerate(same) if not equal), min(length, len(other)))
    return first[:length]


def _harmless(expr: Expr, extents: Mapping[str, Polynomial]) -> bool:
    """Whether an expression may be computed at every position, whatever conditions hold."""
    nodes = list(postorder([expr]))
    whole = all(is_whole(item, extents) for item in nodes if isinstance(item, Read))
    return whole and not any(_divides(item) for item in nodes)


@fact
def _divides(node: Node) -> bool:
    """Whether integers are divided, for which 0 may be no divisor."""
    return (
        isinstance(node, Apply)
        and node.function.name in ("floordiv", "mod")
        and not value_type(node).floating
    )
