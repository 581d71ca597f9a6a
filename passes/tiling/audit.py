"""What level 2 costs: kernels, operations, bytes, temporaries, by walking its text once.

Counts, no times: operations are scalar functions evaluated, those of lanes outside the domain not
counted; bytes are those of every tensor that a kernel reads or stores, once each, which is what
has to move however good the caches are; loads are the elements that statements read, with all
repetitions. A loop whose bounds depend on data or on where its block lies counts as whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Symbol, evaluate
from tensorc.ir.tensor import Apply, Cast, Expr, Read, Select, Tensor, free_indices
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store, TileProgram
from tensorc.ir.walk_tile import expressions


@dataclass(frozen=True)
class Audit:
    """Sums over all kernels. `temporaries`: bytes of workspaces."""

    kernels: int
    operations: int
    bytes: int
    loads: int
    temporaries: int

    def __str__(self) -> str:
        return (
            f"{self.kernels} kernel{'s' * (self.kernels != 1)}, {self.operations:,} operations, "
            f"{self.bytes:,} bytes moved, {self.loads:,} elements read, "
            f"{self.temporaries:,} bytes of temporaries"
        )


def audit(program: TileProgram, sizes: Mapping[str, int]) -> Audit:
    """The costs of a program at these extents. `sizes`: extents that do not follow from others,
    and the values of `const` parameters that sizes use."""
    known = {Symbol(name, "extent"): size for name, size in sizes.items()}
    known |= {Symbol(name, "parameter"): size for name, size in sizes.items()}
    extents = {name: evaluate(size, known) for name, size in program.extents}
    counts = [_counted(kernel.body, _grid(kernel, extents), extents) for kernel in program.kernels]
    moved = sum(
        _bytes(tensor, known)
        for kernel in program.kernels
        for tensor in (*kernel.reads, *kernel.writes)
    )
    return Audit(
        len(program.kernels), sum(count[0] for count in counts), moved,
        sum(count[1] for count in counts), sum(_bytes(t, known) for t in program.workspaces),
    )  # fmt: skip


def _bytes(tensor: Tensor, known: Mapping[Symbol, int]) -> int:
    return math.prod(evaluate(size, known) for size in tensor.shape) * tensor.dtype.bits // 8


def _grid(kernel: Kernel, extents: Mapping[str, int]) -> dict[str, int]:
    """The points of every grid index."""
    return {block.index: extents[block.index] for block in kernel.grid}


def _counted(
    body: Iterable[Statement], around: Mapping[str, int], extents: Mapping[str, int]
) -> tuple[int, int]:
    """Operations and elements read, `around` being the points of each index bound outside."""
    operations = loads = 0
    for item in body:
        match item:
            case Let() | Store():
                inner = _axes(item)
                bound = {i: n for i, n in around.items() if i not in inner}
                points = math.prod(bound.values()) * math.prod(extents[i] for i in inner)
                done, read = _element(item)
                operations, loads = operations + points * done, loads + points * read
            case Loop(index):
                more = _counted(item.body, {**around, index: extents[index]}, extents)
                operations, loads = operations + more[0], loads + more[1]
            case Each():
                more = _counted(item.body, around, extents)
                operations, loads = operations + more[0], loads + more[1]
    return operations, loads


def _axes(item: Let | Store) -> set[str]:
    if isinstance(item, Let):
        return {*item.tile.axes, *item.reduced}
    return set(free_indices(item.value)).union(*map(free_indices, item.subscripts))


def _element(item: Let | Store) -> tuple[int, int]:
    """Operations and reads of one lane."""
    exprs: tuple[Expr, ...] = expressions(item)
    nodes = list(postorder(exprs))
    work = sum(_work(node) for node in nodes)
    if isinstance(item, Let) and item.op is not None:
        work += 1
    return work, sum(isinstance(node, Read) for node in nodes)


def _work(node: object) -> int:
    match node:
        case Apply(_, args):
            return max(1, len(args) - 1)
        case Select() | Cast():
            return 1
        case _:
            return 0
