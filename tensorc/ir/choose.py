"""Where a generator's decisions come from: one protocol, several sources.

Generators are written once over `Chooser`. Campaigns draw raw random numbers (fast), tests let
hypothesis draw (it shrinks), a saved case replays its list of choices.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Chooser(Protocol):
    """A source of decisions."""

    def integer(self, low: int, high: int) -> int:
        """An integer within [low, high]; simpler sources prefer values near `low`."""
        ...


class RandomChooser:
    """Decisions from a seed; `choices` records them for a replay."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.choices: list[int] = []

    def integer(self, low: int, high: int) -> int:
        """Uniform over the range."""
        value = self._random.randint(low, high)
        self.choices.append(value)
        return value


class ReplayChooser:
    """The recorded decisions again; what is missing or out of range becomes the lowest choice."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = iter(choices)

    def integer(self, low: int, high: int) -> int:
        """The next recorded decision."""
        value = next(self._choices, low)
        return value if low <= value <= high else low


class DrawnChooser:
    """Decisions drawn by a function such as hypothesis' `draw` of bounded integers."""

    def __init__(self, draw: Callable[[int, int], int]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """What the function draws."""
        return self._draw(low, high)


def pick(chooser: Chooser, options: Sequence[T]) -> T:
    """One of the options, all alike."""
    return options[chooser.integer(0, len(options) - 1)]


def chance(chooser: Chooser, hits: int, out_of: int = 10) -> bool:
    """True `hits` times out of `out_of`."""
    return chooser.integer(0, out_of - 1) >= out_of - hits


def weighted(chooser: Chooser, options: Sequence[tuple[int, T]]) -> T:
    """One of the options, each as often as its weight says; weights are not negative."""
    total = sum(weight for weight, _ in options)
    place = chooser.integer(0, total - 1)
    for weight, option in options:
        place -= weight
        if place < 0:
            return option
    raise ValueError("no option has a weight")


def subset(chooser: Chooser, options: Sequence[T], least: int, most: int) -> list[T]:
    """Between `least` and `most` different options, in their order."""
    count = chooser.integer(least, min(most, len(options)))
    left = list(range(len(options)))
    chosen = [left.pop(chooser.integer(0, len(left) - 1)) for _ in range(count)]
    return [options[number] for number in sorted(chosen)]
