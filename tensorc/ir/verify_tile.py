"""The invariants of level 2, each with its number. `verify` returns every fault it finds.

SSA and scopes
 T1  tensors and kernels have different names; a kernel defines a tile's name once; it is a name of
     the text, and no tensor's or index's
 T2  a tile is read where it is in scope, under its own axes and dtype
 T3  a kernel reads tensors that it lists and the program declares, stores those it lists likewise,
     and reads none that it stores; outputs and workspaces are stored, workspaces before any read
 T4  an index has an extent, and is bound once along every path of grid and loops
Axes and sizes
 T5  the free indices of a statement are its axes, or bound with one lane
 T6  an axis has as many lanes as the block that binds it, outside its loops as the blocks of one of
     them; a whole axis has one size in the kernel, and at least its extent
 T7  blocks have at least one lane; a block of `Each` divides the lanes of its index
 T8  a reduction names the axes it removes, which are no axes of its tile; nothing else removes any
Types
 T9  a body's type may be stored as its tile's or tensor's; conditions are bool; no Round, no Reduce
Carries
 T10 the body of a loop continues every carry `c` as `c'`: same axes, sizes and dtype
 T11 a carry starts as a constant, as "lowest" of a real type, or as an outer tile like it
 T12 a carry outside registers takes the storage of the tile it starts as, and continues in it
 T13 outside the loops of an index its axis counts lanes, and no position is taken along it
Into and onto
 T14 `onto` needs a reduction, and a tile in scope with the axes, sizes and dtype of the result
 T15 `into` names a tile in scope with the axes, sizes, dtype and space of the result
 T16 a value whose storage was reused is not read any more; a reduction does not read it at all
Edges and full ranges
 T17 a guard is a `select` on positions, extents and parameters at the root of its statement
 T18 the condition of a guard depends on the indices whose edges it guards
 T19 sizes are made of extents and const parameters, bounds also of bases of enclosing blocks and of
     reads at such bases
 T20 `Seen` counts an enclosing loop
Each
 T21 every tile defined in `Each` has its index as an axis, no statement in it reduces that index,
     and no loop in it binds it
Instructions, roles, spaces and layouts, as far as they are the same on every machine
 T22 roles have different names and share no axis; counts of atoms are of these roles and above 1
 T23 `exact` names reduced axes; only a plain copy of a tensor has a `fill`
 T24 a layout's kind belongs to its space, and it places every axis of the tile
 T25 unless it combines, a store is once for those grid indices that its subscripts lack, and they
     lack no other index of its value or of a loop around it
What the machine's own instructions ask is in `machine/verify_uses.py`; what depends on sizes and
data is asserted by `ir/interpret_tile.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from tensorc.ir.names import RESERVED
from tensorc.ir.polynomial import Symbol, symbols
from tensorc.ir.tile import WORDS, Each, Kernel, Let, Loop, Statement, Store, Tile, TileProgram
from tensorc.ir.tile_scope import Scope
from tensorc.ir.verify_statement import let_faults, loop_faults, store_faults
from tensorc.ir.verify_storage import storage_faults
from tensorc.ir.walk_tile import statements, tiles, whole


def verify(program: TileProgram) -> list[str]:
    """All faults of `program`, each with its number, kernel and statement; empty if it is right."""
    faults = [*_distinct(program), *_sizes(program), *_workspaces(program)]
    for kernel in program.kernels:
        faults += [f"{kernel.name}: {fault}" for fault in _kernel(program, kernel)]
    return faults


def _distinct(program: TileProgram) -> Iterator[str]:
    """T1, between kernels."""
    tensors = (item.tensor.name for item in (*program.parameters, *program.outputs))
    others = (*(item.name for item in program.workspaces), *(t.tensor.name for t in program.tables))
    for name, count in Counter((*tensors, *others)).items():
        if count > 1:
            yield f"T1: tensor {name} is declared {count} times"
    for name, count in Counter(kernel.name for kernel in program.kernels).items():
        if count > 1:
            yield f"T1: kernel {name} is defined {count} times"


def _sizes(program: TileProgram) -> Iterator[str]:
    """T19, the part about sizes."""
    tensors = [item.tensor for item in (*program.parameters, *program.outputs, *program.tables)]
    sizes = [(name, size) for name, size in program.extents]
    sizes += [(t.name, size) for t in (*tensors, *program.workspaces) for size in t.shape]
    known = {Symbol(name, "extent") for name, _ in program.extents}
    known |= {Symbol(name, "parameter") for name in constants(program)}
    for name, size in sizes:
        for symbol in sorted(symbols(size) - known, key=str):
            yield f"T19: {name}: a size is not made of {symbol}"


def constants(program: TileProgram) -> frozenset[str]:
    """The parameters of which sizes and bounds may be made."""
    return frozenset(item.tensor.name for item in program.parameters if item.const)


def _workspaces(program: TileProgram) -> Iterator[str]:
    """T3, between kernels."""
    outputs = {item.tensor for item in program.outputs}
    stored = {tensor for kernel in program.kernels for tensor in kernel.writes}
    for tensor in (*outputs, *program.workspaces):
        if tensor not in stored:
            yield f"T3: no kernel stores {tensor.name}"
    known = {item.tensor for item in program.parameters} | {item.tensor for item in program.tables}
    for kernel in program.kernels:
        for tensor in kernel.reads:
            if tensor not in known:
                yield f"T3: {kernel.name} reads {tensor.name} before any kernel stores it"
        known |= set(kernel.writes)
    targets = outputs | set(program.workspaces)
    for kernel in program.kernels:
        for tensor in kernel.writes:
            if tensor not in targets:
                yield f"T3: {kernel.name} stores {tensor.name}, no output and no workspace"


def _kernel(program: TileProgram, kernel: Kernel) -> Iterator[str]:
    yield from _names(program, kernel)
    yield from _tensors(kernel)
    scope = Scope(kernel, program.extent_of, constants(program), whole(kernel))
    for block in kernel.grid:
        if block.size < 1:
            yield f"T7: grid {block.index} by {block.size}"
        yield from scope.bind(block.index, block.size)
    yield from _whole_sizes(scope)
    yield from _body(kernel.body, scope)
    yield from storage_faults(kernel)


def _names(program: TileProgram, kernel: Kernel) -> Iterator[str]:
    """T1."""
    names = Counter[str]()
    for item in statements(kernel.body):
        if isinstance(item, Let):
            names[item.tile.name] += 1
        elif isinstance(item, Loop):
            names.update(carry.tile.name for carry in item.carries)
    others = {index for index, _ in program.extents}
    others |= {item.tensor.name for item in (*program.parameters, *program.outputs)}
    others |= {item.name for item in (*program.workspaces, *kernel.reads, *kernel.writes)}
    for name, count in names.items():
        if count > 1:
            yield f"T1: tile {name} is defined {count} times"
        if name in others:
            yield f"T1: tile {name} has the name of a tensor or an index"
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*'*", name) or name in WORDS | RESERVED:
            yield f"T1: {name} is no name for a tile"


def _tensors(kernel: Kernel) -> Iterator[str]:
    """T3, within a kernel."""
    for tensor in kernel.writes:
        if tensor in kernel.reads:
            yield f"T3: {tensor.name} is read and stored by one kernel"


def _whole_sizes(scope: Scope) -> Iterator[str]:
    """T6, the part about extents that are numbers."""
    for index, size in scope.whole.items():
        extent = scope.extents[index].constant if index in scope.extents else None
        if extent is not None and size < extent:
            yield f"T6: whole {index} has {size} lanes, its extent is {extent}"


def _body(body: tuple[Statement, ...], scope: Scope) -> Iterator[str]:
    for item in body:
        match item:
            case Let():
                yield from let_faults(item, scope)
                scope.tiles[item.tile.name] = item.tile
            case Store():
                yield from store_faults(item, scope)
            case Loop():
                yield from loop_faults(item, scope)
                yield from _body(item.body, scope.inside(item))
                yield from _continued(item)
                scope.leave(item)
            case Each():
                yield from _each(item, scope)
                yield from _body(item.body, scope)


def _continued(loop: Loop) -> Iterator[str]:
    """T10."""
    defined = _defined(loop.body)
    for carry in loop.carries:
        old, new = carry.tile, defined.get(carry.tile.name + "'")
        if new is None:
            yield f"T10: loop {loop.index}: carry {old.name} is not continued as {old.name}'"
        elif (new.axes, new.sizes, new.dtype) != (old.axes, old.sizes, old.dtype):
            yield f"T10: loop {loop.index}: {new.name} is not like the carry {old.name}"


def _defined(body: tuple[Statement, ...]) -> Mapping[str, Tile]:
    """The tiles that may be read at the end of a body."""
    found: dict[str, Tile] = {}
    for item in body:
        if isinstance(item, Let):
            found[item.tile.name] = item.tile
        elif isinstance(item, Loop):
            found.update((carry.tile.name, carry.tile) for carry in item.carries)
        elif isinstance(item, Each):
            found.update(_defined(item.body))
    return found


def _each(each: Each, scope: Scope) -> Iterator[str]:
    """T7 and T21."""
    where = f"each {each.index} by {each.block}"
    lanes = scope.lanes(each.index)
    if lanes is None or each.block < 1 or lanes % each.block:
        yield f"T7: {where}: the index has {lanes or 'no'} lanes"
    for name, tile in _tiles_of(each.body).items():
        if each.index not in tile.axes:
            yield f"T21: {where}: tile {name} lacks the axis {each.index}"
    for item in statements(each.body):
        if isinstance(item, Let) and each.index in item.reduced:
            yield f"T21: {where}: {item.tile.name} reduces it"
        if isinstance(item, Loop) and item.index == each.index:
            yield f"T21: {where}: a loop binds it"


def _tiles_of(body: tuple[Statement, ...]) -> Mapping[str, Tile]:
    return tiles(Kernel("", (), (), (), body))
