"""Choose the tile of a planned kernel: every candidate is tiled, and the least estimate wins.

Candidates are the shapes of `shapes`, each with the instruction, copies and layouts that follow
from it, at most 64; those that lead to the same text count once. What does not fit a multiprocessor
is dropped. Without extents there is nothing to choose by, and the first candidate that can be tiled
is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tensorc.ir.plan import Plan, PlannedKernel
from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, symbols
from tensorc.ir.tensor import Program
from tensorc.ir.tile import Kernel, Let, Loop
from tensorc.ir.walk_tile import statements
from tensorc.machine.machines import MACHINES
from tensorc.machine.product import Product, load_product
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.estimate import Estimate, estimate
from tensorc.passes.tiling.shapes import SUMS, Shape, shapes
from tensorc.passes.tiling.tile_chain import NoProduct, tile_chain
from tensorc.passes.tiling.tile_product import Scene, Tiler, one_product, tile_product
from tensorc.passes.tiling.tile_rows import tile_rows

PRODUCTS = {"sm_80": "a100", "sm_89": "rtx4090", "sm_90a": "h100"}  # that tiles are chosen for


@dataclass(frozen=True)
class Wanted:
    """What a program is tiled for. `widths`: of plain kernels; `units`: the unit-stride axis of
    tensors that are not row-major; `static`: extents fixed in the kernels; `hints`: others, that
    only guide; `names`: names that no tile may have; `gpu`: whose rates choose (None: the usual);
    `refused`: why a kernel cannot be made into code ("": it can); `sums`: elements of a result
    that may be in the registers of a block."""

    machine: str
    widths: Widths
    units: Units
    static: Mapping[str, int]
    hints: Mapping[str, int]
    names: frozenset[str] = frozenset()
    gpu: Product | None = None
    refused: Callable[[Kernel], str] = lambda kernel: ""
    sums: int = SUMS

    @property
    def guided(self) -> dict[str, int]:
        """Every extent that is known or guessed."""
        return {**self.hints, **self.static}

    @property
    def product(self) -> Product:
        """The GPU whose rates choose."""
        return self.gpu or load_product(PRODUCTS[self.machine])

    def scene(self, program: Program, plan: Plan) -> Scene:
        """What the kernels of a plan are tiled for."""
        extents = dict(plan.extents)
        fixed, guided = evaluated(extents, self.static), evaluated(extents, self.guided)
        stored = (item for kernel in plan.kernels for item in kernel.outputs)
        named = (*program.parameters, *program.outputs, *stored, *program.tables)
        taken = frozenset({*extents, *(item.tensor.name for item in named)}) | self.names
        machine = MACHINES[self.machine]
        return Scene(machine, extents, self.units, fixed, guided, taken, program)


@dataclass(frozen=True)
class Candidate:
    """A kernel with one tile; its estimate if the extents of its grid are known."""

    shape: Shape
    kernel: Kernel
    estimate: Estimate | None


def evaluated(extents: Mapping[str, Polynomial], given: Mapping[str, int]) -> dict[str, int]:
    """Every extent that follows from the given ones, those included."""
    known = {Symbol(name, "extent"): size for name, size in given.items()}
    found = {n: size for n, size in extents.items() if symbols(size) <= known.keys()}
    return {**given, **{name: evaluate(size, known) for name, size in found.items()}}


def candidates(item: PlannedKernel, scene: Scene, wanted: Wanted) -> Iterator[Candidate]:
    """Every tile of a kernel that fits, each once. Raises Unfused, saying why, where there is
    none."""
    product = wanted.product
    reasons: list[str] = []
    made: set[tuple[tuple[str, int], ...]] = set()
    fits = False
    tiler = _tiler(item, scene)
    for shape in shapes(scene.machine, one_product(item), wanted.sums):
        try:
            tiling = tiler(shape)
            key = tuple(sorted(tiling.lanes.items()))
            if key in made:
                continue
            made.add(key)
            kernel = tiling.kernel()
        except Unfused as why:
            reasons.append(str(why))
            continue
        if refusal := wanted.refused(kernel) or _crowded(kernel, shape, scene):
            reasons.append(refusal)
            continue
        found = None
        if scene.hints.keys() >= {*item.grid}:
            found = estimate(kernel, scene.machine, product, scene.extents, scene.hints)
            if misfit := found.misfit(product):
                reasons.append(misfit)
                continue
        fits = True
        yield Candidate(shape, kernel, found)
    if not fits:
        raise Unfused(reasons[0])


def _crowded(kernel: Kernel, shape: Shape, scene: Scene) -> str:
    """Why one warp group cannot hold the sums of a tile, where it has to: its threads then copy as
    well as multiply."""
    loops = (item for item in statements(kernel.body) if isinstance(item, Loop))
    lets = (item for loop in loops for item in statements(loop.body) if isinstance(item, Let))
    shared = [item.by.instruction for item in lets if item.tile.space == "shared"]
    groups = scene.machine.name == "sm_90a" and shape.m * shape.n > SUMS // 2
    if not groups or all(name.startswith("tma") for name in shared):
        return ""
    return f"a warp group has no registers for {shape.m} x {shape.n} sums"


def chosen(item: PlannedKernel, scene: Scene, wanted: Wanted) -> Candidate:
    """The candidate with the least estimate. Raises Unfused, saying why, where there is none."""
    best: Candidate | None = None
    for option in candidates(item, scene, wanted):
        if option.estimate is None:
            return option
        if best is None or best.estimate is None or (
            option.estimate.seconds < best.estimate.seconds
        ):  # fmt: skip
            best = option
    assert best is not None  # or candidates would have raised
    return best


def _tiler(item: PlannedKernel, scene: Scene) -> Tiler:
    """What tiles a kernel. Raises Unfused, saying why, where nothing does."""
    try:
        return tile_product(item, scene)
    except Unfused as why:
        reason = why
    try:
        return tile_chain(item, scene)
    except NoProduct:
        pass
    try:
        rows = tile_rows(item, scene)
    except Unfused:
        raise NoProduct(str(reason)) from None
    return lambda shape: rows
