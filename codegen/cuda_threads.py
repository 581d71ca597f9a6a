"""Level 2 to CUDA C++ without tensor cores: any program, shape and stride.

The blocks of a kernel's vectorised index are the lanes of a thread block: one of each thread, or
several where a block has more (`cuda_lanes`); a tile without that axis is a value that every thread
holds. A reduction over lanes goes by exchanges in a warp and then through shared memory. The text
calls `scalar.cuh` and `lanes.cuh` for what is not C++; the emulator and a GPU compile the same.

The code decides nothing: which index runs along threads, and how far, is the level-2 text's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tensorc.codegen.cuda_expressions import Expressions, check_numbers
from tensorc.codegen.cuda_functions import (
    C_TYPES,
    bare,
    convert,
    narrowed,
    rounded,
    stored_type,
)
from tensorc.codegen.cuda_lanes import THREADS, Lanes, Pieces
from tensorc.codegen.cuda_parameters import Names, Parameters
from tensorc.ir.dtypes import DType, value_of
from tensorc.ir.launch import Strides
from tensorc.ir.node import postorder
from tensorc.ir.tensor import (
    Apply,
    Expr,
    Extent,
    Position,
    Read,
    Select,
    free_indices,
    resolved,
    value_type,
)
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
from tensorc.ir.walk_tile import statements

SHARED_BYTES = 8  # for each warp, of the scratch of reductions over lanes


class Threads:
    """The state of emitting one kernel. `wide`: whether the order of sums over lanes may depend on
    the alignment of tensors."""

    def __init__(
        self, item: Kernel, number: int, program: TileProgram, static: Mapping[str, int],
        strides: Mapping[str, Strides], wide: bool = True,
    ) -> None:  # fmt: skip
        self.item, self.symbol = item, f"kernel_{number}"
        self.names = Names()
        self.parameters = Parameters(self.names, item, program, static, strides)
        self.blocks = _blocks(item)
        self.e = Expressions(self.parameters, check_numbers(program))
        ordered = any(isinstance(s, Let) and s.reduced for s in statements(item.body))
        self.pieces = Pieces(program, self.parameters, self.e, wide or not ordered)
        self.along: dict[str, Lanes] = {}
        self.across = False  # whether threads meet in shared memory

    @property
    def threads(self) -> int:
        """Threads of a block: the lanes, or one warp where nothing runs along lanes."""
        return min(THREADS, max([32, *self.blocks.values()]))

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.threads // 32 * SHARED_BYTES if self.across else 0

    def text(self) -> str:
        """The kernel as C++; two of them where aligned tensors are moved in pieces."""
        body = [*self.grid(), *self.statements(self.item.body, 1)]
        declared = self.parameters.declared(apart=True)
        head = f"TC_KERNEL({self.threads}, 1) {self.symbol}({declared}) {{"
        starts = ["  TC_DYN_SMEM(scratch);"] if self.across else []
        if not self.pieces.aligned:
            return "\n".join([f"// {self.item.name}", head, *starts, *self.steps(), *body, "}", ""])
        return "\n".join([
            f"// {self.item.name}; WIDE: a thread moves pieces of up to 16 bytes",
            "template <bool WIDE>", f"TC_DEV void body_{self.symbol}({declared}) {{",
            *starts, *self.steps(), *body, "}", head, *self.choice(), "}", "",
        ])  # fmt: skip

    def steps(self) -> list[str]:
        """How far the lanes of a thread lie apart."""
        if max(self.blocks.values(), default=1) <= self.threads:
            return []
        step = f"WIDE ? 1 : {self.threads}" if self.pieces.aligned else str(self.threads)
        return [f"  constexpr int STEP = {step};"]

    def choice(self) -> Iterator[str]:
        """Which of the two bodies runs."""
        first, *rest = self.pieces.aligned
        yield f"  const bool wide = {first}" + (";" if not rest else "")
        for number, test in enumerate(rest, start=1):
            yield f"                    && {test}" + (";" if number == len(rest) else "")
        call = f"({', '.join(self.parameters.slots.values())});"
        yield f"  if (wide) body_{self.symbol}<true>{call}"
        yield f"  else body_{self.symbol}<false>{call}"

    def grid(self) -> Iterator[str]:
        """The grid's indices from the linear block number; threads past an edge are switched off
        statement by statement, so that all of them reach every barrier."""
        if not self.item.grid:
            return
        yield f"  i64 rest = {bare(self.parameters.number(self.item.grid))};"
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
        """The position of the thread's lane 0; what lies inside the index's range is known from
        here on."""
        at, block = self.names.fresh(index), self.blocks[index]
        each = max(1, block // self.threads)
        place = "threadIdx.x" if each == 1 else f"(STEP == 1 ? {each} : 1) * threadIdx.x"
        yield f"{'  ' * depth}const i64 {at} = {base} + {place};"
        size, known = self.parameters.extent(index), self.parameters.known(index)
        whole = known is not None and known % block == 0 and block >= self.threads
        limit = f" && threadIdx.x < {block}" if block < self.threads else ""
        found = Lanes(at, each, f"{size}{limit}", whole)
        self.along[index] = found
        self.e.position[index], self.e.inside[index] = found.position, found.inside

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

    def each(self, lane: str | None) -> int:
        """The lanes of a thread along an index."""
        return self.along[lane].each if lane is not None else 1

    def array(self, tile: Tile) -> int:
        """The lanes of a tile that a thread holds."""
        return max((size // self.threads for size in tile.sizes), default=1) or 1

    def let(self, item: Let, depth: int) -> Iterator[str]:
        pad, tile = "  " * depth, item.tile
        kind = value_of(tile.dtype)
        lane = self.e.lane(free_indices(item.body).union(item.reduced))
        each, body = self.each(lane), self.unguarded(item)
        if lane is not None and each > 1:
            for line in self.pieces.loads((body,), lane, self.along[lane]):
                yield pad + line
        text = self.guarded(body, lane, kind, bool(item.edge))
        self.pieces.forget()
        name = self.names.fresh(tile.name)
        if item.op is not None and item.reduced:
            self.across = True
            if each > 1 and not re.fullmatch(r"\w+\[v\]", text):
                yield f"{pad}{C_TYPES[kind]} part_{name}[{each}];"
                yield f"{pad}TCS_FOR(v, {each}) part_{name}[v] = {bare(text)};"
                text = f"part_{name}"
            text = f"tcs_across_{item.op}<{C_TYPES[kind]}>({text.removesuffix('[v]')}, scratch)"
            each = 1
        if kind is not tile.dtype:
            text = rounded(text, kind, tile.dtype)
        if each == 1:
            yield f"{pad}const {C_TYPES[kind]} {name} = {bare(text)};"
        else:
            yield f"{pad}{C_TYPES[kind]} {name}[{each}];"
            yield f"{pad}TCS_FOR(v, {each}) {name}[v] = {bare(text)};"
        self.e.tiles[tile.name] = name if each == 1 else f"{name}[v]"

    def unguarded(self, item: Let) -> Expr:
        """What a statement computes, without the guard of an edge that no block has."""
        match item.body:
            case Select(Apply(function, (Position(index), Extent(same))), yes, _) if (
                function.name == "lt" and index == same and item.edge == (index,)
                and index in self.along and self.along[index].whole
            ):  # fmt: skip
                return yes
            case _:
                return item.body

    def guarded(self, value: Expr, lane: str | None, kind: DType, safe: bool) -> str:
        """A value of lanes that lie inside; of others 0 where reading for them is not safe."""
        text = self.e.value(value, kind)
        reads = [node for node in postorder([value]) if isinstance(node, Read)]
        if lane is None or safe or self.along[lane].whole or self.e.loaded.keys() >= set(reads):
            return text
        return f"({self.e.inside[lane]} ? {text} : {C_TYPES[kind]}(0))"

    def store(self, item: Store, depth: int) -> Iterator[str]:
        pad, tensor = "  " * depth, item.tensor
        wanted = resolved(value_type(item.value), value_of(tensor.dtype))
        free = frozenset[str]().union(*(free_indices(s) for s in (item.value, *item.subscripts)))
        lane = self.e.lane(free)
        if lane is not None and self.each(lane) > 1:
            for line in self.stores(item, lane, wanted):
                yield pad + line
            return
        where = self.e.inside[lane] if lane is not None else "threadIdx.x == 0"
        value = narrowed(self.e.value(item.value, wanted), wanted, tensor.dtype)
        target = f"{self.parameters.pointer(tensor)}[{self.e.offset(tensor, item.subscripts)}]"
        test = "" if where == "true" else f"if ({where}) "
        yield f"{pad}{test}{target} = {bare(value)};"

    def stores(self, item: Store, lane: str, wanted: DType) -> Iterator[str]:
        """A store of several lanes of each thread."""
        tensor, lanes = item.tensor, self.along[lane]
        yield from self.pieces.loads((item.value, *item.subscripts), lane, lanes)
        value = self.guarded(item.value, lane, wanted, False)
        value = bare(narrowed(value, wanted, tensor.dtype))
        if self.pieces.moves(tensor, item.subscripts, lane, lanes):
            name = self.names.fresh(tensor.name)
            address, _ = self.pieces.place(tensor, item.subscripts, lane, lanes)
            self.pieces.forget()
            yield f"{stored_type(tensor.dtype)} {name}[{lanes.each}];"
            yield f"TCS_FOR(v, {lanes.each}) {name}[v] = {value};"
            yield f"tcs_store<WIDE>({address}, {name}, {lanes.size} - {lanes.first}, STEP);"
            return
        target = f"{self.parameters.pointer(tensor)}[{self.e.offset(tensor, item.subscripts)}]"
        self.pieces.forget()
        test = "" if lanes.whole else f"if ({lanes.inside}) "
        yield f"TCS_FOR(v, {lanes.each}) {test}{target} = {value};"

    def loop(self, item: Loop, depth: int) -> Iterator[str]:
        pad = "  " * depth
        carried = [(carry, self.names.fresh(carry.tile.name)) for carry in item.carries]
        for carry, name in carried:
            yield from self.start(carry, name, depth)
        counter = self.names.fresh(item.index)
        upper = self.parameters.polynomial(item.upper)
        lower = self.parameters.polynomial(item.lower)
        yield (
            f"{pad}for (i64 {counter} = {lower}; {counter} < {upper}; {counter} += {item.block}) {{"
        )
        hidden, outer = self.e.hidden(item.index), self.along.pop(item.index, None)
        self.e.base[item.index] = counter
        if item.block > 1:
            yield from self.lanes(item.index, counter, depth + 1)
        yield from self.statements(item.body, depth + 1)
        for carry, name in carried:
            following, each = self.e.tiles[carry.tile.name + "'"], self.array(carry.tile)
            loop, lane = (f"TCS_FOR(v, {each}) ", "[v]") if each > 1 else ("", "")
            yield f"{pad}  {loop}{name}{lane} = {following};"
            self.e.tiles[carry.tile.name] = name + lane
        yield f"{pad}}}"
        self.e.restore(item.index, hidden)
        if outer is not None:
            self.along[item.index] = outer

    def start(self, carry: Carry, name: str, depth: int) -> Iterator[str]:
        """The declaration of a carried value, with its first value."""
        kind, each, pad = value_of(carry.tile.dtype), self.array(carry.tile), "  " * depth
        match carry.start:
            case Tile(outer, _, _, dtype, _, _):
                text = convert(self.e.tiles[outer], value_of(dtype), kind)
            case "lowest":
                text = f"-{_largest(kind)}"
            case str(other):
                raise ValueError(f"unknown start {other!r}")
            case expr:
                text = self.e.value(expr, kind)
        self.e.tiles[carry.tile.name] = name if each == 1 else f"{name}[v]"
        if each == 1:
            yield f"{pad}{C_TYPES[kind]} {name} = {text};"
        else:
            yield f"{pad}{C_TYPES[kind]} {name}[{each}];"
            yield f"{pad}TCS_FOR(v, {each}) {name}[v] = {text};"


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
