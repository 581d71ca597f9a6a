"""Sums of products of three or more factors as sums of products of two, in the cheapest order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorc.ir.node import Node, postorder, rebuild
from tensorc.passes.algebra import terms as t
from tensorc.passes.algebra.contraction_order import Tree, order
from tensorc.passes.algebra.encode import LOG2E, Encoded
from tensorc.passes.algebra.terms import Fold, Mul, Term, mul


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
        factors = [arg for arg in item.body.args if names[arg]]
        numbers = [arg for arg in item.body.args if not names[arg]]
        if len(factors) < 3:
            return item
        kept = t.free(item, self.free) | t.free(item.where, self.free)
        tree = order([names[arg] for arg in factors], kept, self.sizes).tree
        if isinstance(tree, int):
            return item
        summed = frozenset(item.indices)
        sides = [self.part(side, factors, kept, summed, tree) for side in tree]
        left = summed - frozenset().union(*(self.bound(side) for side in sides))
        body = mul([*sides, *numbers], item.body.factor)
        return t.fold("Sum", left, body, item.where) if left else body

    def part(
        self, tree: Tree, factors: Sequence[Term], kept: frozenset[str], summed: frozenset[str],
        whole: Tree,
    ) -> Term:  # fmt: skip
        """A subtree as a term: what only it mentions is summed there."""
        if isinstance(tree, int):
            return factors[tree]
        body = mul([self.part(side, factors, kept, summed, whole) for side in tree])
        outside = set(_numbers(whole)) - set(_numbers(tree))
        used = kept.union(*(t.free(factors[n], self.free) for n in outside))
        over = (t.free(body, self.free) & summed) - used
        return t.fold("Sum", over, body) if over else body

    def bound(self, term: Term) -> frozenset[str]:
        """The indices that a part has summed already."""
        found = frozenset[str]()
        if isinstance(term, Fold) and term.kind == "Sum":
            found |= frozenset(term.indices)
            term = term.body
        if isinstance(term, Mul):
            found = found.union(*(self.bound(arg) for arg in term.args))
        return found


def _numbers(tree: Tree) -> list[int]:
    return [tree] if isinstance(tree, int) else [n for side in tree for n in _numbers(side)]
