"""Single applications of rules to terms as they stand: nothing is equated, so nothing is saturated.

Each match of a rule is a move: a subterm, and the term that the rule makes of it. Rules are run
from their own text, with the union of both sides replaced by a note of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tensorc.passes.algebra.egraph import ENode
from tensorc.passes.algebra.engine import ANALYSE, Rows, insertions, kept, run
from tensorc.passes.algebra.extract import of_node
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.rule import Rule
from tensorc.passes.algebra.terms import Term

_NOTES = """
(sort Note)
(constructor Made (String T T) Note)
"""


@dataclass(frozen=True)
class Move:
    """A rule turns `before` into `after`."""

    rule: str
    before: Term
    after: Term


def moves(terms: Sequence[Term], facts: Facts, rules: Sequence[Rule]) -> list[Move]:
    """Every single application of the rules to subterms of `terms`, in one order."""
    engine = kept(_text(tuple(rules)))
    run(engine, "(push)")
    try:
        run(engine, "\n".join(insertions(terms, facts)))
        run(engine, ANALYSE)
        run(engine, "(run-schedule (seq (run rules) (run pairs)))")
        return sorted(_read(engine), key=lambda move: (move.rule, repr(move)))
    finally:
        run(engine, "(pop)")


@lru_cache(maxsize=4)
def _text(rules: tuple[Rule, ...]) -> str:
    return _NOTES + "".join(
        f'(rule ({rule.when})\n      ((Made "{rule.name}" t {rule.then}))\n'
        f'      :ruleset {"pairs" if rule.pair else "rules"} :name "{rule.name}")\n'
        for rule in rules
    )


def _read(engine: Any) -> Iterable[Move]:
    rows = Rows(engine)
    terms = _terms(rows.by_class())
    for row in rows.functions["Made"].rows:
        name, before, after = row.inputs
        if terms[before] is not terms[after]:
            yield Move(engine.value_to_string(name), terms[before], terms[after])


def _terms(
    nodes: Mapping[Any, Sequence[tuple[str, tuple[Any, ...], tuple[Any, ...]]]],
) -> dict[Any, Term]:
    """The one term of each class."""
    made: dict[Any, Term] = {}
    for top in nodes:
        stack = [top]
        while stack:
            item = stack[-1]
            operator, data, args = nodes[item][0]
            missing = [arg for arg in args if arg not in made]
            stack.extend(missing)
            if not missing:
                stack.pop()
                made[item] = of_node(ENode(operator, data, args), [made[arg] for arg in args])
    return made
