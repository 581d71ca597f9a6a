"""Pass: a level-3 kernel without the waits on units that nothing needs.

Afterwards no single wait can go: without it a role would break an invariant (C1 to C13) of
`ir/verify_channel.py`. Waits are put in front of what needs them for the trip count that asks for
most (`channel_sections`), so that one may be covered by another that comes before it.

    wait 1 on mma; wait 0 on mma        ->  wait 0 on mma
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from tensorc.ir.channel import Kernel, Role, Statement, Wait, When
from tensorc.ir.verify_role import faultless

Body = tuple[Statement, ...]


def drop_waits(kernel: Kernel) -> Kernel:
    """The kernel with fewer waits; a role that breaks an invariant already stays as it is."""
    return replace(kernel, roles=tuple(_fewer(kernel, role) for role in kernel.roles))


def _fewer(kernel: Kernel, role: Role) -> Role:
    """A role without the waits that its own invariants do not need; no other rule knows of them."""
    kept = 0 if faultless(kernel, role) else len(list(_roles(role)))
    while (without := next(islice(_roles(role), kept, None), None)) is not None:
        if faultless(kernel, without):
            role = without
        else:
            kept += 1
    return role


def _roles(role: Role) -> Iterator[Role]:
    yield from (replace(role, prologue=body) for body in _bodies(role.prologue))
    yield from (replace(role, steady=body) for body in _bodies(role.steady))
    yield from (replace(role, epilogue=body) for body in _bodies(role.epilogue))


def _bodies(body: Body) -> Iterator[Body]:
    """A body without one of its waits."""
    for k, item in enumerate(body):
        if isinstance(item, Wait):
            yield (*body[:k], *body[k + 1 :])
        elif isinstance(item, When):
            for inner in _bodies(item.body):
                rest = (replace(item, body=inner),) if inner else ()
                yield (*body[:k], *rest, *body[k + 1 :])
