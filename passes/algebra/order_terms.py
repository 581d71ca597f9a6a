"""Sums of products of three or more factors as sums of products of two, in the cheapest order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorc.ir.node import Node, postorder, rebuild
from tensorc.passes.algebra import terms as t
from tensorc.passes.algebra.contraction_order import Tree, order
from tensorc.passes.algebra.encoded import LOG2E, Encoded
from tensorc.passes.algebra.terms import YES, Fold, Mul, Term, mul


def ordered(encoded: Encoded, roots: Sequence[Term], sizes: Mapping[str, int]) -> list[Term]:
    """The terms with every contraction in its cheapest order at these sizes."""
    return _Orderer(encoded, sizes).all(roots)


class _Orderer:
    """Sums of products of three or more factors as sums of products of two."""

    def __init__(self, encoded: Encoded, sizes: Mapping[str, int]) -> None:
        self.free = encoded.free()
        self.constants = encoded.constants | {LOG2E.name}
        self.sizes = sizes

    def all(self, roots: Sequence[Term]) -> list[Term]:
        known: dict[Node, Term] = {}
        for item in postorder(roots):
            assert isinstance(item, Term)
            made = rebuild(item, lambda child: known[child])
            known[item] = self.ordered(made) if isinstance(made, Fold) else made
        return [known[root] for root in roots]

    def ordered(self, item: Fold) -> Term:
        if item.kind != "Sum" or not isinstance(item.body, Mul):
            return item
        names = {arg: t.free(arg, self.free) for arg in item.body.args}
        factors = sorted(
            (arg for arg in item.body.args if names[arg]), key=lambda a: sorted(names[a])
        )
        numbers = [arg for arg in item.body.args if not names[arg]]
        if len(factors) < 3:
            return item
        kept = t.free(item, self.free) | t.free(item.where, self.free)
        tree = order([names[arg] for arg in factors], kept, self.sizes).tree
        if isinstance(tree, int):
            return item
        over = _Summed(tree, factors, names, kept, frozenset(item.indices))
        sides = [self.part(side, over) for side in tree]
        left = over.indices.difference(*(done for _, done in sides))
        if not left and item.where is not YES:  # the condition would be lost
            return item
        body = mul([*(term for term, _ in sides), *numbers], item.body.factor)
        return t.fold("Sum", left, body, item.where) if left else body

    def part(self, tree: Tree, over: _Summed) -> tuple[Term, frozenset[str]]:
        """A subtree as a term, and the indices summed in it: those that only it mentions."""
        if isinstance(tree, int):
            return over.factors[tree], frozenset()
        sides = [self.part(side, over) for side in tree]
        body, done = mul([term for term, _ in sides]), _union(names for _, names in sides)
        here = over.only_in(tree) - done
        return (t.fold("Sum", here, body) if here else body), done | here


@dataclass(frozen=True)
class _Summed:
    """A sum of a product: the whole order of its factors, their free indices, those that stay, and
    those summed over. A factor may be a sum over an index of the same name."""

    whole: Tree
    factors: Sequence[Term]
    names: Mapping[Term, frozenset[str]]
    kept: frozenset[str]
    indices: frozenset[str]

    def only_in(self, tree: Tree) -> frozenset[str]:
        """Summed indices that no factor outside a subtree mentions."""
        inside = set(_numbers(tree))
        free = [self.names[arg] for arg in self.factors]
        used = self.kept.union(*(free[n] for n in _numbers(self.whole) if n not in inside))
        return _union(free[n] for n in inside) & self.indices - used


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def _numbers(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [n for side in tree for n in _numbers(side)]
