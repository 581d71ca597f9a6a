"""Level 2 for GPUs: products on tensor cores where a kernel has them, plain kernels elsewhere.

True afterwards: every output is stored by one kernel. Kernels are those of the fused plan where
that keeps its products on tensor cores, in parts if the grid is small; other outputs have a kernel
for each product with what is made of it alone, and plain ones, for each of which `reasons` has a
sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tensorc.ir.needed import needed
from tensorc.ir.node import postorder
from tensorc.ir.plan import Plan
from tensorc.ir.tensor import Program, Read
from tensorc.ir.tile import Kernel, TileProgram
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.choose_tile import Candidate, Wanted, chosen
from tensorc.passes.tiling.contiguity import Units
from tensorc.passes.tiling.tile_apart import Tiled, tile_apart
from tensorc.passes.tiling.tile_parts import in_parts


def tile_gpu(
    program: Program, machine: str, widths: Widths, units: Units,
    static: Mapping[str, int], hints: Mapping[str, int] | None = None,
) -> Tiled:  # fmt: skip
    """Tile a canonical program for a GPU; see `Wanted`."""
    return tile_for(program, Wanted(machine, widths, units, static, hints or {}))


def tile_for(program: Program, wanted: Wanted) -> Tiled:
    """Tile a canonical program for what is wanted."""
    fused = _fused(program, wanted)
    done = {tensor.name for kernel in fused.kernels for tensor in kernel.writes}
    if fused.plan is not None and done == {item.tensor.name for item in program.outputs}:
        return Tiled(_in_parts(program, fused, wanted) or fused.program(program, wanted), {})
    rest = _without(program, done) if done else None
    if rest is None:
        return tile_apart(program, wanted)
    names = frozenset(item.tensor.name for item in program.outputs)
    apart = tile_apart(rest, replace(wanted, names=names))
    stored = frozenset(tensor.name for tensor in apart.program.workspaces)
    again = _fused(program, replace(wanted, names=stored)).program(program, wanted)
    return Tiled(_joined(program, again, apart.program), apart.reasons)


@dataclass(frozen=True)
class _Fused:
    """The plan of a program in as few kernels as can be, and those that are on tensor cores."""

    plan: Plan | None
    options: Sequence[Candidate]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(option.kernel for option in self.options)

    def program(self, program: Program, wanted: Wanted) -> TileProgram:
        """The kernels as a program."""
        assert self.plan is not None
        return TileProgram(
            program.name, wanted.machine, program.parameters, program.outputs, (),
            self.plan.extents, self.kernels, program.tables, self.plan.checks,
        )  # fmt: skip


def _fused(program: Program, wanted: Wanted) -> _Fused:
    try:
        plan = fuse(program, wanted.guided, "none")
    except Unfused:
        return _Fused(None, ())
    scene = wanted.scene(program, plan)
    found: list[Candidate] = []
    for item in plan.kernels:
        try:
            found.append(chosen(item, scene, wanted))
        except Unfused:
            continue
    return _Fused(plan, found)


def _in_parts(program: Program, fused: _Fused, wanted: Wanted) -> TileProgram | None:
    """The program in parts, where it is one kernel with a small grid."""
    if len(fused.options) != 1 or fused.plan is None or fused.options[0].estimate is None:
        return None
    return in_parts(program, fused.plan, fused.options[0].estimate, wanted)


def _without(program: Program, done: set[str]) -> Program | None:
    """The program of the other outputs; None where they need one that is done."""
    outputs = tuple(item for item in program.outputs if item.tensor.name not in done)
    rest = needed(replace(program, outputs=outputs))
    nodes = postorder([item.body for item in rest.equations])
    read = {node.tensor.name for node in nodes if isinstance(node, Read)}
    own = {item.tensor.name for item in rest.equations}
    return None if (read | own) & done else rest


def _joined(program: Program, fused: TileProgram, rest: TileProgram) -> TileProgram:
    """Both kinds of kernels in one program."""
    extents = dict((*fused.extents, *rest.extents))
    return replace(
        fused, outputs=program.outputs, workspaces=rest.workspaces,
        extents=tuple(extents.items()), kernels=(*fused.kernels, *rest.kernels),
        checks=tuple(dict.fromkeys((*fused.checks, *rest.checks))),
    )  # fmt: skip
