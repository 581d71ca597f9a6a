"""Integer expressions as polynomials and conditions as alternatives of inequalities.

A subscript's arithmetic is in unbounded integers as long as the types it is computed in cannot
wrap (`ir.intervals`); where they might, the expression is opaque: an unknown of known range. A
division keeps its form unless the divisor is at least 1 here, since `x // 0` is 0 and cancels
nothing. What is said here holds at one point of the evaluation, where certain indices have values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tensorc.ir import polynomial as p
from tensorc.ir.conditions import COMPARED, NEGATED, Case, all_of, compared, is_integer, one_of
from tensorc.ir.dtypes import BOOL, I64, INTEGER
from tensorc.ir.intervals import interval, whole
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Floor, Opaque, Polynomial, Symbol
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Round,
    value_type,
)

_PARTS = (Apply, Cast, Round)  # what is not known at once


class Integers:
    """Conversions where the indices in `scope` have values, so that their extents are >= 1.

    `extents`: index to extent; `scalars`: what 0-d tensors are worth (`scalars_of`).
    """

    def __init__(
        self,
        extents: Mapping[str, Polynomial],
        scope: frozenset[str],
        scalars: Mapping[str, Polynomial],
    ) -> None:
        self.extents = extents
        self.scope = scope
        self.scalars = scalars
        here = [extents[name] for name in sorted(scope) if name in extents]
        self.positive = [size for size in here if size.constant is None]
        self.ones = frozenset(atom for size in here for atom in _factors(size))
        floors = {a for size in extents.values() for a in deep_atoms(size)}
        self.divisors = frozenset(a.denominator for a in floors if isinstance(a, Floor))
        self._signs: dict[tuple[Polynomial, int], bool] = {}
        self._polynomials: dict[Expr, Polynomial] = {}
        self._cases: dict[tuple[Expr, bool], tuple[Case, ...] | None] = {}

    def least(self, atom: p.Atom) -> int | None:
        """A lower bound: 1 for a factor of a size that an index in scope walks, 0 for extents and
        quotients of what is not negative."""
        if atom in self.ones:
            return 1
        match atom:
            case Symbol(_, "extent"):
                return 0
            case Floor(numerator, denominator):
                both = self.at_least(numerator, 0) and self.at_least(denominator, 0)
                return 0 if both else None
            case _:
                return None

    def at_least(self, value: Polynomial, bound: int) -> bool:
        """Whether a polynomial of extents is >= bound by the signs of its coefficients alone.

        Each extent N is replaced by N' + its lower bound; then no coefficient may be negative.
        """
        number = value.constant
        if number is not None:
            return number >= bound
        key = value, bound
        if key not in self._signs:
            self._signs[key] = self._sign(value, bound)
        return self._signs[key]

    def _sign(self, value: Polynomial, bound: int) -> bool:
        if bound <= 1 and value in self.divisors:
            return True  # a size with a divisor below 1 is refused before anything runs
        if any(self.least(atom) is None for atom in p.atoms(value)):
            return False
        shifted = p.substitute(value, lambda a: p.of_atom(a) + (self.least(a) or 0)) - bound
        return all(coefficient >= 0 for _, coefficient in shifted.terms)

    def polynomial(self, expr: Expr) -> Polynomial:
        """The value of an integer or bool expression; opaque where it is not arithmetic."""
        if expr not in self._polynomials:
            for part in postorder([expr]):
                if isinstance(part, _PARTS) and is_integer(part):
                    self._polynomials.setdefault(part, self._convert(part))
            self._polynomials.setdefault(expr, self._convert(expr))
        return self._polynomials[expr]

    def _convert(self, expr: Expr) -> Polynomial:
        match expr:
            case Literal(Fraction() as value, dtype) if dtype is INTEGER or dtype is BOOL:
                return p.polynomial(int(value))
            case Position(name):
                extent = self.extents.get(name)
                only = extent is not None and extent.constant == 1
                return p.polynomial(0) if only else p.of_atom(Symbol(name, "index"))
            case Extent(name):
                return self.extents.get(name, p.extent(name))
            case Read(tensor, ()) if tensor.name in self.scalars:
                return self.scalars[tensor.name]
            case Cast(dtype, arg) | Round(dtype, arg) if _fits(arg, expr):
                return self.polynomial(arg) if dtype is not BOOL else opaque(expr)
            case Apply(function, args) if not any(value_type(a).floating for a in args):
                value = _short(self._apply(function.name, args))
                exact = value is not None and (function.name == "mod" or _exact(expr, value))
                return value if value is not None and exact else opaque(expr)
            case _:
                return opaque(expr)

    def _apply(self, name: str, args: Sequence[Expr]) -> Polynomial | None:
        match name, args:
            case "add", _:
                return sum(map(self.polynomial, args), p.polynomial(0))
            case "sub", (a, b):
                return self.polynomial(a) - self.polynomial(b)
            case "neg", (a,):
                return -self.polynomial(a)
            case "mul", _:
                return p.product([self.polynomial(arg) for arg in args])
            case (("min" | "max"), _):
                return p.bound(name, tuple(map(self.polynomial, args)))
            case "abs", (a,):
                x = self.polynomial(a)
                return p.bound("max", (x, -x))
            case (("floordiv" | "mod"), (a, b)):
                return self._divide(name, self.polynomial(a), self.polynomial(b))
            case (("bitand" | "shr" | "shl"), (a, b)):
                return self._bits(name, self.polynomial(a), self.polynomial(b))
            case _:
                return None

    def divide(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """floor(a / b), simplified only where b is at least 1 or a number."""
        plain = b.constant is not None or self.at_least(b, 1)
        return a // b if plain else p.of_atom(Floor(a, b))

    def _divide(self, name: str, a: Polynomial, b: Polynomial) -> Polynomial:
        quotient = self.divide(a, b)
        return quotient if name == "floordiv" else a - b * quotient

    def _bits(self, name: str, a: Polynomial, b: Polynomial) -> Polynomial | None:
        """`x & (2**k - 1)` is x modulo 2**k, `x >> k` floors x / 2**k, `x << k` multiplies."""
        number = b.constant
        if number is None or number < 0:
            return None
        if name == "bitand":
            return a % (number + 1) if number & (number + 1) == 0 else None
        if number >= 32:
            return None
        return a // (1 << number) if name == "shr" else a * (1 << number)

    def cases(self, condition: Expr, holds: bool = True) -> tuple[Case, ...] | None:
        """Alternatives, one of which is true where `condition` (or its negation) holds.

        None: the condition says nothing about integers, or has too many alternatives.
        """
        key = condition, holds
        if key not in self._cases:
            self._cases[key] = self._alternatives(condition, holds)
        return self._cases[key]

    def _alternatives(self, condition: Expr, holds: bool) -> tuple[Case, ...] | None:
        match condition:
            case Literal(Fraction() as value, _):
                return ((),) if bool(value) == holds else ()
            case Apply(function, (arg,)) if function.name == "not":
                return self.cases(arg, not holds)
            case Apply(function, args) if function.name in ("and", "or"):
                every = (function.name == "and") == holds
                parts = [self.cases(arg, holds) for arg in args]
                return all_of(parts) if every else one_of(parts)
            case Apply(function, (a, b)) if function.name in COMPARED:
                if not is_integer(a) or not is_integer(b):
                    return None
                name = function.name if holds else NEGATED[function.name]
                return compared(name, self.polynomial(b) - self.polynomial(a))
            case _:
                return None


def _short(value: Polynomial | None) -> Polynomial | None:
    return value if value is None or len(value.terms) <= p.MOST_TERMS else None


def opaque(expr: Expr) -> Polynomial:
    """The value of `expr` as an unknown; a number where its range has one value."""
    known = interval(expr)
    if known is not None and known[0] == known[1]:
        return p.polynomial(known[0])
    return p.of_atom(Opaque(expr))


def _factors(size: Polynomial) -> frozenset[p.Atom]:
    """What is at least 1 because a size, their product, is: extents and one unknown more."""
    if len(size.terms) != 1 or size.terms[0][1] < 0:
        return frozenset()
    powers = dict(size.terms[0][0])
    extents = {a for a in powers if isinstance(a, Symbol) and a.kind == "extent"}
    others = [atom for atom in powers if atom not in extents]
    if len(others) > 1 or any(powers[atom] > 1 for atom in others):
        return frozenset(extents)
    return frozenset(powers)


def _fits(arg: Expr, converted: Expr) -> bool:
    return interval(arg) is not None and interval(arg) == interval(converted)


def _exact(expr: Apply, value: Polynomial) -> bool:
    """Whether integer arithmetic on these operands cannot wrap.

    `interval` gives a strong type's whole range where it might, so that range is not enough. An
    i64 made of positions, extents and `const` parameters alone is as unbounded as a position.
    """
    dtype = value_type(expr)
    if dtype.weak or interval(expr) != whole(dtype):
        return True
    return dtype is I64 and not any(isinstance(atom, Opaque) for atom in deep_atoms(value))


def scalars_of(program: Program) -> dict[str, Polynomial]:
    """What the 0-d tensors of a program are worth in sizes and subscripts.

    Integer `const` parameters stand for themselves; a 0-d equation of sizes has their value.
    """
    found: dict[str, Polynomial] = {}
    for item in program.parameters:
        if item.const and not item.dims and item.tensor.dtype.integral:
            found[item.tensor.name] = p.of_atom(Symbol(item.tensor.name, "parameter"))
    for equation in program.equations:
        if not equation.indices and value_type(equation.body).integral:
            integers = Integers(program.extent_of, frozenset(), found)
            value = integers.polynomial(equation.body)
            if all(not isinstance(atom, Opaque) for atom in deep_atoms(value)):
                found[equation.tensor.name] = value
    return found


def deep_atoms(value: Polynomial) -> set[p.Atom]:
    """Every atom of a polynomial, those inside floors and bounds too."""
    found: set[p.Atom] = set()
    stack = [value]
    while stack:
        for atom in p.atoms(stack.pop()):
            if atom in found:
                continue
            found.add(atom)
            match atom:
                case Floor(numerator, denominator):
                    stack += [numerator, denominator]
                case p.Bound(_, args):
                    stack += args
                case _:
                    pass
    return found
