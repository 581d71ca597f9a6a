"""The section on kernels: their loops, and which index runs along vector lanes and why."""

from __future__ import annotations

from collections.abc import Iterable

from tensorc.explain.subject import Section, Subject
from tensorc.ir.strict_json import Json
from tensorc.ir.tensor import Read, free_indices
from tensorc.ir.tile import Kernel, Loop, Statement, Store
from tensorc.ir.walk_tile import expressions, statements, tensors_in
from tensorc.passes.tiling.contiguity import Along, Units, stride_class

_WORDS = {
    Along.NEXT: "neighbours",
    Along.FAR: "elements far apart",
    Along.SAME: "one element for all lanes",
}


def kernels(subject: Subject) -> Section:
    """Each kernel's grid, its loops, and the accesses along its lanes."""
    lines: list[str] = []
    data: list[Json] = []
    units = _units(subject)
    for kernel in subject.tiles.kernels:
        grid = [_block(item.index, item.size) for item in kernel.grid]
        loops = [_block(item.index, item.block) for item in _loops(kernel.body)]
        lanes = lane_blocks(kernel)
        why = [_reason(kernel, index, block, units) for index, block in lanes.items()]
        places = [*_places("grid", grid), *_places("loops", loops)]
        lines.append(f"{kernel.name}: {'; '.join(places) or 'one element'}")
        lines += [f"  {line}" for line in why or ["no vector lanes: one element at a time"]]
        plain = subject.plain.get(kernel.name)
        lines += [f"  not on tensor cores: {plain}"] if plain else []
        fields: dict[str, Json] = {
            "kernel": kernel.name,
            "reads": [tensor.name for tensor in kernel.reads],
            "writes": [tensor.name for tensor in kernel.writes],
            "grid": grid, "loops": loops, "lanes": dict(lanes), "why": why,
            "plain": plain,
        }  # fmt: skip
        data.append(fields)
    return Section("kernels", tuple(lines), data)


def lane_blocks(kernel: Kernel) -> dict[str, int]:
    """The indices of a kernel that run along vector lanes or threads, with their blocks: powers of
    two; another block is a number of rows."""
    found: dict[str, int] = {}
    blocks = [(item.index, item.size) for item in kernel.grid]
    blocks += [(item.index, item.block) for item in _loops(kernel.body)]
    for index, block in blocks:
        if block > 1 and block & (block - 1) == 0:
            found[index] = max(block, found.get(index, 0))
    return found


def _units(subject: Subject) -> Units:
    return {
        name: next((axis for axis, stride in enumerate(strides) if stride == 1), None)
        for name, strides in subject.strides.items()
    }


def _loops(body: Iterable[Statement]) -> list[Loop]:
    return [item for item in statements(body) if isinstance(item, Loop)]


def _block(index: str, block: int) -> str:
    return index if block == 1 else f"{index} by {block}"


def _places(word: str, blocks: list[str]) -> list[str]:
    return [f"{word} {', '.join(blocks)}"] if blocks else []


def _reason(kernel: Kernel, index: str, block: int, units: Units) -> str:
    """How every tensor is reached along the lanes of an index."""
    classes: dict[Along, list[str]] = {}
    for access in _accesses(kernel, index):
        kind = stride_class(access, index, units)
        names = classes.setdefault(kind, [])
        if access.tensor.name not in names:
            names.append(access.tensor.name)
    ways = [f"{', '.join(classes[kind])} {_WORDS[kind]}" for kind in _WORDS if kind in classes]
    return f"{block} lanes of {index}: {'; '.join(ways) or 'no memory along them'}"


def _accesses(kernel: Kernel, index: str) -> list[Read]:
    """The elements read and written where `index` is bound by a block."""
    found: dict[Read, None] = {}
    for item in _under(kernel, index):
        for read in tensors_in(expressions(item)):
            found[read] = None
        if isinstance(item, Store):
            found[Read(item.tensor, item.subscripts)] = None
    return list(found)


def _under(kernel: Kernel, index: str) -> list[Statement]:
    """The statements inside the loops (or the grid) that bind `index` in blocks, if they use it."""
    bodies = [kernel.body] if any(block.index == index for block in kernel.grid) else []
    bodies += [loop.body for loop in _loops(kernel.body) if loop.index == index]
    inside = [item for body in bodies for item in statements(body)]
    return [item for item in inside if any(index in free_indices(e) for e in expressions(item))]
