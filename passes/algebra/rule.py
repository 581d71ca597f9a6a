"""What a rewrite rule is, and the parts that the tables of rules and their samples share.

A rule is egglog text: `when` binds a node `t` and the variables of its left side, `then` is the
term that it equals. Rules are directed: a right side is never a worse start than its left side,
nothing reverses another rule, and a left side has at most 5 operators. Each rule states its law in
one line, its class, and makes samples of its left side and of near misses, where the law fails and
the rule must not fire; one test runs all rules over theirs.

Leaves of samples say what they are: `x[i,k]` depends on i and k, `c1` is a positive constant,
`?p[i]` is a condition, `P[k]` permutes k, `part[k]` is the part of `whole[k,l]` at l = `from`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from tensorc.ir.choose import Chooser, chance, pick, subset
from tensorc.passes.algebra.facts import Facts
from tensorc.passes.algebra.terms import Gather, Leaf, Mul, Term, leaves, mul


class Kind(Enum):
    """What a rule may do to a result in floating point; the policy `fast` takes the first two."""

    EXACT = "equal also in floating point, up to the order of sums and products"
    REASSOCIATING = "equal but for rounding"
    RANGE = "may overflow, or not, where the other side does"
    CANCELLING = "may lose digits where the other side does not"
    NAN = "may make a NaN, or lose one"


Sample = Callable[[Chooser], Term]


@dataclass(frozen=True)
class Rule:
    """A directed law. `when`: egglog facts that bind `t`; `then`: the term that `t` equals;
    `also`: further egglog actions; `law`: one line of mathematics, conditions included; `pair`: the
    left side is two terms that need not be near each other, so it is tried between fixpoints of
    the other rules only."""

    name: str
    law: str
    kind: Kind
    when: str
    then: str
    sample: Sample
    near_miss: Sample
    also: str = ""
    pair: bool = False

    @property
    def text(self) -> str:
        """The rule as egglog runs it."""
        return (
            f"(rule ({self.when})\n      ({self.also} (union t {self.then}))\n"
            f'      :ruleset {"pairs" if self.pair else "rules"} :name "{self.name}")\n'
        )


def text_of(rules: Iterable[Rule]) -> str:
    """A table of rules as one egglog text."""
    return "".join(rule.text for rule in rules)


# --- parts of left and right sides --------------------------------------------------------------

ONE = "(bigrat (bigint 1) (bigint 1))"
MINUS = "(bigrat (bigint -1) (bigint 1))"
ZERO = "(bigrat (bigint 0) (bigint 1))"


def member(variable: str, of: str) -> str:
    """`variable` is one of the terms in the multiset `of`."""
    return f"(= at_{variable} (at {of} {variable}))"


def without(term: str, indices: str) -> str:
    """No index of the set `indices` is free in `term`."""
    return f"(= free_{term} (free {term})) (= 0 (set-length (set-intersect free_{term} {indices})))"


def extent(index: str) -> str:
    """The extent of the index that the string variable `index` names, as a term."""
    return f'(Leaf (+ "|" (+ {index} "|")))'


# --- samples ------------------------------------------------------------------------------------

INDICES = ("i", "j", "k", "l")


def leaf(name: str, *indices: str) -> Leaf:
    """A sample's leaf that depends on `indices`."""
    return Leaf(f"{name}[{','.join(sorted(indices))}]")


def any_leaf(chooser: Chooser, name: str, least: Sequence[str] = (), never: str = "") -> Leaf:
    """A leaf that depends on `least`, perhaps on more, and not on the indices in `never`."""
    others = [index for index in INDICES if index not in never and index not in least]
    return leaf(name, *least, *subset(chooser, others, 0, 2))


def factors(chooser: Chooser, least: Sequence[str], count: int = 2) -> list[Term]:
    """One to `count` leaves, the first of which depends on `least`."""
    more = [any_leaf(chooser, f"y{n}") for n in range(chooser.integer(0, count - 1))]
    return [any_leaf(chooser, "y", least), *more]


def ratio(chooser: Chooser) -> Fraction:
    """A small positive number other than 1."""
    return pick(chooser, (Fraction(2), Fraction(1, 2), Fraction(3, 4), Fraction(5)))


def constant(chooser: Chooser) -> Leaf:
    """A positive constant."""
    return pick(chooser, (Leaf("c1"), Leaf("c2")))


def scaled(chooser: Chooser, term: Term) -> Term:
    """`term`, perhaps times a number or a constant."""
    if chance(chooser, 3):
        return mul([term, constant(chooser)])
    return Mul(ratio(chooser), (term,)) if chance(chooser, 5) else term


def facts_of(terms: Sequence[Term]) -> Facts:
    """What the names of the leaves of samples say."""
    from tensorc.passes.algebra.exponentials import arguments

    names = leaves(terms)
    free = {name: _indices(name) for name in names}
    constants = frozenset(name for name in names if name[0] in "c|")
    permutations = frozenset((n, next(iter(free[n]))) for n in names if n[0] == "P")
    parts: list[tuple[str, Term]] = []
    for name in names:
        if name.startswith("part"):
            whole, start = leaf("whole", *free[name], "l"), Leaf("from")
            free |= {whole.name: free[name] | {"l"}, start.name: frozenset()}
            parts.append((name, Gather("l", start, whole)))
    return Facts(free, constants, permutations, arguments(terms), tuple(parts))


def _indices(name: str) -> frozenset[str]:
    inside = name.partition("[")[2].removesuffix("]")
    return frozenset(inside.split(",")) if inside else frozenset()
