"""How a rewritten program came about: a chain of single applications of rules.

Saturation applies all rules everywhere at once and keeps no record. Here each rule is matched on
terms as they stand, so every match is one step from one program to another; a best-first search,
bounded by a count, looks for the steps to the form that extraction chose. What the bound cuts off
is one last step of all rules at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorc.ir.node import Node, postorder, rebuild
from tensorc.ir.tensor import Program
from tensorc.passes.algebra.decode import Lost, decode
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.rule import Rule
from tensorc.passes.algebra.rules import FAST
from tensorc.passes.algebra.saturate import Rewritten, rewrite, sizes_of
from tensorc.passes.algebra.single_steps import Move, moves
from tensorc.passes.algebra.terms import Add, Mul, Term, add, mul

EXPANDED = 300  # programs whose moves are tried
ALL = "all rules"

Terms = tuple[Term, ...]


@dataclass(frozen=True)
class Step:
    """One rule applied in all the places of one term: its name and law, and what came of it, as
    terms and as a program (None where a read that is checked would be lost). `backwards`: from
    right to left, as rules also equate what they find with what is there."""

    rule: str
    law: str
    backwards: bool
    terms: Terms
    program: Program | None


def explain_rewrite(
    program: Program, extents: Mapping[str, int], rules: Sequence[Rule] = FAST
) -> list[Step]:
    """The chain of rules by which `rewrite` changes a canonical program at these extents; empty if
    it does not."""
    made = rewrite(program, extents, rules)
    if made.encoded is None or made.extracted is None or made.program is program:
        return []
    start = tuple(term for _, term in made.encoded.roots)
    found = _search(start, made.extracted.terms, made.encoded.facts_of_all(), rules)
    laws = {rule.name: rule.law for rule in rules}
    laws[ALL] = ", ".join(sorted(rule for rule, count in made.fired.items() if count))
    return [
        Step(one.rule, laws[one.rule], one.backwards, one.terms, _shown(made, one.terms, extents))
        for one in found
    ]


def _shown(made: Rewritten, terms: Terms, extents: Mapping[str, int]) -> Program | None:
    assert made.encoded is not None
    try:
        return decode(made.encoded, terms, sizes_of(made.encoded, extents))
    except Lost:
        return None


def replayed(terms: Terms, facts: Facts, rule: Rule) -> set[Terms]:
    """Everything that one application of one rule makes of terms."""
    return {after for _, after in _next(_plain(terms), facts, [rule])}


# --- search ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Link:
    """A rule, and the terms that it leads to."""

    rule: str
    terms: Terms
    backwards: bool = False


def _search(start: Terms, goal: Terms, facts: Facts, rules: Sequence[Rule]) -> list[_Link]:
    """The links from start to goal."""
    first, goal = _plain(start), _plain(goal)
    wanted = frozenset(postorder(goal))
    last = {after: [_Link(rule, goal, True)] for rule, after in _next(goal, facts, rules)}
    last[goal] = []
    before: dict[Terms, tuple[str, Terms] | None] = {first: None}
    heap = [(_distance(first, wanted), 0, 0, first)]
    for _ in range(EXPANDED):
        if not heap:
            break
        _, depth, _, terms = heapq.heappop(heap)
        if terms in last:
            return [*_path(before, terms), *last[terms]]
        for rule, after in _next(terms, facts, rules):
            if after not in before:
                before[after] = (rule, terms)
                rank = _distance(after, wanted) + (depth + 1) / 4
                heapq.heappush(heap, (rank, depth + 1, len(before), after))
    near = min(before, key=lambda terms: (_distance(terms, wanted), repr(terms)))
    return [*_path(before, near), _Link(ALL, goal)]


def _next(terms: Terms, facts: Facts, rules: Sequence[Rule]) -> Iterable[tuple[str, Terms]]:
    """What one rule at one place makes of the terms."""
    for move in moves(terms, facts, rules):
        yield move.rule, _plain(_replaced(terms, move))


def _path(before: Mapping[Terms, tuple[str, Terms] | None], end: Terms) -> list[_Link]:
    found: list[_Link] = []
    while (last := before[end]) is not None:
        found.append(_Link(last[0], end))
        end = last[1]
    return found[::-1]


def _distance(terms: Terms, wanted: frozenset[Node]) -> float:
    """How much of the goal is missing, and how much must still go."""
    here = set(postorder(terms))
    return len(wanted - here) + len(here - wanted) / 2


def _replaced(terms: Iterable[Term], move: Move) -> Terms:
    """The terms with one subterm as another, wherever it stands."""
    terms = tuple(terms)
    known: dict[Node, Node] = {}
    for item in postorder(terms):
        known[item] = move.after if item is move.before else rebuild(item, lambda c: known[c])
    made = tuple(known[term] for term in terms)
    assert all(isinstance(term, Term) for term in made)
    return made  # pyright: ignore[reportReturnType]


def _plain(terms: Iterable[Term]) -> Terms:
    """Products and sums of one part as that part, arguments in order."""
    terms = tuple(terms)
    known: dict[Node, Term] = {}
    for item in postorder(terms):
        match rebuild(item, lambda child: known[child]):
            case Mul(factor, args):
                known[item] = mul(args, factor)
            case Add(args):
                known[item] = add(args)
            case made:
                assert isinstance(made, Term)
                known[item] = made
    return tuple(known[term] for term in terms)
