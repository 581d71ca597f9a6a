"""How long level 2 takes on a CPU, estimated by walking its text once.

Each statement is taken to be done in vectors: its scalar functions, the vectors that it loads (one
load serves all lanes and rows that share an element), and what it adds up across lanes. A loop that
carries values takes at least their latency an iteration; a kernel takes at least what its memory
traffic does. Bounds that depend on where a block lies count from the middle, those that depend on
data as if all were selected.

The figures are for one core with vectors of 64 bytes, fitted to measured kernels; they rank texts
of one program and promise no time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tensorc.ir.dtypes import DType, settled
from tensorc.ir.functions import SUM
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Atom, Opaque, Polynomial, Symbol, evaluate, polynomial, substitute
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Literal,
    Read,
    Select,
    Tensor,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store, TileProgram
from tensorc.ir.walk_tile import constant, expressions, reads, tiles, whole
from tensorc.passes.tiling.contiguity import Along, Units, stride_class

GHZ = 3.8
KERNEL = 300.0  # nanoseconds to enter a kernel and leave it
NEAR, FAR_AWAY = 1 << 20, 32 << 20  # bytes that the second cache holds, and the last one
NEAR_RATE, RATE, FAR_RATE = 200.0, 80.0, 30.0  # bytes a nanosecond from each, and from beyond
PLAIN = 0.5  # cycles of a vector operation, a multiplication and addition, or a load
ACROSS, GATHER = 5.0, 2.0  # cycles to add up a vector's lanes; to load one lane on its own
LATENCY: dict[str, float] = {"max": 12, "min": 12}  # cycles until a result can be used
USUAL = 4.0  # latency of the others
COSTLY: dict[str, float] = {  # cycles of one vector
    "div": 8, "sqrt": 8, "rsqrt": 10, "exp": 9, "exp2": 8, "log": 16, "log2": 16, "tanh": 20,
    "sigmoid": 13, "expm1": 14, "log1p": 20, "floordiv": 40, "mod": 40, "max": 1.5, "min": 1.5,
}  # fmt: skip
REGISTERS = 24  # vectors of one tile that stay in them
SCALAR = frozenset("sin cos tan asin acos atan sinh cosh erf erfc lgamma pow atan2".split())
CALL = 25.0  # cycles of a library function, for each lane


def estimate(program: TileProgram, sizes: Mapping[str, int], lanes: int, units: Units) -> float:
    """Nanoseconds of all kernels. `sizes`: of every index and of `const` parameters that sizes
    use; `lanes`: elements of 32 bits in a vector; `units`: as in `lower`."""
    known = {Symbol(name, kind): size for name, size in sizes.items() for kind in (
        "extent", "parameter")}  # fmt: skip
    extents = {name: evaluate(size, known) for name, size in program.extents}
    known |= {Symbol(name, "extent"): size for name, size in extents.items()}
    return sum(_Kernel(kernel, known, extents, lanes, units).time() for kernel in program.kernels)


Waits = dict[str, float]  # carried tile to cycles from when it is there to when a value is


class _Kernel:
    """One kernel being walked. `open`: lanes of the blocks of indices that are bound here."""

    def __init__(
        self, kernel: Kernel, known: Mapping[Symbol, int], extents: Mapping[str, int],
        lanes: int, units: Units,
    ) -> None:  # fmt: skip
        self.kernel, self.known, self.extents = kernel, known, extents
        self.lanes, self.units = lanes, units
        self.open = whole(kernel)
        self.spaces = {tile.name: tile.space for tile in tiles(kernel).values()}
        self.ready: dict[str, Waits] = {}  # what a tile waits for in an iteration
        self.near: set[Read] = set()  # what the innermost body has loaded
        self.loops: list[str] = []  # the indices that are walked here, outermost first

    def time(self) -> float:
        trips = 1
        for block in self.kernel.grid:
            trips *= math.ceil(self.extents[block.index] / block.size)
            self.open[block.index] = block.size
            self.loops.append(block.index)
        cycles = trips * self.body(self.kernel.body)
        return KERNEL + max(cycles / GHZ, self.traffic())

    def traffic(self) -> float:
        """Nanoseconds to move every tensor once."""
        total = sum(self.bytes(tensor) for tensor in {*self.kernel.reads, *self.kernel.writes})
        return total / (NEAR_RATE if total <= NEAR else RATE if total <= FAR_AWAY else FAR_RATE)

    def bytes(self, tensor: Tensor) -> float:
        elements = math.prod(evaluate(size, self.known) for size in tensor.shape)
        return elements * tensor.dtype.bits / 8

    def body(self, body: Iterable[Statement]) -> float:
        """Cycles of the work in a body."""
        total, outside = 0.0, self.near
        self.near = set(outside)
        for item in body:
            match item:
                case Let() | Store():
                    total += self.statement(item)
                case Loop():
                    total += self.loop(item)
                case Each():
                    total += self.body(item.body)
        self.near = outside
        return total

    def loop(self, item: Loop) -> float:
        """Each iteration takes its work, or what its results need to be there for the next."""
        size = self.extents[item.index]
        lower = min(max(self.number(item.lower), 0), size)
        upper = min(max(self.number(item.upper), lower), size)
        trips = math.ceil((upper - lower) / item.block)
        hidden, outer = self.open.get(item.index), self.ready
        self.open[item.index] = item.block
        self.loops.append(item.index)
        carried = [carry.tile.name for carry in item.carries]
        self.ready = {name: {name: 0.0} for name in carried}
        work = self.body(item.body) + 1
        chain = max((self.ready.get(f"{n}'", {}).get(n, 0.0) for n in carried), default=0.0)
        self.ready = outer
        self.loops.pop()
        del self.open[item.index]
        if hidden is not None:
            self.open[item.index] = hidden
        cycles = trips * max(work, chain)
        late = _latest((outer[name] for name in reads(item) if name in outer), cycles)
        if late:
            self.ready |= dict.fromkeys(carried, late)
        return cycles

    def number(self, bound: Polynomial) -> int:
        """A bound, from the middle of the blocks around."""

        def value(atom: Atom) -> Polynomial | None:
            match atom:
                case Symbol(name, "base"):
                    return polynomial(self.extents[name] // 2)
                case Symbol():
                    return polynomial(self.known[atom])
                case Opaque():
                    return polynomial(1 << 40)
                case _:
                    return None

        return substitute(bound, value).constant or 0

    def follows(self, read: Read) -> bool:
        """Whether the next iteration of the innermost loop reads the neighbours."""
        return bool(self.loops) and stride_class(read, self.loops[-1], self.units) is Along.NEXT

    def reach(self, read: Read) -> float:
        """Bytes that are read before the same elements are read again: what the loops touch that
        lie inside the innermost one which changes nothing; or the whole tensor."""
        free = free_indices(read)
        walked = {index: self.extents[index] for index in _last(self.loops, free)}
        if len(walked) == len(set(self.loops)):
            return self.bytes(read.tensor)
        lanes = {i: n for i, n in self.open.items() if i in free and i not in walked}
        elements = math.prod((*walked.values(), *lanes.values()))
        return min(elements * read.tensor.dtype.bits / 8, self.bytes(read.tensor))

    # --- statements -----------------------------------------------------------------------------

    def statement(self, item: Let | Store) -> float:
        """Cycles of the cheapest way to run one index along vectors."""
        exprs = expressions(item)
        free = frozenset[str]().union(*map(free_indices, exprs))
        if isinstance(item, Let):
            free |= {*item.tile.axes, *item.reduced}
        axes = {index: self.open[index] for index in free if self.open.get(index, 1) > 1}
        along = [i for i, n in axes.items() if n & (n - 1) == 0 or n % self.lanes == 0]
        ways = [_Way(self, axes, lane) for lane in along or (None,)]
        best = min(ways, key=lambda way: way.cycles(item))
        cycles = best.cycles(item)
        self.near |= {node for node in postorder(exprs) if isinstance(node, Read)}
        late = best.late(item)
        if isinstance(item, Let) and late:
            self.ready[item.tile.name] = late
        return cycles


@dataclass(frozen=True)
class _Way:
    """A statement with these axes, `lane` of them along vectors."""

    kernel: _Kernel
    axes: Mapping[str, int]
    lane: str | None

    def vectors(self, free: frozenset[str], dtype: DType) -> float:
        """Vectors of what depends on `free` indices."""
        width = max(1, self.kernel.lanes * 32 // max(32, dtype.bits))
        count = 1.0
        for index, size in self.axes.items():
            if index in free:
                count *= math.ceil(size / width) if index == self.lane else size
        return count

    def cycles(self, item: Let | Store) -> float:
        """Of a statement: what is computed, or what is moved, whatever takes longer."""
        return max(self.done(item), self.moved(item))

    def done(self, item: Let | Store) -> float:
        """Cycles of its functions; a multiplication before an addition costs nothing."""
        cycles, sums, products = 0.0, 0.0, 0.0
        for node in postorder(expressions(item)):
            match node:
                case Apply() | Select() | Cast() if constant(node):
                    pass
                case Apply(function, args):
                    count = self.vectors(free_indices(node), settled(value_type(node)))
                    match function.name:
                        case "add" | "sub":
                            sums += (len(args) - 1) * count
                        case "mul":
                            products += (len(args) - 1) * count
                        case _:
                            cycles += self.function(node) * count
                case Select() | Cast():
                    cycles += PLAIN * self.vectors(free_indices(node), settled(value_type(node)))
                case _:
                    pass
        if isinstance(item, Let) and item.op is not None:
            dtype, axes = settled(value_type(item.body)), frozenset(self.axes)
            own = COSTLY.get(item.op.name, PLAIN) * self.vectors(axes, dtype)
            sums, cycles = (sums + own / PLAIN, cycles) if item.op is SUM else (sums, cycles + own)
            if self.lane in item.reduced:
                cycles += ACROSS * self.vectors(frozenset(item.tile.axes), item.tile.dtype)
        return cycles + PLAIN * max(sums, products)

    def function(self, node: Apply) -> float:
        """Cycles of one vector of a function."""
        name = node.function.name
        if name == "pow" and isinstance(node.args[1], Literal):
            return 2 * PLAIN
        if name in SCALAR:
            return CALL * (self.kernel.lanes if self.lane in free_indices(node) else 1)
        own = COSTLY.get(name, PLAIN * max(1, len(node.args) - 1))
        return own if self.lane in free_indices(node) or own <= PLAIN else own / 2

    def moved(self, item: Let | Store) -> float:
        """Cycles of loads and stores."""
        total = 0.0
        for node in postorder(expressions(item)):
            if isinstance(node, Read):
                total += self.access(node)
            elif isinstance(node, Value) and self.kernel.spaces.get(node.tile) == "memory":
                total += PLAIN * self.vectors(frozenset(node.axes), node.dtype)
        if isinstance(item, Store):
            return total + 2 * self.access(Read(item.tensor, item.subscripts))
        own = self.vectors(frozenset(item.tile.axes), item.tile.dtype)
        if item.tile.space == "memory" or own > REGISTERS:
            total += 2 * PLAIN * own
        return total

    def access(self, read: Read) -> float:
        """Loading, or storing, what a read touches."""
        free = free_indices(read)
        vectors = self.vectors(free, read.tensor.dtype)
        size = 0.0 if read in self.kernel.near else self.kernel.reach(read)
        each = PLAIN if size <= NEAR else 3.0 if size <= FAR_AWAY else 6.0
        if self.lane is not None and self.lane in free:
            if stride_class(read, self.lane, self.kernel.units) is Along.FAR:
                far = 3 * each if size > NEAR and not self.kernel.follows(read) else 0.0
                lanes = min(self.kernel.lanes, self.axes[self.lane])
                return max(far, GATHER) * lanes * vectors
        elif size > NEAR:
            each = PLAIN  # one element for all lanes: its neighbours come with it
        return each * vectors

    def late(self, item: Let | Store) -> Waits:
        """What the result waits for."""
        ready = self.kernel.ready
        found: dict[object, Waits] = {}
        for node in postorder(expressions(item)):
            if isinstance(node, Value):
                found[node] = ready.get(node.tile, {})
            else:
                operands = (found[item] for item in _operands(node) if item in found)
                found[node] = _latest(operands, _latency(node))
        last = [found[node] for node in expressions(item)]
        if not isinstance(item, Let) or item.op is None:
            return _latest(last, 0.0)
        across = 2 * ACROSS if self.lane in item.reduced else 0.0
        waits = [_latest(last, across)]
        if item.onto is not None:
            waits.append(ready.get(item.onto.name, {}))
        return _latest(waits, LATENCY.get(item.op.name, USUAL))


def _last(loops: Sequence[str], free: frozenset[str]) -> list[str]:
    """The innermost loops that are all over `free` indices."""
    return list(takewhile(free.__contains__, reversed(loops)))


def _latest(items: Iterable[Waits], more: float) -> Waits:
    """The longest waits among several, and some cycles more."""
    found: Waits = {}
    for item in items:
        for name, cycles in item.items():
            found[name] = max(found.get(name, 0.0), cycles + more)
    return found


def _latency(node: object) -> float:
    if isinstance(node, Apply):
        name = node.function.name
        return LATENCY.get(name, USUAL + 2 * COSTLY.get(name, 0.0))
    return 1.0 if isinstance(node, Select) else 0.0


def _operands(node: object) -> tuple[object, ...]:
    match node:
        case Apply(_, args):
            return args
        case Select(condition, yes, no):
            return (condition, yes, no)
        case Cast(_, arg):
            return (arg,)
        case _:
            return ()
