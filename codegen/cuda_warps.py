"""Level 2 to CUDA C++ for tensor cores of sm_80: warps multiply fragments that lie in registers;
cp.async fills the slots of rings in shared memory ahead of their use.

The code decides nothing: which statement is done by what, in which layout, is the level-2 text's;
which warp does it, and how deep rings are, is the placement's. Within a block all threads run the
same loops; a loop that copies is

    prologue   put tiles 0 .. depth - 2
    each tile  get tile i (wait, barrier); put tile i + depth - 1 into the slot that tile i - 1
               had, which after the barrier nobody reads any more; compute
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from tensorc.codegen import cuda_copies as copies
from tensorc.codegen import cuda_products as products
from tensorc.codegen import cuda_simt as simt
from tensorc.codegen import cuda_stores as stores
from tensorc.codegen.cuda_fragments import dimensions
from tensorc.codegen.cuda_functions import bare, constant
from tensorc.codegen.cuda_scope import Scope, value_kind
from tensorc.ir.dtypes import F32, value_of
from tensorc.ir.launch import Strides
from tensorc.ir.placement import Placement
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.print_tile import line as shown
from tensorc.ir.tile import Carry, Kernel, Let, Loop, Operand, Statement, Store, Tile, TileProgram
from tensorc.ir.walk_tile import reads, statements
from tensorc.machine.arrange import copied, flat


class Warps:
    """The state of emitting one kernel."""

    def __init__(
        self, kernel: Kernel, number: int, program: TileProgram, static: Mapping[str, int],
        strides: Mapping[str, Strides], placement: Placement, fast: bool,
    ) -> None:  # fmt: skip
        self.kernel, self.symbol = kernel, f"kernel_{number}"
        self.scope = Scope(kernel, program, static, strides, placement, fast)
        self.parameters = self.scope.parameters
        self.uses = _uses(kernel)
        self.pending: set[str] = set()  # shared tiles that may still be on their way
        self.written: set[str] = set()  # shared tiles with elements that only their writer sees
        self.read: set[str] = set()  # shared tiles that another warp may still read
        self.used = False  # whether a loop used shared memory before
        self.open: tuple[Loop, ...] = ()

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.scope.threads

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory."""
        return self.scope.memory

    def text(self) -> str:
        """The kernel as C++."""
        grid = ["  " + line for line in self.grid()]
        body = [_in(line) for line in self.statements(tuple(flat(self.kernel.body)), None)]
        heads = ["  " + line for line in (*self.warps(), *self.scope.heads.values())]
        head = f"TC_KERNEL({self.threads}, 1) {self.symbol}({self.parameters.declared()}) {{"
        if not self.scope.aligned:
            return "\n".join([f"// {self.kernel.name}", head, *heads, *grid, *body, "}", ""])
        return "\n".join([*self.twice([*heads, *grid, *body], head), ""])

    def twice(self, body: Sequence[str], head: str) -> Iterator[str]:
        """The kernel for aligned tensors and for any."""
        yield f"// {self.kernel.name}; WIDE: 16 bytes are copied at once"
        yield "template <bool WIDE>"
        yield f"TC_DEV void body_{self.symbol}({self.parameters.declared()}) {{"
        yield from body
        yield from ("}", head)
        tests = list(self.scope.aligned.values())
        yield f"  const bool wide = {tests[0]}" + (";" if len(tests) == 1 else "")
        for number, test in enumerate(tests[1:], start=2):
            yield f"                    && {test}" + (";" if number == len(tests) else "")
        call = f"({', '.join(self.parameters.slots.values())});"
        yield f"  if (wide) body_{self.symbol}<true>{call}"
        yield f"  else body_{self.symbol}<false>{call}"
        yield "}"

    def warps(self) -> Iterator[str]:
        """Where this thread is, and its memory."""
        yield "TC_DYN_SMEM(smem);"
        yield "const u32 shared = tc_smem_u32(smem);"
        yield "const int lane = threadIdx.x % 32;"
        rows, columns = self.scope.placement.rows, self.scope.placement.columns
        if rows > 1:
            last = f" % {rows}" if columns > 1 else ""
            yield f"const int warp_m = threadIdx.x / 32{last};"
        if columns > 1:
            yield f"const int warp_n = threadIdx.x / {32 * rows};"
        regions = self.scope.shared.regions
        for name, region in regions.items():
            tile = self.scope.tiles[name]
            start, slots, step = region.offset, 1, 0
            if region.loop is not None:
                ring = self.scope.shared.rings[region.loop]
                start, slots, step = ring.offset + start, self.scope.placement.depth, ring.bytes
            size = math.prod(tile.sizes) * tile.dtype.bits // 8
            for slot in range(slots):
                label = f', "{name}", {slot}' if slots > 1 else f', "{name}"'
                yield f"tc_note_name(shared + {start + slot * step}, {size}{label});"

    def grid(self) -> Iterator[str]:
        """The grid's indices from the linear block number."""
        blocks = list(self.kernel.grid)
        if not blocks:
            return
        sizes = [f" by {block.size}" if block.size > 1 else "" for block in blocks]
        shown = [block.index + size for block, size in zip(blocks, sizes, strict=True)]
        yield f"// grid {', '.join(shown)}"
        if len(blocks) > 1:
            yield f"i64 rest = {bare(self.parameters.number(blocks))};"
        for block in reversed(blocks):
            size = self.parameters.extent(block.index)
            count = size if block.size == 1 else f"(({size} + {block.size - 1}) / {block.size})"
            name = self.scope.names.plain(f"{block.index}0" if block.size > 1 else block.index)
            scale = f" * {block.size}" if block.size > 1 else ""
            first = block is blocks[0]
            number = "rest" if len(blocks) > 1 else f"(i64){self.parameters.number(blocks)}"
            number = number if first else f"{number} % {count}"
            yield f"const i64 {name} = {number}{scale};"
            if not first:
                yield f"rest /= {count};"
            self.scope.e.base[block.index] = name
            self.scope.block[block.index] = block.size

    def statements(self, body: Sequence[Statement], loop: Loop | None) -> Iterator[str]:
        """Statements in order; copies of a loop's ring are put elsewhere."""
        later = _loads_in_place(body, self.uses)
        for item in body:
            if loop is not None and copied(item):
                continue
            if isinstance(item, Let) and item.tile.name in later:
                continue
            yield from self.ready(item)
            yield from self.statement(item, later)

    def statement(self, item: Statement, later: Mapping[str, Let]) -> Iterator[str]:
        match item:
            case Let():
                yield f"// {shown(item)}"
                yield from self.let(item, later)
            case Store():
                yield f"// {shown(item)}"
                tile = copies.plain_copy(item, self.scope.tiles)
                if tile is None:
                    yield from stores.store(self.scope, item)
                else:
                    yield from copies.empty(self.scope, item, tile, self.scope.region(tile))
            case Loop():
                yield from self.loop(item)
            case _:
                raise AssertionError("each is in place")

    def ready(self, item: Statement) -> Iterator[str]:
        """Barriers between who writes shared memory and who reads it."""
        if isinstance(item, Loop):
            return
        needs = reads(item)
        arriving, dirty = needs & self.pending, needs & self.written
        target = item.tile.name if isinstance(item, Let) else ""
        if arriving:
            yield "tc_cp_async_wait<0>();"
        if arriving or dirty or target in self.read:
            yield "tc_syncthreads();"
            self.written.clear()
            self.read.clear()
        if arriving:
            self.pending.clear()
        self.read |= {name for name in needs if name in self.scope.shared.regions}

    def let(self, item: Let, later: Mapping[str, Let]) -> Iterator[str]:
        scope, tile = self.scope, item.tile
        if products.is_product(item):
            yield from products.product(scope, item, dict(later))
        elif products.is_load(item):
            yield from products.load(scope, item)
        elif tile.space == "shared":
            yield from self.fill(item)
        elif item.op is not None:
            yield from simt.reduction(scope, item)
        elif isinstance(tile.layout, Operand):
            yield from simt.operand(scope, item)
        elif not tile.axes:
            yield from simt.scalar(scope, item)
        else:
            yield from simt.pointwise(scope, item, self.full(item))

    def fill(self, item: Let) -> Iterator[str]:
        """A shared tile outside of rings."""
        at = self.scope.region(item.tile)
        if not copied(item):
            yield from simt.to_shared(self.scope, item)
            self.written.add(item.tile.name)
            return
        yield from copies.fill(self.scope, item, at)
        yield "tc_cp_async_commit();"
        self.pending.add(item.tile.name)

    def full(self, item: Let) -> str:
        """The condition of blocks in which a statement's guard always holds."""
        tests: list[str] = []
        for index in item.edge:
            base, size = self.scope.base(index), self.scope.block.get(index, 0)
            if index not in self.limits:
                if not self.scope.whole(index):
                    tests.append(f"{base} + {size} <= {self.parameters.extent(index)}")
                continue
            low, high = self.limits[index]
            if low.constant != 0:
                tests.append(f"{self.parameters.polynomial(low)} <= {base}")
            tests.append(f"{base} + {size} <= {self.parameters.polynomial(high)}")
        return " && ".join(tests)

    @property
    def limits(self) -> Mapping[str, tuple[Polynomial, Polynomial]]:
        """Of open loops, the range of full blocks."""
        return {loop.index: loop.full for loop in self.open}

    def loop(self, item: Loop) -> Iterator[str]:
        """Carried tiles, the prologue of its copies, its blocks."""
        body = tuple(flat(item.body))
        puts = [part for part in body if isinstance(part, Let) and copied(part)]
        for carry in item.carries:
            yield from self.carried(carry)
        yield "{"
        for line in self.blocks(item, body, puts):
            yield _in(line)
        yield "}"

    def blocks(self, item: Loop, body: Sequence[Statement], puts: Sequence[Let]) -> Iterator[str]:
        scope, depth = self.scope, self.scope.placement.depth
        lower, upper = (self.parameters.polynomial(p) for p in (item.lower, item.upper))
        yield f"// loop {item.index} by {item.block}"
        yield f"const int tiles = tct_tiles({lower}, {upper}, {item.block});"
        name = scope.names.plain(f"{item.index}0" if item.block > 1 else item.index)
        number = "(tiles - 1 - tile)" if item.down else "tile"
        start = "" if item.lower.constant == 0 else f"{lower} + "
        base = f"const i64 {name} = {start}(i64){number} * {item.block};"
        hidden = scope.e.base.get(item.index), scope.block.get(item.index)
        scope.e.base[item.index], scope.block[item.index] = name, item.block
        self.open = (*self.open, item)
        if puts:
            yield from self.prologue(item, puts, base)
        elif self.pending:
            yield from ("tc_cp_async_wait<0>();", "tc_syncthreads();")
            self.pending.clear()
            self.written.clear()
        yield "for (int tile = 0; tile < tiles; tile++) {"
        if puts:
            ring = scope.shared.rings[item]
            ahead = f"tile + {depth - 1}"
            yield f"  // get tile; all warps have done the one before, whose slot takes {ahead}"
            yield f"  tc_cp_async_wait<{depth - 2}>();"
            yield "  tc_syncthreads();"
            yield f"  if (tile + {depth - 1} < tiles) put(tile + {depth - 1});"
            yield "  tc_cp_async_commit();"
            yield f"  const u32 slot = {_offset(ring.offset)}(u32)tile % {depth} * {ring.bytes};"
            kept, self.pending = self.pending, set[str]()
            self.written.clear()
            self.read.clear()
        else:
            kept = set[str]()
        if _exchanges(body, puts) and not puts:
            yield "  tc_syncthreads();"
        lines = list(self.statements(body, item))
        if any(re.search(rf"\b{name}\b", line) for line in lines):
            yield f"  {base}"
        for line in lines:
            yield "  " + line
        for carry in item.carries:
            for line in self.continued(carry):
                yield "  " + line
        yield "}"
        if puts:
            yield "tc_cp_async_wait<0>();"
            self.pending |= kept
            self.used = True
        self.open = self.open[:-1]
        scope.e.base[item.index] = hidden[0] or ""
        if hidden[1] is not None:
            scope.block[item.index] = hidden[1]

    def prologue(self, item: Loop, puts: Sequence[Let], base: str) -> Iterator[str]:
        """How a tile is put into its slot, and the first ones."""
        depth, ring = self.scope.placement.depth, self.scope.shared.rings[item]
        names = ", ".join(part.tile.name for part in puts)
        yield f"// put: {names} of a tile into its slot of {ring.bytes} bytes, {depth} in a ring"
        yield "const auto put = [&](int tile) {"
        yield f"  const u32 slot = {_offset(ring.offset)}(u32)tile % {depth} * {ring.bytes};"
        yield f"  {base}"
        for part in puts:
            yield f"  // {shown(part)}"
            for line in copies.fill(self.scope, part, self.scope.region(part.tile)):
                yield "  " + line
        yield "};"
        if self.used or len(self.open) > 1:  # its slots may still be read
            yield "tc_syncthreads();"
        yield f"// prologue: put tiles 0 .. {depth - 2}" if depth > 2 else "// prologue: put tile 0"
        yield "#pragma unroll 1"
        yield f"for (int tile = 0; tile < {depth - 1}; tile++) {{"
        yield "  if (tile < tiles) put(tile);"
        yield "  tc_cp_async_commit();"
        yield "}"

    def carried(self, carry: Carry) -> Iterator[str]:
        """A carried tile and its start."""
        tile = carry.tile
        name, _ = self.scope.variable(tile, None)
        shape = dimensions(tile, self.scope.placement) if tile.axes else ()
        kind = value_of(tile.dtype)
        yield f"{value_kind(tile)} {name}{''.join(f'[{n}]' for n in shape)};"
        match carry.start:
            case Tile() as outer:
                value, target = _each(self.scope.variables[outer.name], shape), _each(name, shape)
            case str():
                lowest = constant(-(2**24 - 1) * 2**104, F32)
                value, target = lowest, _each(name, shape)
            case expr:
                value, target = self.scope.e.value(expr, kind), _each(name, shape)
        yield f"{_over(shape)}{target} = {value};"

    def continued(self, carry: Carry) -> Iterator[str]:
        """The value of a carried tile for the next block, where it lies elsewhere."""
        source = self.scope.variables[carry.tile.name + "'"]
        target = self.scope.variables[carry.tile.name]
        if source == target:
            return
        shape = dimensions(carry.tile, self.scope.placement) if carry.tile.axes else ()
        yield f"{_over(shape)}{_each(target, shape)} = {_each(source, shape)};"


def _in(line: str) -> str:
    """A line one step deeper."""
    return line if line.startswith("#") else "  " + line


def _offset(offset: int) -> str:
    return f"{offset} + " if offset else ""


_LOOPS = ("i", "j", "reg")


def _over(shape: Sequence[int]) -> str:
    return "".join(f"TCT_FOR({v}, {n}) " for v, n in zip(_LOOPS, shape, strict=False))


def _each(name: str, shape: Sequence[int]) -> str:
    return name + "".join(f"[{v}]" for v, _ in zip(_LOOPS, shape, strict=False))


def _uses(kernel: Kernel) -> dict[str, int]:
    """How many statements read each tile."""
    counts: dict[str, int] = {}
    for item in statements(kernel.body):
        if isinstance(item, Let | Store):
            for name in reads(item):
                counts[name] = counts.get(name, 0) + 1
    return counts


def _loads_in_place(body: Sequence[Statement], uses: Mapping[str, int]) -> dict[str, Let]:
    """The loads of operands that one product of the same body uses, and nothing else."""
    multiplied = {
        name
        for item in body
        if isinstance(item, Let) and products.is_product(item)
        for name in reads(item)
    }
    return {
        item.tile.name: item
        for item in body
        if isinstance(item, Let)
        and products.is_load(item)
        and item.tile.name in multiplied
        and uses[item.tile.name] == 1
    }


def _exchanges(body: Sequence[Statement], puts: Sequence[Let]) -> bool:
    """Whether shared memory is written in the loop beside its copies."""
    return any(
        isinstance(item, Let) and item.tile.space == "shared" and item not in puts for item in body
    )
