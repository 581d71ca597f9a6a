"""Level 2 to CUDA C++ for tiles that are dealt along rows to the threads of a block.

    X[i] = x[t, i]            blocked(i, 256 x 4)     float X[16]: pieces of 4 neighbours, 256 apart
    r = max[i](X)                                     a tree over the threads that share the row

A tile along rows is an array in each thread, any other a value that every thread of its row holds.
Pieces go from and to memory 16 bytes at a time where the tensors are aligned, which a kernel finds
out when it runs (`cuda_row_pieces`). The text calls `rows.cuh` for what is not C++.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tensorc.codegen.cuda_expressions import Expressions, check_numbers
from tensorc.codegen.cuda_functions import C_TYPES, FUNCTIONS, bare, convert, rounded
from tensorc.codegen.cuda_parameters import Names, Parameters
from tensorc.codegen.cuda_row_pieces import Pieces
from tensorc.ir.dtypes import DType, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.launch import Strides
from tensorc.ir.node import postorder
from tensorc.ir.print_tile import line as shown
from tensorc.ir.tensor import Expr, Position, Read, free_indices
from tensorc.ir.tile import Blocked, Carry, Kernel, Let, Loop, Statement, Store, Tile, TileProgram
from tensorc.ir.walk_tile import tiles, values_in

_COMBINED: dict[Reducer, str] = {
    SUM: "add", PROD: "mul", MAX: "max", MIN: "min", ANY: "or", ALL: "and",
}  # fmt: skip
SCRATCH = 256  # bytes of a reduction: 8 for each of 32 warps


def dealt(kernel: Kernel) -> Blocked | None:
    """How a kernel's rows are dealt; None: it has none."""
    layouts = (tile.layout for tile in tiles(kernel).values())
    return next((item for item in layouts if isinstance(item, Blocked)), None)


class Rows:
    """The state of emitting one kernel."""

    def __init__(
        self, item: Kernel, number: int, program: TileProgram, static: Mapping[str, int],
        strides: Mapping[str, Strides], fast: bool,
    ) -> None:  # fmt: skip
        deal = dealt(item)
        assert deal is not None
        self.item, self.symbol = item, f"kernel_{number}"
        self.group, self.vector = deal.threads, deal.vector
        self.names = Names()
        self.parameters = Parameters(self.names, item, program, static, strides)
        self.e = Expressions(self.parameters, check_numbers(program), fast)
        self.tiles = tiles(item)
        self.lanes = {
            tile.layout.axis: tile.sizes[tile.axes.index(tile.layout.axis)]
            for tile in self.tiles.values()
            if isinstance(tile.layout, Blocked) and tile.layout.axis in tile.axes
        }
        self.rows = next((block for block in item.grid if block.size > 1), None)
        self.variables: dict[str, str] = {}
        self.pieces = Pieces(self.parameters, self.e, self.names, self.vector)
        self.reductions = self.depth = 0

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.group * (self.rows.size if self.rows else 1)

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return SCRATCH * max(1, self.reductions)

    def text(self) -> str:
        """The kernel as C++."""
        grid, body = list(self.grid()), list(self.statements(self.item.body))
        head = f"TC_KERNEL({self.threads}, 1) {self.symbol}({self.parameters.declared()}) {{"
        scratch = ["TC_DYN_SMEM(scratch);"] if self.group > 32 else []
        lines = [*scratch, *self.pieces.tests, *grid, *body]
        return "\n".join([f"// {self.item.name}", head, *map(_in, lines), "}", ""])

    # --- indices --------------------------------------------------------------------------------

    def grid(self) -> Iterator[str]:
        """The grid's indices from the linear block number, and this thread's place in its row."""
        blocks = list(self.item.grid)
        if len(blocks) > 1:
            yield f"i64 rest = {bare(self.parameters.number(blocks))};"
        for block in reversed(blocks):
            size = self.parameters.extent(block.index)
            count = size if block.size == 1 else f"(({size} + {block.size - 1}) / {block.size})"
            first = block is blocks[0]
            number = "rest" if len(blocks) > 1 else f"(i64){self.parameters.number(blocks)}"
            yield self.bind(block.index, block.size, number if first else f"{number} % {count}")
            if not first:
                yield f"rest /= {count};"
        place = f" % {self.group}" if self.rows else ""
        yield f"const int thread = threadIdx.x{place};"

    def bind(self, index: str, size: int, number: str) -> str:
        """One index of the grid; where blocks hold several rows, this thread's row."""
        name = self.e.base[index] = self.names.plain(index)
        if size == 1:
            return f"const i64 {name} = {number};"
        self.e.position[index] = name
        known = self.parameters.known(index)
        if known is None or known % size:
            self.pieces.row = (index, f"{name} < {self.parameters.extent(index)}")
        return f"const i64 {name} = {number} * {size} + threadIdx.x / {self.group};"

    def along(self, axes: Sequence[str]) -> str | None:
        """The index along rows among these."""
        return next((axis for axis in axes if axis in self.lanes), None)

    def count(self, index: str) -> int:
        """Pieces of a row in each thread."""
        return self.lanes[index] // (self.group * self.vector)

    def place(self, index: str, at: str) -> Iterator[str]:
        """The position of a piece's first element, under this name; whether it has to be tested."""
        far = f"c * {self.group} + thread" if self.count(index) > 1 else "thread"
        lane = f"({far})" if " " in far and self.vector > 1 else far
        lane += f" * {self.vector}" if self.vector > 1 else ""
        base = self.e.base.get(index)
        known = self.parameters.known(index)
        self.pieces.partial = known is None or known % self.lanes[index] != 0
        yield f"const i64 {at} = {f'{base} + ' if base else ''}{lane};"

    @property
    def element(self) -> str:
        """The number of an element in a thread's array."""
        return "c" if self.vector == 1 else f"c * {self.vector} + v"

    def bound(self, exprs: Sequence[Expr], index: str | None) -> None:
        """The tiles that expressions read, at the element of the loops around."""
        for name in values_in(exprs):
            own = index is not None and index in self.tiles[name].axes
            self.e.tiles[name] = self.variables[name] + (f"[{self.element}]" if own else "")

    # --- statements -----------------------------------------------------------------------------

    def statements(self, body: Sequence[Statement]) -> Iterator[str]:
        """Statements in order."""
        for item in body:
            match item:
                case Let():
                    yield from (f"// {shown(item)}", *self.let(item))
                case Store():
                    yield from (f"// {shown(item)}", *self.store(item))
                case Loop():
                    yield from self.loop(item)
                case _:
                    raise NotImplementedError("each is not emitted for rows")

    def let(self, item: Let) -> Iterator[str]:
        """The statement that gives a tile its value."""
        tile, kind = item.tile, value_of(item.tile.dtype)
        index = self.along([*tile.axes, *item.reduced])
        name, new = self.variable(item)
        if index is None:
            self.bound([item.body], None)
            value = bare(self.pieces.guarded(item.body, self.value(item.body, tile.dtype), kind))
            yield f"{f'{C_TYPES[kind]} ' if new else ''}{name} = {value};"
            return
        if new:
            size = f"[{self.count(index) * self.vector}]" if index in tile.axes else ""
            yield f"{C_TYPES[kind]} {name}{size};"
        if item.op is not None:
            yield from self.reduction(item, item.op, name, index)
        elif isinstance(item.body, Read) and self.pieces.adjacent(item.body, index):
            yield from self.load(item, item.body, name, index)
        else:
            yield from self.each(index, [item.body], lambda: self.assigned(item, name))

    def variable(self, item: Let) -> tuple[str, bool]:
        """The C++ variable of a tile, and whether it is new."""
        tile, into = item.tile, item.into
        if into is not None and (into.dtype, into.axes) == (tile.dtype, tile.axes):
            self.variables[tile.name] = self.variables[into.name]
            return self.variables[tile.name], False
        self.variables[tile.name] = self.names.plain(tile.name.rstrip("'"))
        return self.variables[tile.name], True

    def value(self, expr: Expr, dtype: DType) -> str:
        """An expression as a tile of a type holds it."""
        kind = value_of(dtype)
        text = self.e.value(expr, kind)
        return text if kind is dtype else rounded(text, kind, dtype)

    def assigned(self, item: Let, name: str) -> str:
        """One element of a pointwise statement."""
        kind = value_of(item.tile.dtype)
        value = self.pieces.guarded(item.body, self.value(item.body, item.tile.dtype), kind)
        return f"{name}[{self.element}] = {bare(value)};"

    def each(self, index: str, exprs: Sequence[Expr], body: Callable[[], str]) -> Iterator[str]:
        """A statement for every element of a row that this thread has."""
        head = f"TCT_FOR(c, {self.count(index)})"
        head += f" TCT_FOR(v, {self.vector})" if self.vector > 1 else ""
        self.bound(exprs, index)
        if not any(isinstance(n, Position) and n.index == index for n in postorder(exprs)):
            yield f"{head} {body()}"
            return
        at = self.e.position[index] = self.names.fresh(index)
        (line,) = self.place(index, at)
        yield from (f"{head} {{", "  " + line.replace(";", " + v;" if self.vector > 1 else ";"))
        self.pieces.index = index
        yield from (f"  {body()}", "}")
        self.pieces.index = None
        self.e.position.pop(index)

    def load(self, item: Let, read: Read, name: str, index: str) -> Iterator[str]:
        """A row from memory, piece by piece."""
        at = self.e.position[index] = self.names.fresh(index)
        yield from (f"TCT_FOR(c, {self.count(index)}) {{", *map(_in, self.place(index, at)))
        yield from map(_in, self.pieces.load(read, index, item.tile.dtype, name, self.element))
        self.e.position.pop(index)
        yield "}"

    def reduction(self, item: Let, op: Reducer, name: str, index: str) -> Iterator[str]:
        """A thread's own elements in as many parts as it has neighbours, then a tree."""
        kind = value_of(item.tile.dtype)
        part = "part[v]" if self.vector > 1 else "part[0]"
        several = self.count(index) > 1

        def line() -> str:
            value = self.pieces.guarded(item.body, self.value(item.body, kind), kind)
            both = _both(op, part, value, kind)
            return f"{part} = {f'c == 0 ? {value} : {both}' if several else bare(value)};"

        yield from ("{", f"  {C_TYPES[kind]} part[{self.vector}];")
        yield from map(_in, self.each(index, [item.body], line))
        half = self.vector // 2
        while half:
            both = _both(op, "part[v]", f"part[v + {half}]", kind)
            yield f"  TCT_FOR(v, {half}) part[v] = {both};"
            half //= 2
        if self.depth and self.group > 32:
            yield "  tc_syncthreads();  // the last block's parts have been read"
        memory = f"scratch + {SCRATCH * self.reductions}" if self.group > 32 else "nullptr"
        self.reductions += 1
        total = f"tcr_{op}<{self.group}>(part[0], {memory})"
        if item.onto is not None:
            total = _both(op, self.variables[item.onto.name], total, kind)
        yield from (f"  {name} = {bare(rounded(total, kind, item.tile.dtype))};", "}")

    def store(self, item: Store) -> Iterator[str]:
        """A row to memory, or one value of it by its first thread."""
        exprs = (*item.subscripts, item.value)
        free = frozenset[str]().union(*map(free_indices, exprs))
        index = self.along([a for n in values_in(exprs) for a in self.tiles[n].axes] + [*free])
        once = [f"{self.e.base[name]} == 0" for name in item.once]
        if item.combine is not None:
            raise NotImplementedError("stores that combine in memory are not emitted yet")
        if index is None:
            self.bound(exprs, None)
            first = ["thread == 0"] if self.group > 1 else []
            yield self.pieces.stored(item, [*first, *once])
        elif once or not self.pieces.adjacent(item, index):
            yield from self.each(
                index, [*exprs, Position(index)], lambda: self.pieces.stored(item, once)
            )
        else:
            at = self.e.position[index] = self.names.fresh(index)
            yield from (f"TCT_FOR(c, {self.count(index)}) {{", *map(_in, self.place(index, at)))
            self.bound(exprs, index)
            yield from map(_in, self.pieces.store(item, index))
            self.e.position.pop(index)
            yield "}"

    # --- loops ----------------------------------------------------------------------------------

    def loop(self, item: Loop) -> Iterator[str]:
        """Blocks of a row in turn."""
        for carry in item.carries:
            start = self.start(carry)
            name = self.variables[carry.tile.name] = self.names.plain(carry.tile.name)
            yield f"{C_TYPES[value_of(carry.tile.dtype)]} {name} = {start};"
        counter = self.names.fresh(item.index)
        lower, upper = map(self.parameters.polynomial, (item.lower, item.upper))
        yield f"for (i64 {counter} = {lower}; {counter} < {upper}; {counter} += {item.block}) {{"
        hidden = self.e.hidden(item.index)
        self.e.base[item.index] = counter
        past = f"tcs_min({counter} + {item.block}ll, (i64){self.parameters.extent(item.index)})"
        self.e.seen[item.index] = (f"({counter} - {lower})", f"({past} - {lower})")
        self.depth += 1
        yield from map(_in, self.statements(item.body))
        self.depth -= 1
        for carry in item.carries:
            made = self.variables[carry.tile.name + "'"]
            name = self.variables[carry.tile.name]
            yield from [f"  {name} = {made};"] if made != name else []
        yield "}"
        self.e.restore(item.index, hidden)

    def start(self, carry: Carry) -> str:
        """The first value of a carried tile."""
        kind = value_of(carry.tile.dtype)
        match carry.start:
            case Tile() as outer:
                return convert(self.variables[outer.name], value_of(outer.dtype), kind)
            case str(word):
                raise NotImplementedError(f"a state that starts as {word}")
            case expr:
                return self.e.value(expr, kind)


def _in(line: str) -> str:
    return "  " + line


def _both(op: Reducer, a: str, b: str, kind: DType) -> str:
    return bare(FUNCTIONS[_COMBINED[op]]([a, b], kind))
