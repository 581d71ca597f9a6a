"""Exchanges of operations that leave a loop problem as it is: like sub-tiles, like chunks.

Colours are refined over the graph of operations and dependences; a pair of like operations is then
completed to an exchange, identity wherever possible, and accepted only if it maps every operation,
dependence, ring and value onto an equal one. What is found is used to cut equal schedules; what is
missed costs time and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from tensorc.ir.node import fact
from tensorc.ir.schedule import Dependence, LoopProblem, operation_of

Exchange = dict[str, str]
Colours = dict[str, int]


@dataclass(frozen=True)
class Cuts:
    """`anchor` may stand at phase 0. If there is an `opposite`, exchanging it with the anchor
    changes nothing, so it stands in the first half of the period. Of each pair in `ordered` the
    first may start first."""

    anchor: str
    opposite: str
    ordered: tuple[tuple[str, str], ...]


@fact
def symmetries(problem: LoopProblem) -> Cuts:
    """Cuts that keep at least one of every class of schedules equal up to the exchanges found.

    Together they are sound because an exchange used for a later cut leaves the operations of the
    earlier ones alone, or swaps two neighbours of one class and no others of it.
    """
    colours = _refined(problem, _plain_colours(problem))
    anchor = _anchor(problem)
    classes: dict[int, list[str]] = {}
    for name in sorted(colours, key=lambda name: name != anchor):
        classes.setdefault(colours[name], []).append(name)
    ordered: list[tuple[str, str]] = []
    settled, opposite = {anchor}, ""
    for members in classes.values():
        if anchor in members:
            found = len(members) == 2 and _exchange(problem, colours, anchor, members[1])
            opposite = members[1] if found else ""
            settled.update(members if found else ())
        elif pairs := _chain(problem, colours, members, settled):
            ordered += pairs
            settled.update(members)
    return Cuts(anchor, opposite, tuple(ordered))


def _chain(
    problem: LoopProblem, colours: Colours, members: list[str], settled: set[str]
) -> list[tuple[str, str]]:
    """Neighbours in `members` that can be exchanged with nothing settled and no other member."""
    pairs: list[tuple[str, str]] = []
    for one, two in pairwise(members):
        found = _exchange(problem, colours, one, two)
        others = settled | set(members) - {one, two}
        if found and all(found[name] == name for name in others):
            pairs.append((one, two))
    return pairs


def _anchor(problem: LoopProblem) -> str:
    """The first operation on the unit with most work."""
    load: dict[str, int] = {}
    for item in problem.operations:
        for use in item.uses:
            load[use.unit] = load.get(use.unit, 0) + use.cycles * use.demand
    busiest = max(load, key=lambda unit: (load[unit], unit), default="")
    users = [o.name for o in problem.operations if any(u.unit == busiest for u in o.uses)]
    return (users or [problem.operations[0].name])[0]


def _plain_colours(problem: LoopProblem) -> Colours:
    keys = {
        o.name: (o.uses, o.busy, o.latency, o.hold, o.warps, o.variable, o.threads)
        for o in problem.operations
    }
    return _numbered({name: repr(key) for name, key in keys.items()})


_Key = TypeVar("_Key", str, tuple[int, tuple[tuple[int, int, int], ...]])


def _numbered(keys: dict[str, _Key]) -> Colours:
    numbers = {key: number for number, key in enumerate(sorted(set(keys.values())))}
    return {name: numbers[key] for name, key in keys.items()}


def _storage(problem: LoopProblem) -> dict[str, str]:
    """What a ring or value is, without its name and writer."""
    kinds = {
        r.name: repr(("ring", r.memory, r.bytes, r.fill, r.shallowest, r.deepest, r.align))
        for r in problem.rings
    }
    kinds |= {v.name: repr(("value", v.registers, v.resident)) for v in problem.values}
    return {**kinds, "": ""}


def _label(edge: Dependence, storage: dict[str, str]) -> str:
    return (
        repr((edge.distance, edge.latency, edge.transfer and _parts(edge), edge.hold))
        + (storage[edge.carries])
    )


def _parts(edge: Dependence) -> tuple[object, ...]:
    cost = edge.transfer
    assert cost
    return (cost.latency, cost.busy, cost.unit, cost.memory, cost.bytes)


@fact
def _neighbours(problem: LoopProblem) -> tuple[tuple[str, str, int], ...]:
    """The dependences as source, target and the number of their label."""
    storage = _storage(problem)
    labels = [_label(edge, storage) for edge in problem.dependences]
    numbers = {label: number for number, label in enumerate(sorted(set(labels)))}
    edges = zip(problem.dependences, labels, strict=True)
    return tuple((edge.source, edge.target, numbers[label]) for edge, label in edges)


def _refined(problem: LoopProblem, colours: Colours) -> Colours:
    """The coarsest refinement in which like operations have like neighbours."""
    edges, count = _neighbours(problem), len(set(colours.values()))
    while True:
        near: dict[str, list[tuple[int, int, int]]] = {name: [] for name in colours}
        for source, target, label in edges:
            near[source].append((0, label, colours[target]))
            near[target].append((1, label, colours[source]))
        keys = {name: (colours[name], tuple(sorted(near[name]))) for name in colours}
        finer, before = _numbered(keys), count
        count = len(set(finer.values()))
        if count == before:
            return finer
        colours = finer


def _exchange(problem: LoopProblem, colours: Colours, one: str, two: str) -> Exchange | None:
    """An automorphism that swaps `one` and `two`, or None if this search finds none."""
    if colours[one] != colours[two]:
        return None
    top = 1 + max(colours.values())
    left = {**colours, one: top, two: top + 1}
    right = {**colours, one: top + 1, two: top}
    while True:
        left, right = _refined(problem, left), _refined(problem, right)
        if sorted(left.values()) != sorted(right.values()):
            return None
        cells: dict[int, tuple[list[str], list[str]]] = {}
        for name in operation_of(problem):
            cells.setdefault(left[name], ([], []))[0].append(name)
        for name in operation_of(problem):
            cells[right[name]][1].append(name)
        open_cells = [(a, b) for a, b in cells.values() if len(a) > 1]
        if not open_cells:
            found = {a[0]: b[0] for a, b in cells.values()}
            return found if _preserves(problem, found) else None
        here, there = open_cells[0]
        fixed = next((name for name in here if name in there), None)
        top = 1 + max(left.values())
        left = {**left, fixed or here[0]: top}
        right = {**right, fixed or there[0]: top}


def _preserves(problem: LoopProblem, found: Exchange) -> bool:
    """Whether `found` maps operations, dependences, rings and values onto equal ones."""
    storage = _storage(problem)
    images: dict[str, set[str]] = {}
    edges: dict[tuple[str, str, str], list[str]] = {}
    for edge in problem.dependences:
        key = (edge.source, edge.target, _label(edge, storage))
        edges.setdefault(key, []).append(edge.carries)
    for (source, target, label), names in edges.items():
        there = edges.get((found[source], found[target], label), [])
        if len(there) != len(names):
            return False
        for name in names:
            images[name] = images.get(name, set(there)) & set(there)
    writers = {item.name: item.writer for item in (*problem.rings, *problem.values)} | {"": ""}
    image = {
        name: [to for to in options if writers[to] == (found.get(writers[name], ""))]
        for name, options in images.items()
    }
    if any(len(options) != 1 for options in image.values()):
        return False
    return len({options[0] for options in image.values()}) == len(image)
