"""One rule by itself: does it fire on a sample, and are all forms that it made equal?

The sample is put into an e-graph with this rule alone; then every node of every class is evaluated
in prime fields beside a real shadow (`passes.fields`), and nodes of one class must agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorc.passes.algebra.egraph import Limits, saturate
from tensorc.passes.algebra.evaluate_terms import disagreements, draw, named
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.fields import Undefined
from tensorc.passes.algebra.rule import Rule, facts_of
from tensorc.passes.algebra.terms import Term, leaves

SIZES = {"i": 2, "j": 3, "k": 3, "l": 3}
DRAWS = 4  # of values, at random and ascending in turn


@dataclass(frozen=True)
class Firing:
    """How often the rule matched, how many nodes then disagreed with their class, and how many
    could not be compared. `draws`: samples without a division by 0."""

    matches: int
    clashes: int
    unknown: int
    draws: int


def fire(rule: Rule, term: Term, seed: int) -> Firing:
    """Apply one rule to one term, and compare what it made."""
    facts = facts_of([term])
    graph = saturate([term], facts, rule.text, Limits(steps=3))
    matches = graph.fired.get(rule.name, 0)
    if not matches:
        return Firing(0, 0, 0, 0)
    names = named(graph)
    facts = _with(facts, names)
    clashes = unknown = draws = 0
    for number in range(DRAWS):
        try:
            values = draw(
                sorted({*names, *leaves([term])}), facts, SIZES, seed * DRAWS + number, logs=True
            )
            found, open_nodes = disagreements(graph, values)
        except Undefined:
            continue
        clashes, unknown, draws = clashes + len(found), unknown + open_nodes, draws + 1
    return Firing(matches, clashes, unknown, draws)


def _with(facts: Facts, names: list[str]) -> Facts:
    """The facts, and that leaves which a rule has made are positive constants."""
    new = {name: frozenset[str]() for name in names if name not in facts.free}
    return replace(facts, free={**facts.free, **new}, constants=facts.constants | frozenset(new))
