"""Whose turn it is on a unit that several roles use in a fixed order.

The operations of a unit, in the order of a period, fall into batches of one role each. A role waits
for its turn before a batch and passes it on behind, once for each iteration of the batch's leading
operation. If the leaders' stages let each batch wait for the one before it in the same or the last
period, one turn is given at the start and the order is the schedule's; else no turns are taken on
that unit, since a named barrier holds only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from tensorc.ir import channel
from tensorc.ir.schedule import Schedule, UnitOrder, placement_of


@dataclass(frozen=True)
class Batch:
    """Operations that one role issues in one turn; `leader` counts the turns."""

    role: str
    operations: tuple[str, ...]
    leader: str
    takes: str
    passes: str


def turns(schedule: Schedule) -> tuple[tuple[channel.Token, ...], tuple[Batch, ...]]:
    """The tokens of all units that need them, and the batches of all roles."""
    tokens, batches = list[channel.Token](), list[Batch]()
    for order in schedule.orders:
        if order.barriers:
            more, groups = _unit(schedule, order)
            tokens += more
            batches += groups
    return tuple(tokens), tuple(batches)


def _unit(schedule: Schedule, order: UnitOrder) -> tuple[list[channel.Token], list[Batch]]:
    groups = _groups(schedule, order)
    leaders = _leaders(groups)
    if leaders is None:
        return [], []
    names = {role: f"{order.unit}.{role}" for role, _ in order.barriers}
    roles = [role for role, _ in groups]
    given = dict.fromkeys(roles, 0)
    for number, (_, stage) in enumerate(leaders):
        before = leaders[number - 1][1] + (number == 0)
        given[roles[number]] += before - stage
    tokens = [
        channel.Token(names[role], order.unit, role, barrier, given[role])
        for role, barrier in order.barriers
    ]
    following = [*roles[1:], roles[0]]
    batches = [
        Batch(role, tuple(name for name, _ in members), leader, names[role], names[after])
        for (role, members), (leader, _), after in zip(groups, leaders, following, strict=True)
    ]
    return tokens, batches


Member = tuple[str, int]  # an operation and its stage, counted from the step of its batch


def _groups(schedule: Schedule, order: UnitOrder) -> list[tuple[str, tuple[Member, ...]]]:
    """Runs of one role, cyclic: a run that goes over the end of the period is one."""
    places = placement_of(schedule)
    runs = list[tuple[str, list[Member]]]()
    for name in order.operations:
        place = places[name]
        if runs and runs[-1][0] == place.role:
            runs[-1][1].append((name, place.stage))
        else:
            runs.append((place.role, [(name, place.stage)]))
    if len(runs) > 1 and runs[0][0] == runs[-1][0]:
        _, first = runs.pop(0)
        runs[-1][1].extend((name, stage - 1) for name, stage in first)
    return [(role, tuple(members)) for role, members in runs]


def _leaders(groups: list[tuple[str, tuple[Member, ...]]]) -> list[Member] | None:
    """A member of each group such that each turn comes from this period or the last."""
    if len(groups) < 2:
        return None
    for choice in product(*(members for _, members in groups)):
        if all(gap in (0, 1) for gap in _gaps(choice)):
            return list(choice)
    return None


def _gaps(choice: tuple[Member, ...]) -> Iterator[int]:
    """For each batch, by how many of its turns it is ahead of the passes of the one before."""
    for number, (_, stage) in enumerate(choice):
        yield choice[number - 1][1] + (number == 0) - stage
