"""In which order to contract a product of many factors: exact for few, greedy for many.

A contraction is the factors' index sets and the indices that are kept; an order is a binary tree.
Up to `EXACT` factors every connected or unconnected split is priced (3 ** n steps of a table);
beyond that the cheapest pair is contracted first, again and again. Counts decide, never time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

EXACT = 9  # factors; 3 ** 9 is about 20,000 splits
Tree = int | tuple["Tree", "Tree"]
Names = frozenset[str]


@dataclass(frozen=True)
class Order:
    """The tree over factor numbers, the multiply-adds that it takes, and the elements that its
    intermediate results have together."""

    tree: Tree
    work: int
    elements: int


def order(factors: Sequence[Names], kept: Names, sizes: Mapping[str, int]) -> Order:
    """The cheapest tree for the product of `factors`, summed over all indices but `kept`."""
    if len(factors) == 1:
        return Order(0, points(factors[0] | kept, sizes), 0)
    if len(factors) > EXACT:
        return _greedy(factors, kept, sizes)
    return _exact(factors, kept, sizes)


def points(names: Names, sizes: Mapping[str, int]) -> int:
    """How many points the indices have together."""
    return math.prod(max(1, sizes[name]) for name in names)


def result(part: Sequence[int], factors: Sequence[Names], kept: Names) -> Names:
    """The indices that the product of some factors must keep: those used outside."""
    chosen = set(part)
    inside = frozenset[str]().union(*(factors[n] for n in part))
    outside = kept.union(*(f for n, f in enumerate(factors) if n not in chosen))
    return inside & outside


def _exact(factors: Sequence[Names], kept: Names, sizes: Mapping[str, int]) -> Order:
    count = len(factors)
    best: dict[int, Order] = {1 << n: Order(n, 0, 0) for n in range(count)}
    members = {mask: [n for n in range(count) if mask >> n & 1] for mask in range(1, 1 << count)}
    names = {mask: result(part, factors, kept) for mask, part in members.items()}
    for number in range(count):
        names[1 << number] = factors[number]
    for mask in sorted(members, key=lambda m: (len(members[m]), m)):
        if len(members[mask]) < 2:
            continue
        stored = 0 if mask == (1 << count) - 1 else points(names[mask], sizes)
        best[mask] = min(
            (_joined(best, names, left, mask ^ left, sizes, stored) for left in _halves(mask)),
            key=_rank,
        )
    return best[(1 << count) - 1]


def _halves(mask: int) -> list[int]:
    """Each split of a set once, by the half that holds its lowest member."""
    low = mask & -mask
    rest, part, found = mask ^ low, mask ^ low, list[int]()
    while part:
        part = (part - 1) & rest
        found.append(part | low)
    return found


def _joined(
    best: Mapping[int, Order], names: Mapping[int, Names], left: int, right: int,
    sizes: Mapping[str, int], stored: int,
) -> Order:  # fmt: skip
    a, b = best[left], best[right]
    work = a.work + b.work + points(names[left] | names[right], sizes)
    return Order((a.tree, b.tree), work, a.elements + b.elements + stored)


def _rank(found: Order) -> tuple[int, str]:
    return found.work + found.elements, repr(found.tree)


def _greedy(factors: Sequence[Names], kept: Names, sizes: Mapping[str, int]) -> Order:
    """The pair with the least work and result first; ties by position."""
    parts: list[tuple[Tree, Names]] = list(enumerate(factors))
    work = elements = 0
    while len(parts) > 1:
        count = Counter(name for _, names in parts for name in names)
        price = _Prices(kept, count, sizes)
        a, b = min(
            combinations(range(len(parts)), 2),
            key=lambda pair: (price.of(parts[pair[0]][1], parts[pair[1]][1]), pair),
        )
        made = price.result(parts[a][1], parts[b][1])
        work += points(parts[a][1] | parts[b][1], sizes)
        elements += points(made, sizes) if len(parts) > 2 else 0
        joined = (parts[a][0], parts[b][0])
        parts = [part for n, part in enumerate(parts) if n not in (a, b)] + [(joined, made)]
    return Order(parts[0][0], work, elements)


class _Prices:
    """What joining two of some parts costs; equal pairs are asked once. `count`: in how many parts
    an index is."""

    def __init__(self, kept: Names, count: Mapping[str, int], sizes: Mapping[str, int]) -> None:
        self.kept, self.count, self.sizes = kept, count, sizes
        self.known: dict[tuple[Names, Names], int] = {}

    def result(self, a: Names, b: Names) -> Names:
        """The indices that a product of two parts must keep."""
        used = {name for name in a | b if self.count[name] > (name in a) + (name in b)}
        return (a | b) & (self.kept | used)

    def of(self, a: Names, b: Names) -> int:
        """Work, and how much larger the result is than both parts."""
        if (a, b) not in self.known:
            made = points(a | b, self.sizes) + points(self.result(a, b), self.sizes)
            self.known[a, b] = made - points(a, self.sizes) - points(b, self.sizes)
        return self.known[a, b]
