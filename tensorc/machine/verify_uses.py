"""What the instructions of a machine ask of a level-2 program, each rule with its number.

U1  the program's machine is known, and has every instruction that a statement names
U2  every tile lies in a space of the machine
U3  the statement has the instruction's equation: it stores or defines, reduces by the same
    reducer onto a tile, and its body is the instruction's with operands in its order
U4  the axes of each operand and of the result are those that play its roles
U5  along each role lie whole atoms, as many as the statement says; in `Each`, in each part
U6  operands and result have types that the instruction takes, operands of a product the same
U7  operands and result lie where the instruction takes them, in such a layout; the last axis of
    a swizzled layout has whole spans
U8  a reduced axis is walked exactly if its role is exact, and no other is by such an instruction
U9  a fill is one that the instruction delivers
U10 an instruction that adds in place continues the tile it adds to, in its own storage
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensorc.ir.print_tile import kept
from tensorc.ir.tensor import Apply, Expr, Read, Value
from tensorc.ir.tile import (
    Each,
    Frame,
    Kernel,
    Layout,
    Let,
    Linear,
    Loop,
    Operand,
    Panel,
    Statement,
    Store,
    Tile,
    TileProgram,
)
from tensorc.ir.walk_tile import tiles, values_in
from tensorc.machine.instruction import Instruction, Machine, Slot, equation
from tensorc.machine.machines import MACHINES

Groups = Mapping[str, tuple[str, ...]]  # role to axes
Parts = Mapping[str, int]  # index to the lanes of it that `Each` singles out


@dataclass(frozen=True)
class Scope:
    """The machine, and the tiles of the kernel by name."""

    machine: Machine
    tiles: Mapping[str, Tile]


def verify(program: TileProgram) -> list[str]:
    """All faults of `program` against its machine; the program itself is verified before."""
    machine = MACHINES.get(program.machine)
    if machine is None:
        return [f"U1: there is no machine {program.machine}"]
    return [
        f"{kernel.name}: {fault}"
        for kernel in program.kernels
        for fault in _kernel(kernel, Scope(machine, tiles(kernel)))
    ]


def _kernel(kernel: Kernel, scope: Scope) -> Iterator[str]:
    for tile in scope.tiles.values():
        if tile.space not in scope.machine.spaces:
            yield f"U2: {tile.name}: {scope.machine.name} has no space {tile.space}"
    yield from _body(kernel.body, scope, {})


def _body(body: tuple[Statement, ...], scope: Scope, parts: Parts) -> Iterator[str]:
    for item in body:
        match item:
            case Let() | Store():
                where = item.tile.name if isinstance(item, Let) else f"store {item.tensor.name}"
                for fault in _statement(item, scope, parts):
                    number, sentence = fault.split(": ", 1)
                    yield f"{number}: {where}: {sentence}"
            case Loop():
                yield from _body(item.body, scope, parts)
            case Each(index, block, inner):
                yield from _body(inner, scope, {**parts, index: block})


def _statement(item: Let | Store, scope: Scope, parts: Parts) -> Iterator[str]:
    found = scope.machine.instructions.get(item.by.instruction)
    if found is None:
        yield f"U1: {scope.machine.name} has no instruction {item.by.instruction}"
        return
    if item.by.fill is not None and item.by.fill is not found.fill:
        yield f"U9: {found.name} does not fill with this"
    yield from _exact(item, found)
    if found.body is None:
        yield from _anything(item, found, scope)
        return
    operands = _operands(item, found)
    if operands is None:
        yield f"U3: its equation is not that of {found.name}, {equation(found)}"
        return
    groups = dict(item.by.roles)
    if found.roles and set(groups) != {role.name for role in found.roles}:
        yield f"U4: {found.name} has the roles {', '.join(role.name for role in found.roles)}"
        return
    for slot, operand in zip(found.operands, operands, strict=True):
        if isinstance(operand, Value):
            yield from _placed(slot, scope.tiles[operand.tile], groups)
        elif "global" not in {place.space for place in slot.places}:
            yield f"U7: {found.name} does not read tensors in memory"
    if isinstance(item, Let):
        yield from _placed(found.result, item.tile, groups)
        yield from _in_place(item, found)
    yield from _alike(operands)
    yield from _atoms(item, found, scope, parts)


def _operands(item: Let | Store, found: Instruction) -> tuple[Value | Read, ...] | None:
    """What stands for the instruction's operands, in their order; None: another equation."""
    if isinstance(item, Store) != found.stores:
        return None
    body = item.value if isinstance(item, Store) else item.body
    op = item.op if isinstance(item, Let) else None
    onto = item.onto is not None if isinstance(item, Let) else False
    if op is not found.op or (onto and op is None) or found.body is None:
        return None
    parts: tuple[Expr, ...] = (body,)
    if isinstance(found.body, Apply):
        if not isinstance(body, Apply) or body.function is not found.body.function:
            return None
        parts = body.args
    known = tuple(part for part in parts if isinstance(part, Value | Read))
    return known if len(known) == len(parts) == len(found.operands) else None


def _anything(item: Let | Store, found: Instruction, scope: Scope) -> Iterator[str]:
    """An instruction for any body: where its operands and result may lie."""
    if isinstance(item, Store):
        if not found.stores:
            yield f"U3: {found.name} does not store"
        exprs = (item.value, *item.subscripts)
    else:
        exprs = (item.body,)
        yield from _placed(found.result, item.tile, {})
    for name in values_in(exprs):
        yield from _placed(found.operands[0], scope.tiles[name], {})


def _placed(slot: Slot, tile: Tile, groups: Groups) -> Iterator[str]:
    """U4, U6 and U7 for one operand or result."""
    axes = tuple(axis for role in slot.roles for axis in groups[role])
    if slot.roles and set(axes) != set(tile.axes):
        yield f"U4: {slot.name} is {tile.name}[{', '.join(tile.axes)}]; its roles have " + (
            f"{', '.join(axes) or 'no axes'}"
        )
    if tile.dtype not in slot.dtypes:
        yield f"U6: {slot.name} is not {tile.dtype}"
    allowed = [
        (place.space, place.layout and substituted(place.layout, groups)) for place in slot.places
    ]
    if not any(tile.space == space and found in (None, tile.layout) for space, found in allowed):
        yield f"U7: {slot.name} does not lie in {kept(tile)}"
    match tile.layout:
        case Linear(order, swizzle) if swizzle and order:
            row = tile.sizes[tile.axes.index(order[-1])] * tile.dtype.bits // 8
            if row % swizzle:
                yield f"U7: {tile.name}: rows of {row} bytes are swizzled by {swizzle}"
        case _:
            pass


def substituted(item: Layout, groups: Groups) -> Layout:
    """A layout of roles as one of the axes that play them."""

    def axes(roles: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(axis for role in roles for axis in groups[role])

    match item:
        case Frame(atom, rows, columns):
            return Frame(atom, axes(rows), axes(columns))
        case Operand(atom, which, rows, columns):
            return Operand(atom, which, axes(rows), axes(columns))
        case Linear(order, swizzle):
            return Linear(axes(order), swizzle)
        case Panel(axis, width):
            (found,) = groups[axis] if len(groups[axis]) == 1 else (axis,)
            return Panel(found, width)
        case _:
            return item


def _alike(operands: tuple[Value | Read, ...]) -> Iterator[str]:
    types = {item.dtype if isinstance(item, Value) else item.tensor.dtype for item in operands}
    if len(types) > 1:
        yield f"U6: its operands have the types {', '.join(sorted(map(str, types)))}"


def _in_place(let: Let, found: Instruction) -> Iterator[str]:
    if found.in_place and let.onto is not None and let.into is not let.onto:
        yield f"U10: {found.name} adds to {let.onto.name} where that lies, not elsewhere"


def _atoms(item: Let | Store, found: Instruction, scope: Scope, parts: Parts) -> Iterator[str]:
    """U5."""
    counts = dict(item.by.repeat)
    sizes = _sizes(item, scope, parts)
    for role in found.roles:
        axes = dict(item.by.roles)[role.name]
        lanes = math.prod(sizes.get(axis, 1) for axis in axes)
        count = counts.get(role.name, 1)
        if lanes != role.atom * count:
            yield f"U5: {lanes} lanes along {role.name} are not {count} atoms of {role.atom}"


def _sizes(item: Let | Store, scope: Scope, parts: Parts) -> dict[str, int]:
    """The lanes of each axis of a statement."""
    named = values_in((item.body,) if isinstance(item, Let) else (item.value,))
    used = [scope.tiles[name] for name in named] + ([item.tile] if isinstance(item, Let) else [])
    sizes = {
        a: parts.get(a, n) for tile in used for a, n in zip(tile.axes, tile.sizes, strict=True)
    }
    return sizes


def _exact(item: Let | Store, found: Instruction) -> Iterator[str]:
    """U8; an instruction for any body may do either."""
    if found.body is None or not isinstance(item, Let):
        return
    stops = {role.name for role in found.roles if role.outside == "exact"}
    wanted = {axis for role, axes in item.by.roles if role in stops for axis in axes}
    for axis in sorted(wanted ^ set(item.by.exact)):
        verb = "stops at the end of" if axis in wanted else "takes all lanes of"
        yield f"U8: {found.name} {verb} {axis}"
