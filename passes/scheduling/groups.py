"""Which statements of a level-2 loop are one operation, and the parts that operations come in.

Copies and products are operations of their own. What threads do is one operation with what reads it
where nobody waits longer for that: where all other readers come behind that reader anyway, and the
reader takes no more cycles with it, because another unit does it; and so is what has at most one
element a thread, with its reader or else with what makes its last operand, or with anything if it
has neither. `Each` multiplies
operations: an instance of each for every part of the lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import ceil

from tensorc.ir.channel import Window
from tensorc.ir.tile import Each, Let, Loop, Operand, Statement, Store
from tensorc.ir.walk_tile import reads
from tensorc.machine.costs import Ledger
from tensorc.machine.instruction import Machine
from tensorc.passes.scheduling.divide import copies, instruction, multiplies
from tensorc.passes.scheduling.statement_costs import THREADS, Turning, elements, turning, work

Simple = Let | Store
Nest = tuple[tuple[str, int], ...]


class Unpipelined(Exception):
    """A kernel whose loop is no loop problem; the message says why."""


@dataclass(frozen=True)
class Group:
    """Statements that are one operation, in program order; `nest`: the `Each` around them, index
    and block, outermost first. `alone`: no threads compute it, so that nothing joins it."""

    statements: tuple[Simple, ...]
    nest: Nest
    alone: bool

    @property
    def tiles(self) -> frozenset[str]:
        """The tiles that the group defines."""
        return frozenset(item.tile.name for item in self.statements if isinstance(item, Let))

    @property
    def reads(self) -> frozenset[str]:
        """The tiles that it reads and does not define before."""
        return frozenset[str]().union(*map(reads, self.statements)) - self.tiles


@dataclass(frozen=True)
class Instance:
    """A group on the lanes of `windows`, with the lanes of every index in it."""

    name: str
    group: Group
    part: int | None
    windows: tuple[Window, ...]
    sizes: Mapping[str, int]

    def meets(self, other: Instance, axes: Iterable[str]) -> bool:
        """Whether the two work on common lanes of a tile with these axes."""
        spans = {w.index: range(w.first, w.first + w.count) for w in other.windows}
        for mine in self.windows:
            if mine.index in axes and mine.index in spans:
                theirs = spans[mine.index]
                if mine.first >= theirs.stop or theirs.start >= mine.first + mine.count:
                    return False
        return True


def flat(body: Iterable[Statement], nest: Nest = ()) -> Iterator[tuple[Simple, Nest]]:
    """The statements of a body that has no loop, each with the `Each` around it."""
    for item in body:
        match item:
            case Let() | Store():
                yield item, nest
            case Each(index, block, inner):
                yield from flat(inner, (*nest, (index, block)))
            case Loop(index):
                raise Unpipelined(
                    f"the loop of {index} lies in another one (an extent that is fixed, with "
                    "--size, may be taken whole)"
                )


def groups(
    loop: Loop, machine: Machine, ledger: Ledger, sizes: Mapping[str, int]
) -> tuple[Group, ...]:
    """The operations of a loop's body in program order."""
    simple = list(flat(loop.body))
    order = {item: place for place, (item, _) in enumerate(simple)}
    found = [
        Group((item,), nest, copies(item, machine) or multiplies(item, machine))
        for item, nest in simple
    ]
    found = list(_fed(found, machine))
    joining = _Joining(ledger, sizes, turning(loop, sizes))
    while (pair := joining.pair(found)) is not None:
        together = sorted((*pair[0].statements, *pair[1].statements), key=lambda i: order[i])
        found[found.index(pair[1])] = replace(pair[0], statements=tuple(together))
        found.remove(pair[0])
    return tuple(_sorted(found))


def _fed(found: list[Group], machine: Machine) -> Iterator[Group]:
    """The groups, with the loads of a product's operands into fragments in the product's group: a
    warp has some of an operand at a time, just before it multiplies."""
    loads = dict[int, list[Group]]()
    for group in found:
        (item,) = group.statements
        readers = [other for other in found if other.reads & group.tiles]
        fragment = isinstance(item, Let) and isinstance(item.tile.layout, Operand)
        shared = instruction(item, machine).cost.rate == "rate.shared"
        if fragment and shared and len(readers) == 1 and readers[0].nest == group.nest:
            if multiplies(readers[0].statements[0], machine):
                loads.setdefault(id(readers[0]), []).append(group)
    joined = {id(group) for groups_ in loads.values() for group in groups_}
    for group in found:
        if id(group) not in joined:
            before = tuple(item for load in loads.get(id(group), ()) for item in load.statements)
            yield replace(group, statements=(*before, *group.statements))


def _sorted(found: list[Group]) -> Iterator[Group]:
    """The groups so that each stands behind those it reads, else in the order given."""
    left = list(found)
    while left:
        made = frozenset[str]().union(*(group.tiles for group in left))
        group = next(g for g in left if not (g.reads & made))
        left.remove(group)
        yield group


@dataclass(frozen=True)
class _Joining:
    ledger: Ledger
    sizes: Mapping[str, int]
    around: Turning

    def pair(self, found: list[Group]) -> tuple[Group, Group] | None:
        """Two groups that are to be one, the first before the second; None: there are none."""
        for rule in (self.reader, self.maker):
            for group in found:
                if not group.alone and (pair := rule(group, found)):
                    return pair
        return None

    def reader(self, group: Group, found: list[Group]) -> tuple[Group, Group] | None:
        """A group with its first reader."""
        readers = [other for other in found if other is not group and other.reads & group.tiles]
        if not readers:
            return None
        later = {id(r): behind(r, found) for r in readers}
        for first in readers:
            rest = [other for other in readers if other is not first]
            if all(other in later[id(first)] for other in rest) and self.joins(group, first, found):
                if self.small(group) or self.cycles(group, first) == self.cycles(first):
                    return group, first
        return None

    def maker(self, group: Group, found: list[Group]) -> tuple[Group, Group] | None:
        """A small group with what makes its last operand; if nothing does and nobody reads it, with
        the last that threads do."""
        if not self.small(group):
            return None
        others = [other for other in found if other is not group]
        makers = [other for other in others if group.reads & other.tiles]
        if not makers and not any(other.reads & group.tiles for other in others):
            makers = [o for o in others if not o.alone and o.nest == group.nest][-1:]
        if not makers:
            return None
        last = next(m for m in makers if not any(o in behind(m, found) for o in makers))
        return (last, group) if self.joins(last, group, found) else None

    def joins(self, first: Group, second: Group, found: list[Group]) -> bool:
        """Whether the two may be one: by threads, on the same lanes, with nothing in between."""
        if first.alone or second.alone or first.nest != second.nest:
            return False
        between = [g for g in behind(first, found) if g is not second]
        return not any(second in behind(g, found) for g in between)

    def small(self, group: Group) -> bool:
        """Whether a thread has at most one element of what it does."""
        sizes = part_sizes(self.sizes, group.nest)
        return all(elements(item, sizes) <= THREADS for item in group.statements)

    def cycles(self, *parts: Group) -> int:
        """How long the groups take together: as long as the unit that has most to do."""
        sizes = part_sizes(self.sizes, parts[0].nest)
        total = dict[str, int]()
        for item in (item for part in parts for item in part.statements):
            for unit, amount in work(item, sizes, self.around).items():
                total[unit] = total.get(unit, 0) + amount
        return max((ceil(n / self.ledger[f"rate.{unit}"]) for unit, n in total.items()), default=0)


def behind(group: Group, found: list[Group]) -> list[Group]:
    """The groups that need, directly or not, what a group makes in the same iteration."""
    tiles, after = set(group.tiles), list[Group]()
    grown = True
    while grown:
        grown = False
        for other in found:
            if other is not group and other not in after and other.reads & tiles:
                after.append(other)
                tiles |= other.tiles
                grown = True
    return after


def part_sizes(sizes: Mapping[str, int], nest: Nest) -> Mapping[str, int]:
    """The lanes of every index in a part."""
    return {**sizes, **dict(nest)}


def instances(group: Group, name: str, sizes: Mapping[str, int]) -> Iterator[Instance]:
    """A group's instances, `name.0`, `name.1`, ... if it is divided, ascending along its nest."""
    blocks, lanes_of = dict(group.nest), dict(sizes)
    ranges = [range(0, lanes_of[index], block) for index, block in blocks.items()]
    for part, firsts in enumerate(product(*ranges)):
        windows = tuple(
            Window(index, first, blocks[index]) for index, first in zip(blocks, firsts, strict=True)
        )
        own = part_sizes(sizes, group.nest)
        if blocks:
            yield Instance(f"{name}.{part}", group, part, windows, own)
        else:
            yield Instance(name, group, None, (), own)
