"""The rules applied one after another, each kept only if it pays: what saturation has to beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorc.ir.tensor import Program
from tensorc.passes.algebra.egraph import Limits, saturate
from tensorc.passes.algebra.encode import encode
from tensorc.passes.algebra.extract import extract
from tensorc.passes.algebra.rule import Rule
from tensorc.passes.algebra.saturate import sizes_of

ROUNDS = 4  # through the whole table, or until nothing pays


def cost_in_sequence(program: Program, extents: Mapping[str, int], rules: Sequence[Rule]) -> int:
    """The cost after applying each rule by itself as often as it matches, in the order of the
    table, and going on with the cheapest form each time."""
    encoded = encode(program, extents)
    sizes = sizes_of(encoded, extents)
    terms, facts = tuple(term for _, term in encoded.roots), encoded.facts_of_all()
    best = extract(saturate(terms, facts, "", Limits()), sizes).cost
    for _ in range(ROUNDS):
        before = best
        for rule in rules:
            found = extract(saturate(terms, facts, rule.text, Limits()), sizes)
            if found.cost < best:
                best, terms = found.cost, found.terms
        if best == before:
            break
    return best
