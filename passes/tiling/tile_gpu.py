"""Level 2 for GPUs: products on tensor cores where a kernel has them, plain kernels elsewhere.

True afterwards: every output is stored by one kernel. Kernels are those of the fused plan where
that keeps its products on tensor cores; other outputs have a kernel for each product with what is
made of it alone, and plain ones, for each of which `reasons` has a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorc.ir.node import postorder
from tensorc.ir.plan import Plan, PlannedKernel
from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, symbols
from tensorc.ir.tensor import Equation, Position, Program, Read, Reduce, free_indices
from tensorc.ir.tile import Kernel, TileProgram
from tensorc.machine.machines import MACHINES
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.lower import Widths, lower
from tensorc.passes.tiling.shapes import SHAPES
from tensorc.passes.tiling.tile_chain import NoProduct, tile_chain
from tensorc.passes.tiling.tile_product import Scene, tile_product


@dataclass(frozen=True)
class Tiled:
    """A program at level 2, and why kernels are plain: name of the kernel to a sentence."""

    program: TileProgram
    reasons: Mapping[str, str]


@dataclass(frozen=True)
class Wanted:
    """What a program is tiled for. `widths`: of plain kernels; `units`: the unit-stride axis of
    tensors that are not row-major; `static`: extents fixed in the kernels; `hints`: others, that
    only guide; `names`: names that no tile may have."""

    machine: str
    widths: Widths
    units: Units
    static: Mapping[str, int]
    hints: Mapping[str, int]
    names: frozenset[str] = frozenset()

    @property
    def guided(self) -> dict[str, int]:
        """Every extent that is known or guessed."""
        return {**self.hints, **self.static}


@dataclass(frozen=True)
class _Part:
    """Kernels of some outputs, with the workspaces between them."""

    program: TileProgram
    reasons: Mapping[str, str]


def tile_gpu(
    program: Program, machine: str, widths: Widths, units: Units,
    static: Mapping[str, int], hints: Mapping[str, int] | None = None,
) -> Tiled:  # fmt: skip
    """Tile a canonical program for a GPU; see `Wanted`."""
    wanted = Wanted(machine, widths, units, static, hints or {})
    fused, kernels = _fused(program, wanted)
    done = {tensor.name for kernel in kernels for tensor in kernel.writes}
    outputs = {item.tensor.name for item in program.outputs}
    if fused is not None and done == outputs:
        return Tiled(replace(fused, kernels=tuple(kernels)), {})
    rest = _without(program, done) if done else None
    if fused is None or rest is None:
        apart = _apart(program, wanted)
        return Tiled(apart.program, apart.reasons)
    names = frozenset(item.tensor.name for item in program.outputs)
    apart = _apart(rest, replace(wanted, names=names))
    stored = frozenset(tensor.name for tensor in apart.program.workspaces)
    fused, kernels = _fused(program, wanted, stored)
    assert fused is not None
    return Tiled(_joined(program, fused, kernels, apart.program), apart.reasons)


# --- the fused plan -----------------------------------------------------------------------------


def _fused(
    program: Program, wanted: Wanted, others: frozenset[str] = frozenset()
) -> tuple[TileProgram | None, list[Kernel]]:
    """The kernels of the fused plan that are done by tensor cores, and a program to hold them.
    `others`: names that no tile may have."""
    try:
        plan = fuse(program, wanted.guided, "none")
    except Unfused:
        return None, []
    found: list[Kernel] = []
    scene = _scene(program, plan, wanted)
    scene = replace(scene, taken=scene.taken | others)
    for item in plan.kernels:
        made = _tensor_core(item, scene, program)
        if isinstance(made, Kernel):
            found.append(made)
    frame = TileProgram(
        program.name, wanted.machine, program.parameters, program.outputs, (), plan.extents,
        (), program.tables, plan.checks,
    )  # fmt: skip
    return frame, found


def _tensor_core(item: PlannedKernel, scene: Scene, program: Program) -> Kernel | str:
    """A kernel on tensor cores, or why it is none."""
    shapes = SHAPES[scene.machine.name]
    try:
        return tile_product(item, scene, shapes[0])
    except Unfused as why:
        reason = str(why)
    for shape in shapes:
        try:
            return tile_chain(item, scene, shape, program)
        except NoProduct:
            break
        except Unfused as why:
            reason = str(why)
    return reason


def _scene(program: Program, plan: Plan, wanted: Wanted) -> Scene:
    extents = dict(plan.extents)
    fixed, guided = _evaluated(extents, wanted.static), _evaluated(extents, wanted.guided)
    stored = (item for kernel in plan.kernels for item in kernel.outputs)
    named = (*program.parameters, *program.outputs, *stored, *program.tables)
    taken = frozenset({*extents, *(item.tensor.name for item in named)}) | wanted.names
    return Scene(MACHINES[wanted.machine], extents, wanted.units, fixed, guided, taken)


def _evaluated(extents: Mapping[str, Polynomial], given: Mapping[str, int]) -> dict[str, int]:
    """Every extent that follows from the given ones, those included."""
    known = {Symbol(name, "extent"): size for name, size in given.items()}
    found = {n: size for n, size in extents.items() if symbols(size) <= known.keys()}
    return {**given, **{name: evaluate(size, known) for name, size in found.items()}}


def _without(program: Program, done: set[str]) -> Program | None:
    """The program of the other outputs; None where they need one that is done."""
    outputs = tuple(item for item in program.outputs if item.tensor.name not in done)
    needed = {item.tensor.name for item in outputs}
    kept: list[Equation] = []
    for item in reversed(program.equations):
        if item.tensor.name in needed:
            kept.insert(0, item)
            reads = (node for node in postorder([item.body]) if isinstance(node, Read))
            needed |= {read.tensor.name for read in reads}
    if needed & done:
        return None
    nodes = set(postorder([item.body for item in kept]))
    checks = tuple(check for check in program.checks if check.read in nodes)
    return replace(program, outputs=outputs, equations=tuple(kept), checks=checks)


def _joined(
    program: Program, fused: TileProgram, kernels: Sequence[Kernel], rest: TileProgram
) -> TileProgram:
    """Both kinds of kernels in one program."""
    extents = dict((*fused.extents, *rest.extents))
    return replace(
        fused, outputs=program.outputs, workspaces=rest.workspaces,
        extents=tuple(extents.items()), kernels=(*kernels, *rest.kernels),
        checks=tuple(dict.fromkeys((*fused.checks, *rest.checks))),
    )  # fmt: skip


# --- one kernel for each product ----------------------------------------------------------------


def _apart(program: Program, wanted: Wanted) -> _Part:
    """Each product with what is made of it alone; all else as it is written."""
    machine, static = wanted.machine, wanted.static
    try:
        plan = fuse(program, wanted.guided, "none", _stored(program))
    except Unfused as why:
        plain = lower(program, wanted.widths, wanted.units, machine, static)
        return _Part(plain, {kernel.name: str(why) for kernel in plain.kernels})
    equations = tuple(item for kernel in plan.kernels for item in kernel.outputs)
    whole = replace(program, equations=equations, extents=plan.extents, checks=plan.checks)
    plain = lower(whole, wanted.widths, wanted.units, machine, static)
    by_name = {kernel.name: kernel for kernel in plain.kernels}
    scene = _scene(program, plan, wanted)
    kernels: list[Kernel] = []
    reasons: dict[str, str] = {}
    for item in plan.kernels:
        made = _tensor_core(item, scene, program)
        if isinstance(made, Kernel):
            kernels.append(made)
            continue
        for output in item.outputs:
            kernels.append(by_name[output.tensor.name])
            reasons[output.tensor.name] = made
    return _Part(replace(plain, kernels=tuple(kernels)), reasons)


def _stored(program: Program) -> tuple[str, ...]:
    """Intermediates that go through memory: all but values without a reduction, and those of
    which one equation makes its own value element by element."""
    outputs = {item.tensor.name for item in program.outputs}
    users: dict[str, list[tuple[Equation, Read, bool]]] = {}
    for item in program.equations:
        inner = set(_inside(item))
        for node in postorder([item.body]):
            if isinstance(node, Read):
                users.setdefault(node.tensor.name, []).append((item, node, node in inner))
    inlined: set[str] = set()
    for item in program.equations:
        name = item.tensor.name
        if name not in outputs and _joins(item, users.get(name, []), inlined):
            inlined.add(name)
    names = (item.tensor.name for item in program.equations)
    return tuple(name for name in names if name not in outputs | inlined)


def _inside(item: Equation) -> Iterable[object]:
    """Every node inside a reduction."""
    for reduce in postorder([item.body]):
        if isinstance(reduce, Reduce):
            yield from postorder([reduce])


def _joins(
    item: Equation, users: list[tuple[Equation, Read, bool]], inlined: set[str]
) -> bool:  # fmt: skip
    """Whether an intermediate is computed where it is read."""
    if any(inside for _, _, inside in users):
        return False
    nodes = list(postorder([item.body]))
    reduces = any(isinstance(node, Reduce) for node in nodes)
    reduces |= any(isinstance(node, Read) and node.tensor.name in inlined for node in nodes)
    if not reduces:
        return True
    owners = {user.tensor.name: user for user, _, _ in users}
    if len(owners) != 1:
        return False
    own = frozenset(next(iter(owners.values())).indices)
    return all(
        all(isinstance(sub, Position) for sub in read.subscripts) and free_indices(read) == own
        for _, read, _ in users
    )
