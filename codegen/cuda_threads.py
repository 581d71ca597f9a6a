"""Level 2 to CUDA C++ without tensor cores: one thread per lane, any program, shape and stride.

The blocks of a kernel's vectorised index are the threads of a block, one lane each; a tile without
that axis is a value that every thread holds. A reduction over lanes goes through shared memory.
The text calls `scalar.cuh` for what is not C++; the emulator and a GPU compile the same text.

The code decides nothing: which index runs along threads, and how far, is the level-2 text's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tensorc.codegen.cuda_expressions import Expressions, check_numbers
from tensorc.codegen.cuda_functions import C_TYPES, convert, narrowed, rounded
from tensorc.codegen.cuda_parameters import Names, Parameters
from tensorc.ir.dtypes import DType, value_of
from tensorc.ir.launch import Strides
from tensorc.ir.node import postorder
from tensorc.ir.tensor import Read, free_indices, resolved, value_type
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

SHARED_BYTES = 8  # for each thread, of the scratch of reductions over lanes


class Threads:
    """The state of emitting one kernel."""

    def __init__(
        self, item: Kernel, number: int, program: TileProgram, static: Mapping[str, int],
        strides: Mapping[str, Strides],
    ) -> None:  # fmt: skip
        self.item, self.symbol = item, f"kernel_{number}"
        self.names = Names()
        self.parameters = Parameters(self.names, item, program, static, strides)
        self.blocks = _blocks(item)
        self.e = Expressions(self.parameters, check_numbers(program))

    @property
    def threads(self) -> int:
        """Threads of a block: the lanes, or one warp where nothing runs along lanes."""
        return max([32, *self.blocks.values()])

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.threads * SHARED_BYTES

    def text(self) -> str:
        body = ["  TC_DYN_SMEM(scratch);", *self.grid(), *self.statements(self.item.body, 1)]
        head = f"TC_KERNEL({self.threads}, 1) {self.symbol}({self.parameters.declared()}) {{"
        return "\n".join([f"// {self.item.name}", head, *body, "}", ""])

    def grid(self) -> Iterator[str]:
        """The grid's indices from the linear block number; threads past an edge are switched off
        statement by statement, so that all of them reach every barrier."""
        if not self.item.grid:
            return
        yield "  i64 rest = blockIdx.x;"
        for block in reversed(self.item.grid[1:]):
            count = self.count(block)
            yield from self.bind(block, f"rest % {count}", 1)
            yield f"  rest /= {count};"
        yield from self.bind(self.item.grid[0], "rest", 1)

    def count(self, block: Block) -> str:
        size = self.parameters.extent(block.index)
        return size if block.size == 1 else f"(({size} + {block.size - 1}) / {block.size})"

    def bind(self, block: Block, number: str, depth: int) -> Iterator[str]:
        name = self.names.fresh(block.index)
        scale = f" * {block.size}" if block.size > 1 else ""
        yield f"{'  ' * depth}const i64 {name} = {number}{scale};"
        self.e.base[block.index] = name
        if block.size > 1:
            yield from self.lanes(block.index, name, depth)

    def lanes(self, index: str, base: str, depth: int) -> Iterator[str]:
        """The thread's own position, and whether it lies inside the index's range."""
        pad = "  " * depth
        at, inside = self.names.fresh(index), self.names.fresh(f"in_{index}")
        yield f"{pad}const i64 {at} = {base} + threadIdx.x;"
        size, block = self.parameters.extent(index), self.blocks[index]
        limit = f" && threadIdx.x < {block}" if block < self.threads else ""
        yield f"{pad}const bool {inside} = {at} < {size}{limit};"
        self.e.position[index], self.e.inside[index] = at, inside

    def statements(self, body: Sequence[Statement], depth: int) -> Iterator[str]:
        for statement in body:
            match statement:
                case Let():
                    yield from self.let(statement, depth)
                case Store():
                    yield from self.store(statement, depth)
                case Loop():
                    yield from self.loop(statement, depth)
                case Each():
                    raise NotImplementedError("each is not emitted for threads yet")

    def let(self, item: Let, depth: int) -> Iterator[str]:
        pad, tile = "  " * depth, item.tile
        kind = value_of(tile.dtype)
        lane = self.e.lane(free_indices(item.body))
        text = self.e.value(item.body, kind)
        reads = any(isinstance(node, Read) for node in postorder([item.body]))
        if lane is not None and reads and not item.edge:
            text = f"({self.e.inside[lane]} ? {text} : {C_TYPES[kind]}(0))"
        if item.op is not None and item.reduced:
            text = f"tcs_across_{item.op}<{C_TYPES[kind]}>({text}, scratch)"
        if kind is not tile.dtype:
            text = rounded(text, kind, tile.dtype)
        name = self.names.fresh(tile.name)
        self.e.tiles[tile.name] = name
        yield f"{pad}const {C_TYPES[kind]} {name} = {text};"

    def store(self, item: Store, depth: int) -> Iterator[str]:
        pad, tensor = "  " * depth, item.tensor
        wanted = resolved(value_type(item.value), value_of(tensor.dtype))
        free = frozenset[str]().union(*(free_indices(s) for s in (item.value, *item.subscripts)))
        lane = self.e.lane(free)
        where = self.e.inside[lane] if lane is not None else "threadIdx.x == 0"
        value = narrowed(self.e.value(item.value, wanted), wanted, tensor.dtype)
        target = f"{self.parameters.pointer(tensor)}[{self.e.offset(tensor, item.subscripts)}]"
        yield f"{pad}if ({where}) {target} = {value};"

    def loop(self, item: Loop, depth: int) -> Iterator[str]:
        pad = "  " * depth
        carried = [self.start(carry) for carry in item.carries]
        for name, kind, start in carried:
            yield f"{pad}{kind} {name} = {start};"
        counter = self.names.fresh(item.index)
        upper = self.parameters.polynomial(item.upper)
        lower = self.parameters.polynomial(item.lower)
        yield (
            f"{pad}for (i64 {counter} = {lower}; {counter} < {upper}; {counter} += {item.block}) {{"
        )
        hidden = self.e.hidden(item.index)
        self.e.base[item.index] = counter
        if item.block > 1:
            yield from self.lanes(item.index, counter, depth + 1)
        yield from self.statements(item.body, depth + 1)
        for carry, (name, _, _) in zip(item.carries, carried, strict=True):
            yield f"{pad}  {name} = {self.e.tiles[carry.tile.name + chr(39)]};"
            self.e.tiles[carry.tile.name] = name
        yield f"{pad}}}"
        self.e.restore(item.index, hidden)

    def start(self, carry: Carry) -> tuple[str, str, str]:
        """(variable, its type, its first value)."""
        kind = value_of(carry.tile.dtype)
        name = self.names.fresh(carry.tile.name)
        match carry.start:
            case Tile(outer, _, _, dtype, _, _):
                text = convert(self.e.tiles[outer], value_of(dtype), kind)
            case "lowest":
                text = f"-{_largest(kind)}"
            case str(other):
                raise ValueError(f"unknown start {other!r}")
            case expr:
                text = self.e.value(expr, kind)
        self.e.tiles[carry.tile.name] = name
        return name, C_TYPES[kind], text


def _largest(kind: DType) -> str:
    return "3.4028235e38f" if kind.bits == 32 else "1.7976931348623157e308"


def _blocks(kernel: Kernel) -> dict[str, int]:
    """Every index that runs along threads, and how many."""
    found = {block.index: block.size for block in kernel.grid if block.size > 1}
    waiting: list[Statement] = list(kernel.body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, Loop):
            if statement.block > 1:
                found[statement.index] = statement.block
            waiting += statement.body
    return found
