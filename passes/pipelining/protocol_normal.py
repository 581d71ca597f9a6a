"""States of the transition system in `protocol` up to what makes no difference.

Two states have one normal form if the rest of the kernel is the same from both: see there.
"""

from __future__ import annotations

from tensorc.passes.pipelining.protocol import (
    FINISHED,
    Barrier,
    Channel,
    Code,
    Holding,
    Place,
    State,
    System,
    Trips,
)


def normal(system: System, state: State) -> State:
    """The representative of the states that behave like `state`."""
    tiles, places = _recent(state)
    tiles, places = _near(system, tiles, places)
    channels, places = _turned(system, state.channels, places)
    return State(tiles, state.last, _sorted(system, places), channels, state.turns)


def _recent(state: State) -> tuple[tuple[Trips, ...], tuple[Place, ...]]:
    """Tiles that every role has left are dropped; finished roles are past all tiles."""
    count = len(state.tiles)
    first = min((p.tile if p.at != FINISHED else count for p in state.places), default=0)
    if not first:
        return state.tiles, state.places
    places = tuple(p._replace(tile=0 if p.at == FINISHED else p.tile - first) for p in state.places)
    return state.tiles[first:], places


def _near(
    system: System, tiles: tuple[Trips, ...], places: tuple[Place, ...]
) -> tuple[tuple[Trips, ...], tuple[Place, ...]]:
    """Each tile's iterations counted so that the hindmost role is just past the settled ones."""
    for tile, trips in enumerate(tiles):
        if trips.least <= system.settled:
            continue
        steps = [_progress(c, p, tile, trips) for c, p in zip(system.codes, places, strict=True)]
        by = min(trips.least, *steps) - system.settled
        if by > 0:
            nearer = trips._replace(least=trips.least - by)
            tiles = (*tiles[:tile], nearer, *tiles[tile + 1 :])
            places = tuple(
                p._replace(step=p.step - by) if p.tile == tile and c.head <= p.at < c.exit else p
                for c, p in zip(system.codes, places, strict=True)
            )
    return tiles, places


def _progress(code: Code, place: Place, tile: int, trips: Trips) -> int:
    """The step of a role in a tile's loop: 0 before it, the trip count after it."""
    if place.at == FINISHED or place.tile > tile:
        return trips.least
    if place.tile < tile or place.at < code.head:
        return 0
    return place.step if place.at < code.exit else trips.least


def _turned(
    system: System, channels: tuple[Channel, ...], places: tuple[Place, ...]
) -> tuple[tuple[Channel, ...], tuple[Place, ...]]:
    """Every ring turned back by its least counter."""
    least = [channel.put for channel in channels]
    for code, place in zip(system.codes, places, strict=True):
        for target, holding in zip(code.gets, place.holdings, strict=True):
            least[target] = min(least[target], holding.done)
    if not any(least):
        return channels, places
    turned = tuple(
        _back(channel, ring.depth, by)
        for ring, channel, by in zip(system.rings, channels, least, strict=True)
    )
    moved = tuple(
        Place(place.tile, place.at, place.step, _less(code.gets, place.holdings, least))
        for code, place in zip(system.codes, places, strict=True)
    )
    return turned, moved


def _less(
    gets: tuple[int, ...], holdings: tuple[Holding, ...], least: list[int]
) -> tuple[Holding, ...]:
    return tuple(
        Holding(holding.got - least[target], holding.done - least[target], holding.deferred)
        for target, holding in zip(gets, holdings, strict=True)
    )


def _back(channel: Channel, depth: int, by: int) -> Channel:
    """A channel whose elements are counted from `by` on: slots turned, passed phases flipped."""
    if not by:
        return channel
    flights = tuple(sorted(flight - by for flight in channel.flights))
    return Channel(
        channel.put - by, flights, _spun(channel.full, depth, by), _spun(channel.empty, depth, by)
    )


def _spun(barriers: tuple[Barrier, ...], depth: int, by: int) -> tuple[Barrier, ...]:
    """Slot s becomes slot (s - by) % depth, its phase number less by the rounds passed over."""
    rounds, rest = divmod(by, depth)
    kept = [_flipped(barrier, rounds) for barrier in barriers[rest:]]
    return (*kept, *(_flipped(barrier, rounds + 1) for barrier in barriers[:rest]))


def _flipped(barrier: Barrier, rounds: int) -> Barrier:
    if rounds % 2:
        return Barrier(1 - barrier.parity, barrier.arrivals, barrier.bytes)
    return barrier


def _sorted(system: System, places: tuple[Place, ...]) -> tuple[Place, ...]:
    new = list(places)
    for members in system.classes:
        for k, place in zip(members, sorted(places[m] for m in members), strict=True):
            new[k] = place
    return tuple(new)
