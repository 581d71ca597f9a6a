"""One kernel for each product with what is made of it alone, plain kernels for all else.

True afterwards: every output and every intermediate that is stored has a kernel of its own; an
intermediate is computed where it is read if it reduces nothing, or if one equation makes its own
value of it element by element.

    z[m, n] = sum[k](a[m, k] * w[k, n]);  o[m, n] = z[m, n] * sigmoid(z[m, n])     one kernel
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

from tensorc.ir.needed import needed
from tensorc.ir.node import Node, postorder
from tensorc.ir.plan import Plan
from tensorc.ir.tensor import (
    Declaration,
    Equation,
    Position,
    Program,
    Read,
    Reduce,
    free_indices,
)
from tensorc.ir.tile import Kernel, TileProgram
from tensorc.passes.fusion.fuse import fuse
from tensorc.passes.fusion.inline import Unfused
from tensorc.passes.tiling.choose_tile import Wanted, chosen
from tensorc.passes.tiling.lower import lower


@dataclass(frozen=True)
class Tiled:
    """A program at level 2, and why kernels are plain: name of the kernel to a sentence."""

    program: TileProgram
    reasons: Mapping[str, str]


def tile_apart(program: Program, wanted: Wanted) -> Tiled:
    """Level 2 of a canonical program, kernel by kernel."""
    try:
        plans = list(_plans(program, wanted))
    except Unfused as why:
        plain = lower(program, wanted.widths, wanted.units, wanted.machine, wanted.static)
        return Tiled(plain, {kernel.name: str(why) for kernel in plain.kernels})
    equations = tuple(output for plan in plans for k in plan.kernels for output in k.outputs)
    extents = dict(item for plan in plans for item in plan.extents)
    checks = tuple(dict.fromkeys(check for plan in plans for check in plan.checks))
    whole = replace(program, equations=equations, extents=tuple(extents.items()), checks=checks)
    by_name: dict[str, list[Kernel]] = {}
    reasons: dict[str, str] = {}
    taken = wanted.names | {item.tensor.name for item in equations}
    for plan in plans:
        scene = replace(wanted, names=taken).scene(program, plan)
        for item in plan.kernels:
            names = [output.tensor.name for output in item.outputs]
            try:
                by_name[names[0]] = [chosen(item, scene, wanted).kernel]
            except Unfused as why:
                reasons.update(dict.fromkeys(names, str(why)))
    plain = plain_kernels(whole, reasons, wanted)
    by_name |= _with_parts(plain, set(reasons))
    kernels = tuple(k for i in equations for k in by_name.get(i.tensor.name, ()))
    written = {tensor.name for kernel in kernels for tensor in kernel.writes}
    spaces = tuple(item for item in plain.workspaces if item.name in written)
    return Tiled(replace(plain, workspaces=spaces, kernels=kernels), reasons)


def plain_kernels(program: Program, names: Container[str], wanted: Wanted) -> TileProgram:
    """Plain kernels for some equations of a program, with room for the results of all."""
    own = tuple(item for item in program.equations if item.tensor.name in names)
    part = replace(program, equations=own)
    made = lower(part, wanted.widths, wanted.units, wanted.machine, wanted.static)
    outputs = {item.tensor.name for item in program.outputs}
    stored = [i.tensor for i in program.equations if i.tensor.name not in outputs]
    return replace(made, workspaces=tuple(dict.fromkeys((*stored, *made.workspaces))))


def _with_parts(plain: TileProgram, names: set[str]) -> dict[str, list[Kernel]]:
    """The kernels of each equation: its own, the last, and those of the parts before it."""
    found: dict[str, list[Kernel]] = {}
    waiting: list[Kernel] = []
    for kernel in plain.kernels:
        waiting.append(kernel)
        if kernel.name in names:
            found[kernel.name], waiting = waiting, []
    return found


def _plans(program: Program, wanted: Wanted) -> Iterator[Plan]:
    """A plan of one kernel for everything that is stored, in order."""
    inlined = _inlined(program)
    computed = [item for item in program.equations if item.tensor.name in inlined]
    declared = {item.tensor.name: item for item in program.outputs}
    for item in program.equations:
        if item.tensor.name in inlined:
            continue
        output = declared.get(item.tensor.name, Declaration(item.tensor, item.indices))
        own = replace(program, equations=(*computed, item), outputs=(output,))
        yield fuse(needed(own), wanted.guided, "none")


def _inlined(program: Program) -> frozenset[str]:
    """Intermediates that are computed where they are read."""
    outputs = {item.tensor.name for item in program.outputs}
    users: dict[str, list[tuple[Equation, Read, bool]]] = {}
    for item in program.equations:
        inner = set(_inside(item))
        for node in postorder([item.body]):
            if isinstance(node, Read):
                users.setdefault(node.tensor.name, []).append((item, node, node in inner))
    found: set[str] = set()
    for item in program.equations:
        name = item.tensor.name
        if name not in outputs and _joins(item, users.get(name, []), found):
            found.add(name)
    return frozenset(found)


def _inside(item: Equation) -> Iterator[Node]:
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
