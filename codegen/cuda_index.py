"""Non-negative integers of emitted code that know their range, so that tables of layouts written
for numbers (`machine.fragments`) give C++ text: `thread % 32 // 4` of a lane is `lane / 4`.

    Index.of("lane", 32) // 4 * 2 + 1     ->     2 * (lane / 4) + 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Index:
    """sum of factor * atom + constant; an atom is a text with its largest value."""

    factors: tuple[tuple[str, int], ...]  # sorted by text; positive
    most: tuple[int, ...]  # the largest value of each atom
    constant: int = 0

    @staticmethod
    def of(text: str, count: int) -> Index:
        """A variable of 0 .. count - 1."""
        return Index(((text, 1),), (count - 1,)) if count > 1 else Index((), ())

    @staticmethod
    def number(value: int) -> Index:
        """A constant."""
        return Index((), (), value)

    @property
    def top(self) -> int:
        """The largest value."""
        pairs = zip(self.factors, self.most, strict=True)
        return self.constant + sum(factor * most for (_, factor), most in pairs)

    def __str__(self) -> str:
        terms = [f"{factor} * {text}" if factor > 1 else text for text, factor in self.factors]
        terms += [str(self.constant)] if self.constant or not terms else []
        return " + ".join(terms)

    def _atom(self) -> str:
        plain = (len(self.factors) == 1 and not self.constant and self.factors[0][1] == 1) or (
            not self.factors
        )
        return str(self) if plain else f"({self})"

    def _table(self) -> dict[str, tuple[int, int]]:
        pairs = zip(self.factors, self.most, strict=True)
        return {text: (factor, most) for (text, factor), most in pairs}

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.factors, self.most, self.constant + other)
        table = self._table()
        for text, (factor, most) in other._table().items():
            table[text] = (table.get(text, (0, 0))[0] + factor, most)
        return _made(table, self.constant + other.constant)

    def __mul__(self, other: int) -> Index:
        table = {text: (factor * other, most) for text, (factor, most) in self._table().items()}
        return _made(table, self.constant * other)

    __radd__ = __add__
    __rmul__ = __mul__

    def _split(self, divisor: int) -> tuple[Index, Index]:
        """(whole, rest): self = divisor * whole + rest, the rest without multiples of divisor."""
        whole: dict[str, tuple[int, int]] = {}
        rest: dict[str, tuple[int, int]] = {}
        for text, (factor, most) in self._table().items():
            part = rest if factor % divisor else whole
            part[text] = (factor if factor % divisor else factor // divisor, most)
        return _made(whole, self.constant // divisor), _made(rest, self.constant % divisor)

    def __floordiv__(self, divisor: int) -> Index:
        whole, rest = self._split(divisor)
        if rest.top < divisor:
            return whole
        return whole + _made({f"({rest._atom()} / {divisor})": (1, rest.top // divisor)}, 0)

    def __mod__(self, divisor: int) -> Index:
        _, rest = self._split(divisor)
        if rest.top < divisor:
            return rest
        return _made({f"({rest._atom()} % {divisor})": (1, divisor - 1)}, 0)


def _made(table: Mapping[str, tuple[int, int]], constant: int) -> Index:
    """Terms in an order that does not depend on how they were made, without zeros."""
    kept = sorted((text, pair) for text, pair in table.items() if pair[0])
    factors = tuple((text, factor) for text, (factor, _) in kept)
    return Index(factors, tuple(most for _, (_, most) in kept), constant)
