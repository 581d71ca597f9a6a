"""The roles that hand-made problems offer the scheduler, and small builders that they share."""

from __future__ import annotations

from tensorc.ir.schedule import Dependence, Operation, Role, Transfer
from tensorc.machine.costs import Ledger, handed, told

ORIGIN = "written by hand"


def hopper_roles(ledger: Ledger, consumers: int) -> tuple[Role, ...]:
    """One warp for copies and `consumers` interchangeable warp groups."""
    base = ledger.cycles("register.base")
    groups = tuple(Role(f"consumer{i}", 4, base) for i in range(consumers))
    return (Role("load", 1, 24, variable=True), *groups)


def blackwell_roles(ledger: Ledger, groups: int) -> tuple[Role, ...]:
    """One warp for copies, one that may issue products, and `groups` warp groups."""
    base = ledger.cycles("register.base")
    wide = tuple(Role(f"group{i}", 4, base) for i in range(groups))
    return (Role("load", 1, 24, variable=True), Role("issue", 1, 24), *wide)


def after(source: Operation, target: Operation, distance: int = 0) -> Dependence:
    """Pure order within a role: the target starts once the source's result is there."""
    return Dependence(source.name, target.name, distance, source.latency)


def through(
    ledger: Ledger, ring: str, source: Operation, target: Operation, hold: int | None = None
) -> Dependence:
    """The target reads what the source wrote into a slot of `ring` in the same iteration."""
    return Dependence(source.name, target.name, 0, source.latency, ring, told(ledger), hold)


def signalled(
    ledger: Ledger, source: Operation, target: Operation, distance: int = 0
) -> Dependence:
    """Order that may cross roles by a barrier; no data of a ring or value goes along."""
    return Dependence(source.name, target.name, distance, source.latency, "", told(ledger))


def flows(
    ledger: Ledger,
    value: str,
    registers: int,
    source: Operation,
    target: Operation,
    distance: int = 0,
) -> Dependence:
    """The target reads a register tile, through shared memory if it is in another role."""
    cost: Transfer = handed(ledger, registers)
    return Dependence(source.name, target.name, distance, source.latency, value, cost)


def stays(value: str, source: Operation, target: Operation, distance: int = 0) -> Dependence:
    """The target updates a register tile in place: one role."""
    return Dependence(source.name, target.name, distance, source.latency, value)
