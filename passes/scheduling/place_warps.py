"""Which warps of a block hold which part of a level-2 kernel's fragments, and how deep the rings of
its loops are, where no schedule says so.

    place_warps(kernel, product) -> Placement, or None for a kernel without fragments

Afterwards every register tile has whole atoms in every warp, no statement reduces across warps, the
fragments fit into a thread's registers, and all tiles into a block's shared memory. Four warps are
taken where they suffice, as square as possible, since what a warp reads of shared memory is the sum
of its sides; rings are as deep as lets two blocks share a processor, up to `DEEPEST`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction

from tensorc.errors import Infeasible
from tensorc.ir.placement import Placement
from tensorc.ir.tile import Each, Frame, Kernel, Let, Loop, Operand, Statement, Store, Tile
from tensorc.ir.walk_tile import has_fragments, reads, statements, tiles
from tensorc.machine.arrange import arrange
from tensorc.machine.product import Product

WARPS = (4, 8, 2, 1)  # in the order in which they are tried
DEEPEST = 4
WORKING = 32  # registers for operands under way, beside a product's `register.base`


def place_warps(kernel: Kernel, product: Product) -> Placement | None:
    """The placement; Infeasible: the tiles fit into no block, with the figures."""
    if not has_fragments(kernel):
        return None
    depth = _depth(kernel, product)
    room = product.whole("register.ceiling") - product.whole("register.base") - WORKING
    shapes = [shape for count in WARPS for shape in _shapes(count) if _divides(kernel, *shape)]
    needs = {shape: _registers(kernel, *shape) for shape in shapes}
    fitting = [shape for shape in shapes if needs[shape] <= room]
    if not fitting:
        least = min(needs.values(), default=0)
        raise Infeasible(
            f"{kernel.name}: the fragments need {least} registers of a thread, {room} are left"
            if shapes
            else f"{kernel.name}: its fragments cannot be divided among {WARPS} warps"
        )
    first = fitting[0][0] * fitting[0][1]
    best = min((s for s in fitting if s[0] * s[1] == first), key=lambda s: _sides(kernel, *s))
    return Placement(*best, depth)


def _shapes(count: int) -> Iterator[tuple[int, int]]:
    """The ways to arrange a number of warps, most rows first."""
    rows = count
    while rows:
        yield rows, count // rows
        rows //= 2


def _parts(tile: Tile) -> tuple[Fraction, Fraction]:
    """Atoms of a register tile's rows and of its columns among which warps are dealt; 0: none.
    A second operand is loaded 16 columns at once."""
    size = dict(zip(tile.axes, tile.sizes, strict=True))

    def count(axes: tuple[str, ...], atom: int) -> Fraction:
        own = [size[axis] for axis in axes if axis in size]
        return Fraction(math.prod(own), atom) if own else Fraction(0)

    match tile.layout:
        case Frame(_, rows, columns):
            return count(rows, 16), count(columns, 8)
        case Operand(_, "A", rows, _):
            return count(rows, 16), Fraction(0)
        case Operand(_, _, columns, _):
            return Fraction(0), count(columns, 16)
        case _:
            return Fraction(0), Fraction(0)


def _divides(kernel: Kernel, rows: int, columns: int) -> bool:
    """Whether every register tile falls into whole parts, and no statement crosses warps."""
    for tile in tiles(kernel).values():
        own = _parts(tile)
        if own[0] % rows or own[1] % columns:
            return False
    return not (columns > 1 and _crosses(kernel, 1)) and not (rows > 1 and _crosses(kernel, 0))


def _crosses(kernel: Kernel, side: int) -> bool:
    """Whether a statement reduces lanes of rows (0) or columns (1) of fragments, or makes a first
    operand, of which every warp needs whole rows, of columns. What rows give to one number for all
    goes through shared memory."""
    found = tiles(kernel)
    for item in statements(kernel.body):
        if not isinstance(item, Let):
            continue
        sources = [found[name] for name in reads(item)]
        if isinstance(item.tile.layout, Operand):
            if side == 1 and any(isinstance(tile.layout, Frame) for tile in sources):
                return True
        elif item.op is not None and (side == 1 or item.tile.axes):
            for tile in sources:
                if isinstance(tile.layout, Frame):
                    axes = (tile.layout.m, tile.layout.n)[side]
                    if set(axes) & set(item.reduced):
                        return True
    return False


def _registers(kernel: Kernel, rows: int, columns: int) -> int:
    """The most registers of a thread that fragments need at once.

    Operands that are loaded for a product are under way only. A statement takes the registers of
    what it reads last for what it defines, as threads do them element by element.
    """
    found = tiles(kernel)
    sizes = {name: fragment_registers(tile, rows, columns) for name, tile in found.items()}
    for item in statements(kernel.body):
        if isinstance(item, Let) and "ldmatrix" in item.by.instruction:
            sizes[item.tile.name] = 0
    return _peak(kernel.body, frozenset(), sizes)[0]


def _peak(
    body: tuple[Statement, ...], after: frozenset[str], sizes: Mapping[str, int]
) -> tuple[int, frozenset[str]]:
    """The peak of a body, and what is live before it; `after`: what is live behind it."""
    live, peak = after, sum(sizes[name] for name in after)
    for item in reversed(body):
        match item:
            case Loop():
                carried = frozenset(carry.tile.name for carry in item.carries)
                following = frozenset(f"{name}'" for name in carried)
                inner, before = _peak(item.body, (live - carried) | following, sizes)
                peak = max(peak, inner)
                live = (live | before | carried) - following
                peak = max(peak, sum(sizes[name] for name in live))
                starts = {c.start.name for c in item.carries if isinstance(c.start, Tile)}
                live = (live - carried) | starts
            case Each():
                inner, live = _peak(item.body, live, sizes)
                peak = max(peak, inner)
            case Let():
                live = (live - {item.tile.name}) | reads(item)
            case Store():
                live = live | reads(item)
        peak = max(peak, sum(sizes[name] for name in live))
    return peak, live


def fragment_registers(tile: Tile, rows: int, columns: int) -> int:
    """32-bit registers of a thread."""
    if not isinstance(tile.layout, Frame | Operand):
        return 0
    high, wide = _parts(tile)
    if isinstance(tile.layout, Frame):
        if high and wide:
            return int(4 * (high / rows) * (wide / columns))
        return int(2 * (high / rows + wide / columns))
    words = math.prod(tile.sizes) // (16 * 16) * 4
    return words // (rows if high else columns)


def _sides(kernel: Kernel, rows: int, columns: int) -> int:
    """Atoms of rows and columns that one warp reads."""
    sides = [_parts(tile) for tile in tiles(kernel).values()]
    return int(max(2 * high / rows + wide / columns for high, wide in sides))


def _depth(kernel: Kernel, product: Product) -> int:
    """Slots of rings."""
    half = (product.whole("size.shared_processor") - 2 * product.whole("size.reserved")) // 2
    needs = {depth: arrange(kernel, depth).bytes for depth in range(2, DEEPEST + 1)}
    for room in (half, product.whole("size.shared")):
        fitting = [depth for depth, need in needs.items() if need <= room]
        if fitting:
            return max(fitting)
    raise Infeasible(
        f"{kernel.name}: its tiles need {needs[2]} bytes of shared memory, "
        f"a block has {product['size.shared']}"
    )
