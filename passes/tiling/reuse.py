"""Give values the storage of tiles that nothing reads any more.

    s[m, n] = select(n <= m, t, -inf)    into t
    y[m, n] = exp(s - r')                into s

True afterwards: a pointwise value in registers takes the place of a tile like it (same axes, type
and layout) that it reads last, as far as there is one, so that chains of values need one tile.
"""

from __future__ import annotations

from dataclasses import replace

from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store, Tile
from tensorc.ir.walk_tile import reads, values_in


def reuse(kernel: Kernel) -> Kernel:
    """The kernel with storage reused."""
    return replace(kernel, body=_body(kernel.body, {}, frozenset()))


def _body(
    body: tuple[Statement, ...], known: dict[str, Tile], after: frozenset[str]
) -> tuple[Statement, ...]:
    """Statements of one scope. `known`: tiles of this scope that are there before; `after`: names
    that are read once it has ended."""
    made: list[Statement] = []
    own = dict(known)
    for place, item in enumerate(body):
        rest = body[place + 1 :]
        later = after.union(*(reads(other) for other in rest), *map(_taken, rest))
        match item:
            case Let(tile):
                item = _reusing(item, own, later)
                if item.into is not None:
                    own.pop(item.into.name, None)
                own[tile.name] = tile
            case Loop(carries=carries):
                inner = {carry.tile.name: carry.tile for carry in carries}
                following = frozenset(f"{carry.tile.name}'" for carry in carries)
                item = replace(item, body=_body(item.body, inner, following))
                own.update(inner)
            case Each():
                item = replace(item, body=_body(item.body, own, later))
                own.update({tile.name: tile for tile in _defined(item)})
                for name in _taken(item):
                    own.pop(name, None)
            case Store():
                pass
        made.append(item)
    return tuple(made)


def _reusing(item: Let, own: dict[str, Tile], later: frozenset[str]) -> Let:
    """A statement that takes the place of what it reads last."""
    if item.into is not None or item.op is not None or item.tile.space != "register":
        return item
    for name in values_in((item.body,)):
        tile = own.get(name)
        if tile is not None and name not in later and _alike(tile, item.tile):
            return replace(item, into=tile)
    return item


def _taken(item: Statement) -> frozenset[str]:
    """Tiles whose storage a statement takes, or adds to."""
    match item:
        case Let(into=into):
            return frozenset() if into is None else frozenset((into.name,))
        case Loop(body=body) | Each(body=body):
            return frozenset[str]().union(*map(_taken, body))
        case Store():
            return frozenset()


def _defined(item: Each) -> list[Tile]:
    return [inner.tile for inner in item.body if isinstance(inner, Let)]


def _alike(a: Tile, b: Tile) -> bool:
    """Whether one tile can take the place of the other."""
    return (a.axes, a.sizes, a.dtype, a.space, a.layout) == (
        b.axes, b.sizes, b.dtype, b.space, b.layout,
    )  # fmt: skip
