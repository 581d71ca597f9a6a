"""Sizes as C: exact 64-bit integers whose every step is checked.

Polynomials become calls of `tc_mul` and its like, which set `bad` where a result leaves 64 bits; a
launcher refuses the call then, so that no address is ever made of a product that wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tensorc.ir.polynomial import Atom, Bound, Floor, Monomial, Opaque, Polynomial, Symbol

CHECKED = """\
static inline int64_t tc_mul(int64_t a, int64_t b, int *bad) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) *bad = 1, r = 0;
  return r;
}
static inline int64_t tc_add(int64_t a, int64_t b, int *bad) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) *bad = 1, r = 0;
  return r;
}
static inline int64_t tc_floordiv(int64_t a, int64_t b, int *bad) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return *bad = 1, 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t tc_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tc_max(int64_t a, int64_t b) { return a > b ? a : b; }
"""


def sized(item: Polynomial, symbol: Callable[[Symbol], str]) -> str:
    """The value of a size as a C expression. `symbol`: the text of a symbol. ValueError: a size
    that depends on data."""
    return added([_term(monomial, factor, symbol) for monomial, factor in item.terms])


def added(terms: Sequence[str]) -> str:
    """The checked sum."""
    return reduce(lambda a, b: f"tc_add({a}, {b}, &bad)", terms) if terms else "0"


def multiplied(factors: Sequence[str]) -> str:
    """The checked product; factors that are 1 are left out."""
    wanted = [factor for factor in factors if factor != "1"]
    return reduce(lambda a, b: f"tc_mul({a}, {b}, &bad)", wanted) if wanted else "1"


def _term(monomial: Monomial, factor: int, symbol: Callable[[Symbol], str]) -> str:
    atoms = [_atom(atom, symbol) for atom, power in monomial for _ in range(power)]
    return multiplied([*atoms, number(factor)])


def number(value: int) -> str:
    """A constant. ValueError: it has more than 64 bits."""
    if not -(2**63) < value < 2**63:
        raise ValueError(f"{value} is no 64-bit number")
    return f"{value}" if abs(value) < 2**31 else f"INT64_C({value})"


def _atom(atom: Atom, symbol: Callable[[Symbol], str]) -> str:
    match atom:
        case Symbol():
            return symbol(atom)
        case Floor(a, b):
            return f"tc_floordiv({sized(a, symbol)}, {sized(b, symbol)}, &bad)"
        case Bound(which, args):
            texts = [sized(arg, symbol) for arg in args]
            return reduce(lambda a, b: f"tc_{which}({a}, {b})", texts)
        case Opaque():
            raise ValueError(f"the size {atom} depends on data")
