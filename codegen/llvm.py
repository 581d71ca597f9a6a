"""Level 2 to LLVM IR for the CPU: one function per kernel, SSA form, no middle-end passes needed.

A kernel is `void NAME(ptr args, i64 begin, i64 end)`: `args` holds 64-bit slots (pointers, extents,
strides, described by `Slot`), and [begin, end) is the part of the flattened grid to run; of loops
that hold all statements and carry nothing, slots say which blocks. So threads may share a kernel.
The code decides nothing: vector widths, loop order and placement are
those of the level-2 text.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tensorc.codegen.llvm_builder import Builder, integer_of
from tensorc.codegen.llvm_convert import as_i64, convert, rounded, widened
from tensorc.codegen.llvm_expressions import Expressions, Scope, Storage
from tensorc.codegen.llvm_functions import FUNCTIONS
from tensorc.codegen.llvm_types import Operand, memory_type, suffix
from tensorc.ir.dtypes import F64, I64, Kind, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.launch import Entry, Slot, Strides
from tensorc.ir.multiples import whole_blocks
from tensorc.ir.polynomial import (
    Bound,
    Floor,
    Opaque,
    Polynomial,
    Symbol,
    evaluate,
    extent,
    polynomial,
    symbols,
)  # fmt: skip
from tensorc.ir.tensor import Select, Tensor, free_indices, resolved, value_type
from tensorc.ir.tile import (
    Block,
    Carry,
    Each,
    Kernel,
    Let,
    Loop,
    Statement,
    Store,
    Tile,
    TileProgram,
)


@dataclass(frozen=True)
class Options:
    """What a kernel is compiled for. `static`: extents fixed at compile time; `strides`: of
    tensors that are not row-major; `contract`: fused multiply-add allowed; `prefix`: what the
    symbols of kernels start with; `multiples`: numbers that other extents are multiples of, which
    need no code for a last, partial block."""

    static: Mapping[str, int]
    strides: Mapping[str, Strides]
    contract: bool = True
    prefix: str = ""
    multiples: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Module:
    """LLVM IR of a program and its entries, in the order in which they run. A failed check writes
    its place in `program.checks`, counted from 1."""

    text: str
    entries: tuple[Entry, ...]


def emit(program: TileProgram, options: Options) -> Module:
    """The whole program as one LLVM module."""
    options = replace(options, static=_every_static(program, options.static))
    declarations: dict[str, str] = {}
    functions: list[str] = []
    entries: list[Entry] = []
    for number, kernel in enumerate(program.kernels):
        emitter = _Emitter(kernel, f"{options.prefix}kernel_{number}", program, options)
        functions.append(emitter.function())
        entries.append(emitter.entry())
        declarations.update(emitter.b.declarations)
    attributes = 'attributes #0 = { nounwind "prefer-vector-width"="512" }\n'
    lines = [*functions, *sorted(declarations.values()), attributes]
    return Module("\n".join(lines), tuple(entries))


def _every_static(program: TileProgram, given: Mapping[str, int]) -> dict[str, int]:
    """The given extents, and those that follow from them."""
    known = {Symbol(name, "extent"): size for name, size in given.items()}
    derived = {n: size for n, size in program.extents if symbols(size) <= known.keys()}
    return {**{n: evaluate(size, known) for n, size in derived.items()}, **given}


class _Emitter:
    """The state of emitting one kernel."""

    def __init__(self, kernel: Kernel, symbol: str, program: TileProgram, options: Options) -> None:
        self.kernel, self.symbol, self.options = kernel, symbol, options
        self.b = Builder(options.contract)
        self.slots: list[Slot] = []
        checks = {(item.read, item.axis): n + 1 for n, item in enumerate(program.checks)}
        self.scope = Scope({}, _Extents(self), options.static, program.extent_of, checks, "")
        self.e = Expressions(self.b, self.scope)
        self.consts = {item.tensor.name: item.tensor for item in program.parameters if item.const}
        self.shared = dict(shared_loops(kernel))
        self.unrolled = ("", 1)  # the index whose rows are unrolled here, and how many

    def function(self) -> str:
        for tensor in dict.fromkeys((*self.kernel.reads, *self.kernel.writes)):
            self.scope.storage[tensor.name] = self.storage(tensor)
        self.scope.error = self.pointer(Slot("error", ""))
        self.grid(self.kernel.grid)
        self.b.emit("ret void", 0)
        head = f"define void @{self.symbol}(ptr %args, i64 %begin, i64 %end) #0 {{"
        return "\n".join([head, "entry:", *self.b.text(), "}", ""])

    def entry(self) -> Entry:
        grid = tuple((block.index, block.size) for block in self.kernel.grid)
        return Entry(self.symbol, tuple(self.slots), grid, tuple(self.shared.items()))

    def slot(self, slot: Slot) -> Operand:
        """The 64-bit argument, loaded at the function's start."""
        if slot not in self.slots:
            self.slots.append(slot)
        address = self.b.raw(f"getelementptr i64, ptr %args, i64 {self.slots.index(slot)}", 0)
        return self.b.result(f"load i64, ptr {address}, align 8", I64, 1, 0)

    def pointer(self, slot: Slot) -> str:
        return self.b.raw(f"inttoptr {self.slot(slot)} to ptr", 0)

    def storage(self, tensor: Tensor) -> Storage:
        pointer = self.pointer(Slot("pointer", tensor.name))
        known = self.options.strides.get(tensor.name)
        if known is not None:
            strides = tuple(
                self.slot(Slot("stride", tensor.name, axis)) if one is None else self.number(one)
                for axis, one in enumerate(known)
            )
            return Storage(pointer, strides)
        return Storage(pointer, self.row_major(tensor))

    def row_major(self, tensor: Tensor) -> tuple[Operand, ...]:
        """Strides of a dense tensor: the product of the extents behind each dimension."""
        strides: list[Operand] = []
        total = self.number(1)
        for size in reversed(tensor.shape):
            strides.append(total)
            total = self.b.mul(total, self.polynomial(size))
        return tuple(reversed(strides))

    def number(self, value: int) -> Operand:
        return self.b.const(value, I64)

    def polynomial(self, item: Polynomial) -> Operand:
        """A bound or size at run time; a constant where all its symbols are static."""
        item = whole_blocks(item, self.options.multiples)
        total = self.number(0)
        for monomial, coefficient in item.terms:
            product = self.number(coefficient)
            for atom, power in monomial:
                for _ in range(power):
                    product = self.b.mul(product, self.atom(atom))
            total = self.b.add(total, product)
        return total

    def parameter(self, tensor: Tensor) -> Operand:
        """The value of a `const` integer, which sizes may use."""
        pointer = self.pointer(Slot("pointer", tensor.name))
        raw = self.e.load_one(tensor, memory_type(tensor.dtype), pointer, self.number(0), None, 0)
        return as_i64(self.b, widened(self.b, raw, tensor.dtype))

    def atom(self, atom: Symbol | Floor | Bound | Opaque) -> Operand:
        match atom:
            case Symbol(name, "extent"):
                return self.scope.extents[name]
            case Symbol(name, "parameter"):
                return self.parameter(self.consts[name])
            case Symbol(name, _):
                return self.scope.positions[name]
            case Floor(numerator, denominator):
                return self.floor(self.polynomial(numerator), self.polynomial(denominator))
            case Bound(which, args):
                values = [self.polynomial(arg) for arg in args]
                total = values[0]
                for value in values[1:]:
                    total = self.b.intrinsic(f"s{which}", [total, value])
                return total
            case Opaque():
                raise NotImplementedError("bounds that read data are not lowered to LLVM yet")

    def floor(self, a: Operand, b: Operand) -> Operand:
        m, n = integer_of(a), integer_of(b)
        if m is not None and n:
            return self.number(m // n)
        if n is not None and n > 0 and n.bit_count() == 1:
            return self.b.op("ashr", a, self.number(n.bit_length() - 1))
        return FUNCTIONS["floordiv"](self.b, [a, b])

    def grid(self, blocks: Sequence[Block]) -> None:
        """One loop over the flattened grid, from which the indices are recovered."""
        if not blocks:
            self.statements(self.kernel.body)
            return
        begin, end = (Operand(f"%{name}", I64, 1, 0) for name in ("begin", "end"))
        loop = self.b.open_loop(None, 1, 1, False, begin, end, [])
        rest = loop.base
        for block in reversed(blocks[1:]):
            size = self.blocks(block)
            which = self.b.op("urem", rest, size)
            self.scope.positions[block.index] = self.b.mul(which, self.number(block.size))
            rest = self.b.op("udiv", rest, size)
        self.scope.positions[blocks[0].index] = self.b.mul(rest, self.number(blocks[0].size))
        self.statements(self.kernel.body)
        self.b.close_loop(loop, [])

    def blocks(self, block: Block) -> Operand:
        """How many blocks an index has."""
        size = self.scope.extents[block.index]
        if block.size == 1:
            return size
        return self.floor(self.b.add(size, self.number(block.size - 1)), self.number(block.size))

    def statements(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case Let(tile, _, _, expr, _, _, _, _):
                    for _ in self.rows({*tile.axes, *free_indices(expr)}):
                        self.let(statement)
                case Store(tensor, subscripts, value, _, _, _, _):
                    wanted = resolved(value_type(value), value_of(tensor.dtype))
                    free = [free_indices(item) for item in (value, *subscripts)]
                    for _ in self.rows(frozenset[str]().union(*free)):
                        self.e.store(tensor, subscripts, self.e.value(value, wanted))
                case Loop():
                    self.loop(statement)
                case Each():
                    raise NotImplementedError("each is not lowered to LLVM yet")

    def rows(self, indices: Collection[str]) -> Iterator[int]:
        """Once for every row of the open block of rows, if the statement depends on its index."""
        index, count = self.unrolled
        for row in range(count if index in indices else 1):
            self.scope.row = (index, row) if index in indices else None
            yield row
        self.scope.row = None

    def let(self, item: Let) -> None:
        body = item.body
        if item.edge and not self.guarding(item.edge):
            body = body.yes if isinstance(body, Select) else body
        value = self.e.value(body, value_of(item.tile.dtype))
        if item.op is not None:
            value = self.across(item.op, value)
        if value_of(item.tile.dtype) is not item.tile.dtype:
            value = rounded(self.b, value, item.tile.dtype)
        key = (item.tile.name, self.e.row_in(item.tile.axes))
        self.scope.tiles[key] = self.b.splat(value, self.lanes(item.tile))

    def guarding(self, edge: tuple[str, ...]) -> bool:
        """Whether the open blocks of these indices may be partial."""
        return any(region.edge for region in self.b.regions if region.index in edge)

    def lanes(self, tile: Tile) -> int:
        """Elements of a tile along vector lanes; its rows are values of their own."""
        return math.prod(size for size in tile.sizes if not is_rows(size))

    def keys(self, tile: Tile) -> list[tuple[str, int]]:
        """The names under which the rows of a tile are kept."""
        index, count = self.unrolled
        return [(tile.name, row) for row in range(count if index in tile.axes else 1)]

    def across(self, op: Reducer, value: Operand) -> Operand:
        """Reduce over the lanes; sums and products as a tree."""
        if value.lanes == 1:
            return value
        name, flags, start = _across(op, value)
        callee = f"llvm.vector.reduce.{name}.{suffix(value.dtype, value.lanes)}"
        element = Operand("", value.dtype, 1, 0).type
        first = f"{element} {start}, " if start else ""
        self.b.declare(callee, element, (f"{element}, " if start else "") + value.type)
        text = f"call {flags}{element} @{callee}({first}{value})"
        return self.b.result(text, value.dtype, 1, value.depth)

    def loop(self, item: Loop) -> None:
        """Full blocks first, then the rest; carried values run through both.

        The rest of lanes is one guarded block, the rest of rows is done row by row.
        """
        lower, upper = self.polynomial(item.lower), self.polynomial(item.upper)
        middle = self.polynomial(item.full[1]) if item.block > 1 else upper
        full, rest = middle.ref != lower.ref, middle.ref != upper.ref
        if item.index in self.shared:
            lower, middle, upper = self.part(item, middle, upper)
        carried = [
            self.start(carry, row) for carry in item.carries for _, row in self.keys(carry.tile)
        ]
        if full:
            carried = self.segment(item, item.block, False, lower, middle, carried)
        if rest:
            block = 1 if is_rows(item.block) else item.block
            carried = self.segment(item, block, block > 1, middle, upper, carried)
        for key, value in zip(self.carried(item), carried, strict=True):
            self.scope.tiles[key] = value

    def part(
        self, item: Loop, middle: Operand, upper: Operand
    ) -> tuple[Operand, Operand, Operand]:  # fmt: skip
        """The blocks of a shared loop that this call runs: their start, the end of the full ones
        among them, and their end."""
        begin, end = (
            self.b.mul(self.slot(Slot(kind, item.index)), self.number(item.block))
            for kind in ("begin", "end")
        )
        upper = self.b.intrinsic("smin", [end, upper])
        full = self.b.intrinsic("smax", [self.b.intrinsic("smin", [middle, upper]), begin])
        return begin, full, upper

    def carried(self, item: Loop, mark: str = "") -> list[tuple[str, int]]:
        """The names of everything that a loop carries (with `mark`: of what follows it)."""
        keys = [key for carry in item.carries for key in self.keys(carry.tile)]
        return [(name + mark, row) for name, row in keys]

    def start(self, carry: Carry, row: int) -> Operand:
        dtype = value_of(carry.tile.dtype)
        match carry.start:
            case Tile(name, _, _, _, _, _) as outer:
                value = self.scope.tiles[name, row if len(self.keys(outer)) > 1 else 0]
            case "lowest":
                value = self.b.const(_LOWEST[dtype is F64], dtype)
            case str(other):
                raise ValueError(f"unknown start {other!r}")
            case expr:
                value = self.e.value(expr, dtype)
        return self.b.splat(convert(self.b, value, dtype), self.lanes(carry.tile))

    def segment(
        self, item: Loop, block: int, edge: bool, lower: Operand, upper: Operand,
        carried: list[Operand],
    ) -> list[Operand]:  # fmt: skip
        outer, hidden = self.unrolled, self.scope.positions.get(item.index)
        lanes = 1 if is_rows(block) else block
        loop = self.b.open_loop(item.index, block, lanes, edge, lower, upper, carried)
        if is_rows(item.block):
            self.unrolled = (item.index, block)
        self.scope.positions[item.index] = loop.base
        self.scope.tiles.update(zip(self.carried(item), loop.values, strict=True))
        self.statements(item.body)
        following = [self.scope.tiles[key] for key in self.carried(item, "'")]
        after = self.b.close_loop(loop, following)
        self.unrolled = outer
        if hidden is not None:
            self.scope.positions[item.index] = hidden
        return after


class _Extents(dict[str, Operand]):
    """Extents by index name, and sizes by `tensor.axis`: static, or a slot loaded once."""

    def __init__(self, emitter: _Emitter) -> None:
        super().__init__()
        self.emitter = emitter

    def __missing__(self, name: str) -> Operand:
        self[name] = self.made(name)
        return self[name]

    def made(self, name: str) -> Operand:
        emitter = self.emitter
        if name in emitter.options.static:
            return emitter.number(emitter.options.static[name])
        tensor, dot, axis = name.rpartition(".")
        if dot:
            return emitter.slot(Slot("size", tensor, int(axis)))
        return emitter.slot(Slot("extent", name))


# The lowest finite f32 and f64, -(2 - 2**(1 - precision)) * 2**(largest exponent).
_LOWEST = {False: -(2**128) + 2**104, True: -(2**1024) + 2**971}


def shared_loops(kernel: Kernel) -> Iterator[tuple[str, int]]:
    """The loops (index, block) that hold everything in the kernel, outermost first, and carry
    nothing: their blocks do not know of each other."""
    body = kernel.body
    while len(body) == 1:
        (only,) = body
        if not isinstance(only, Loop) or only.carries:
            return
        if only.lower != polynomial(0) or only.upper != extent(only.index):
            return
        yield only.index, only.block
        body = only.body


def is_rows(block: int) -> bool:
    """A block that is no power of two is a number of rows, unrolled; others are vector lanes."""
    return block & (block - 1) != 0


def _across(op: Reducer, value: Operand) -> tuple[str, str, str]:
    """(name, flags, start value) of the reduction over lanes."""
    floating = value.dtype.floating
    if op is SUM:
        return ("fadd", "reassoc ", "-0.0") if floating else ("add", "", "")
    if op is PROD:
        return ("fmul", "reassoc ", "1.0") if floating else ("mul", "", "")
    if op in (MAX, MIN):
        if floating:
            return f"f{op.name}imum", "", ""
        return ("s" if value.dtype.kind is Kind.INT else "u") + op.name, "", ""
    if op in (ANY, ALL):
        return ("or" if op is ANY else "and"), "", ""
    raise ValueError(f"{op} is not a canonical reduction")
