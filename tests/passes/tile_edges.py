"""Sizes at the edges of the tiles that an example has on a machine, and level 2 for such sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from examples.sizes import Example
from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, symbols
from tensorc.ir.tensor import Program
from tensorc.ir.tile import Kernel, Loop, TileProgram
from tensorc.ir.walk_tile import statements, tiles
from tensorc.lang import read
from tensorc.passes.canonicalise import canonicalise
from tensorc.passes.tiling.block_sizes import Widths
from tensorc.passes.tiling.choose_plan import Setting, choose_plan
from tensorc.passes.tiling.lower import lower
from tensorc.passes.tiling.tile_fused import tile_fused
from tensorc.passes.tiling.tile_gpu import tile_gpu
from tensorc.request import Target

FOLDER = Path(__file__).parents[2] / "examples"
CPU = Target("avx512", 16, 4, 6)
THREADS = 16  # of plain kernels: edges are as those of 128, and a cube of them is soon interpreted
MACHINES = (CPU.machine, "sm_80", "sm_90a")
FIXED = 256  # extents up to this are fixed in the kernel, as a call fixes them
LONG = 512  # of several tiles along an index, one no longer than this is filled
MOST = 16384  # a size that no edge asks for more than
# Const integers have their value in a tiny example, and these indices their size: they shape what
# is computed, or count how often it is.
KEPT = {
    "conv2d": ("r", "s"), "cg_product": ("i", "j", "k"), "embedding": ("v",),
    "grouped_query_attention": ("g", "h"), "mla_decode": ("h",),
}  # fmt: skip


def source(example: Example) -> Program:
    """An example's program."""
    (found,) = read((FOLDER / f"{example.name}.tc").read_text())
    return found


def tiled(
    item: Program, machine: str, static: Mapping[str, int], hints: Mapping[str, int],
    threads: int = 128,
) -> TileProgram:  # fmt: skip
    """Level 2 of a program: on the CPU as the driver chooses it, on GPUs as `tile_gpu` does."""
    item = canonicalise(item)
    if machine != CPU.machine:
        return tile_gpu(item, machine, Widths(threads), {}, static, hints).program
    widths = Widths(CPU.lanes, CPU.vectors, CPU.rows)
    plan = choose_plan(item, Setting(widths, {}, machine, static), "none").plan
    if plan is None:
        return lower(item, widths, {}, machine, static)
    return tile_fused(item, plan, CPU.lanes, {}, machine, static)


def lanes(made: TileProgram) -> dict[str, int]:
    """The most lanes of every index in any kernel, where that is more than 1."""
    found: dict[str, int] = {}
    for kernel in made.kernels:
        for index, count in _lanes(kernel):
            found[index] = max(count, found.get(index, 1))
    return {index: count for index, count in found.items() if count > 1}


def _lanes(kernel: Kernel) -> list[tuple[str, int]]:
    found = [(block.index, block.size) for block in kernel.grid]
    found += [(i.index, i.block) for i in statements(kernel.body) if isinstance(i, Loop)]
    for tile in tiles(kernel).values():
        found += zip(tile.axes, tile.sizes, strict=True)
    return found


def free(item: Program) -> tuple[str, ...]:
    """Indices whose extents follow from no others."""
    return tuple(name for name, size in item.extents if str(size) == f"|{name}|")


def edges(example: Example, machine: str) -> tuple[dict[str, int], dict[str, int]]:
    """The size at which each index fills a tile, and sizes of the others: few."""
    item = source(example)
    fixed = {i: example.sizes[i] for i in free(item) if example.sizes[i] <= FIXED}
    made = tiled(item, machine, fixed, example.sizes, THREADS)
    found, extents = lanes(made), made.extent_of
    kept = {name: example.tiny[name] for name in KEPT.get(example.name, ())}
    full: dict[str, int] = {}
    rest = dict(kept)
    for index in free(item):
        counts = [(extents[j], n) for j, n in found.items() if index in _names(extents[j])]
        if index in kept:
            continue
        if counts:
            ends = [_size(index, size, count, kept) for size, count in counts]
            short = [size for size in ends if size <= LONG]
            full[index] = max(short, default=min(ends))
        else:
            rest[index] = 1 if index == "b" else min(example.tiny[index], 2)
    return full, rest


def _names(size: Polynomial) -> set[str]:
    return {symbol.name for symbol in symbols(size)}


def _size(index: str, extent: Polynomial, count: int, kept: Mapping[str, int]) -> int:
    """The least size of an index at which an extent is that of a full tile."""
    known = {Symbol(name, "extent"): size for name, size in kept.items()}
    sizes = range(1, MOST)
    return next(
        n for n in sizes if evaluate(extent, {**known, Symbol(index, "extent"): n}) >= count
    )


def at(
    example: Example, full: Mapping[str, int], rest: Mapping[str, int], by: Sequence[int]
) -> Example:
    """The example whose tiny sizes are so much beyond full tiles, by index in order."""
    sizes = {i: max(0, n + more) for (i, n), more in zip(full.items(), by, strict=True)}
    const = {name: n for name, n in example.tiny.items() if name not in {**full, **rest}}
    return replace(example, tiny={**const, **rest, **sizes})


def at_edge(example: Example, machine: str) -> TileProgram:
    """Level 2 of an example for its tiny sizes, tiled as for the sizes of practice."""
    item = source(example)
    fixed = {i: example.tiny[i] for i in free(item) if example.sizes[i] <= FIXED}
    return tiled(item, machine, fixed, example.sizes, THREADS)
