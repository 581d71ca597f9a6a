"""What is known of a kernel's rightness, kept with it: how far it was looked at, and the outcome.

"off": nothing beside the verifiers of every level, which always run. "cheap": what the algebra made
of the program is compared with it in exact arithmetic. "full": the results of the first call are
compared with the interpreter's, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensorc.ir.accept import Outcome
from tensorc.ir.strict_json import Json

LEVELS = ("off", "cheap", "full")


@dataclass(frozen=True)
class Verified:
    """The level to which a kernel was verified, the outcome there, and why."""

    level: str
    outcome: Outcome
    reason: str

    def __str__(self) -> str:
        return f"{self.outcome.value} ({self.level}): {self.reason}"

    def reaches(self, level: str) -> bool:
        """Whether it was looked at as far as `level` asks."""
        return LEVELS.index(self.level) >= LEVELS.index(level)

    def to_json(self) -> Json:
        """As a JSON list."""
        return [self.level, self.outcome.value, self.reason]


def from_json(found: Any) -> Verified:
    """The inverse. KeyError, TypeError or ValueError: it was not made by `to_json`."""
    level, outcome, reason = found
    if level not in LEVELS or not isinstance(reason, str):
        raise ValueError(f"{found!r} is no verdict")
    return Verified(level, Outcome(outcome), reason)


def of_passes(level: str, undecided: Iterable[str]) -> Verified:
    """The verdict of a compile whose passes were checked, or not; `undecided`: what could not be
    compared. What differs is an error and no verdict."""
    if level == "off":
        return Verified("off", Outcome.UNDECIDED, "not looked at")
    reasons = "; ".join(undecided)
    if reasons:
        return Verified("cheap", Outcome.UNDECIDED, reasons)
    return Verified("cheap", Outcome.PASS, "every rewriting computes the same in exact arithmetic")
