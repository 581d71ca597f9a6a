"""Pass: divide a kernel's work among warp groups: what they do stands in an `Each`.

Before:  c'[m, n] = c + sum[k](A * W)    by wgmma.m64n128k16 (m: m x 2, n: n, k: k x 4)
After:   each m by 64
           c'[m, n] = c + sum[k](A * W)  by wgmma.m64n128k16 (m: m, n: n, k: k x 4)

Afterwards a product of several atoms along its rows, if the machine has a whole warp group do each
of them, is a product of one atom for each part of the rows, and with it everything that is not a
copy. The meaning is the same: every statement in an `Each` is pointwise in its index. A kernel in
which some statement is not stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store
from tensorc.ir.walk_tile import expressions, statements, values_in
from tensorc.machine.instruction import Instruction, Machine

ROWS = 64
"""Rows that a warp group multiplies at once (PTX ISA, wgmma: m64)."""


def divide(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel with its rows divided where they can be; see above."""
    index = _index(kernel, machine)
    if index is None or any(isinstance(item, Each) for item in statements(kernel.body)):
        return kernel
    body = tuple(_whole(kernel.body, index, machine))
    return kernel if body == () else replace(kernel, body=body)


def instruction(item: Let | Store, machine: Machine) -> Instruction:
    """The instruction that does a statement."""
    return machine.instructions[item.by.instruction]


def copies(item: Statement, machine: Machine) -> bool:
    """Whether a statement is an asynchronous copy from memory into shared memory."""
    return (
        isinstance(item, Let)
        and item.tile.space == "shared"
        and instruction(item, machine).cost.rate == "rate.copy"
    )


def multiplies(item: Statement, machine: Machine) -> bool:
    """Whether a statement is done by a tensor core."""
    return isinstance(item, Let) and instruction(item, machine).cost.rate.startswith("rate.mma")


def of_groups(product: Instruction) -> bool:
    """Whether a product is one of a whole warp group."""
    return any(role.name == "m" and role.atom == ROWS for role in product.roles)


def _index(kernel: Kernel, machine: Machine) -> str | None:
    """The one index along which all products of warp groups have several atoms."""
    found = set[tuple[str, ...]]()
    for item in statements(kernel.body):
        if isinstance(item, Let) and multiplies(item, machine):
            whole = of_groups(instruction(item, machine))
            if not whole or dict(item.by.repeat).get("m", 1) == 1:
                return None
            found.add(dict(item.by.roles)["m"])
    return next(iter(found))[0] if len(found) == 1 and len(next(iter(found))) == 1 else None


def _whole(body: tuple[Statement, ...], index: str, machine: Machine) -> Iterator[Statement]:
    """The body with all but copies and loops in one Each; nothing if one of them may not be."""
    copied = [item for item in body if copies(item, machine)]
    loops = [item for item in body if isinstance(item, Loop)]
    rest = [item for item in body if item not in copied and item not in loops]
    if not all(_pointwise(item, index) for item in rest):
        return
    for loop in loops:
        inner = tuple(_whole(loop.body, index, machine))
        if not inner:
            return
        body = tuple(replace(loop, body=inner) if item is loop else item for item in body)
    begin = max((k for k, item in enumerate(body) if isinstance(item, Loop)), default=-1)
    if any(item in rest for item in body[: begin + 1]):
        return
    yield from (item for item in body if item not in rest)
    if rest:
        yield Each(index, ROWS, tuple(_single(item) for item in rest))


def _pointwise(item: Statement, index: str) -> bool:
    match item:
        case Let():
            return index in item.tile.axes and index not in item.reduced
        case Store():
            tiles = values_in(expressions(item)).values()
            return any(index in tile.axes for tile in tiles) and index not in item.once
        case Loop() | Each():
            return False


def _single(item: Statement) -> Statement:
    """The statement with one atom along the rows."""
    if not isinstance(item, Let | Store):
        return item
    repeat = tuple((role, count) for role, count in item.by.repeat if role != "m")
    return replace(item, by=replace(item.by, repeat=repeat))
