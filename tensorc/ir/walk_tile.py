"""Small questions about level-2 statements that several consumers ask; no traversal framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Opaque, Polynomial, extent, polynomial
from tensorc.ir.tensor import Expr, Position, Read, Seen, Value
from tensorc.ir.tile import Each, Frame, Kernel, Let, Loop, Operand, Statement, Store, Tile


def statements(body: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement in program order, loops before their bodies."""
    for item in body:
        yield item
        if isinstance(item, Loop | Each):
            yield from statements(item.body)


def shared_loops(kernel: Kernel) -> Iterator[tuple[str, int]]:
    """The loops (index, block) that hold everything in the kernel, outermost first, and carry
    nothing: their blocks do not know of each other."""
    body = kernel.body
    while len(body) == 1:
        (only,) = body
        if not isinstance(only, Loop) or only.carries or only.down:
            return
        if only.lower != polynomial(0) or only.upper != extent(only.index):
            return
        yield only.index, only.block
        body = only.body


def expressions(item: Statement) -> tuple[Expr, ...]:
    """The expressions that the statement itself evaluates, not those of its body."""
    match item:
        case Let():
            return (item.body,)
        case Store():
            return (*item.subscripts, item.value)
        case Loop():
            bounds = (item.lower, item.upper, *item.full)
            starts = [carry.start for carry in item.carries]
            found = tuple(start for start in starts if not isinstance(start, str | Tile))
            return (*found, *(expr for bound in bounds for expr in opaque(bound)))
        case Each():
            return ()


def opaque(bound: Polynomial) -> tuple[Expr, ...]:
    """The data reads among the atoms of a bound, those inside floors and bounds too."""
    return tuple(cast(Expr, node.expr) for node in postorder([bound]) if isinstance(node, Opaque))


def values_in(exprs: Iterable[Expr]) -> dict[str, Value]:
    """The tiles that expressions read, by name."""
    return {node.tile: node for node in postorder(exprs) if isinstance(node, Value)}


def tensors_in(exprs: Iterable[Expr]) -> tuple[Read, ...]:
    """The reads of tensors in expressions, once each."""
    return tuple(node for node in postorder(exprs) if isinstance(node, Read))


def kernel_reads(kernel: Kernel) -> frozenset[Read]:
    """Every read of a tensor in the kernel."""
    exprs = (expr for item in statements(kernel.body) for expr in expressions(item))
    return frozenset(tensors_in(tuple(exprs)))


def reads(item: Statement) -> frozenset[str]:
    """The names of the tiles whose values the statement needs, those of its body included."""
    match item:
        case Let():
            onto = (item.onto.name,) if item.onto else ()
            return frozenset((*values_in((item.body,)), *onto))
        case Store():
            return frozenset(values_in(expressions(item)))
        case Loop():
            starts = (c.start.name for c in item.carries if isinstance(c.start, Tile))
            own = frozenset((*values_in(expressions(item)), *starts))
            return own.union(*(reads(part) for part in item.body))
        case Each():
            return frozenset[str]().union(*(reads(part) for part in item.body))


def positions(exprs: Iterable[Expr]) -> frozenset[str]:
    """The indices whose position is used as a value or subscript."""
    return frozenset(node.index for node in postorder(exprs) if isinstance(node, Position))


def seen_in(exprs: Iterable[Expr]) -> frozenset[str]:
    """The indices of which elements are counted."""
    return frozenset(node.index for node in postorder(exprs) if isinstance(node, Seen))


def tiles(kernel: Kernel) -> dict[str, Tile]:
    """Every tile that the kernel defines, carried ones included, by name in program order."""
    found: dict[str, Tile] = {}
    for item in statements(kernel.body):
        if isinstance(item, Let):
            found[item.tile.name] = item.tile
        elif isinstance(item, Loop):
            found.update((carry.tile.name, carry.tile) for carry in item.carries)
    return found


def has_fragments(kernel: Kernel) -> bool:
    """Whether tensor cores have a part in a kernel: some tile is a fragment."""
    return any(isinstance(tile.layout, Frame | Operand) for tile in tiles(kernel).values())


def bound(kernel: Kernel) -> frozenset[str]:
    """The indices that the grid or a loop of the kernel binds; all others are whole in it."""
    loops = (item.index for item in statements(kernel.body) if isinstance(item, Loop))
    return frozenset((*(block.index for block in kernel.grid), *loops))


def loop_blocks(kernel: Kernel, index: str) -> frozenset[int]:
    """The blocks by which loops of the kernel walk an index."""
    loops = (item for item in statements(kernel.body) if isinstance(item, Loop))
    return frozenset(item.block for item in loops if item.index == index)


def whole(kernel: Kernel) -> dict[str, int]:
    """The lanes of each whole index that is an axis of a tile (the most, should tiles differ)."""
    found: dict[str, int] = {}
    blocked = bound(kernel)
    for tile in tiles(kernel).values():
        for axis, size in zip(tile.axes, tile.sizes, strict=True):
            if axis not in blocked:
                found[axis] = max(size, found.get(axis, 0))
    return found


def constant(expr: Expr) -> bool:
    """True if the value is the same everywhere: made of literals and extents alone."""
    return not any(isinstance(node, Read | Value | Position | Seen) for node in postorder([expr]))
