"""A scheduled loop as a level-3 kernel: roles, rings, turns; prologue, steady state, epilogue.

Afterwards every operation of the loop problem runs once for each iteration, for any trip count, in
its role and in the schedule's order; what it reads is there and what it overwrites is no longer
needed, by rings between roles and by waits within one. Nothing is chosen here that the schedule
has not chosen, except where a step is cut (`channel_cut`).

What stands around the loop comes in a `Frame`: operands that are loaded once per tile, and
operations on the final values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tensorc.ir import channel
from tensorc.ir.channel import ONCE, At
from tensorc.ir.node import Node, node
from tensorc.ir.schedule import LoopProblem, RolePlan, Schedule, placement_of
from tensorc.passes.pipelining.channel_cut import Item, step_of
from tensorc.passes.pipelining.channel_links import links
from tensorc.passes.pipelining.channel_sections import sections
from tensorc.passes.pipelining.channel_steps import Do, Fill, role_of
from tensorc.passes.pipelining.channel_turns import Batch, paced, turns
from tensorc.passes.pipelining.drop_waits import drop_waits


@node
class TileRing(Node):
    """An operand that is copied once per tile: by the role of `beside`, for `readers` in the loop.

    `operation` is what fills a slot; `beside` and `readers` are operations of the loop.
    """

    name: str
    operation: str
    memory: str
    bytes: int
    beside: str
    readers: tuple[str, ...]
    depth: int = 1


@node
class Finish(Node):
    """An operation after the loop, in the role of `beside`, on final values and tile operands."""

    operation: str
    beside: str
    reads: tuple[str, ...]


@node
class Frame(Node):
    """What stands around the loop of each tile; `persistent` kernels work on many tiles."""

    persistent: bool = False
    tiles: tuple[TileRing, ...] = ()
    finishes: tuple[Finish, ...] = ()


BARE = Frame()


def channels(problem: LoopProblem, schedule: Schedule, frame: Frame = BARE) -> channel.Kernel:
    """The kernel that runs `schedule`, with no wait that nothing needs.

    Both must be well formed and agree (`verify_problem`, `check_schedule`).
    """
    return drop_waits(with_all_waits(problem, schedule, frame))


def with_all_waits(
    problem: LoopProblem, schedule: Schedule, frame: Frame = BARE
) -> channel.Kernel:  # fmt: skip
    """The same kernel, with a wait in front of each statement that needs something done."""
    found = links(problem, schedule)
    tokens, batches = turns(schedule)
    tiles = _tile_reads(frame)
    steps = {
        plan.role: step_of(
            role_of(problem, schedule, plan.role, found, tiles),
            tuple(batch.operations for batch in batches if batch.role == plan.role),
        )
        for plan in schedule.roles
    }
    batches = paced(schedule, batches, steps)
    roles = tuple(
        _role(schedule, frame, plan, steps[plan.role], batches) for plan in schedule.roles
    )
    kept = [link.ring for link in found if not (link.moves or link.signal)]
    more = [_tile_ring(schedule, frame, tile) for tile in frame.tiles]
    more += [link.ring for link in found if link.moves or link.signal]
    rings = (*kept, *_placed(kept, more))
    return channel.Kernel(problem.name, problem.machine, frame.persistent, rings, tokens, roles)


def _placed(kept: list[channel.Ring], more: list[channel.Ring]) -> Iterator[channel.Ring]:
    """`more`, each in the first gap of its memory that it fits in, from a multiple of 1024 on."""
    taken = [(r.memory, r.offset, r.offset + r.bytes * r.depth) for r in kept]
    for ring in more:
        offset, size = 0, ring.bytes * ring.depth
        for memory, begin, end in sorted(taken):
            if memory == ring.memory and begin < offset + size and offset < end:
                offset = -(-end // 1024) * 1024
        taken.append((ring.memory, offset, offset + size))
        yield replace(ring, offset=offset)


def _tile_ring(schedule: Schedule, frame: Frame, tile: TileRing) -> channel.Ring:
    getters = {role for role in _tile_readers(schedule, frame, tile)}
    return channel.Ring(
        tile.name, tile.memory, tile.bytes, 0, tile.depth, "copy", 1, tile.bytes,
        len(getters), "tile",
    )  # fmt: skip


def _tile_readers(schedule: Schedule, frame: Frame, tile: TileRing) -> Iterator[str]:
    """The roles that read a tile operand."""
    places = placement_of(schedule)
    yield from (places[name].role for name in tile.readers)
    for finish in frame.finishes:
        if tile.name in finish.reads:
            yield places[finish.beside].role


def _tile_reads(frame: Frame) -> dict[str, tuple[str, ...]]:
    """What each operation of the loop reads that is there once per tile."""
    reads = dict[str, tuple[str, ...]]()
    for tile in frame.tiles:
        for reader in tile.readers:
            reads[reader] = (*reads.get(reader, ()), tile.name)
    return reads


def _role(
    schedule: Schedule,
    frame: Frame,
    plan: RolePlan,
    step: tuple[Item, ...],
    batches: tuple[Batch, ...],
) -> channel.Role:
    own = tuple(batch for batch in batches if batch.role == plan.role)
    loop = sections(step, own, frozenset(tile.name for tile in frame.tiles), _places(step))
    head = (*_starts(step), *_loads(schedule, frame, plan.role))
    tail = tuple(_finishes(schedule, frame, plan.role))
    return channel.Role(
        plan.role, plan.warps, plan.registers, loop.first, (*head, *loop.prologue), loop.steady,
        (*loop.epilogue, *tail),
    )  # fmt: skip


def _places(step: tuple[Item, ...]) -> dict[str, str]:
    """The registers of every value that a step makes."""
    actions = (item.action for item in step)
    return {r.name: r.into for action in actions if isinstance(action, Do) for r in action.results}


def _starts(step: tuple[Item, ...]) -> Iterator[channel.Statement]:
    """Start values of what is carried from one iteration to the next."""
    places = _places(step)
    carried = dict[tuple[str, int], None]()
    for item in step:
        reads = item.action.reads if isinstance(item.action, Do | Fill) else ()
        for name, distance in reads:
            if name in places:
                carried.update({(name, -back): None for back in range(1, distance + 1)})
    for name, at in sorted(carried, key=lambda key: (key[1], key[0])):
        result = channel.Result(name, places[name])
        yield channel.Perform(channel.Call(channel.START, At("start", at)), (result,))


def _loads(schedule: Schedule, frame: Frame, role: str) -> Iterator[channel.Statement]:
    """Puts and gets of the operands of a tile."""
    places = placement_of(schedule)
    for tile in frame.tiles:
        if places[tile.beside].role == role:
            yield channel.Put(tile.name, channel.Call(tile.operation, ONCE))
    for tile in frame.tiles:
        if role in _tile_readers(schedule, frame, tile):
            yield channel.Get(tile.name, ONCE)


def _finishes(schedule: Schedule, frame: Frame, role: str) -> Iterator[channel.Statement]:
    """What follows the loop: tile operands given back as soon as may be, operations on results."""
    places = placement_of(schedule)
    finishes = [f for f in frame.finishes if places[f.beside].role == role]
    held = [t.name for t in frame.tiles if role in _tile_readers(schedule, frame, t)]
    late = {name for finish in finishes for name in finish.reads}
    yield from (channel.Done(name, ONCE) for name in held if name not in late)
    names = {tile.name for tile in frame.tiles}
    for finish in finishes:
        reads = tuple(
            channel.Read(name, ONCE if name in names else At("end", -1)) for name in finish.reads
        )
        yield channel.Perform(channel.Call(finish.operation, ONCE, reads))
    yield from (channel.Done(name, ONCE) for name in held if name in late)
