"""Is 0 <= subscript < extent wherever the access is evaluated? Four verdicts (language 3).

proved     it holds for all sizes;
refuted    for all sizes it fails, at every point or at a corner of the iteration box;
condition  it depends on sizes that a call will know;
data       it depends on data, and the kernel compares.

A proof is sought in three steps, cheapest first: box elimination (each index at its worse end, then
only non-negative coefficients over extents); a floor atom q = n // d of factor 1 (q <= U iff
n < d (U + 1), q >= L iff n >= d L, for d >= 1); linear arithmetic over monomials (`ir.linear`) with
the facts of bounds, conditions and atoms, and their pairwise products. Minima, maxima, selects and
disjunctions are split into cases. Only "proved" is relied upon: what is not shown is checked later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tensorc.ir import polynomial as p
from tensorc.ir.conditions import Case, conjuncts, on_integers, whole_cases
from tensorc.ir.facts import Facts, form
from tensorc.ir.integers import Integers, deep_atoms
from tensorc.ir.linear import follows
from tensorc.ir.polynomial import Bound, Floor, Opaque, Polynomial, Symbol
from tensorc.ir.tensor import Expr, Select

DEPTH = 6  # floor atoms nested deeper than this are left to linear arithmetic
BOXES = 150  # goals tried by steps (1) and (2) in one proof: many floors have many orders
SYSTEMS = 24  # linear systems in one proof: one for each case
SPLITS = 3  # minima, maxima, selects and disjunctions taken apart per goal


class Verdict(Enum):
    """What is known of one side of an access."""

    PROVED = "proved"
    REFUTED = "refuted"
    CONDITION = "size condition"
    DATA = "data"


@dataclass(frozen=True)
class Finding:
    """The verdict on an access's dimension; if refuted, what a witness reaches and whether that is
    below 0 (`low`) or beyond the end."""

    verdict: Verdict
    reach: Polynomial | None = None
    low: bool = False


class Ranges:
    """Judges accesses at points where the indices in `scope` have values and `guards` hold."""

    def __init__(
        self,
        extents: Mapping[str, Polynomial],
        scope: Iterable[str] = (),
        guards: Sequence[Expr] = (),
        scalars: Mapping[str, Polynomial] | None = None,
        integers: Integers | None = None,
    ) -> None:
        self.integers = integers or Integers(extents, frozenset(scope), scalars or {})
        parts = [part for guard in guards for part in conjuncts(guard)]
        every = [self.integers.cases(guard, holds) for guard, holds in parts]
        known = [cases for cases in every if cases is not None]
        self.vague = not all(on_integers(guard) for guard in guards)
        self.partial = not all(whole_cases(guard, holds) for guard, holds in parts)
        self.facts: Case = tuple(f for cases in known if len(cases) == 1 for f in cases[0])
        self.choices = [cases for cases in known if len(cases) != 1]

    def judge(self, subscript: Expr, limit: Polynomial) -> Finding:
        """The verdict on 0 <= subscript < limit."""
        value = self.integers.polynomial(subscript)
        if self.holds(value) and self.holds(limit - 1 - value):
            return Finding(Verdict.PROVED)
        found = self.witness(value, limit) or self._never(value, limit)
        if found is not None:
            return found
        return Finding(Verdict.DATA if self.on_data(value) else Verdict.CONDITION)

    def holds(self, goal: Polynomial) -> bool:
        """Whether goal >= 0 at every point, for all sizes."""
        return _Proof(self.integers).goal(goal, self.facts, self.choices, SPLITS)

    def on_data(self, value: Polynomial) -> bool:
        """Whether the value, or a condition under which it is read, depends on data."""
        polynomials = [value, *self.facts, *(f for c in self.choices for part in c for f in part)]
        atoms = {atom for item in polynomials for atom in deep_atoms(item)}
        return self.vague or any(isinstance(atom, Opaque) for atom in atoms)

    def _never(self, value: Polynomial, limit: Polynomial) -> Finding | None:
        """Out of range at every point: then no condition, on data either, makes it right.

        Without conditions and data a corner tells as much.
        """
        if not (self.vague or self.facts or self.choices or self.on_data(value)):
            return None
        for low, side in ((True, -value - 1), (False, value - limit)):
            if self.holds(side):
                return Finding(Verdict.REFUTED, value, low)
        return None

    def witness(self, value: Polynomial, limit: Polynomial) -> Finding | None:
        """A corner of the box that is out of range for all sizes, its guards holding."""
        conditions = [value, *self.facts]
        if (
            self.choices
            or self.partial
            or any(isinstance(a, Opaque) for v in conditions for a in deep_atoms(v))
        ):
            return None
        names = sorted({s.name for v in conditions for s in p.symbols(v) if s.kind == "index"})
        if len(names) > 4 or any(name not in self.integers.extents for name in names):
            return None
        for corner in range(1 << len(names)):
            ends = {name: corner >> at & 1 == 1 for at, name in enumerate(names)}
            found = self._outside(value, limit, ends)
            if found is not None:
                return found
        return None

    def _outside(
        self, value: Polynomial, limit: Polynomial, ends: Mapping[str, bool]
    ) -> Finding | None:
        there = self._at(value, ends)
        proof = _Proof(self.integers)
        low = proof.goal(-there - 1, (), (), 0)
        if not low and not proof.goal(there - limit, (), (), 0):
            return None
        met = all(proof.goal(self._at(fact, ends), (), (), 0) for fact in self.facts)
        return Finding(Verdict.REFUTED, there, low) if met else None

    def _at(self, value: Polynomial, ends: Mapping[str, bool]) -> Polynomial:
        def end(atom: p.Atom) -> Polynomial | None:
            if not isinstance(atom, Symbol) or atom.kind != "index":
                return None
            last = self.integers.extents[atom.name] - 1
            return last if ends[atom.name] else p.polynomial(0)

        return p.substitute(value, end, self.integers.divide)


class _Proof:
    """Proves goal >= 0; remembers what floor atoms were found to be."""

    def __init__(self, integers: Integers) -> None:
        self.integers = integers
        self.facts = Facts(integers, lambda item: self.box(item, 2))
        self.failed: dict[Polynomial, int] = {}  # to the depth that was tried
        self.boxes = BOXES
        self.systems = SYSTEMS

    def goal(
        self, goal: Polynomial, facts: Case, choices: Sequence[tuple[Case, ...]], splits: int
    ) -> bool:
        """goal >= 0 under `facts` and one case of each of `choices`."""
        if any((fact.constant or 0) < 0 for fact in facts):
            return True  # the access is never evaluated
        if self._plainly(goal, facts):
            return True
        if splits:
            for atom in sorted(deep_atoms(goal), key=p.order):
                parts = self._alternatives(atom)
                if parts is not None:
                    return all(
                        self.goal(
                            self._put(goal, atom, value), (*facts, *more), choices, splits - 1
                        )
                        for value, more in parts
                    )
        if self._linearly(goal, facts):
            return True
        if choices and splits:
            first, rest = choices[0], choices[1:]
            if not self._touches(goal, first):
                return self.goal(goal, facts, rest, splits)
            return all(self.goal(goal, (*facts, *case), rest, splits - 1) for case in first)
        return False

    def _touches(self, goal: Polynomial, cases: tuple[Case, ...]) -> bool:
        """Whether a disjunction speaks of anything that the goal does, extents aside."""
        about = {atom for case in cases for fact in case for atom in deep_atoms(fact)}
        return not cases or any(atom in about for atom in deep_atoms(goal))

    def _plainly(self, goal: Polynomial, facts: Case) -> bool:
        """By boxes alone, or as one of the facts plus something that is so."""
        if self.box(goal, DEPTH):
            return True
        if any(_related(goal, fact) and self.box(goal - fact, 2) for fact in facts):
            return True
        floors = [atom for atom in p.atoms(goal) if isinstance(atom, Floor)]
        return any(self.box(goal - fact, 2) for atom in floors for fact in self.facts.of(atom))

    def _alternatives(self, atom: p.Atom) -> list[tuple[Polynomial, Case]] | None:
        """What an atom may be, each with what then holds; None if it is not split."""
        match atom:
            case Bound(which, args):
                sign = 1 if which == "min" else -1
                return [
                    (arg, tuple((other - arg) * sign for other in args if other is not arg))
                    for arg in args
                ]
            case Opaque(Select(condition, yes, no)):
                return [
                    (self.integers.polynomial(arm), case)
                    for arm, holds in ((yes, True), (no, False))
                    for case in (self.integers.cases(condition, holds) or ((),))
                ]
            case _:
                return None

    def _put(self, goal: Polynomial, atom: p.Atom, value: Polynomial) -> Polynomial:
        return p.substitute(goal, lambda a: value if a is atom else None, self.integers.divide)

    def box(self, goal: Polynomial, depth: int) -> bool:
        """Steps (1) and (2): worse ends, then floor atoms of factor 1."""
        if goal.constant is not None:
            return goal.constant >= 0
        if self.failed.get(goal, -1) >= depth or self.boxes <= 0:
            return False
        self.failed[goal] = depth  # taken back below if it holds
        self.boxes -= 1
        if self._boxed(goal, depth):
            self.failed[goal] = -1
            return True
        return False

    def _boxed(self, goal: Polynomial, depth: int) -> bool:
        low = self._worse_ends(goal)
        if self.integers.at_least(low, 0):
            return True
        return depth > 0 and any(
            self.box(other, depth - 1)
            for start in dict.fromkeys((goal, low))
            for other in self._without_floor(start)
        )

    def _worse_ends(self, goal: Polynomial) -> Polynomial:
        """`goal` with each index, known range or positive unknown at its worse end."""
        for atom in sorted(p.atoms(goal), key=p.order, reverse=True):
            ends = self.facts.ends(atom)
            factor, rest = p.linear(goal, atom) if ends is not None else (None, goal)
            if factor is None or ends is None:
                continue
            if ends[0] is not None and self.integers.at_least(factor, 0):
                goal = rest + factor * ends[0]
            elif ends[1] is not None and self.integers.at_least(-factor, 0):
                goal = rest + factor * ends[1]
        return goal

    def _without_floor(self, goal: Polynomial) -> Iterable[Polynomial]:
        """Equivalents of goal >= 0 in which a floor atom of factor 1 or -1 is resolved."""
        for atom in sorted(p.atoms(goal), key=p.order):
            if not isinstance(atom, Floor) or not self.integers.at_least(atom.denominator, 1):
                continue
            factor, rest = p.linear(goal, atom)
            number = factor.constant if factor is not None else None
            if number == -1:
                yield atom.denominator * (rest + 1) - 1 - atom.numerator
            elif number == 1:
                yield atom.numerator + atom.denominator * rest

    def _linearly(self, goal: Polynomial, facts: Case) -> bool:
        """Step (3). An unknown of open range that no fact speaks of cannot be reasoned about."""
        self.systems -= 1
        forms = self.facts.about(goal, facts) if self.systems >= 0 else None
        if forms is None:
            return False
        coefficients, constant = form(goal)
        return follows(coefficients, constant, forms)


def _related(goal: Polynomial, fact: Polynomial) -> bool:
    return bool(p.atoms(goal) & p.atoms(fact))
