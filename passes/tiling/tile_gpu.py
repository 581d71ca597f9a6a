"""Level 2 for GPUs: products on tensor cores where a kernel has them, plain kernels elsewhere.

True afterwards: every equation that is stored is computed by one kernel; a product with what is
made of it alone is one kernel, on tensor cores if `tile_product` finds a way, and `reasons` has a
sentence for each kernel that is plain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tensorc.ir.node import postorder
from tensorc.ir.plan import Plan
from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, symbols
from tensorc.ir.tensor import Equation, Position, Program, Read, Reduce, free_indices
from tensorc.ir.tile import Kernel, TileProgram
from tensorc.machine.machines import MACHINES
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.lower import Widths, lower
from tensorc.passes.tiling.shapes import SHAPES
from tensorc.passes.tiling.tile_product import Scene, tile_product


@dataclass(frozen=True)
class Tiled:
    """A program at level 2, and why kernels are plain: name of the kernel to a sentence."""

    program: TileProgram
    reasons: Mapping[str, str]


def tile_gpu(
    program: Program, machine: str, widths: Widths, units: Units,
    static: Mapping[str, int], hints: Mapping[str, int] | None = None,
) -> Tiled:  # fmt: skip
    """Tile a canonical program for a GPU.

    `widths`: of plain kernels. `units`: the unit-stride axis of tensors that are not row-major.
    `static`: extents that are fixed in the kernels; `hints`: others, that only guide.
    """
    try:
        plan = fuse(program, {**(hints or {}), **static}, "none", _stored(program))
    except Unfused as why:
        plain = lower(program, widths, units, machine, static)
        return Tiled(plain, {kernel.name: str(why) for kernel in plain.kernels})
    return _tiled(program, plan, machine, widths, units, static, hints or {})


def _tiled(
    program: Program, plan: Plan, machine: str, widths: Widths, units: Units,
    static: Mapping[str, int], hints: Mapping[str, int],
) -> Tiled:  # fmt: skip
    equations = tuple(item for kernel in plan.kernels for item in kernel.outputs)
    whole = replace(
        program, equations=equations, extents=plan.extents, checks=plan.checks
    )  # fmt: skip
    plain = lower(whole, widths, units, machine, static)
    by_name = {kernel.name: kernel for kernel in plain.kernels}
    named = (*program.parameters, *equations, *program.tables)
    taken = frozenset({*dict(plan.extents), *(item.tensor.name for item in named)})
    extents = dict(plan.extents)
    fixed, guided = _evaluated(extents, static), _evaluated(extents, {**hints, **static})
    scene = Scene(MACHINES[machine], extents, units, fixed, guided, taken)
    kernels: list[Kernel] = []
    reasons: dict[str, str] = {}
    for item in plan.kernels:
        try:
            kernels.append(tile_product(item, scene, SHAPES[machine][0]))
        except Unfused as why:
            for output in item.outputs:
                kernels.append(by_name[output.tensor.name])
                reasons[output.tensor.name] = str(why)
    return Tiled(replace(plain, kernels=tuple(kernels)), reasons)


def _evaluated(extents: Mapping[str, Polynomial], given: Mapping[str, int]) -> dict[str, int]:
    """Every extent that follows from the given ones, those included."""
    known = {Symbol(name, "extent"): size for name, size in given.items()}
    found = {n: size for n, size in extents.items() if symbols(size) <= known.keys()}
    return {**given, **{name: evaluate(size, known) for name, size in found.items()}}


def _stored(program: Program) -> tuple[str, ...]:
    """Intermediates that go through memory: all but values without a reduction, and those of
    which one equation makes its own value element by element."""
    outputs = {item.tensor.name for item in program.outputs}
    users: dict[str, list[tuple[Equation, Read, bool]]] = {}
    for item in program.equations:
        inner = {
            node
            for reduce in postorder([item.body])
            if isinstance(reduce, Reduce)
            for node in postorder([reduce])
        }
        for node in postorder([item.body]):
            if isinstance(node, Read):
                users.setdefault(node.tensor.name, []).append((item, node, node in inner))
    inlined: set[str] = set()
    for item in program.equations:
        name = item.tensor.name
        if name not in outputs and _joins(item, users.get(name, []), inlined):
            inlined.add(name)
    return tuple(
        item.tensor.name for item in program.equations if item.tensor.name not in outputs | inlined
    )


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
    (owner,) = owners.values()
    own = frozenset(owner.indices)
    return all(
        all(isinstance(sub, Position) for sub in read.subscripts) and free_indices(read) == own
        for _, read, _ in users
    )
