"""Whose turn it is on a unit that several roles use in a fixed order.

The operations of a unit, in the order of a period, fall into batches of one role each. A role waits
for its turn before a batch and passes it on behind. A named barrier holds one turn, so all roles
must take equally many and the one given at the start goes round.

Usually a batch takes a turn once for each iteration of its leading operation: if leaders can be
chosen so that each batch waits for the one before it in the same or the last period. Where stages
forbid that, turns are taken in every period of the schedule, from the first that any role works in
to the last, also by batches that have nothing to do in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from tensorc.ir import channel
from tensorc.ir.schedule import Schedule, UnitOrder, placement_of
from tensorc.passes.pipelining.channel_cut import Item, operation, stages


@dataclass(frozen=True)
class Batch:
    """Operations that one role issues in one turn.

    `leader` counts the turns; if it is empty, periods do, and the role takes `lead` turns before
    its own first step and `tail` turns after its last.
    """

    role: str
    unit: str
    operations: tuple[str, ...]
    leader: str
    takes: str
    passes: str
    lead: int = 0
    tail: int = 0


def turns(schedule: Schedule) -> tuple[tuple[channel.Token, ...], tuple[Batch, ...]]:
    """The tokens of all units that need them, and the batches of all roles."""
    tokens, batches = list[channel.Token](), list[Batch]()
    for order in schedule.orders:
        if order.barriers:
            more, groups = _unit(schedule, order)
            tokens += more
            batches += groups
    return tuple(tokens), tuple(batches)


def paced(
    schedule: Schedule, batches: tuple[Batch, ...], steps: Mapping[str, tuple[Item, ...]]
) -> tuple[Batch, ...]:
    """Batches with `lead` and `tail` where periods count; `steps` are the steps of all roles."""
    counted = [batch for batch in batches if not batch.leader]
    begins = {batch: _begin(schedule, batch, steps[batch.role]) for batch in counted}
    ends = {batch: begins[batch] + stages(steps[batch.role]) for batch in counted}
    made = list[Batch]()
    for batch in batches:
        unit = [other for other in counted if other.unit == batch.unit]
        if batch.leader:
            made.append(batch)
            continue
        lead = begins[batch] - min(begins[other] for other in unit)
        tail = max(ends[other] for other in unit) - ends[batch]
        made.append(replace(batch, lead=lead, tail=tail))
    return tuple(made)


def _begin(schedule: Schedule, batch: Batch, step: tuple[Item, ...]) -> int:
    """The period in which a batch's turn in its role's first step falls."""
    first = batch.operations[0]
    local = next(item.stage for item in step if operation(item) == first)
    return placement_of(schedule)[first].stage - local


def _unit(schedule: Schedule, order: UnitOrder) -> tuple[list[channel.Token], list[Batch]]:
    groups = _groups(schedule, order)
    if len(groups) < 2:
        return [], []
    leaders = _leaders(groups)
    names = {role: f"{order.unit}.{role}" for role, _ in order.barriers}
    roles = [role for role, _ in groups]
    given = dict.fromkeys(roles, 0)
    for role, gap in zip(roles, _gaps(leaders) if leaders else _FIRST, strict=False):
        given[role] += gap
    tokens = [
        channel.Token(names[role], order.unit, role, barrier, given[role])
        for role, barrier in order.barriers
    ]
    chosen = [name for name, _ in leaders] if leaders else [""] * len(groups)
    following = [*roles[1:], roles[0]]
    batches = [
        Batch(role, order.unit, tuple(n for n, _ in members), leader, names[role], names[after])
        for (role, members), leader, after in zip(groups, chosen, following, strict=True)
    ]
    return tokens, batches


_FIRST = (1,)  # the first batch of a period follows the last of the period before


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


def _leaders(groups: list[tuple[str, tuple[Member, ...]]]) -> tuple[Member, ...] | None:
    """A member of each group such that each turn comes from this period or the last."""
    for choice in product(*(members for _, members in groups)):
        if all(gap in (0, 1) for gap in _gaps(choice)):
            return choice
    return None


def _gaps(choice: tuple[Member, ...]) -> Iterator[int]:
    """For each batch, by how many of its turns it is ahead of the passes of the one before."""
    for number, (_, stage) in enumerate(choice):
        yield choice[number - 1][1] + (number == 0) - stage
