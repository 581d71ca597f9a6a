"""Whether the bodies of a level-3 kernel do what a level-2 kernel says, as far as text shows it.

B1 bodies and `Holds` name statements and tiles of the level-2 kernel, which has one loop
B2 every statement is done on each of its lanes once
B3 what an operation reads is what its statements need and do not make, all lanes of it, and nothing
   else, save the storage in which they leave a tile
B4 what an operation fills is a tile that its statements make; start values are those of carries

The level-3 kernel alone is the matter of `verify_channel`, the numbers that of `run_bodies`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorc.ir.bodies import Tiles, body_of, calls, makes, named_statements, tiles_of, windows_of
from tensorc.ir.channel import BUILTIN, START, Body, Kernel, Perform, Put, Window
from tensorc.ir.print_channel import print_statement
from tensorc.ir.tile import Kernel as TileKernel
from tensorc.ir.tile import Let, Loop, Store
from tensorc.ir.walk_tile import reads, tiles


def verify_bodies(kernel: Kernel, text: TileKernel) -> list[str]:
    """All faults of `kernel` as a program for `text`; each begins with its invariant's number."""
    faults = list(_named(kernel, text))
    if faults:
        return faults
    known = named_statements(text)
    held, sizes = tiles_of(kernel, text), _sizes(text)
    return [*_covered(kernel, known, sizes), *_operands(kernel, held, known, sizes)]


def _named(kernel: Kernel, text: TileKernel) -> Iterator[str]:
    loops = [item for item in text.body if isinstance(item, Loop)]
    if len(loops) != 1:
        yield f"B1: kernel {text.name} has {len(loops)} loops, one is expected"
    known, defined = named_statements(text), tiles(text)
    for body in kernel.bodies:
        for name in body.statements:
            if name not in known:
                yield f"B1: body {body.operation}: {text.name} has no statement {name}"
    for item in kernel.holds:
        for name in item.tiles:
            if name not in defined:
                yield f"B1: hold {item.name}: {text.name} has no tile {name}"


def _covered(kernel: Kernel, known: dict[str, Let | Store], sizes: dict[str, int]) -> Iterator[str]:
    for name in known:
        parts = [body.windows for body in kernel.bodies if name in body.statements]
        if not parts:
            yield f"B2: nothing does {name}"
            continue
        for fault in _partition(parts, sizes):
            yield f"B2: {name} {fault}"


def _sizes(text: TileKernel) -> dict[str, int]:
    found = dict[str, int]()
    for tile in tiles(text).values():
        for axis, size in zip(tile.axes, tile.sizes, strict=True):
            found[axis] = max(size, found.get(axis, 0))
    return found


def _partition(parts: list[tuple[Window, ...]], sizes: dict[str, int]) -> Iterator[str]:
    """Faults of windows that should have all lanes, each once."""
    indices = tuple(w.index for w in parts[0])
    if any(tuple(w.index for w in part) != indices for part in parts):
        yield "is divided along different indices"
        return
    total = done = 1
    for index in indices:
        total *= sizes.get(index, 1)
    done = sum(_lanes(part) for part in parts)
    overlap = any(_meet(a, b) for n, a in enumerate(parts) for b in parts[:n])
    beyond = any(w.first + w.count > sizes.get(w.index, 1) for part in parts for w in part)
    if overlap or beyond or done != total:
        spans = [", ".join(f"{w.index} {w.first}..{w.first + w.count}" for w in p) for p in parts]
        yield f"is done on {'; '.join(spans)}, expected is each of {total} lanes once"


def _lanes(part: tuple[Window, ...]) -> int:
    count = 1
    for window in part:
        count *= window.count
    return count


def _meet(one: tuple[Window, ...], two: tuple[Window, ...]) -> bool:
    return all(
        a.first < b.first + b.count and b.first < a.first + a.count
        for a, b in zip(one, two, strict=True)
    )


def _operands(
    kernel: Kernel, held: Tiles, known: dict[str, Let | Store], sizes: dict[str, int]
) -> Iterator[str]:
    bodies, windows = body_of(kernel), windows_of(kernel)
    for role, item in calls(kernel):
        text = f"{role}: `{print_statement(item)}`"
        if item.call.operation in BUILTIN:
            yield from _started(text, item, held)
        elif item.call.operation in bodies:
            body = bodies[item.call.operation]
            yield from _reads(text, item, body, held, known)
            yield from _parts(text, item, body, held, windows, sizes)


def _started(text: str, item: Perform | Put, held: Tiles) -> Iterator[str]:
    if item.call.operation == START:
        for name in makes(item):
            if held.started(name) not in held.carries.values():
                yield f"B4: {text}: {name} holds no carry, so that it has no start value"


def _parts(
    text: str,
    item: Perform | Put,
    body: Body,
    held: Tiles,
    windows: dict[str, tuple[Window, ...]],
    sizes: dict[str, int],
) -> Iterator[str]:
    """B3 about tiles that come in parts: together they have the lanes that the body works on."""
    mine = {w.index: w for w in body.windows}
    found = dict[str, list[tuple[Window, ...]]]()
    for read in item.call.reads:
        if parts := windows.get(read.name.partition("@")[0], ()):
            found.setdefault(held.read(item.call, read), []).append(parts)
    for tile, parts in found.items():
        indices = [w.index for w in parts[0]]
        wanted = [mine.get(i, Window(i, 0, sizes.get(i, 1))) for i in indices]
        here = sum(_common(part, wanted) for part in parts)
        if here != _lanes(tuple(wanted)):
            yield f"B3: {text} reads {here} of the {_lanes(tuple(wanted))} lanes of {tile}"


def _common(part: tuple[Window, ...], wanted: list[Window]) -> int:
    """How many lanes a part has of those wanted."""
    count = 1
    for one, two in zip(part, wanted, strict=True):
        last = min(one.first + one.count, two.first + two.count)
        count *= max(0, last - max(one.first, two.first))
    return count


def _reads(
    text: str, item: Perform | Put, body: Body, held: Tiles, known: dict[str, Let | Store]
) -> Iterator[str]:
    made, needed = set[str](), set[str]()
    for statement in (known[name] for name in body.statements):
        needed |= reads(statement) - made
        if isinstance(statement, Let):
            made.add(statement.tile.name)
    found = {read.name: held.read(item.call, read) for read in item.call.reads}
    for tile in sorted(needed - set(found.values())):
        yield f"B3: {text} needs {tile}, which nothing that it reads holds"
    for name, tile in found.items():
        if tile not in needed and not made & set(held.held(name)):
            yield f"B3: {text} reads {tile or 'nothing'} in {name}, which it does not need"
    for name in makes(item):
        tile = next(iter(held.held(name)), "")
        if tile not in made:
            yield f"B4: {text} fills {name}, which holds {tile or 'nothing'}, and does not make it"
