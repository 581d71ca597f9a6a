"""Long reductions in parts, side by side: a rewrite of level 1 for plain GPU kernels.

    y[m] = sum[k](f(m, k))            |k| = 4,000,000

    y_part[part, m] = sum[within](f(m, 131072 * part + within) where 131072 * part + within < |k|)
    y[m] = sum[part](y_part[part, m])

    y[n] = x[n] / sum[k](x[k])        what every block would do again is done once, and stored:
                                      a kernel has a block for each element of what it stores

True afterwards: no thread reduces more than `MOST` elements one after another, wherever the extents
are known, the parts are no larger than `MEMORY`, and nothing inside is compared when running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from tensorc.ir.affine import is_whole
from tensorc.ir.dtypes import settled
from tensorc.ir.functions import ALL, ANY, FUNCTIONS, MAX, MIN, PROD, SUM
from tensorc.ir.node import Node, children, postorder, rebuild, replaced
from tensorc.ir.polynomial import Polynomial, known_extents, polynomial
from tensorc.ir.tensor import (
    Apply,
    Equation,
    Expr,
    Extent,
    Position,
    Program,
    Read,
    Reduce,
    Select,
    Tensor,
    free_indices,
    value_type,
)
from tensorc.passes.canonicalise import call
from tensorc.passes.tiling.contiguity import Units, lanes_of, reads_in, reduction_lanes
from tensorc.passes.tiling.thread_lanes import ENOUGH

MOST = 1024  # elements that a thread reduces one after another
LEAST = 128  # elements of a thread below which a part is not worth a kernel more
MEMORY = 1 << 28  # bytes of all parts of one reduction
_SPLIT = (SUM, PROD, MAX, MIN, ANY, ALL)


def split_long(
    program: Program, units: Units, static: Mapping[str, int], threads: int,
    most: int = MOST, least: int = LEAST,
) -> Program:  # fmt: skip
    """A canonical program with its long reductions in parts. Only extents in `static`, and those
    that follow, count. `threads`: lanes of a block; `most`, `least`: elements of a thread."""
    taken = {name for name, _ in program.extents}
    taken |= {item.tensor.name for item in (*program.parameters, *program.equations)}
    taken |= {item.tensor.name for item in (*program.outputs, *program.tables)}
    known = known_extents(program.extents, static)
    state = _Splitting(program, units, known, threads, most, least, taken, dict(program.extents))
    equations = [made for item in program.equations for made in state.equation(item, ENOUGH)]
    if len(equations) == len(program.equations):
        return program
    return replace(program, equations=tuple(equations), extents=tuple(state.extents.items()))


@dataclass
class _Splitting:
    """The state of splitting one program."""

    program: Program
    units: Units
    sizes: dict[str, int]
    threads: int
    most: int
    least: int
    taken: set[str]
    extents: dict[str, Polynomial]
    compared: frozenset[Read] = field(init=False)

    def __post_init__(self) -> None:
        self.compared = frozenset(check.read for check in self.program.checks)

    def equation(self, item: Equation, blocks: int) -> Iterator[Equation]:
        """The parts that an equation needs, and the equation made of them. `blocks`: as many as
        are wanted at least, where that makes parts that are worth it."""
        made: list[Equation] = []
        done: dict[Node, Node] = {}
        unguarded, nested = _unguarded(item.body), _nested(item.body)
        for node in postorder([item.body]):
            found: Node = rebuild(node, lambda child: done.get(child, child))
            if isinstance(found, Reduce) and (node in unguarded or self.whole(found)):
                parts, alone = self.parts(item, found, blocks)
                result = self.split(item, found, parts, made) if parts > 1 else found
                again = node in nested or not free_indices(found) >= set(item.indices)
                store = again and (parts > 1 or alone)
                found = self.stored(item, result, made) if store else result
            done[node] = found
        body = done[item.body]
        assert isinstance(body, Expr)
        last = replace(item, body=body)
        for one in (*made, last):
            yield from self.equation(one, 1) if made else [one]

    def whole(self, item: Reduce) -> bool:
        """Whether nothing inside may leave its tensor, whatever guards there are."""
        return all(is_whole(read, self.program.extent_of) for read in reads_in(item))

    def parts(self, equation: Equation, item: Reduce, enough: int) -> tuple[int, bool]:
        """The number of parts of a reduction, 1 if it stays whole; and whether a kernel in which
        it is done by each block has too few blocks for what they would do."""
        free = [index for index in equation.indices if index in free_indices(item)]
        known = all(index in self.sizes for index in (*free, *item.indices))
        plain = item.reducer in _SPLIT and not value_type(item).weak
        if not known or not plain or not free_indices(item) <= set(free):
            return 1, False
        if self.compared.intersection(reads_in(item)):
            return 1, False
        lane = self.lane(equation, item)
        work = prod(self.sizes[index] for index in item.indices)
        blocks = prod(self.sizes[index] for index in free)
        each = work
        if lane is None:
            each = -(-work // self.threads)
        else:
            blocks = -(-blocks // self.threads)
        parts = max(-(-each // self.most), min(-(-enough // max(1, blocks)), each // self.least))
        size = settled(value_type(item)).bits // 8 * prod(self.sizes[index] for index in free)
        parts = min(parts, self.sizes[self.along(item)], MEMORY // max(1, size))
        return max(1, parts), blocks < enough and each >= self.least

    def lane(self, equation: Equation, item: Reduce) -> str | None:
        """The index of the left side that runs along threads where the reduction is computed."""
        inner = [i for r in _reductions(equation.body) for i in r.indices]
        written = Read(equation.tensor, tuple(map(Position, equation.indices)))
        lane = lanes_of(equation.indices, inner, equation.body, written, self.units)
        return lane if lane in free_indices(item) else None

    def along(self, item: Reduce) -> str:
        """The index that is cut: the longest one, of equal ones that which runs along threads."""
        lane = reduction_lanes(item, self.units)
        return max(item.indices, key=lambda index: (self.sizes[index], index == lane))

    def split(
        self, equation: Equation, item: Reduce, parts: int, made: list[Equation]
    ) -> Reduce:  # fmt: skip
        """A reduction of parts, whose equation is added to `made`."""
        index = self.along(item)
        size = self.sizes[index]
        chunk = -(-size // parts)
        chunk = -(-chunk // 8) * 8 if chunk > 8 else chunk  # rows stay aligned
        part, within = self.fresh("part"), self.fresh("within")
        self.extents[part] = polynomial(-(-size // chunk))
        self.extents[within] = polynomial(chunk)
        self.sizes |= {part: -(-size // chunk), within: chunk}
        place = call("add", call("mul", Extent(within), Position(part)), Position(within))
        indices = tuple(within if i == index else i for i in item.indices)
        body = _substituted(item.body, index, place)
        where = None if item.where is None else _substituted(item.where, index, place)
        if size % chunk:
            inside = call("lt", place, Extent(index))
            where = inside if where is None else Apply(FUNCTIONS["and"], (inside, where))
        partial = Reduce(item.reducer, indices, body, where, item.dtype)
        free = tuple(i for i in equation.indices if i in free_indices(item))
        shape = tuple(self.extents[i] for i in (part, *free))
        name = self.fresh(f"{equation.tensor.name}_part")
        tensor = Tensor(name, settled(value_type(item)), shape)
        made.append(Equation(tensor, (part, *free), partial))
        read = Read(tensor, tuple(map(Position, (part, *free))))
        return Reduce(item.reducer, (part,), read, None, item.dtype)

    def stored(self, equation: Equation, item: Reduce, made: list[Equation]) -> Read:
        """The value of a reduction from memory; its equation is added to `made`."""
        free = tuple(i for i in equation.indices if i in free_indices(item))
        name = self.fresh(f"{equation.tensor.name}_all")
        shape = tuple(self.extents[i] for i in free)
        tensor = Tensor(name, settled(value_type(item)), shape)
        made.append(Equation(tensor, free, item))
        return Read(tensor, tuple(map(Position, free)))

    def fresh(self, stem: str) -> str:
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name


def _reductions(body: Expr) -> Iterator[Reduce]:
    return (item for item in postorder([body]) if isinstance(item, Reduce))


def _nested(body: Expr) -> set[Node]:
    """Everything inside of reductions."""
    return {node for item in _reductions(body) for node in postorder(children(item))}


def _unguarded(body: Expr) -> set[Node]:
    """The nodes that are computed whatever holds."""
    found: set[Node] = set()
    waiting: list[Node] = [body]
    while waiting:
        item = waiting.pop()
        lazy = isinstance(item, Apply) and item.function.name in ("and", "or")
        if item not in found:
            found.add(item)
            waiting += [] if lazy or isinstance(item, Select) else children(item)
    return found


def _substituted(expr: Expr, index: str, place: Expr) -> Expr:
    """`expr` at another position of an index that nothing inside binds."""
    there = Position(index)
    found = replaced(expr, lambda item: place if item == there else None)
    assert isinstance(found, Expr)
    return found
