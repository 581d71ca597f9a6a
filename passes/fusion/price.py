"""Estimates of what a planned kernel costs: operations and bytes, from sizes known or guessed.

They decide where kernels end, and which index of a grid lies whole in a tile; they predict no time
on a particular machine. What a finished text costs is counted by `audit`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Polynomial, Symbol, evaluate, symbols
from tensorc.ir.tensor import Equation, Expr, Program, Read, Tensor, free_indices
from tensorc.passes.fusion.reach import below, needed, outside

GUESS = 256  # an extent of which nothing is known
# Rates of one core: multiply-adds and bytes a nanosecond, and nanoseconds a kernel.
RATE, BANDWIDTH, START = 30.0, 10.0, 2000.0


def sizes_of(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """Every index's extent, guessed where it is not known."""
    known: dict[Symbol, int] = {}
    for name, _ in program.extents:
        known[Symbol(name, "extent")] = sizes.get(name, GUESS)
    for item in program.parameters:
        known[Symbol(item.tensor.name, "parameter")] = sizes.get(item.tensor.name, GUESS)
    return {name: evaluate(size, known) for name, size in program.extents}


def grid_of(group: Sequence[Equation]) -> tuple[str, ...]:
    """The indices of the outputs of a kernel, in the order of the largest one."""
    largest = max((item.indices for item in group), key=len)
    others = [index for item in group for index in item.indices if index not in largest]
    return (*largest, *dict.fromkeys(others))


def work(group: Sequence[Equation], sizes: Mapping[str, int]) -> float:
    """Operations: a reduction's body once for each point of its own free indices, of its
    indices, and of those grid indices that are walked outside."""
    roots = [item.body for item in group]
    outer = set(grid_of(group))
    inside = in_tile(group, sizes)
    total = 0.0
    for item in needed(roots, _nothing):
        around = (outer - ({inside} if inside else set())) | free_indices(item)
        points = math.prod(sizes[index] for index in {*around, *item.indices})
        total += points * operations(item.body)
    return total + math.prod(sizes[index] for index in outer) * sum(map(operations, roots))


def in_tile(group: Sequence[Equation], sizes: Mapping[str, int]) -> str | None:
    """The grid index that lies whole in a tile, so that reductions which lack it are computed
    once for all of it: the one that some output lacks, or the one for which that saves most."""
    indices = grid_of(group)
    lacked = [i for i in indices if any(i not in item.indices for item in group)]
    if lacked:
        return lacked[-1]
    saved: dict[str, float] = {}
    for item in needed([e.body for e in group], _nothing):
        if not any(isinstance(node, Read) for node in postorder([item.body])):
            continue  # a count costs nothing
        points = math.prod(sizes[i] for i in {*item.indices, *free_indices(item)})
        for index in set(indices) - free_indices(item):
            saved[index] = saved.get(index, 0.0) + points * sizes[index]
    best = max(indices, key=lambda i: (saved.get(i, 0.0), indices.index(i)), default=None)
    return best if best is not None and saved.get(best, 0.0) > 0 else None


def operations(expr: Expr) -> int:
    """Scalar operations of one element, outside reductions."""
    plain = [item for item in outside(expr) if below(item) and not isinstance(item, Read)]
    return max(1, len(plain))


def traffic(group: Sequence[Equation], hints: Mapping[str, int]) -> float:
    """Every tensor read or stored once."""
    tensors = {n.tensor for e in group for n in postorder([e.body]) if isinstance(n, Read)}
    tensors |= {item.tensor for item in group}
    return sum(size_in_bytes(tensor, hints) for tensor in tensors)


def size_in_bytes(tensor: Tensor, hints: Mapping[str, int]) -> float:
    """The bytes of a tensor at these extents."""
    known = {Symbol(name, "extent"): size for name, size in hints.items()}
    return math.prod(_value(size, known) for size in tensor.shape) * tensor.dtype.bits / 8


def _value(size: Polynomial, known: Mapping[Symbol, int]) -> int:
    every = {**dict.fromkeys(symbols(size), GUESS), **known}
    return evaluate(size, every)


def _nothing(item: Expr) -> bool:
    """Nothing is known yet."""
    return False
