"""Shrinks a failing interleaving to the few scheduling decisions that it needs.

A run is its seed (which also fixes the order of blocks) and its departures from the scheduler's
default order. Most faults need none: clocks see them in any order. For the others, departures are
left out as long as the launch still fails in the same way (delta debugging), within a budget of
launches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tensorc.codegen.emulator import Mode
from tensorc.codegen.emulator_report import Departure, Outcome

Failure = Callable[[Mode], Outcome | None]
"""Runs the launch afresh; its outcome if it fails in the way that is of interest, else None."""


@dataclass(frozen=True)
class Shrunk:
    """A failing launch with as few departures as were found; `mode` repeats it.

    complete: no single departure can be left out (else the budget ended first).
    """

    mode: Mode
    outcome: Outcome
    launches: int
    complete: bool

    def __str__(self) -> str:
        decisions = "\n".join(f"  {line}" for line in self.outcome.story)
        head = f"{len(self.outcome.story)} decisions, all else in the default order:"
        follow = f"Mode(seed={self.mode.seed}, follow={self.mode.follow})"
        if not self.outcome.story:
            head = "no decision is needed: it fails in the default order"
        return f"{head}\n{decisions}\nrepeat with {follow}\n{self.outcome}".replace("\n\n", "\n")


class _Search:
    """The launches made so far, and the smallest failing one."""

    def __init__(self, fails: Failure, mode: Mode, budget: int) -> None:
        self.fails, self.mode, self.budget, self.launches = fails, mode, budget, 0

    @property
    def spent(self) -> bool:
        return self.launches >= self.budget

    def try_with(self, follow: tuple[Departure, ...]) -> Outcome | None:
        self.launches += 1
        return self.fails(replace(self.mode, follow=follow, record=True))


def shrink(fails: Failure, mode: Mode, budget: int = 300) -> Shrunk:
    """The failing launch of `mode` with few departures; `ValueError` if it does not fail."""
    search = _Search(fails, mode, budget)
    search.launches += 1
    outcome = fails(replace(mode, record=True))
    if outcome is None:
        raise ValueError(f"the launch with seed {mode.seed} does not fail")
    if (plain := search.try_with(())) is not None:
        return Shrunk(replace(mode, follow=(), record=True), plain, search.launches, True)
    departures = outcome.taken
    last = max((report.step for report in outcome.reports), default=outcome.steps)
    cut = tuple(d for d in departures if d[0] <= last)
    if len(cut) < len(departures) and (shorter := search.try_with(cut)) is not None:
        departures, outcome = cut, shorter
    departures, outcome, complete = _minimise(search, departures, outcome)
    final = replace(mode, follow=departures, record=True)
    return Shrunk(final, outcome, search.launches, complete)


def _minimise(
    search: _Search, departures: tuple[Departure, ...], outcome: Outcome
) -> tuple[tuple[Departure, ...], Outcome, bool]:
    """Leave out ever smaller parts: halves, quarters, ..., single departures."""
    parts = 2
    while len(departures) >= 2:
        size = -(-len(departures) // parts)
        for start in range(0, len(departures), size):
            if search.spent:
                return departures, outcome, False
            rest = departures[:start] + departures[start + size :]
            if (found := search.try_with(rest)) is not None:
                departures, outcome, parts = rest, found, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(departures))
    return departures, outcome, True
