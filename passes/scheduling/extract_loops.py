"""Pass: the loops of a kernel that is no single loop, each as a loop problem of its own.

Afterwards there is a problem for every innermost loop in which tensor cores work, in the order of
the text. It has the memory that all else leaves, and its roles hold what lives in registers across
it. What a kernel does between its loops is in none of them, so that there is no level 3 of these.

    loop j { loop k { s += Q K }  r = max(r, s) }   ->   the loop of k; r is kept meanwhile
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tensorc.ir.schedule import LoopProblem
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Tile
from tensorc.ir.walk_tile import reads, statements
from tensorc.machine.instruction import Machine
from tensorc.machine.product import Product
from tensorc.passes.scheduling.divide import divide, multiplies
from tensorc.passes.scheduling.extract_problem import loop_text
from tensorc.passes.scheduling.groups import Simple, Unpipelined


def extract_loops(kernel: Kernel, machine: Machine, product: Product) -> tuple[LoopProblem, ...]:
    """The problems; none for a kernel with a loop whose statements cannot be told apart."""
    kernel = divide(kernel, machine)
    found = list[LoopProblem]()
    loops = [item for item in statements(kernel.body) if isinstance(item, Loop)]
    starts = [carry.start for loop in loops for carry in loop.carries]
    taken = frozenset(start.name for start in starts if isinstance(start, Tile))
    for place in _places(kernel.body, ()):
        if not any(multiplies(item, machine) for item in statements(place.loop.body)):
            continue
        inside = set(statements(place.loop.body))
        outside = tuple(
            item
            for item in statements(kernel.body)
            if isinstance(item, Simple) and item not in inside
        )
        try:
            text = loop_text(
                kernel, machine, product, (), place.loop, outside, tuple(place.kept(taken))
            )
        except Unpipelined:
            return ()
        number = sum(each.name.startswith(text.problem.name) for each in found)
        name = f"{text.problem.name}.{number + 1}" if number else text.problem.name
        found.append(replace(text.problem, name=name))
    return tuple(found)


@dataclass(frozen=True)
class _Place:
    """An innermost loop, what is made before it in the bodies around it, and what follows."""

    loop: Loop
    made: tuple[Tile, ...]
    later: frozenset[str]

    def kept(self, taken: frozenset[str]) -> Iterator[Tile]:
        """The tiles in registers that the loop or what follows reads, but for those whose place is
        `taken` by a carry that starts as one of them."""
        names = self.later | frozenset[str]().union(*map(reads, statements(self.loop.body)))
        for tile in self.made:
            if tile.space == "register" and tile.name in names - taken:
                yield tile


def _places(
    body: tuple[Statement, ...], made: tuple[Tile, ...], later: frozenset[str] = frozenset()
) -> Iterator[_Place]:
    """The innermost loops of a body. `made`: before it; `later`: what is read after it."""
    for k, item in enumerate(body):
        behind = later | frozenset[str]().union(*map(reads, statements(body[k + 1 :])))
        match item:
            case Loop(_) if not any(isinstance(i, Loop) for i in statements(item.body)):
                yield _Place(item, made, behind)
            case Loop():
                carried = tuple(carry.tile for carry in item.carries)
                again = frozenset[str]().union(*map(reads, statements(item.body)))
                yield from _places(item.body, (*made, *carried), behind | again)
            case Each():
                yield from _places(item.body, made, behind)
            case _:
                pass
        made = (*made, *_tiles(item))


def _tiles(item: Statement) -> tuple[Tile, ...]:
    """The tiles that a statement leaves to what follows it."""
    match item:
        case Let(tile):
            return (tile,)
        case Loop():
            return tuple(carry.tile for carry in item.carries)
        case Each(_, _, body):
            return tuple(tile for inner in body for tile in _tiles(inner))
        case _:
            return ()
