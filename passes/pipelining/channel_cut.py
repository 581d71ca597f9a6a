"""Where a role's period is cut into steps of its loop.

A step is a row of items. An item of stage s works, in step p, on iteration p - s. Where the cycle
is cut makes no difference to the order in which anything happens, only to how much of it is
prologue and epilogue, so `step_of` cuts where fewest stages are left. For the same end a slot may
be given back at the end of a step, not in the next, if what reads it should be complete by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorc.passes.pipelining.channel_steps import Action, Do, Entry, Fill, Role, Spot, entries


@dataclass(frozen=True)
class Item:
    """An action at its place: in step p it is for iteration p - stage."""

    action: Action
    stage: int


def step_of(role: Role, whole: tuple[tuple[str, ...], ...] = ()) -> tuple[Item, ...]:
    """The items of one step in order, the least stage 0, cut where fewest stages are left.

    No cut goes through a group of `whole`, operations in the order in which they follow each other.
    """
    found = entries(role)
    cuts = [cut for cut in range(len(role.places)) if not _splits(role, cut, whole)]
    steps = [_cut(role, found, cut, early) for early in (False, True) for cut in cuts]
    return min(steps, key=lambda step: (stages(step), sum(item.stage for item in step)))


def stages(step: tuple[Item, ...]) -> int:
    """How many iterations a step works on."""
    return 1 + max((item.stage for item in step), default=0)


def operation(item: Item) -> str:
    """The operation that an item performs, if it performs one."""
    return item.action.operation if isinstance(item.action, Do | Fill) else ""


def _splits(role: Role, cut: int, whole: tuple[tuple[str, ...], ...]) -> bool:
    """Whether a cut lies between the first and the last operation of a group, in its order."""
    count = len(role.places)
    for group in whole:
        first, last = role.index(group[0]), role.index(group[-1])
        if 0 < (cut - first) % count <= (last - first) % count:
            return True
    return False


def _cut(role: Role, found: tuple[Entry, ...], cut: int, early: bool) -> tuple[Item, ...]:
    """Items from the operation `cut` on; those before it belong to the end of the last step.

    `early`: what would be given back in a later step than need be is so at the end of the step.
    """
    count = len(role.places)
    rows = list[tuple[int, int, int, Item]]()
    for entry in found:
        spot = _pulled(entry, cut, count) if early else entry.spot
        step, index, side = spot
        item = Item(entry.action, step - (index < cut))
        rows.append(((index - cut) % count, side, entry.rank, item))
    items = [item for *_, item in sorted(rows, key=lambda row: row[:3])]
    least = min(item.stage for item in items)
    return tuple(replace(item, stage=item.stage - least) for item in items)


def _pulled(entry: Entry, cut: int, count: int) -> Spot:
    """The entry's spot, or the end of the step in which it could be, if that is a step before."""
    if entry.soonest is None:
        return entry.spot
    mine, soonest = (step - (index < cut) for step, index, _ in (entry.spot, entry.soonest))
    if mine <= soonest:
        return entry.spot
    last = (cut - 1) % count
    return soonest + (last < cut), last, 1
