"""Exact polynomials with integer coefficients: extents, subscripts, sizes and keys.

Atoms are symbols (the extent of an index, an index, a `const` integer parameter), floor divisions,
minima and maxima, and opaque data reads. A polynomial is kept in one canonical form, so equality
of extents is identity of objects. `a % b` is `a - b * (a // b)` and has no atom of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from tensorc.ir.digest import digest, digest_of
from tensorc.ir.node import Node, fact, node


@node
class Symbol(Node):
    """An unknown integer. Kind: "extent" (>= 1 where it matters), "index" or "parameter"; at level
    2 "base", the first position of an enclosing block."""

    name: str
    kind: str

    def __str__(self) -> str:
        if self.kind == "base":
            return f"base({self.name})"
        return f"|{self.name}|" if self.kind == "extent" else self.name


@node
class Floor(Node):
    """floor(numerator / denominator)."""

    numerator: Polynomial
    denominator: Polynomial

    def __str__(self) -> str:
        from tensorc.ir.polynomial_text import operand  # it prints floors, so it imports this file

        return f"{operand(self.numerator)} // {operand(self.denominator)}"


@node
class Bound(Node):
    """The minimum ("min") or maximum ("max") of two or more polynomials."""

    which: str
    args: tuple[Polynomial, ...]

    def __str__(self) -> str:
        return f"{self.which}({', '.join(map(str, self.args))})"


@node
class Opaque(Node):
    """An integer that depends on data: the value of a level-1 expression."""

    expr: Node

    def __str__(self) -> str:
        from tensorc.ir.print_tensor import show  # it prints polynomials, so it imports this file

        return show(self.expr)  # type: ignore[arg-type]  # any Expr; this file knows only Node


Atom = Symbol | Floor | Bound | Opaque
Monomial = tuple[tuple[Atom, int], ...]


@node
class Polynomial(Node):
    """sum of coefficient * monomial; terms sorted, no zero coefficient, no repeated monomial."""

    terms: tuple[tuple[Monomial, int], ...]

    def __str__(self) -> str:
        from tensorc.ir.polynomial_text import text

        return text(self)

    def __add__(self, other: Polynomial | int) -> Polynomial:
        return collect((*self.terms, *polynomial(other).terms))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + polynomial(other) * -1

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        return collect(
            tuple((times(m, n), a * b) for m, a in self.terms for n, b in polynomial(other).terms)
        )

    def __neg__(self) -> Polynomial:
        return self * -1

    def __floordiv__(self, other: Polynomial | int) -> Polynomial:
        return floor_divide(self, polynomial(other))

    def __mod__(self, other: Polynomial | int) -> Polynomial:
        return self - polynomial(other) * (self // other)

    @property
    def constant(self) -> int | None:
        """Its value if it is a number, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None


def polynomial(value: Polynomial | int) -> Polynomial:
    """An integer as a polynomial; a polynomial as it is."""
    if isinstance(value, Polynomial):
        return value
    return Polynomial((((), value),)) if value else Polynomial(())


MOST_TERMS = 128  # more than any size or subscript that was meant


def product(factors: Iterable[Polynomial]) -> Polynomial | None:
    """The product, or None if it could have more than `MOST_TERMS` terms."""
    total = polynomial(1)
    for factor in factors:
        if len(total.terms) * len(factor.terms) > MOST_TERMS:
            return None
        total = total * factor
    return total


def extent(name: str) -> Polynomial:
    """|name| as a polynomial."""
    return of_atom(Symbol(name, "extent"))


def of_atom(atom: Atom) -> Polynomial:
    """The polynomial that is just `atom`."""
    return Polynomial(((((atom, 1),), 1),))


def floor_divide(a: Polynomial, b: Polynomial) -> Polynomial:
    """floor(a / b): terms that b divides leave the floor, the rest becomes an atom.

    A division by the number 0 is 0, as everywhere in the language. A symbolic divisor is taken to
    be at least 1, which sizes require; elsewhere ask first (`ir.integers`).
    """
    divisor = b.constant
    if divisor == 0:
        return polynomial(0)
    whole, rest = _split(a, b)
    if not rest.terms:
        return whole
    if divisor is not None and rest.constant is not None:
        return whole + rest.constant // divisor
    if divisor is not None and divisor > 0:
        inner = _inner_floor(rest)
        if inner is not None:
            floor, d, k = inner
            return whole + (floor.numerator + k * d) // polynomial(d * divisor)
    return whole + of_atom(Floor(rest, b))


def _inner_floor(item: Polynomial) -> tuple[Floor, int, int] | None:
    """(q, d, k) if the item is q + k, q a floor of positive number d: (q + k) // c can merge."""
    number = next((c for monomial, c in item.terms if not monomial), 0)
    (monomial, coefficient), *more = item.terms
    if coefficient != 1 or len(more) != (number != 0) or len(monomial) != 1:
        return None
    atom, power = monomial[0]
    d = atom.denominator.constant if isinstance(atom, Floor) and power == 1 else None
    return (atom, d, number) if isinstance(atom, Floor) and d is not None and d > 0 else None


def _split(a: Polynomial, b: Polynomial) -> tuple[Polynomial, Polynomial]:
    """(q, r) with a = q * b + r, taking into q the terms that b divides exactly."""
    if len(b.terms) != 1:
        return (polynomial(1), polynomial(0)) if a is b else (polynomial(0), a)
    (factor, scale), *_ = b.terms
    quotient: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for monomial, coefficient in a.terms:
        divided = _divide(monomial, factor)
        if divided is not None and coefficient % scale == 0:
            quotient.append((divided, coefficient // scale))
        else:
            rest.append((monomial, coefficient))
    return collect(tuple(quotient)), collect(tuple(rest))


def bound(which: str, args: tuple[Polynomial, ...]) -> Polynomial:
    """The minimum or maximum of `args`, folded where all are numbers or all are equal."""
    unique = tuple(sorted(set(args), key=_key))
    if len(unique) == 1:
        return unique[0]
    numbers = [arg.constant for arg in unique]
    known = [number for number in numbers if number is not None]
    choose = min if which == "min" else max
    if len(known) == len(unique):
        return polynomial(choose(known))
    return of_atom(Bound(which, unique))


def linear(item: Polynomial, atom: Atom) -> tuple[Polynomial | None, Polynomial]:
    """(c, r) with item = c * atom + r; c is None if the atom has another power or is inside one."""
    factor: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for monomial, coefficient in item.terms:
        if dict(monomial).get(atom) == 1:
            factor.append((tuple((a, n) for a, n in monomial if a is not atom), coefficient))
        else:
            rest.append((monomial, coefficient))
    c, r = collect(factor), collect(rest)
    return (None if occurs(atom, c) or occurs(atom, r) else c), r


def occurs(atom: Atom, item: Polynomial) -> bool:
    """Whether the atom stands in the polynomial, inside floors and bounds too."""
    if isinstance(atom, Symbol):
        return atom in symbols(item)
    return atom in atoms(item)


def order(atom: Atom) -> str:
    """A key by which atoms are ordered alike in every process."""
    return _atom_text(atom)


@fact
def atoms(item: Polynomial) -> frozenset[Atom]:
    """The atoms of the polynomial, not those inside floors and bounds."""
    return frozenset(atom for monomial, _ in item.terms for atom, _ in monomial)


@fact
def symbols(item: Polynomial) -> frozenset[Symbol]:
    """Every symbol in the polynomial, inside floors and bounds too; opaque reads have none."""
    found: set[Symbol] = set()
    for atom in atoms(item):
        match atom:
            case Symbol():
                found.add(atom)
            case Floor(numerator, denominator):
                found |= symbols(numerator) | symbols(denominator)
            case Bound(_, args):
                found.update(*(symbols(arg) for arg in args))
            case Opaque():
                pass
    return frozenset(found)


Change = Callable[[Atom], "Polynomial | None"]


def substitute(
    item: Polynomial,
    change: Change,
    divide: Callable[[Polynomial, Polynomial], Polynomial] = floor_divide,
) -> Polynomial:
    """`item` with each atom replaced by `change(atom)` where that is not None, inside out.

    `divide` makes the floors again; `floor_divide` takes their divisors to be at least 1.
    """
    return _Substitution(change, divide).of(item)


class _Substitution:
    """Remembers what became of each atom: nested floors share much."""

    def __init__(
        self, change: Change, divide: Callable[[Polynomial, Polynomial], Polynomial]
    ) -> None:
        self.change = change
        self.divide = divide
        self.done: dict[Atom, Polynomial] = {}

    def of(self, item: Polynomial) -> Polynomial:
        total = polynomial(0)
        for monomial, coefficient in item.terms:
            term = polynomial(coefficient)
            for atom, power in monomial:
                if atom not in self.done:
                    self.done[atom] = self._atom(atom)
                for _ in range(power):
                    term = term * self.done[atom]
            total = total + term
        return total

    def _atom(self, atom: Atom) -> Polynomial:
        new = self.change(atom)
        if new is not None:
            return new
        match atom:
            case Floor(numerator, denominator):
                return self.divide(self.of(numerator), self.of(denominator))
            case Bound(which, args):
                return bound(which, tuple(map(self.of, args)))
            case Symbol() | Opaque():
                return of_atom(atom)


def evaluate(item: Polynomial, values: Mapping[Symbol, int]) -> int:
    """The exact value where every symbol has one. KeyError: the symbol that has none."""

    def known(atom: Atom) -> Polynomial | None:
        return polynomial(values[atom]) if isinstance(atom, Symbol) else None

    number = substitute(item, known).constant
    if number is None:
        raise KeyError(str(item))
    return number


def known_extents(
    extents: Iterable[tuple[str, Polynomial]], static: Mapping[str, int]
) -> dict[str, int]:
    """The extents in `static`, and all that follow from them."""
    found, values = dict(static), {Symbol(name, "extent"): n for name, n in static.items()}
    for name, size in extents:
        if name not in found and symbols(size) <= values.keys():
            found[name] = evaluate(size, values)
    return found


def collect(terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
    """The canonical polynomial of a sum of terms in any order."""
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(monomial, coefficient) for monomial, coefficient in total.items() if coefficient]
    if len(kept) < 2:
        return Polynomial(tuple(kept))
    return Polynomial(tuple(sorted(kept, key=lambda term: _monomial_key(term[0]))))


@lru_cache(maxsize=8192)
def _monomial_key(monomial: Monomial) -> tuple[int, str]:
    """Higher degree first, the number last; then by name."""
    return -sum(power for _, power in monomial), _monomial_text(monomial)


def _monomial_text(monomial: Monomial) -> str:
    return "*".join(f"{_atom_text(atom)}^{power}" for atom, power in monomial)


@fact
def _atom_text(atom: Atom) -> str:
    """A text by which atoms are ordered: the same in every process, and short however much a
    nest of floors shares."""
    text = _spelled(atom)
    return text if len(text) < 160 else f"~{digest_of(text)}"


def _spelled(atom: Atom) -> str:
    match atom:
        case Symbol():
            return str(atom)
        case Floor(numerator, denominator):
            return f"({_key(numerator)}) // ({_key(denominator)})"
        case Bound(which, args):
            return f"{which}({', '.join(map(_key, args))})"
        case Opaque(expr):
            return f"~{digest(expr)}"


@fact
def _key(item: Polynomial) -> str:
    return " + ".join(f"{c}*{_monomial_text(m)}" for m, c in item.terms)


@lru_cache(maxsize=1 << 14)
def times(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials."""
    if not a or not b:
        return a or b
    powers: dict[Atom, int] = dict(a)
    for atom, power in b:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(powers.items(), key=lambda pair: _atom_text(pair[0])))


def _divide(monomial: Monomial, factor: Monomial) -> Monomial | None:
    powers: dict[Atom, int] = dict(monomial)
    for atom, power in factor:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return tuple((atom, power) for atom, power in powers.items() if power)
