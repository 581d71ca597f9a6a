"""What the machine of `machine_channel` consists of: storage, barriers, roles, work under way."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tensorc.ir.channel import Role, Statement

Stamp = tuple[str, int, int]  # ring or value, tile, iteration
Action = Callable[[], None]


@dataclass(frozen=True)
class Fault:
    """What went wrong: the rule, a sentence, and the two operations concerned."""

    rule: str
    sentence: str
    operations: tuple[str, str]


@dataclass
class Barrier:
    """An mbarrier: how many phases are complete, and what the next one still waits for."""

    arrivals: int
    phases: int = 0
    due: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.due = self.arrivals

    def count(self, arrivals: int, bytes_: int) -> bool:
        """Take arrivals and bytes off; whether the barrier expected them."""
        self.due -= arrivals
        self.bytes -= bytes_
        if self.due == 0 and self.bytes == 0:
            self.phases += 1
            self.due = self.arrivals
        return self.due >= 0

    def passes(self, parity: int) -> bool:
        """Whether a wait for the phase of `parity` passes: it is not the phase under way."""
        return self.phases % 2 != parity


@dataclass(frozen=True, eq=False)
class User:
    """An operation that reads or writes a cell now, and the queue in which it is in flight."""

    text: str
    queue: object = None

    def meets(self, other: User) -> bool:
        """Whether the two may be at work at once: those of one queue are not."""
        return self is not other and (self.queue is None or self.queue is not other.queue)


@dataclass
class Cell:
    """A register tile or a slot: what is in it, who made it, and who uses it now."""

    stamp: Stamp | None = None
    value: object = None
    source: str = "nothing"
    readers: list[User] = field(default_factory=list["User"])
    writers: list[User] = field(default_factory=list["User"])


@dataclass
class Activity:
    """An operation under way, and what happens when it ends."""

    text: str
    agent: str
    finish: Action


@dataclass
class Actor:
    """A role in the middle of its program."""

    role: Role
    program: Iterator[tuple[Statement, int, int]]
    places: dict[str, str]  # the registers in which each value lies
    current: tuple[Statement, int, int] | None = None
    busy: Activity | None = None
    registers: dict[str, Cell] = field(default_factory=dict[str, Cell])
    flights: dict[str, deque[Activity]] = field(default_factory=dict[str, deque[Activity]])
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    held: dict[Stamp, int] = field(default_factory=dict[Stamp, int])
    put: dict[Stamp, int] = field(default_factory=dict[Stamp, int])
