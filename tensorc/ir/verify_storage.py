"""Reuse of storage in level 2: T12 and T16 of `verify_tile`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tensorc.ir.tile import Carry, Each, Kernel, Let, Loop, Statement, Tile
from tensorc.ir.walk_tile import reads, statements, values_in


@dataclass
class _Frame:
    """An open body: what follows the current statement in it, and, for a loop's body, all of it,
    since the next iteration reads it again."""

    following: tuple[Statement, ...]
    again: tuple[Statement, ...]


def storage_faults(kernel: Kernel) -> Iterator[str]:
    """All faults of `into`, and of carries outside registers."""
    yield from _body(kernel.body, (), (), {})
    places = {tile.name: place for tile, place in _places(kernel)}
    for item in statements(kernel.body):
        if isinstance(item, Loop):
            yield from (_moved(carry) for carry in item.carries if _moves(carry, places))


def _body(
    body: tuple[Statement, ...],
    again: tuple[Statement, ...],
    outer: tuple[_Frame, ...],
    owner: dict[str, int],
) -> Iterator[str]:
    """T16. `owner` has the depth of the body in which each tile's value lives."""
    for position, item in enumerate(body):
        frames = (*outer, _Frame(body[position + 1 :], again))
        depth = len(frames) - 1
        match item:
            case Let(tile, op, _, expr, _, into):
                if into is not None:
                    yield from _stale(into.name, tile.name, frames, owner)
                    if op is not None and into.name in values_in((expr,)):
                        yield f"T16: {tile.name}: it reduces {into.name} while replacing it"
                owner[tile.name] = _loop_depth(frames)
            case Loop():
                for carry in item.carries:
                    if _taken(carry):
                        yield from _stale(_taken(carry), carry.tile.name, frames, owner)
                inner = {**owner, **{carry.tile.name: depth + 1 for carry in item.carries}}
                yield from _body(item.body, item.body, frames, inner)
                owner.update((carry.tile.name, _loop_depth(frames)) for carry in item.carries)
            case Each():
                yield from _body(item.body, (), frames, owner)
            case _:
                pass


def _loop_depth(frames: tuple[_Frame, ...]) -> int:
    """The innermost body that is a loop's or the kernel's; `Each` has no scope of its own."""
    loops = [depth for depth, frame in enumerate(frames) if frame.again]
    return max(loops, default=0)


def _stale(
    old: str, new: str, frames: tuple[_Frame, ...], owner: dict[str, int]
) -> Iterator[str]:  # fmt: skip
    """Reads of `old` that run after `new` took its storage."""
    first = owner.get(old, 0)
    later: list[Statement] = []
    for depth, frame in enumerate(frames):
        if depth >= first:
            later += frame.following
        if depth > first:
            later += frame.again
    if old in _all_reads(later):
        yield f"T16: {new}: {old} is read after {new} took its storage"


def _all_reads(items: Iterable[Statement]) -> frozenset[str]:
    return frozenset[str]().union(*(reads(item) for item in items))


def _places(kernel: Kernel) -> Iterator[tuple[Tile, str]]:
    """Each tile with the name of the tile whose storage it takes ("": its own)."""
    for item in statements(kernel.body):
        if isinstance(item, Let):
            yield item.tile, item.into.name if item.into else ""
        elif isinstance(item, Loop):
            for carry in item.carries:
                yield carry.tile, _taken(carry)


def _taken(carry: Carry) -> str:
    """Outside registers a carry takes the storage of the tile that it starts as."""
    match carry.start:
        case Tile(name=name) if carry.tile.space != "register":
            return name
        case _:
            return ""


def _moves(carry: Carry, places: dict[str, str]) -> bool:
    """True for a carry outside registers whose next value lies elsewhere."""
    name = carry.tile.name + "'"
    while places.get(name, "") not in ("", carry.tile.name):
        name = places[name]
    return carry.tile.space != "register" and places.get(name, "") != carry.tile.name


def _moved(carry: Carry) -> str:
    name = carry.tile.name
    return f"T12: carry {name} in {carry.tile.space} is continued as {name}', stored elsewhere"
