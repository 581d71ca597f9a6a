"""What is known of the unknowns of a goal: bounds of indices and extents, floors, ranges of data.

Facts are polynomials that are >= 0 at every point. `about` gives those that matter to a goal, with
the pairwise products that could cancel its monomials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tensorc.ir import polynomial as p
from tensorc.ir.functions import ARGMAX, ARGMIN
from tensorc.ir.integers import Integers, deep_atoms
from tensorc.ir.intervals import interval
from tensorc.ir.polynomial import Bound, Floor, Opaque, Polynomial, Symbol
from tensorc.ir.tensor import Reduce

MOST_FACTS = 40
MOST_PRODUCTS = 60

Form = tuple[Mapping[p.Monomial, int], int]
Ends = tuple[Polynomial | None, Polynomial | None]


class Facts:
    """Facts where `integers` holds; `plain` decides simple goals, such as a numerator's sign."""

    def __init__(self, integers: Integers, plain: Callable[[Polynomial], bool]) -> None:
        self.integers = integers
        self.plain = plain
        self._of: dict[p.Atom, tuple[Polynomial, ...]] = {}

    def ends(self, atom: p.Atom) -> Ends | None:
        """The least and greatest value of an index or of data, as far as known."""
        match atom:
            case Symbol(name, "index"):
                extent = self.integers.extents.get(name)
                return None if extent is None else (p.polynomial(0), extent - 1)
            case Opaque(Reduce(reducer, indices, _, where, _)) if reducer in (ARGMAX, ARGMIN):
                total = p.polynomial(1)
                for index in indices:
                    total = total * self.integers.extents.get(index, p.extent(index))
                return p.polynomial(0 if where is None else -1), total - 1
            case Opaque(expr):
                known = interval(expr)  # type: ignore[arg-type]  # Opaque holds any Expr
                return None if known is None else (p.polynomial(known[0]), p.polynomial(known[1]))
            case _:
                return None

    def of(self, atom: p.Atom) -> tuple[Polynomial, ...]:
        """The facts of one atom."""
        found = self._of.get(atom)
        if found is None:
            self._of[atom] = ()  # a floor's own sign may not be asked for while it is found
            found = self._of[atom] = tuple(self._facts(atom))
        return found

    def _facts(self, atom: p.Atom) -> Iterator[Polynomial]:
        value = p.of_atom(atom)
        least = self.integers.least(atom)
        if least is not None:
            yield value - least
        ends = self.ends(atom)
        if ends is not None:
            yield from (value - end for end in ends[:1] if end is not None)
            yield from (end - value for end in ends[1:] if end is not None)
        match atom:
            case Floor(numerator, denominator):
                yield from self._floor(value, numerator, denominator)
            case Bound(which, args):
                yield from ((arg - value) * (1 if which == "min" else -1) for arg in args)
            case _:
                pass

    def _floor(self, q: Polynomial, n: Polynomial, d: Polynomial) -> Iterator[Polynomial]:
        """d q <= n <= d q + d - 1; and 0 <= q <= n where n >= 0, also for d = 0."""
        if self.integers.at_least(d, 1):
            yield n - d * q
            yield d * q + d - 1 - n
        if self.integers.at_least(d, 0) and self.plain(n):
            yield q
            yield n - q

    def about(self, goal: Polynomial, given: Sequence[Polynomial]) -> list[Form] | None:
        """Facts that may prove the goal, as linear forms; None if an unknown of it has none."""
        base = list(dict.fromkeys(self._collect(goal, given)))
        spoken = {monomial for fact in base for monomial, _ in fact.terms}
        if any(m and m not in spoken and len(m) == 1 and m[0][1] == 1 for m, _ in goal.terms):
            return None
        base = base[:MOST_FACTS]
        return [form(fact) for fact in base] + self._products(goal, base)

    def _collect(self, goal: Polynomial, given: Sequence[Polynomial]) -> Iterator[Polynomial]:
        """The given facts that are connected with the goal, and those of every atom in sight."""
        atoms = set(deep_atoms(goal))
        waiting = [*given, *(size - 1 for size in self.integers.positive)]
        done: set[p.Atom] = set()
        news = True
        while news:
            news = False
            for fact in list(waiting):
                if p.atoms(fact) & atoms or not p.atoms(fact):
                    waiting.remove(fact)
                    atoms |= deep_atoms(fact)
                    news = True
                    yield fact
            for atom in sorted(atoms - done, key=p.order):
                done.add(atom)
                for fact in self.of(atom):
                    yield fact
                    atoms |= deep_atoms(fact)
                news = True

    def _products(self, goal: Polynomial, base: Sequence[Polynomial]) -> list[Form]:
        """Products of two facts that have a monomial of the goal or of a fact; then those that
        have only monomials met so far, which may cancel what the first brought in."""
        wanted = set(_nonlinear([goal, *base]))
        if not wanted:
            return []
        short = [fact for fact in base if len(fact.terms) <= 4]
        pairs = [(a, b, _tops(a, b)) for at, a in enumerate(short) for b in short[at:]]
        first = [pair for pair in pairs if pair[2] & wanted][:MOST_PRODUCTS]
        met = wanted.union(*(tops for _, _, tops in first))
        second = [pair for pair in pairs if pair[2] and pair[2] <= met and not pair[2] & wanted]
        return [_product(a, b) for a, b, _ in (*first, *second[:MOST_PRODUCTS])]


def form(value: Polynomial) -> Form:
    """The coefficients of the monomials, and the constant."""
    coefficients = dict(value.terms)
    return coefficients, coefficients.pop((), 0)


def _product(a: Polynomial, b: Polynomial) -> Form:
    total: dict[p.Monomial, int] = {}
    for m, x in a.terms:
        for n, y in b.terms:
            monomial = p.times(m, n)
            total[monomial] = total.get(monomial, 0) + x * y
    constant = total.pop((), 0)
    return {monomial: c for monomial, c in total.items() if c}, constant


def _tops(a: Polynomial, b: Polynomial) -> set[p.Monomial]:
    """The products of the monomials of two facts, numbers aside."""
    return {p.times(m, n) for m, _ in a.terms for n, _ in b.terms if m and n}


def _nonlinear(values: Iterable[Polynomial]) -> Iterator[p.Monomial]:
    for value in values:
        for monomial, _ in value.terms:
            if sum(power for _, power in monomial) > 1:
                yield monomial
