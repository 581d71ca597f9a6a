"""How level 3 refers to level 2: names of statements, and which tile lies where.

A level-3 kernel with bodies stands beside the level-2 kernel that it does; see `channel.Body` and
`channel.Holds`. `verify_bodies` says whether the two fit, `run_bodies` runs them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorc.ir.channel import Body, Call, Kernel, Perform, Put, Read, Window, statements
from tensorc.ir.tile import Kernel as TileKernel
from tensorc.ir.tile import Let, Loop, Store
from tensorc.ir.walk_tile import statements as tile_statements


def statement_name(item: Let | Store) -> str:
    """How a body calls a statement: by its tile, or `store.TENSOR`."""
    return item.tile.name if isinstance(item, Let) else f"store.{item.tensor.name}"


def named_statements(text: TileKernel) -> dict[str, Let | Store]:
    """Every statement of a level-2 kernel as bodies call it. Of two stores to one tensor, which
    no kernel needs, the last."""
    found = (item for item in tile_statements(text.body) if isinstance(item, Let | Store))
    return {statement_name(item): item for item in found}


def loop_of(text: TileKernel) -> Loop:
    """The one loop of a pipelined kernel."""
    (loop,) = (item for item in text.body if isinstance(item, Loop))
    return loop


@dataclass(frozen=True)
class Tiles:
    """What the rings, values and areas of a kernel hold, beside the level-2 kernel `text`."""

    holds: Mapping[str, tuple[str, ...]]
    carries: Mapping[str, str]  # the next value of a carry -> the carry

    def held(self, name: str) -> tuple[str, ...]:
        """The tiles in a ring, value or area, or in the copy of a value (value@role)."""
        return self.holds.get(name.partition("@")[0], ())

    def read(self, call: Call, item: Read) -> str:
        """The tile that a call finds where it reads: the next value of a carry is the carry itself
        one iteration later and after the loop. "" if nothing is held there."""
        tile = next(iter(self.held(item.name)), "")
        later = call.at.anchor == "tile" or item.at != call.at
        return self.carries.get(tile, tile) if later else tile

    def started(self, name: str) -> str:
        """The carry whose start value lies in a value before the loop."""
        tile = next(iter(self.held(name)), "")
        return self.carries.get(tile, tile)


def tiles_of(kernel: Kernel, text: TileKernel) -> Tiles:
    """What lies where in `kernel`, which does what `text` says."""
    carries = {f"{carry.tile.name}'": carry.tile.name for carry in loop_of(text).carries}
    return Tiles({item.name: item.tiles for item in kernel.holds}, carries)


def body_of(kernel: Kernel) -> dict[str, Body]:
    """The body of every operation."""
    return {body.operation: body for body in kernel.bodies}


def makes(item: Perform | Put) -> tuple[str, ...]:
    """The ring or values that a statement fills."""
    return (item.ring,) if isinstance(item, Put) else tuple(r.name for r in item.results)


def windows_of(kernel: Kernel) -> dict[str, tuple[Window, ...]]:
    """The lanes of its tile that each ring and value holds: those on which the operation works that
    fills it; a value that starts before the loop is filled by others."""
    bodies, found = body_of(kernel), dict[str, tuple[Window, ...]]()
    for _, item in calls(kernel):
        if item.call.operation in bodies:
            for name in makes(item):
                found[name] = bodies[item.call.operation].windows
    return found


def calls(kernel: Kernel) -> list[tuple[str, Perform | Put]]:
    """Every statement that does an operation, with the role it is in."""
    return [
        (role.name, item)
        for role in kernel.roles
        for item in statements(role)
        if isinstance(item, Perform | Put)
    ]
