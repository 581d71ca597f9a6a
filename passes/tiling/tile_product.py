"""A planned kernel of products as level-2 text for tensor cores.

    o[m, n] = f(sum[k](a[m, k] * w[k, n]) + bias[n])

    grid m by 128, n by 128
    loop k by 32  carry c[m, n] = 0
      As, Ws = copies of a and w into shared memory;  A, W = fragments
      c' = c + sum[k](A * W)     by the machine's instruction for products
    z = c + bias[n];  store o[m, n] = f(z)

True afterwards: the sums of one pass are carried in registers through the loops over what they
reduce, each block of factors is copied once; lanes beyond the end of a sum hold 0 because the copy
fills them or its value is guarded; the rest of the kernel is computed on the sums where they are.
Batches and indices without a role have one lane. Which instruction, which copies and which layouts:
found in the machine's file by `match` and `feed`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from tensorc.ir.dtypes import F32
from tensorc.ir.functions import FUNCTIONS, SUM
from tensorc.ir.node import postorder
from tensorc.ir.plan import Pass, PlannedKernel
from tensorc.ir.polynomial import Polynomial, polynomial
from tensorc.ir.tensor import Apply, Expr, Program, Read, Reduce, Value, free_indices
from tensorc.ir.tile import Block, Carry, Kernel, Let, Loop, Statement, Tile
from tensorc.machine.instruction import Instruction, Machine
from tensorc.machine.verify_uses import substituted
from tensorc.passes.canonicalise import integer
from tensorc.passes.fusion.guards import Reads
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.epilogue import Epilogue
from tensorc.passes.tiling.feed import Copies
from tensorc.passes.tiling.match import Groups, Match, product, unify
from tensorc.passes.tiling.operands import Names, Operands, use, value
from tensorc.passes.tiling.shapes import LEAST, Shape, instruction, spread


@dataclass(frozen=True)
class Scene:
    """What a kernel is tiled for. `units`: the unit-stride axis of tensors that are not row-major;
    `static`: extents that are fixed in the kernel; `hints`: extents as far as they are guessed;
    `taken`: names of tensors and indices; `program`: what the kernel is part of."""

    machine: Machine
    extents: Mapping[str, Polynomial]
    units: Units
    static: Mapping[str, int]
    hints: Mapping[str, int]
    taken: frozenset[str]
    program: Program

    @cached_property
    def reads(self) -> Reads:
        """Which reads stay inside their tensors."""
        checked = {check.read for check in self.program.checks}
        return Reads(self.program, self.extents, checked)

    @property
    def copies(self) -> Copies:
        """The machine's copies at these strides and sizes."""
        return Copies(self.machine, self.units, self.static)


@dataclass(frozen=True)
class Tiling:
    """The lanes of every index of a kernel in a tile, and the kernel, made when it is asked for."""

    lanes: Mapping[str, int]
    kernel: Callable[[], Kernel]


Tiler = Callable[[Shape], Tiling]  # of one kernel


def tile_product(item: PlannedKernel, scene: Scene) -> Tiler:
    """Level 2 of a kernel whose reductions are the products of one pass, for any shape: lanes along
    the roles of the product.

    Raises Unfused, saying why, where it is not such a kernel; making a kernel does where the
    machine has no instruction for it.
    """
    walk = _only(item)
    first = scene.machine.instructions[scene.machine.products[0]]
    matches = _matches(item, walk, first)
    rows = _rows(matches[0], item, scene)
    groups = _ordered(matches[0].groups, rows)

    def tiling(shape: Shape) -> Tiling:
        lanes = dict.fromkeys((*item.grid, *walk.indices), 1)
        lanes.update(spread(groups, rows, shape, scene.machine, scene.hints))

        def kernel() -> Kernel:
            found = instruction(scene.machine, groups, lanes)
            if found is None:
                raise Unfused("no instruction for products has atoms that cover the tile")
            return _Emission(item, walk, scene, groups, lanes, found).kernel(matches)

        return Tiling(lanes, kernel)

    return tiling


def one_product(item: PlannedKernel) -> bool:
    """Whether a kernel's reductions are one sum."""
    try:
        return len(_only(item).states) == 1
    except Unfused:
        return False


def _only(item: PlannedKernel) -> Pass:
    """The one pass of a kernel that holds nothing but products."""
    if len(item.passes) > 1:
        raise Unfused(f"it takes {len(item.passes)} passes over what it reduces, not 1")
    walk = next(iter(item.passes), None)
    if walk is None:
        raise Unfused("it reduces nothing")
    reduces = {n for e in item.outputs for n in postorder([e.body]) if isinstance(n, Reduce)}
    if walk.shifts or reduces != {state.reduce for state in walk.states}:
        raise Unfused("its reductions depend on each other")
    if any(set(output.indices) != set(item.grid) for output in item.outputs):
        raise Unfused("its outputs have different indices")
    return walk


def _matches(item: PlannedKernel, walk: Pass, found: Instruction) -> list[Match]:
    """Every sum of the pass as a product, all with the same roles. The index along which the
    result is contiguous is a column, so that threads hold neighbours."""
    made: list[Match] = []
    for state in walk.states:
        result = tuple(i for i in item.grid if i in free_indices(state.reduce))
        match = unify(found, product(state.reduce, walk.indices, state.body, state.where), result)
        wanted = made[0].groups if made else None
        if match.groups != wanted and (made or item.grid[-1] in match.groups["m"]):
            match = unify(found, match.product.swapped(), result)
        if made and match.groups != wanted:
            raise Unfused("its sums have different rows and columns")
        made.append(match)
    return made


def _rows(match: Match, item: PlannedKernel, scene: Scene) -> dict[str, str]:
    """Of each role, the index that gets most lanes: one that is contiguous in a factor, else in
    the result, else the last. A sum along few elements of that runs along its longest index."""
    found = {role: group[-1] for role, group in match.groups.items()}
    unit = item.outputs[0].indices[-1]
    found.update({role: unit for role, group in match.groups.items() if unit in group})
    for factor, roles in zip(match.product.factors, (("m", "k"), ("n", "k")), strict=True):
        axes = tuple(i for role in roles for i in match.groups[role])
        row = scene.copies.row(factor.value, axes)
        found.update({role: row for role in roles if row is not None and row in match.groups[role]})
    if scene.hints.get(found["k"], LEAST) < LEAST:
        found["k"] = max(match.groups["k"], key=lambda index: scene.hints.get(index, 0))
    return found


def _ordered(groups: Groups, rows: Mapping[str, str]) -> Groups:
    """Every group with its contiguous index last."""
    return {r: (*(i for i in own if i != rows[r]), rows[r]) for r, own in groups.items()}


class _Emission:
    """One kernel being emitted."""

    def __init__(
        self, item: PlannedKernel, walk: Pass, scene: Scene, groups: Groups,
        lanes: Mapping[str, int], found: Instruction,
    ) -> None:  # fmt: skip
        self.item, self.walk, self.scene = item, walk, scene
        self.groups, self.lanes, self.found = groups, lanes, found
        self.names = Names({*scene.taken})
        self.operands = Operands(scene.copies, scene.extents, groups, lanes, self.names)

    def kernel(self, matches: list[Match]) -> Kernel:
        """Loops that carry the sums, then what is made of them."""
        sums = [self.sum_tile() for _ in matches]
        starts: list[Expr | Tile] = [integer(0) for _ in matches]
        loop = self.nest(self.loops(), sums, starts, matches)
        known = {s.reduce: value(t) for s, t in zip(self.walk.states, sums, strict=True)}
        rest = Epilogue(self.scene.copies, self.scene.extents, self.lanes, sums, self.names)
        body = (loop, *rest.statements(self.item.outputs, known))
        grid = tuple(Block(index, self.lanes[index]) for index in self.item.grid)
        roots = [output.body for output in self.item.outputs]
        reads = {node.tensor: None for node in postorder(roots) if isinstance(node, Read)}
        writes = tuple(output.tensor for output in self.item.outputs)
        return Kernel(writes[0].name, tuple(reads), writes, grid, body)

    def sum_tile(self) -> Tile:
        """The tile of a sum, where the instruction leaves it."""
        (place,) = self.found.result.places
        assert place.layout is not None
        axes = self.operands.axes(self.found.result)
        wide = {role: tuple(i for i in own if self.lanes[i] > 1)
                for role, own in self.groups.items()}  # fmt: skip
        layout = substituted(place.layout, wide)
        sizes = tuple(self.lanes[axis] for axis in axes)
        return Tile(self.names.fresh("c"), axes, sizes, F32, place.space, layout)

    def loops(self) -> list[str]:
        """What is reduced, the index with many lanes innermost."""
        return sorted(self.walk.indices, key=lambda index: self.lanes[index] > 1)

    def nest(
        self, order: list[str], sums: list[Tile], starts: list[Expr | Tile], matches: list[Match]
    ) -> Loop:
        """Loops over `order`; an inner loop continues the sums of the one around it."""
        index, *rest = order
        block, size = self.lanes[index], self.scene.extents[index]
        carries = tuple(Carry(tile, start) for tile, start in zip(sums, starts, strict=True))
        after = [following(tile) for tile in sums]
        body: tuple[Statement, ...]
        if rest:
            body = (self.nest(rest, after, list(sums), matches),)
        else:
            body = tuple(self.products(sums, after, matches))
        full = (polynomial(0), size // block * block)
        return Loop(index, block, polynomial(0), size, full, carries, body)

    def products(
        self, sums: list[Tile], after: list[Tile], matches: list[Match]
    ) -> list[Statement]:  # fmt: skip
        """One block of every product."""
        copies: list[Statement] = []
        made: list[Statement] = []
        reduced = tuple(i for i in self.groups["k"] if self.lanes[i] > 1)
        by = use(self.found, self.groups, self.lanes)
        for old, new, match in zip(sums, after, matches, strict=True):
            factors: list[Value] = []
            for factor, slot in zip(match.product.factors, self.found.operands, strict=True):
                found, statements = self.operands.placed(factor, slot)
                factors.append(found)
                copies += statements
            body = Apply(FUNCTIONS["mul"], tuple(factors))
            made.append(Let(new, SUM, reduced, body, old, old, by, ()))
        copies.sort(key=_space)
        return [*copies, *made]


def _space(item: Statement) -> bool:
    """Copies into shared memory come first."""
    return isinstance(item, Let) and item.tile.space != "shared"


def following(tile: Tile) -> Tile:
    """The next value of a carried tile."""
    return Tile(f"{tile.name}'", tile.axes, tile.sizes, tile.dtype, tile.space, tile.layout)
