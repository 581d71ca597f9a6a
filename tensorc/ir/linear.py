"""Whether a linear form is non-negative wherever other linear forms are: an exact simplex.

By Farkas' lemma `goal >= 0` follows from `fact[j] >= 0` over the rationals iff goal = c + sum of
multiplier[j] * fact[j] with multipliers >= 0 and c >= 0. The unknowns are integers here, so c > -1
is enough. The multipliers are sought by the two-phase simplex method on one integer tableau
(Edmonds' pivoting: every entry is a determinant over the common denominator), so no rounding is
involved. Nothing here knows what the unknowns are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Unknown = TypeVar("Unknown", bound=Hashable)

PIVOTS = 120  # beyond this many pivots the answer is "not shown"; fixed, so runs repeat
LARGEST_FIRST = 40  # pivots by the largest reduced cost; then Bland's rule, which cannot cycle


def follows(
    goal: Mapping[Unknown, int],
    constant: int,
    facts: Sequence[tuple[Mapping[Unknown, int], int]],
) -> bool:
    """Whether goal + constant > -1 follows from all fact + constant >= 0.

    A form is a mapping from unknown to coefficient, and its constant. True is a proof; False may
    also mean that the pivots ran out.
    """
    used = _relevant(goal, facts)
    if used is None:
        return False
    rows = _rows(goal, used)
    return _Tableau(rows, [fact[1] for fact in used], constant + 1).solve()


def _relevant(
    goal: Mapping[Unknown, int], facts: Sequence[tuple[Mapping[Unknown, int], int]]
) -> list[tuple[Mapping[Unknown, int], int]] | None:
    """The facts connected with the goal through shared unknowns; None if one cannot cancel.

    An unknown with only one sign among the facts and none in the goal cannot cancel, so its facts
    are of no use; dropping them may make others useless.
    """
    used = [fact for fact in facts if fact[0]]
    while True:
        signs: dict[Unknown, set[bool]] = {name: {c < 0} for name, c in goal.items()}
        for form, _ in used:
            for name, c in form.items():
                signs.setdefault(name, set()).add(c > 0)
        kept = [fact for fact in used if all(len(signs[name]) == 2 for name in fact[0])]
        if len(kept) == len(used):
            break
        used = kept
    covered = {name for form, _ in used for name in form}
    return used if all(name in covered for name in goal) else None


def _rows(
    goal: Mapping[Unknown, int], facts: Sequence[tuple[Mapping[Unknown, int], int]]
) -> list[list[int]]:
    """One equation per unknown: the multipliers' columns, then the right side, made >= 0."""
    names = dict.fromkeys(goal)
    for form, _ in facts:
        names.update(dict.fromkeys(form))
    rows: list[list[int]] = []
    for name in names:
        row = [form.get(name, 0) for form, _ in facts]
        row.append(goal.get(name, 0))
        rows.append([-entry for entry in row] if row[-1] < 0 else row)
    return rows


class _Tableau:
    """min sum(cost * x) subject to the rows, x >= 0; stops once the value is below `target`."""

    def __init__(self, rows: list[list[int]], costs: list[int], target: int) -> None:
        self.rows = rows
        self.columns = len(costs)
        self.basic: list[int | None] = [None] * len(rows)  # None: the row's artificial unknown
        self.first = [sum(row[j] for row in rows) for j in range(self.columns + 1)]
        self.second = [-cost for cost in costs] + [0]
        self.denominator = 1
        self.target = target
        self.pivots = 0

    def solve(self) -> bool:
        """Whether a solution of value < target exists."""
        while self.first[-1] > 0:
            if not self._step(self.first):
                return False
        self._drive_out()
        while self.second[-1] >= self.target * self.denominator:
            if not self._step(self.second):
                return False
        return True

    def _step(self, objective: list[int]) -> bool:
        """One pivot that improves `objective`; False if there is none or the pivots ran out."""
        self.pivots += 1
        column = self._entering(objective)
        row = self._leaving(column) if column is not None else None
        if column is None or self.pivots > PIVOTS:
            return False
        if row is None:
            return self._unbounded(objective)
        self._pivot(row, column)
        return True

    def _unbounded(self, objective: list[int]) -> bool:
        """No row limits the entering column: the second objective falls below any target."""
        if objective is self.second:
            self.second[-1] = self.target * self.denominator - 1
            return True
        return False

    def _entering(self, objective: list[int]) -> int | None:
        if self.pivots <= LARGEST_FIRST:
            best = max(range(self.columns), key=objective.__getitem__, default=None)
            return best if best is not None and objective[best] > 0 else None
        return next((j for j in range(self.columns) if objective[j] > 0), None)

    def _leaving(self, column: int) -> int | None:
        best: int | None = None
        for number, row in enumerate(self.rows):
            if row[column] <= 0:
                continue
            if (
                best is None
                or row[-1] * self.rows[best][column] < self.rows[best][-1] * row[column]
            ):
                best = number
        return best

    def _pivot(self, at: int, column: int) -> None:
        row, old = self.rows[at], self.denominator
        pivot = row[column]
        for other in (*self.rows, self.first, self.second):
            factor = other[column]
            if other is row:
                continue
            if factor:
                other[:] = [
                    (a * pivot - factor * b) // old for a, b in zip(other, row, strict=True)
                ]
            elif pivot != old:
                other[:] = [a * pivot // old for a in other]
        self.denominator = pivot
        self.basic[at] = column

    def _drive_out(self) -> None:
        """Artificial unknowns left at 0 leave the basis; rows of zeros are redundant."""
        for at in range(len(self.rows)):
            if self.basic[at] is not None:
                continue
            row = self.rows[at]
            column = next((j for j in range(self.columns) if row[j]), None)
            if column is not None:
                if row[column] < 0:
                    row[:] = [-entry for entry in row]
                self._pivot(at, column)
