"""A size condition at known sizes: is 0 <= value < limit at every point where its guards hold?

First the prover, with numbers for extents; then every point, up to `MOST_POINTS` (language 3). The
points are tried with NumPy in 64-bit integers where no partial result can leave them, else in
Python's.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from tensorc.ir import polynomial as p
from tensorc.ir.conditions import comparisons
from tensorc.ir.diagnostics import fault
from tensorc.ir.integers import Integers
from tensorc.ir.polynomial import Bound, Floor, Opaque, Polynomial, Symbol
from tensorc.ir.ranges import Ranges
from tensorc.ir.source import Diagnostic
from tensorc.ir.tensor import Apply, Condition, Expr, Literal
from tensorc.ir.wording import dimension

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Grid = NDArray[np.int64] | NDArray[np.object_]
    Truth = NDArray[np.bool_]

MOST_POINTS = 1 << 20
_SAFE = 1 << 62


def decide(
    condition: Condition,
    values: Mapping[Symbol, int],
    extents: Mapping[str, int],
    scalars: Mapping[str, Polynomial],
) -> Diagnostic | None:
    """E216 if the condition fails at these sizes, E217 if that cannot be found out, else None."""
    if not all(extents[name] for name in condition.indices):
        return None  # nothing is evaluated
    sizes = {name: p.polynomial(size) for name, size in extents.items()}
    value = _with(condition.value, values)
    limit = p.evaluate(condition.limit, values)
    ranges = Ranges(sizes, condition.indices, condition.guards, scalars)
    if ranges.holds(value) and ranges.holds(-value + (limit - 1)):
        return None
    names = _mentioned(value, condition.guards, ranges.integers)
    points = prod(extents[name] for name in names)
    if points > MOST_POINTS:
        return _undecided(condition, points)
    box = {name: extents[name] for name in names}
    return _search(condition, value, limit, box, ranges.integers, extents)


def _with(value: Polynomial, values: Mapping[Symbol, int]) -> Polynomial:
    def known(atom: p.Atom) -> Polynomial | None:
        if isinstance(atom, Symbol) and atom in values:
            return p.polynomial(values[atom])
        return None

    return p.substitute(value, known)


def _mentioned(value: Polynomial, guards: tuple[Expr, ...], integers: Integers) -> list[str]:
    """The indices on which value and guards depend."""
    found = {symbol.name for symbol in p.symbols(value) if symbol.kind == "index"}
    for guard in guards:
        found |= {s.name for leaf in comparisons(guard) for s in _symbols(leaf, integers)}
    return sorted(found)


def _symbols(leaf: Expr, integers: Integers) -> list[Symbol]:
    if not isinstance(leaf, Apply):
        return []
    both = [p.symbols(integers.polynomial(arg)) for arg in leaf.args]
    return [symbol for part in both for symbol in part if symbol.kind == "index"]


def _search(
    condition: Condition,
    value: Polynomial,
    limit: int,
    box: Mapping[str, int],
    integers: Integers,
    extents: Mapping[str, int],
) -> Diagnostic | None:
    import numpy as np

    grids = _Grids(box, integers)
    here = grids.of(value)
    outside = np.asarray((here < 0) | (here >= limit))
    for guard in condition.guards:
        outside = outside & grids.holds(guard)
    if not outside.any():
        return None
    shape = tuple(box.values())
    flat = int(np.argmax(np.broadcast_to(outside, shape))) if shape else 0
    at = [int(n) for n in np.unravel_index(flat, shape)] if shape else []
    reached = int(np.broadcast_to(here, shape)[tuple(at)])
    return _failed(condition, reached, limit, dict(zip(box, at, strict=True)), extents)


class _Grids:
    """Values of polynomials and conditions at every point of a box, one axis per index."""

    def __init__(self, box: Mapping[str, int], integers: Integers) -> None:
        import numpy as np

        self.integers = integers
        self.box = box
        self.truths: dict[Expr, Truth] = {}
        rank = len(box)
        self.axes: dict[str, NDArray[np.int64]] = {
            name: np.arange(size, dtype=np.int64).reshape(
                [-1 if a == at else 1 for a in range(rank)]
            )
            for at, (name, size) in enumerate(box.items())
        }

    def of(self, value: Polynomial) -> Grid:
        """The polynomial's value at every point (broadcast over indices that it lacks)."""
        import numpy as np

        safe = self._magnitude(value) < _SAFE
        total: Grid = np.zeros([1] * len(self.box), dtype=np.int64 if safe else object)
        for monomial, coefficient in value.terms:
            term: Grid = np.full_like(total, coefficient)
            for atom, power in monomial:
                for _ in range(power):
                    term = term * self._atom(atom, safe)
            total = total + term
        return total

    def _atom(self, atom: p.Atom, safe: bool) -> Grid:
        import numpy as np

        match atom:
            case Symbol(name, _):
                return self.axes[name] if safe else self.axes[name].astype(object)
            case Floor(numerator, denominator):
                n, d = self.of(numerator), self.of(denominator)
                return np.where(d == 0, 0, n // np.where(d == 0, 1, d))
            case Bound(which, args):
                choose = np.minimum if which == "min" else np.maximum
                grids = [self.of(arg) for arg in args]
                total = grids[0]
                for grid in grids[1:]:
                    total = choose(total, grid)
                return total
            case Opaque():
                raise KeyError("a size condition holds no data")

    def _magnitude(self, value: Polynomial) -> int:
        """A bound of the absolute value of every partial result."""
        total = 0
        for monomial, coefficient in value.terms:
            total += abs(coefficient) * prod(self._largest(a) ** n for a, n in monomial)
        return total

    def _largest(self, atom: p.Atom) -> int:
        match atom:
            case Symbol(name, _):
                return self.box[name]
            case Floor(numerator, denominator):
                return max(1, self._magnitude(numerator), self._magnitude(denominator))
            case Bound(_, args):
                return max(1, *(self._magnitude(arg) for arg in args))
            case Opaque():
                return _SAFE

    def holds(self, guard: Expr) -> Truth:
        """Where a condition on integers holds."""
        if guard not in self.truths:
            self.truths[guard] = self._truth(guard)
        return self.truths[guard]

    def _truth(self, guard: Expr) -> Truth:
        import numpy as np

        match guard:
            case Literal(value, _):
                return np.asarray(value == 1)
            case Apply(function, args) if function.name == "not":
                return ~self.holds(args[0])
            case Apply(function, args) if function.name in ("and", "or"):
                parts = [self.holds(arg) for arg in args]
                total = parts[0]
                for part in parts[1:]:
                    total = total & part if function.name == "and" else total | part
                return total
            case Apply(function, (a, b)):
                polynomial = self.integers.polynomial
                return _compare(function.name, self.of(polynomial(a)), self.of(polynomial(b)))
            case _:
                raise KeyError("a size condition's guards are comparisons of integers")


def _compare(name: str, a: Grid, b: Grid) -> Truth:
    import numpy as np

    table = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}
    return np.asarray(table[name], dtype=bool)


def _failed(
    condition: Condition,
    reached: int,
    limit: int,
    point: Mapping[str, int],
    extents: Mapping[str, int],
) -> Diagnostic:
    symbols = sorted(p.symbols(condition.value) | p.symbols(condition.limit), key=str)
    sizes = [f"{symbol}={extents[symbol.name]}" for symbol in symbols if symbol.kind == "extent"]
    at = [f"{name}={value}" for name, value in point.items()]
    return fault(
        "E216",
        condition.span,
        found=", ".join((*sizes, *at)),
        access=condition.what,
        value=reached,
        dim=dimension(condition.limit),
        extent=limit,
        sizes="",
    )


def _undecided(condition: Condition, points: int) -> Diagnostic:
    limit = f"{MOST_POINTS} points"
    return fault("E217", condition.span, access=condition.what, points=points, limit=limit)
