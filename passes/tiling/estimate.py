"""How long level 2 takes on a CPU, estimated by walking its text once.

Each statement is taken to be done in vectors: its scalar functions, the vectors that it loads (one
load serves all lanes and rows that share an element), and what it adds up across lanes. A loop that
carries values takes at least their latency an iteration; a kernel takes at least what its memory
traffic does. Bounds that depend on where a block lies count from the middle, those that depend on
data as if all were selected.

The figures are for a core of about 3 GHz with vectors of 64 bytes; they rank texts of one program
and promise no time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorc.ir.dtypes import DType, settled
from tensorc.ir.node import postorder
from tensorc.ir.polynomial import Atom, Opaque, Polynomial, Symbol, evaluate, polynomial, substitute
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Expr,
    Read,
    Select,
    Tensor,
    Value,
    free_indices,
    value_type,
)
from tensorc.ir.tile import Each, Kernel, Let, Loop, Statement, Store, TileProgram
from tensorc.ir.walk_tile import expressions, tiles, whole
from tensorc.passes.tiling.contiguity import Along, Units, stride_class

GHZ = 3.0
KERNEL = 300.0  # nanoseconds to enter a kernel and leave it
NEAR, FAR_AWAY = 1 << 20, 32 << 20  # bytes that the second cache holds, and the last one
PLAIN, LATENCY, ACROSS, GATHER = 0.5, 4.0, 10.0, 1.0  # cycles: a vector operation; ... ; a lane
COSTLY: dict[str, float] = {  # cycles of one vector
    "div": 10, "sqrt": 12, "rsqrt": 12, "exp": 8, "exp2": 7, "log": 14, "log2": 14, "tanh": 20,
    "sigmoid": 18, "expm1": 14, "log1p": 20, "floordiv": 40, "mod": 40,
}  # fmt: skip
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


@dataclass(frozen=True)
class _Cost:
    """Cycles: of work that overlaps with other work, and of a chain that does not."""

    work: float = 0.0
    chain: float = 0.0

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(self.work + other.work, self.chain + other.chain)

    @property
    def most(self) -> float:
        return max(self.work, self.chain)


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

    def time(self) -> float:
        trips = 1
        for block in self.kernel.grid:
            trips *= math.ceil(self.extents[block.index] / block.size)
            self.open[block.index] = block.size
        cycles = trips * self.body(self.kernel.body).most
        return KERNEL + max(cycles / GHZ, self.traffic())

    def traffic(self) -> float:
        """Nanoseconds to move every tensor once."""
        total = sum(self.bytes(tensor) for tensor in {*self.kernel.reads, *self.kernel.writes})
        return total / (40.0 if total <= NEAR else 10.0)

    def bytes(self, tensor: Tensor) -> float:
        elements = math.prod(evaluate(size, self.known) for size in tensor.shape)
        return elements * tensor.dtype.bits / 8

    def body(self, body: Iterable[Statement]) -> _Cost:
        total = _Cost()
        for item in body:
            match item:
                case Let() | Store():
                    total += self.statement(item)
                case Loop():
                    total += self.loop(item)
                case Each():
                    total += self.body(item.body)
        return total

    def loop(self, item: Loop) -> _Cost:
        size = self.extents[item.index]
        lower = min(max(self.number(item.lower), 0), size)
        upper = min(max(self.number(item.upper), lower), size)
        hidden = self.open.get(item.index)
        self.open[item.index] = item.block
        once = self.body(item.body)
        del self.open[item.index]
        if hidden is not None:
            self.open[item.index] = hidden
        trips = math.ceil((upper - lower) / item.block)
        chain = once.chain + LATENCY if item.carries else 0.0
        return _Cost(trips * max(once.work + 1, chain), 0.0)

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

    # --- statements -----------------------------------------------------------------------------

    def statement(self, item: Let | Store) -> _Cost:
        """The cheapest way to run one index along vectors."""
        exprs = expressions(item)
        free = frozenset[str]().union(*map(free_indices, exprs))
        if isinstance(item, Let):
            free |= {*item.tile.axes, *item.reduced}
        axes = {index: self.open[index] for index in free if self.open.get(index, 1) > 1}
        along = [index for index, size in axes.items() if size & (size - 1) == 0]
        ways: list[str | None] = [*along] if along else [None]
        return min((self.vectorised(item, axes, way) for way in ways), key=lambda c: c.work)

    def vectorised(self, item: Let | Store, axes: Mapping[str, int], lane: str | None) -> _Cost:
        """The cycles of a statement with `lane` along vectors."""
        way = _Way(self, axes, lane)
        total = sum(way.cycles(node) for node in postorder(expressions(item)))
        chain = way.longest(expressions(item))
        if isinstance(item, Store):
            written = Read(item.tensor, item.subscripts)
            return _Cost(total + 2 * way.access(written), 0.0)
        if item.op is not None:
            total += PLAIN * way.vectors(frozenset(axes), settled(value_type(item.body)))
        if item.op is not None and lane in item.reduced:
            total += ACROSS * way.vectors(frozenset(item.tile.axes), item.tile.dtype)
            chain += ACROSS
        if item.tile.space == "memory":
            total += 2 * PLAIN * way.vectors(frozenset(item.tile.axes), item.tile.dtype)
        few = way.vectors(frozenset(item.tile.axes), item.tile.dtype) < 4
        return _Cost(total, chain if few else 0.0)


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

    def cycles(self, node: object) -> float:
        """Those of one node of an expression, its operands not counted."""
        match node:
            case Apply(function, args):
                dtype, free = settled(value_type(node)), free_indices(node)
                if function.name in SCALAR:
                    lanes = math.prod(n for i, n in self.axes.items() if i in free)
                    return CALL * lanes
                own = COSTLY.get(function.name, PLAIN * max(1, len(args) - 1))
                return own * self.vectors(free, dtype)
            case Select() | Cast():
                return PLAIN * self.vectors(free_indices(node), settled(value_type(node)))
            case Read():
                return self.access(node)
            case Value(tile, axes, dtype) if self.kernel.spaces.get(tile) == "memory":
                return PLAIN * self.vectors(frozenset(axes), dtype)
            case _:
                return 0.0

    def access(self, read: Read) -> float:
        """Loading, or storing, what a read touches."""
        free = free_indices(read)
        vectors = self.vectors(free, read.tensor.dtype)
        size = self.kernel.bytes(read.tensor)
        each = PLAIN if size <= NEAR else 3.0 if size <= FAR_AWAY else 6.0
        if self.lane is not None and self.lane in free:
            if stride_class(read, self.lane, self.kernel.units) is Along.FAR:
                lanes = min(self.kernel.lanes, self.axes[self.lane])
                return max(each, GATHER) * lanes * vectors
        elif size > NEAR:
            each = PLAIN  # one element for all lanes: its neighbours come with it
        return each * vectors

    def longest(self, exprs: Iterable[Expr]) -> float:
        """Latency of the longest chain of operations."""
        found: dict[object, float] = {}
        for node in postorder(exprs):
            own = 0.0
            if isinstance(node, Apply):
                own = LATENCY + 2 * COSTLY.get(node.function.name, 0.0)
            elif isinstance(node, Select):
                own = 1.0
            found[node] = own + max((found[c] for c in _operands(node) if c in found), default=0.0)
        return max(found.values(), default=0.0)


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
