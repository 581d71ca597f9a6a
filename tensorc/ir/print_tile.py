"""Level 2 as text: a line a statement, with columns for what is computed, where it is kept, which
storage it takes or edge it guards, and the instruction that does it. `read_tile` reads it back.

    program row_sum for avx512
    index m, k
    input a: f32[m, k]
    output y: f32[m]

    kernel y(a) -> y
      grid m
      loop k by 16
        carry s[k] = 0                              f32 register
        x[k] = select(k < |k|, a[m, k], 0)          f32 register  edge k  by vector
        s'[k] = s + x                               f32 register          by vector
      r = sum[k](s)                                 f32 register          by vector
      store y[m] = r                                                      by vector

Left out are blocks and counts of one, a loop's bounds if it walks the whole index, its full range
if that is all whole blocks, sizes of axes that the grid, a loop or the line `whole` gives, the
order of a linear layout if it is that of the tile's axes, and the layout of what lies in place or
row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.polynomial import (
    Atom,
    Opaque,
    Polynomial,
    Symbol,
    extent,
    of_atom,
    polynomial,
    substitute,
)
from tensorc.ir.print_tensor import show as show_expr
from tensorc.ir.tensor import Check, Declaration, Expr, Table, Tensor
from tensorc.ir.tile import (
    Blocked,
    Carry,
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
    Strided,
    Tile,
    TileProgram,
    Use,
)
from tensorc.ir.walk_tile import kernel_reads, whole

WIDEST = 60  # a longer statement has its other columns on a line of their own
ONTO: dict[Reducer, str] = {
    SUM: "{} + {}", PROD: "{} * {}", MAX: "max({}, {})", MIN: "min({}, {})",
    ANY: "{} or {}", ALL: "{} and {}",
}  # fmt: skip
Row = tuple[str, ...]  # the statement with its indentation, then the other columns


def show(program: TileProgram) -> str:
    """The whole program; every line ends with a newline."""
    lines = [f"program {program.name} for {program.machine}", _indices(program)]
    lines += [f"input {_declaration(item, program)}" for item in program.parameters]
    lines += [f"output {_declaration(item, program)}" for item in program.outputs]
    lines += [f"workspace {_tensor(item)}" for item in program.workspaces]
    lines += [f"table {_table(item)}" for item in program.tables]
    numbered = tuple(enumerate(program.checks, 1))
    inside = {read for kernel in program.kernels for read in kernel_reads(kernel)}
    lines += [_check(*item) for item in numbered if item[1].read not in inside]
    kernels = [f"\n{show_kernel(kernel, numbered)}" for kernel in program.kernels]
    return "\n".join(line for line in lines if line) + "\n" + "".join(kernels)


def show_kernel(kernel: Kernel, checks: tuple[tuple[int, Check], ...] = ()) -> str:
    """One kernel, its columns aligned, and those of the program's numbered checks that it makes."""
    reads = ", ".join(tensor.name for tensor in kernel.reads)
    writes = ", ".join(tensor.name for tensor in kernel.writes)
    lines = [f"kernel {kernel.name}({reads}) -> {writes}"]
    if kernel.grid:
        lines.append(f"  grid {', '.join(_by(b.index, b.size) for b in kernel.grid)}")
    if kernel.raster:
        lines.append(f"  raster {kernel.raster}")
    sizes = whole(kernel)
    if sizes:
        lines.append(f"  whole {', '.join(_by(index, size) for index, size in sizes.items())}")
    known = {**sizes, **{block.index: block.size for block in kernel.grid}}
    lines += _aligned(list(_rows(kernel.body, 1, known)))
    found = kernel_reads(kernel)
    lines += [f"  {_check(*item)}" for item in checks if item[1].read in found]
    return "\n".join(lines) + "\n"


def _check(number: int, item: Check) -> str:
    return f"check {number} {show_expr(item.read)} axis {item.axis}"


def _aligned(rows: list[Row]) -> Iterator[str]:
    """Rows as lines whose columns stand below each other."""
    widths = [
        max((len(row[n]) for row in rows if 1 < len(row) > n and len(row[n]) <= WIDEST), default=0)
        for n in range(4)
    ]
    for first, *rest in rows:
        if len(first) > WIDEST and rest:
            yield first
            first = ""
        cells = [cell.ljust(width) for cell, width in zip((first, *rest), widths, strict=False)]
        yield "  ".join(cells).rstrip()


def _rows(body: tuple[Statement, ...], depth: int, known: Mapping[str, int]) -> Iterator[Row]:
    indent = "  " * depth
    for item in body:
        match item:
            case Let(tile):
                into = [f"into {item.into.name}"] if item.into else []
                notes = ", ".join([*into, *_edge(item.edge)])
                left = _named(tile, known)
                yield f"{indent}{left} = {_right(item)}", kept(tile), notes, _use(item.by)
            case Store():
                notes = [f"once {' '.join(item.once)}"] if item.once else []
                notes += [f"combine {item.combine}"] if item.combine else []
                notes += _edge(item.edge)
                yield f"{indent}store {_target(item)}", "", ", ".join(notes), _use(item.by)
            case Loop():
                yield (f"{indent}{_loop(item)}",)
                inside = {**known, item.index: item.block}
                for carry in item.carries:
                    yield f"{indent}  {_carry(carry, inside)}", kept(carry.tile)
                yield from _rows(item.body, depth + 1, inside)
            case Each(index, block, statements):
                yield (f"{indent}each {_by(index, block)}",)
                yield from _rows(statements, depth + 1, known)


def line(item: Let | Store) -> str:
    """The first column of a statement: `c'[m, n] = c + sum[k](A * W)`."""
    if isinstance(item, Store):
        return f"store {_target(item)}"
    return f"{_named(item.tile, dict(zip(item.tile.axes, item.tile.sizes, strict=True)))} = " + (
        _right(item)
    )


def _by(index: str, size: int) -> str:
    return index if size == 1 else f"{index} by {size}"


def _edge(edge: tuple[str, ...]) -> list[str]:
    return [f"edge {' '.join(edge)}"] if edge else []


def _named(tile: Tile, known: Mapping[str, int]) -> str:
    pairs = zip(tile.axes, tile.sizes, strict=True)
    axes = [a if known.get(a) == size else f"{a}={size}" for a, size in pairs]
    return f"{tile.name}[{', '.join(axes)}]" if axes else tile.name


def _right(let: Let) -> str:
    if let.op is None:
        return show_expr(let.body)
    reduction = f"{let.op}[{', '.join(let.reduced)}]({show_expr(let.body)})"
    return ONTO[let.op].format(let.onto.name, reduction) if let.onto else reduction


def _target(store: Store) -> str:
    subscripts = ", ".join(show_expr(item) for item in store.subscripts)
    place = f"{store.tensor.name}[{subscripts}]" if store.subscripts else store.tensor.name
    return f"{place} = {show_expr(store.value)}"


def _loop(loop: Loop) -> str:
    text = f"loop {_by(loop.index, loop.block)}"
    size = extent(loop.index)
    if (loop.lower, loop.upper) != (polynomial(0), size):
        text += f" in {bound(loop.lower)}..{bound(loop.upper)}"
    if loop.full != (polynomial(0), size // loop.block * loop.block):
        text += f" full {bound(loop.full[0])}..{bound(loop.full[1])}"
    return f"{text} down" if loop.down else text


def _carry(carry: Carry, known: Mapping[str, int]) -> str:
    match carry.start:
        case Tile():
            start = carry.start.name
        case str():
            start = carry.start
        case _:
            start = show_expr(carry.start)
    return f"carry {_named(carry.tile, known)} = {start}"


def bound(limit: Polynomial) -> str:
    """A bound; what it reads from data is printed as an expression."""

    def shown(atom: Atom) -> Polynomial | None:
        if isinstance(atom, Opaque) and isinstance(atom.expr, Expr):
            return of_atom(Symbol(show_expr(atom.expr), "index"))
        return None

    return str(substitute(limit, shown))


def kept(tile: Tile) -> str:
    """Type, space and layout of a tile."""
    return " ".join(filter(None, (str(tile.dtype), tile.space, layout(tile.layout, tile.axes))))


def layout(item: Layout, axes: tuple[str, ...]) -> str:
    """A layout of a tile with these axes."""
    match item:
        case Frame(atom, rows, columns):
            return f"{atom}({_groups(rows, columns)})"
        case Operand(atom, which, rows, columns):
            return f"{atom}.{which}({_groups(rows, columns)})"
        case Blocked(threads, vector, axis):
            return f"blocked({axis}, {threads} x {vector})"
        case Linear(order, swizzle):
            name = f"linear({' '.join(order)})" if order != axes else "" if swizzle else "linear"
            return f"{name} swizzle {swizzle}".lstrip() if swizzle else name
        case Panel(axis, width):
            return f"panel {axis} {width}"
        case Strided():
            return ""


def _groups(*groups: tuple[str, ...]) -> str:
    return "; ".join(" ".join(group) for group in groups).rstrip()


def _use(by: Use) -> str:
    counts = dict(by.repeat)
    roles = [
        f"{role}: {' '.join(axes)}" + (f" x {counts[role]}" if role in counts else "")
        for role, axes in by.roles
    ]
    text = f"by {by.instruction}" + (f" ({', '.join(roles)})" if roles else "")
    text += f" exact {' '.join(by.exact)}" if by.exact else ""
    return text + (f" fill {show_expr(by.fill)}" if by.fill is not None else "")


def _indices(program: TileProgram) -> str:
    names = [
        name if size is extent(name) else f"{name} = {bound(size)}"
        for name, size in program.extents
    ]
    return f"index {', '.join(names)}" if names else ""


def _declaration(item: Declaration, program: TileProgram) -> str:
    known = program.extent_of
    dims = [
        bound(size)
        if name is None
        else name
        if known.get(name) is size
        else f"{name}={bound(size)}"
        for name, size in zip(item.dims, item.tensor.shape, strict=True)
    ]
    const = "const " if item.const else ""
    shape = f"[{', '.join(dims)}]" if dims else ""
    return f"{item.tensor.name}: {const}{item.tensor.dtype}{shape}"


def _tensor(tensor: Tensor) -> str:
    dims = ", ".join(bound(size) for size in tensor.shape)
    return f"{tensor.name}: {tensor.dtype}{f'[{dims}]' if dims else ''}"


def _table(table: Table) -> str:
    return f"{_tensor(table.tensor)} = {', '.join(show_expr(value) for value in table.values)}"
