"""Sizes where some extents are known to be multiples of a number: `64 * (|n| // 64)` is `|n|`."""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.ir.polynomial import (
    Atom,
    Monomial,
    Polynomial,
    Symbol,
    atoms,
    collect,
    of_atom,
    substitute,
    times,
)


def whole_blocks(item: Polynomial, multiples: Mapping[str, int]) -> Polynomial:
    """`item` with the floors that `multiples` (number by index name) make exact taken away; as it
    is where something would remain divided."""
    if not multiples or all(isinstance(atom, Symbol) for atom in atoms(item)):
        return item

    def in_blocks(atom: Atom) -> Polynomial | None:
        match atom:
            case Symbol(name, "extent") if name in multiples:
                return of_atom(Symbol(name, _BLOCKS)) * multiples[name]
            case _:
                return None

    terms: list[tuple[Monomial, int]] = []
    for monomial, coefficient in substitute(item, in_blocks).terms:
        divided = _extents(monomial, coefficient, multiples)
        if divided is None:
            return item
        terms.append(divided)
    return collect(tuple(terms))


_BLOCKS = "blocks"  # the kind of a symbol that counts the blocks of an extent


def _extents(
    monomial: Monomial, coefficient: int, multiples: Mapping[str, int]
) -> tuple[Monomial, int] | None:
    """A term in extents again; None where its coefficient is too small for that, or where blocks
    stand inside an atom."""
    made: Monomial = ()
    for atom, power in monomial:
        match atom:
            case Symbol(name, kind) if kind == _BLOCKS:
                coefficient, rest = divmod(coefficient, multiples[name] ** power)
                if rest:
                    return None
                made = times(made, ((Symbol(name, "extent"), power),))
            case Symbol():
                made = times(made, ((atom, power),))
            case _:
                return None
    return made, coefficient
