"""Random accesses, and what they do at every point of small sizes: the oracle of the range prover.

An access is a subscript, the extent of its dimension, the indices that have values and conditions.
The oracle evaluates it with NumPy at all sizes 0..4 of two extents, all values of a `const`
parameter and of data in a few, and all points of the box; integers of strong types wrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
from numpy.typing import NDArray

from tensorc.ir import polynomial as p
from tensorc.ir.dtypes import BOOL, I32, I64, INTEGER, U8, DType, integer_range, settled
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.integers import deep_atoms
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Bound, Floor, Polynomial, Symbol
from tensorc.ir.tensor import (
    Apply,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Select,
    Tensor,
    value_type,
)

Column = NDArray[np.int64]

N, M = p.extent("n"), p.extent("m")
W = p.of_atom(Symbol("w", "parameter"))
SIZES = (N, N, M, N * M, (N + 1) // 2, N + M, N * 2, N - M + 1, (N - M) // 2 + 1, p.polynomial(1),
         p.polynomial(3), p.polynomial(4), (N + 3) // 4, N // M, W, W * W)  # fmt: skip
SCALAR = Tensor("w", I64, ())
BYTES = Tensor("bytes", U8, (N,))
WORDS = Tensor("words", I32, (N,))
DATA = {BYTES: (0, 1, 2, 3, 255), WORDS: (-(1 << 31), -1, 0, 1, 3, (1 << 31) - 1)}
DRAWN = (Literal, Position, Extent, Read, Select, Apply)


@dataclass(frozen=True)
class Case:
    """One access: 0 <= subscript < limit is asked where `guards` hold."""

    subscript: Expr
    limit: Polynomial
    extents: Mapping[str, Polynomial]
    guards: tuple[Expr, ...]

    @property
    def scope(self) -> frozenset[str]:
        """The indices that have values: all but n and m, which are only extents."""
        return frozenset(self.extents) - {"n", "m"}


def literal(value: int) -> Expr:
    """An integer literal."""
    return Literal(Fraction(value), INTEGER)


def draw(random: Random) -> Case:
    """A random access; about a third of them are provable."""
    extents = {"n": N, "m": M}
    extents |= {name: random.choice(SIZES) for name in ("i", "j", "k")[: random.randint(1, 3)]}
    names = [name for name in extents if name not in ("n", "m")]
    subscript = _value(random, names, random.randint(1, 3))
    limit = random.choice((*SIZES, extents[names[0]], extents[names[0]] * 2))
    guards = [_condition(random, names, 2) for _ in range(random.choice((0, 0, 0, 1, 1, 2)))]
    if random.random() < 0.25:  # a condition that is about the subscript itself
        guards.append(_apply("lt", subscript, _size(random)))
    if random.random() < 0.25:
        guards.append(_apply("le", literal(0), subscript))
    return Case(subscript, limit, extents, tuple(guards))


def _apply(name: str, *args: Expr) -> Expr:
    return Apply(FUNCTIONS[name], args)


def _size(random: Random) -> Expr:
    return random.choice((Extent("n"), Extent("m"), literal(random.randint(-1, 5)), Extent("i")))


def _leaf(random: Random, names: list[str]) -> Expr:
    kind = random.random()
    if kind < 0.6:
        return Position(random.choice(names))
    if kind < 0.75:
        return literal(random.randint(-3, 4))
    if kind < 0.88:
        return Extent(random.choice((*names, "n", "m")))
    if kind < 0.91:
        return Read(SCALAR, ())
    return Read(random.choice((BYTES, WORDS)), (Position(random.choice(names)),))


def _value(random: Random, names: list[str], depth: int) -> Expr:
    if depth == 0 or random.random() < 0.1:
        return _leaf(random, names)
    a = _value(random, names, depth - 1)
    match random.choice("aaaassmmddrrkcxltb"):
        case "a":
            return _apply("add", a, _value(random, names, depth - 1))
        case "s":
            return _apply("sub", a, _value(random, names, depth - 1))
        case "m":
            return _apply("mul", a, random.choice((literal(2), literal(3), _leaf(random, names))))
        case "d" if random.random() < 0.2:  # a factor divided by itself, which may be 0
            size = _divisor(random)
            return _apply("floordiv", _apply("mul", a, size), size)
        case "d":
            return _apply("floordiv", a, _divisor(random))
        case "r":
            return _apply("mod", a, _divisor(random))
        case "k":
            return _apply("bitand", a, literal(random.choice((1, 3, 5, 7))))
        case "c":
            high = _apply("sub", Extent(random.choice(("n", "m"))), literal(1))
            return _apply("min", _apply("max", a, literal(0)), high)
        case "x":
            other = _value(random, names, depth - 1)
            return _apply(random.choice(("min", "max")), a, other)
        case "l":
            return _apply("shr", a, literal(random.randint(0, 2)))
        case "t":
            return _apply("abs", a)
        case _:
            condition = _condition(random, names, 1)
            return Select(condition, a, _value(random, names, depth - 1))


def _divisor(random: Random) -> Expr:
    size = Extent(random.choice(("n", "m", "i")))
    kinds = (literal(2), literal(3), literal(4), size, size, Position("i"), literal(0), literal(-2))
    ratio = _apply("floordiv", Extent("n"), Extent("m"))
    return random.choice((*kinds, ratio, _apply("add", size, literal(1))))


def _condition(random: Random, names: list[str], depth: int) -> Expr:
    if depth and random.random() < 0.3:
        a, b = _condition(random, names, depth - 1), _condition(random, names, depth - 1)
        return random.choice((_apply("and", a, b), _apply("or", a, b), _apply("not", a)))
    name = random.choice(("lt", "le", "gt", "ge", "eq", "ne"))
    right = random.choice((_size(random), _leaf(random, names)))
    return _apply(name, _value(random, names, 1), right)


class Points:
    """Every point of a case: sizes, parameter, data and indices, one column each."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.nodes = [e for e in postorder((case.subscript, *case.guards))]
        reads = [e for e in self.nodes if isinstance(e, Read) and e.tensor in DATA]
        needs_w = self._mentions_w()
        axes: dict[object, Column] = {"n": np.arange(5), "m": np.arange(5)}
        axes["w"] = np.arange(-2, 4) if needs_w else np.zeros(1, dtype=np.int64)
        for read in reads:
            axes[read] = np.array(DATA[read.tensor])
        sizes = [np.ravel(c) for c in np.meshgrid(*axes.values(), indexing="ij")]
        self.columns: dict[object, Column] = dict(zip(axes, sizes, strict=True))
        self._keep(self._sizes_are_legal())
        for name in sorted(case.scope):
            self._spread(name)

    def _mentions_w(self) -> bool:
        polynomials = (self.case.limit, *self.case.extents.values())
        symbols = {s.name for item in polynomials for s in p.symbols(item)}
        return "w" in symbols or Read(SCALAR, ()) in self.nodes

    def _keep(self, mask: NDArray[np.bool_]) -> None:
        self.columns = {key: column[mask] for key, column in self.columns.items()}

    def _sizes_are_legal(self) -> NDArray[np.bool_]:
        """No size is negative and no divisor of one below 1: a call refuses others (E206)."""
        legal = np.ones(len(self.columns["n"]), dtype=bool)
        for size in (self.case.limit, *self.case.extents.values()):
            legal &= self.size(size) >= 0
            for atom in deep_atoms(size):
                if isinstance(atom, Floor):
                    legal &= self.size(atom.denominator) >= 1
        return legal

    def _spread(self, name: str) -> None:
        """One more column: each row repeated for every value of the index."""
        counts = self.size(self.case.extents[name])
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        self.columns = {key: np.repeat(column, counts) for key, column in self.columns.items()}
        self.columns["index", name] = np.arange(len(starts)) - starts

    def size(self, item: Polynomial) -> Column:
        """A size's value in every row."""
        total = np.zeros(len(self.columns["n"]), dtype=np.int64)
        for monomial, coefficient in item.terms:
            term = np.full_like(total, coefficient)
            for atom, power in monomial:
                term = term * self._atom(atom) ** power
            total = total + term
        return total

    def _atom(self, atom: p.Atom) -> Column:
        match atom:
            case Symbol(name, _):
                return self.columns[name]
            case Floor(numerator, denominator):
                return _divide(self.size(numerator), self.size(denominator))
            case Bound(which, args):
                choose = np.minimum if which == "min" else np.maximum
                return choose.reduce([self.size(arg) for arg in args])
            case _:
                raise AssertionError("sizes hold no data")

    def value(self, root: Expr) -> Column:
        """An expression's value in every row (bools as 0 and 1)."""
        known: dict[object, Column] = {}
        for item in postorder([root]):
            if isinstance(item, DRAWN):
                known[item] = self._node(item, known)
        return known[root]

    def _node(self, item: Expr, known: Mapping[object, Column]) -> Column:
        match item:
            case Literal(value, _):
                return np.full(len(self.columns["n"]), int(value))  # type: ignore[arg-type]
            case Position(name):
                return self.columns["index", name]
            case Extent(name):
                return self.size(self.case.extents[name])
            case Read(tensor, _):
                return self.columns["w"] if tensor is SCALAR else self.columns[item]
            case Select(condition, yes, no):
                return np.where(known[condition] != 0, known[yes], known[no])
            case Apply(function, args):
                exact = _scalar(function.name, [known[arg] for arg in args])
                return _wrapped(exact, value_type(item))
            case _:
                raise AssertionError(f"not drawn: {item}")


def _wrapped(values: Column, dtype: DType) -> Column:
    """Two's complement of a strong narrow type; weak and 64-bit values stay in range here."""
    if dtype.weak or dtype is BOOL or settled(dtype).bits == 64:
        return values
    low, high = integer_range(dtype)
    return (values - low) % (high - low + 1) + low


def _divide(n: Column, d: Column) -> Column:
    return np.where(d == 0, 0, n // np.where(d == 0, 1, d))


def _scalar(name: str, args: list[Column]) -> Column:
    a, b = args[0], args[-1]
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "floordiv":
            return _divide(a, b)
        case "mod":
            return a - b * _divide(a, b)
        case "bitand":
            return a & b
        case "shr":
            return a >> b
        case "abs":
            return np.abs(a)
        case "min" | "max":
            return np.minimum(a, b) if name == "min" else np.maximum(a, b)
        case "and" | "or":
            return a & b if name == "and" else a | b
        case "not":
            return 1 - a
        case _:
            tests = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b}
            return (a != b if name == "ne" else tests[name]).astype(np.int64)


def outcome(case: Case) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Points]:
    """At every point: whether the access is evaluated, whether it is in range; and the points."""
    points = Points(case)
    evaluated = np.ones(len(points.columns["n"]), dtype=bool)
    for guard in case.guards:
        evaluated &= points.value(guard) != 0
    value = points.value(case.subscript)
    return evaluated, (value >= 0) & (value < points.size(case.limit)), points
