"""Pass: a level-2 kernel and the schedule of its loop to a level-3 kernel that says what it does.

Afterwards every operation has a body: level-2 statements and the lanes on which it does them; every
ring, value and area says which tiles it holds (`ir/verify_bodies.py`). What stands before the loop
is copied once per tile; what stands after it is done by the role that has the final values.

A tile of shared memory after the loop lies where an operand of the loop did, if it can (`reused`);
else in an area of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from tensorc.ir import channel
from tensorc.ir.bodies import statement_name
from tensorc.ir.channel import Area, Body, Holds, Window
from tensorc.ir.schedule import Schedule
from tensorc.ir.tile import Let, Store
from tensorc.ir.walk_tile import reads, statements
from tensorc.passes.pipelining.channels import Finish, Frame, TileRing, channels
from tensorc.passes.scheduling.around_loop import reused
from tensorc.passes.scheduling.divide import copies
from tensorc.passes.scheduling.extract_problem import LoopText
from tensorc.passes.scheduling.groups import Simple, Unpipelined, flat
from tensorc.passes.scheduling.statement_costs import size_in_bytes

_ALIGN = 1024


def pipeline(text: LoopText, schedule: Schedule, persistent: bool = True) -> channel.Kernel:
    """The level-3 kernel of a scheduled loop.

    `persistent`: it works on any number of blocks of the grid, one after another. Raises
    Unpipelined if a statement outside the loop is no copy before it and works on what no role has.
    """
    around = _Around(text)
    operands, ends = tuple(around.operands()), tuple(around.ends())
    frame = Frame(persistent, operands, tuple(end.finish for end in ends))
    made = channels(text.problem, schedule, frame)
    bodies = [
        Body(name, tuple(statement_name(s) for s in item.group.statements), item.windows)
        for name, item in text.instances.items()
    ]
    bodies += [Body(operand.operation, (operand.name,)) for operand in operands]
    bodies += [end.body for end in ends]
    holds = [*text.holds, *around.holds()]
    areas = tuple(_placed(made, tuple(around.areas())))
    return replace(made, areas=areas, holds=tuple(holds), bodies=tuple(bodies))


def _placed(kernel: channel.Kernel, areas: tuple[Area, ...]) -> Iterator[Area]:
    """The areas, each in the first gap of its memory that it fits in."""
    taken = [(r.memory, r.offset, r.offset + r.bytes * r.depth) for r in kernel.rings]
    for area in areas:
        offset = 0
        for memory, begin, end in sorted(taken):
            if memory == area.memory and begin < offset + area.bytes and offset < end:
                offset = -(-end // _ALIGN) * _ALIGN
        taken.append((area.memory, offset, offset + area.bytes))
        yield replace(area, offset=offset)


@dataclass(frozen=True)
class _End:
    """What one role does after the loop."""

    finish: Finish
    body: Body


@dataclass(frozen=True)
class _Around:
    """What stands around the loop of a kernel."""

    text: LoopText

    def operands(self) -> Iterator[TileRing]:
        """Tiles that are copied once, before the loop."""
        loads = [o.name for o in self.text.problem.operations if o.variable]
        for item in statements(self.text.before):
            if not isinstance(item, Let) or not copies(item, self.text.machine):
                name = statement_name(item) if isinstance(item, Let | Store) else "a loop"
                raise Unpipelined(f"{name} stands before the loop and is no copy")
            tile = item.tile
            readers = [n for n, i in self.text.instances.items() if tile.name in i.group.reads]
            if not loads or not readers:
                raise Unpipelined(f"no operation of the loop is beside the copy of {tile.name}")
            size = size_in_bytes(tile, self.text.sizes)
            yield TileRing(tile.name, tile.name, "shared", size, loads[0], tuple(readers))

    def homes(self) -> dict[str, str]:
        """The operand in whose place each tile after the loop lies that has one."""
        found = reused(self.text.before, self.text.loop, self.text.after)
        return {item.tile.name: place.name for item, place in found}

    def areas(self) -> Iterator[Area]:
        """Storage for the other tiles of shared memory after the loop."""
        homes = self.homes()
        for item in statements(self.text.after):
            if isinstance(item, Let) and item.tile.space == "shared":
                if item.tile.name not in homes:
                    size = size_in_bytes(item.tile, self.text.sizes)
                    yield Area(item.tile.name, "shared", size, 0)

    def holds(self) -> Iterator[Holds]:
        """What lies in operands, and then in their place, and in areas."""
        homes = self.homes()
        for operand in self.operands():
            later = tuple(tile for tile, place in homes.items() if place == operand.name)
            yield Holds(operand.name, (operand.name, *later))
        yield from (Holds(area.name, (area.name,)) for area in self.areas())

    def ends(self) -> Iterator[_End]:
        """What is done after the loop, part by part, by who has the final values of the part."""
        found = list(flat(self.text.after))
        nests = dict.fromkeys(nest for _, nest in found)
        if len(nests) > 1:
            raise Unpipelined("the statements after the loop are not divided alike")
        for nest in nests:
            ranges = [range(0, self.text.sizes[index], block) for index, block in nest]
            for part, firsts in enumerate(product(*ranges)):
                windows = tuple(
                    Window(index, first, block)
                    for (index, block), first in zip(nest, firsts, strict=True)
                )
                items = tuple(item for item, _ in found)
                yield self.end(items, windows, part if nest else None)

    def end(self, items: tuple[Simple, ...], windows: tuple[Window, ...], part: int | None) -> _End:
        made = {item.tile.name for item in items if isinstance(item, Let)}
        needed = frozenset[str]().union(*map(reads, items)) - made
        finals = [self.final(tile, windows) for tile in sorted(needed)]
        operands = {operand.name for operand in self.operands()}
        beside = next((writer for _, writer in finals if writer), None)
        if beside is None:
            raise Unpipelined("what is done after the loop reads none of its carries")
        homes = [place for tile, place in self.homes().items() if tile in made]
        values = dict.fromkeys(name for name, _ in finals)
        held = dict.fromkeys((*(n for n in values if n in operands), *homes))
        reading = (*(n for n in values if n not in held), *held)
        last = [item for item in items if isinstance(item, Store)]
        name = statement_name(last[-1] if last else items[-1])
        name = name if part is None else f"{name}.{part}"
        names = tuple(statement_name(item) for item in items)
        return _End(Finish(name, beside, reading), Body(name, names, windows))

    def final(self, tile: str, windows: tuple[Window, ...]) -> tuple[str, str]:
        """Where a tile lies after the loop, and the operation beside which it is: for a carry the
        one that makes its next value, for an operand none."""
        if any(isinstance(i, Let) and i.tile.name == tile for i in statements(self.text.before)):
            return tile, ""
        following = f"{tile}'"
        for name, item in self.text.instances.items():
            if following in item.group.tiles and _covers(item.windows, windows):
                return (tile if item.part is None else f"{tile}.{item.part}"), name
        raise Unpipelined(f"{tile} is read after the loop on other lanes than it is made")


def _covers(made: tuple[Window, ...], wanted: tuple[Window, ...]) -> bool:
    """Whether what is made on some windows is all that is wanted on others."""
    return set(made) <= set(wanted)
