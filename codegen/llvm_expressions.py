"""Scalar expressions of level 2 as LLVM IR: positions, reads, functions, guards.

An expression is computed once per region in which its operands are known and with as many lanes as
it needs. A guard (the condition of a select, the left operands of `and` and `or`, the last partial
block) becomes a mask: a read outside it touches no memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_convert import (
    as_i64,
    bitcast,
    convert,
    narrowed,
    nonzero,
    rounded,
    widened,
)
from tensorc.codegen.llvm_functions import FUNCTIONS
from tensorc.codegen.llvm_guards import Guards
from tensorc.codegen.llvm_types import Operand, memory_type, register_type, vector_of
from tensorc.ir.affine import coefficient, is_whole
from tensorc.ir.constants import fold
from tensorc.ir.dtypes import BOOL, I8, I64, DType, value_of
from tensorc.ir.node import fact, postorder
from tensorc.ir.polynomial import Polynomial
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Tensor,
    Value,
    free_indices,
    operand_types,
    resolved,
    value_type,
)


@fact
def values_in(expr: Expr) -> tuple[Value, ...]:
    """The tiles that an expression reads, each once."""
    return tuple(item for item in postorder([expr]) if isinstance(item, Value))


@dataclass
class Storage:
    """A tensor in memory: its base pointer, and strides in elements, constants where known."""

    pointer: str
    strides: tuple[Operand, ...]


@dataclass
class Scope:
    """What expressions may name: memory, tiles, extents, and static sizes for folding."""

    storage: dict[str, Storage]
    extents: dict[str, Operand]
    static: Mapping[str, int]
    shapes: Mapping[str, Polynomial]
    checks: Mapping[tuple[Read, int], int]
    error: str
    tiles: dict[tuple[str, int], Operand] = field(default_factory=dict[tuple[str, int], Operand])
    row: tuple[str, int] | None = None  # the index whose rows are unrolled, and the current row
    positions: dict[str, Operand] = field(default_factory=dict[str, Operand])


class Expressions:
    """Emits the value of an expression at the current point."""

    def __init__(self, builder: Builder, scope: Scope) -> None:
        self.b, self.scope = builder, scope
        self.guards = Guards(scope.shapes)

    def value(
        self, expr: Expr, wanted: DType, mask: Operand | None = None, first: bool = False
    ) -> Operand:
        """The value of `expr` as value type `wanted`; `first`: in lane 0 of every block only."""
        known = fold(expr, self.scope.static) if value_type(expr).weak else None
        if known is not None and not value_type(expr).complex:
            return self.b.const(known, wanted)
        dtype = resolved(value_type(expr), wanted)
        return convert(self.b, self.remembered(expr, dtype, mask, first), wanted)

    def remembered(self, expr: Expr, dtype: DType, mask: Operand | None, first: bool) -> Operand:
        """Emit once; later uses in the same or deeper regions find it."""
        row = self.row_in(free_indices(expr))
        # A tile has another value in each copy of a loop's body, so it counts with its value.
        tiles = tuple(self.tile(item).ref for item in values_in(expr))
        place = (first, row, tiles)
        ref = mask.ref if mask else ""
        for wider in self.guards.wider(ref):
            for region in self.b.regions:
                if (expr, dtype, wider, *place) in region.known:
                    return region.known[expr, dtype, wider, *place]
        made = self.compute(expr, dtype, mask, first)
        self.b.regions[made.depth].known[expr, dtype, ref, *place] = made
        return made

    def compute(self, expr: Expr, dtype: DType, mask: Operand | None, first: bool) -> Operand:
        match expr:
            case Literal(value, _):
                return self.b.const(value, dtype)
            case Extent(index):
                return convert(self.b, self.scope.extents[index], dtype)
            case Position(index):
                return convert(self.b, self.position(index, first), dtype)
            case Value():
                return self.tile(expr)
            case Read():
                return self.read(expr, mask, first)
            case Select(condition, yes, no):
                return self.select(condition, yes, no, dtype, mask, first)
            case Apply(function, args) if function.name in ("and", "or"):
                return self.lazy(function.name, args, mask, first)
            case Apply(function, args):
                types = operand_types(expr, dtype)
                operands = [
                    self.value(arg, kind, mask, first)
                    for arg, kind in zip(args, types, strict=True)
                ]
                return convert(self.b, FUNCTIONS[function.name](self.b, operands), dtype)
            case Cast(target, arg):
                return self.cast(arg, target, mask, first)
            case Bitcast(target, arg):
                source = stored_type(arg)
                bits = self.value(arg, value_of(source), mask, first)
                return bitcast(self.b, bits, source, target)
            case Round() | Reduce() | Seen():
                raise AssertionError(f"{type(expr).__name__} does not reach LLVM")

    def tile(self, item: Value) -> Operand:
        """A tile's value here, in the current row."""
        return self.scope.tiles[item.tile, self.row_in(item.axes)]

    def row_in(self, indices: Collection[str]) -> int:
        """The current row, if the unrolled index is among `indices`; else 0."""
        row = self.scope.row
        return row[1] if row is not None and row[0] in indices else 0

    def position(self, index: str, first: bool) -> Operand:
        """The index as i64: its block's base, plus the row or the lane."""
        base = self.scope.positions[index]
        row = self.row_in((index,))
        if row:
            base = self.b.add(base, self.b.const(row, I64))
        lanes = self.lanes_of(index)
        return base if first or lanes == 1 else self.b.op("add", base, self.b.iota(lanes))

    def lanes_of(self, index: str) -> int:
        """How many lanes the open block of an index has."""
        return next((r.lanes for r in reversed(self.b.regions) if r.index == index), 1)

    def cast(self, arg: Expr, target: DType, mask: Operand | None, first: bool) -> Operand:
        own = value_type(arg)
        wanted = value_of(target) if own.weak and own.floating == target.floating else own
        return rounded(self.b, self.value(arg, resolved(own, wanted), mask, first), target)

    def select(
        self, condition: Expr, yes: Expr, no: Expr, dtype: DType, mask: Operand | None, first: bool
    ) -> Operand:
        test = self.value(condition, BOOL, mask, first)
        for item in self.guards.shared(yes, no):
            self.value(item, resolved(value_type(item), dtype), mask, first)
        matter = self.guards.matter
        negated = FUNCTIONS["not"](self.b, [test]) if matter(no) else None
        chosen = self.value(yes, dtype, self.both(mask, test) if matter(yes) else mask, first)
        other = self.value(no, dtype, self.both(mask, negated), first)
        return self.b.select(test, chosen, other)

    def lazy(self, name: str, args: tuple[Expr, ...], mask: Operand | None, first: bool) -> Operand:
        """`and` and `or`: what comes first guards the reads of what follows."""
        total = self.value(args[0], BOOL, mask, first)
        for arg in args[1:]:
            test = total if name == "and" else FUNCTIONS["not"](self.b, [total])
            inner = self.both(mask, test) if self.guards.matter(arg) else mask
            total = self.b.op(name, total, self.value(arg, BOOL, inner, first))
        return total

    def both(self, mask: Operand | None, test: Operand | None) -> Operand | None:
        if test is None:
            return mask
        both = test if mask is None else self.b.op("and", mask, test)
        self.guards.narrowed("" if mask is None else mask.ref, both.ref)
        return both

    def domain(self, index: str | None) -> Operand | None:
        """In a last partial block of `index`, the lanes inside its range."""
        for region in reversed(self.b.regions):
            if index is not None and region.index == index:
                if not region.edge or region.lanes == 1:
                    return None
                position = self.value(Position(index), I64)
                return self.b.op("icmp slt", position, self.scope.extents[index], BOOL)
        return None

    def lane_index(self, exprs: tuple[Expr, ...]) -> str | None:
        """The one index among those of `exprs` that runs along vector lanes here."""
        free = frozenset[str]().union(*(free_indices(item) for item in exprs))
        return next((index for index in sorted(free) if self.lanes_of(index) > 1), None)

    def read(self, read: Read, mask: Operand | None, first: bool) -> Operand:
        """Load the element, widened: one address, a run of neighbours, or a gather."""
        lane = None if first else self.lane_index(read.subscripts)
        mask = self.checked(read, mask, lane, first)
        offset, run = self.offset(read.tensor, read.subscripts, mask, lane)
        varies = run or offset.lanes > 1
        guard = self.both(mask, self.domain(lane)) if varies else self.somewhere(mask)
        lanes = self.lanes_of(lane) if run and lane else offset.lanes
        # Only a read of whole dimensions is in range wherever its indices are; others stay where
        # they stand, since a loop around them may run no times.
        least = self.region_of(lane) if is_whole(read, self.scope.shapes) else self.b.depth
        raw = self.load(read.tensor, offset, run, lanes, guard, least)
        return widened(self.b, raw, read.tensor.dtype)

    def somewhere(self, mask: Operand | None) -> Operand | None:
        """Whether any lane holds: what every lane reads alike is read if one lane needs it."""
        if mask is None or mask.lanes == 1:
            return mask
        callee = f"llvm.vector.reduce.or.v{mask.lanes}i1"
        self.b.declare(callee, "i1", mask.type)
        return self.b.result(f"call i1 @{callee}({mask})", BOOL, 1, mask.depth)

    def region_of(self, index: str | None) -> int:
        """The depth of the region that binds `index`; 0 without one."""
        return max((r.depth for r in self.b.regions if index and r.index == index), default=0)

    def offset(
        self, tensor: Tensor, subscripts: tuple[Expr, ...], mask: Operand | None, lane: str | None
    ) -> tuple[Operand, bool]:
        """(element offset, whether lanes are neighbours from there on).

        Lanes are neighbours when every subscript is affine in the lane's index and the strides
        add up to the constant 1; then the offset is lane 0's.
        """
        strides = self.scope.storage[tensor.name].strides
        run = lane is not None and self.neighbours(subscripts, strides, lane)
        return self.dot(subscripts, strides, mask, run or lane is None), run

    def neighbours(
        self, subscripts: tuple[Expr, ...], strides: tuple[Operand, ...], index: str
    ) -> bool:
        moves = [coefficient(subscript, index) for subscript in subscripts]
        active = [(move, s.ref) for move, s in zip(moves, strides, strict=True) if move != 0]
        return active == [(1, "1")]

    def dot(
        self, subscripts: tuple[Expr, ...], strides: tuple[Operand, ...], mask: Operand | None,
        first: bool,
    ) -> Operand:  # fmt: skip
        total = self.b.const(0, I64)
        for subscript, stride in zip(subscripts, strides, strict=True):
            position = as_i64(self.b, self.integer(subscript, mask, first))
            total = self.b.add(total, self.b.mul(position, stride))
        return total

    def integer(self, subscript: Expr, mask: Operand | None, first: bool) -> Operand:
        """A subscript in its own integer type: what wraps at 32 bits must wrap there."""
        return self.value(subscript, resolved(value_type(subscript), I64), mask, first)

    def load(
        self, tensor: Tensor, offset: Operand, run: bool, lanes: int, mask: Operand | None,
        least: int,
    ) -> Operand:  # fmt: skip
        """The stored elements, as registers of the storage type, loaded at depth `least` or
        deeper."""
        element = memory_type(tensor.dtype)
        base = self.scope.storage[tensor.name].pointer
        if lanes == 1:
            return self.load_one(tensor, element, base, offset, mask, least)
        depth = max(offset.depth, mask.depth if mask else 0, least)
        kind, align = vector_of(element, lanes), max(1, tensor.dtype.bits // 8)
        test = self.b.splat(mask or self.b.const(1, BOOL), lanes)
        if run:
            address = self.address(element, base, offset)
            if mask is None:
                text = f"load {kind}, ptr {address}, align {align}"
            else:
                text = self.masked("masked.load", kind, f"ptr {address}", align, test, "p0")
        else:
            spread = self.b.splat(offset, lanes)
            address = self.b.raw(
                f"getelementptr {element}, ptr {base}, {spread.type} {spread.ref}", spread.depth
            )
            pointers = f"<{lanes} x ptr> {address}"
            text = self.masked("masked.gather", kind, pointers, align, test, f"v{lanes}p0")
        return self.from_memory(self.b.raw(text, depth), tensor.dtype, lanes, depth)

    def masked(
        self, name: str, kind: str, address: str, align: int, test: Operand, pointer: str
    ) -> str:
        """A masked load or gather; lanes outside the mask are zero."""
        shape = kind[1:-1].replace(" x ", "").replace("float", "f32").replace("double", "f64")
        shape = shape.replace("half", "f16")
        callee = f"llvm.{name}.v{shape}.{pointer}"
        self.b.declare(callee, kind, f"{address.rsplit(' ', 1)[0]}, i32, {test.type}, {kind}")
        return f"call {kind} @{callee}({address}, i32 {align}, {test}, {kind} zeroinitializer)"

    def load_one(
        self, tensor: Tensor, element: str, base: str, offset: Operand, mask: Operand | None,
        least: int,
    ) -> Operand:  # fmt: skip
        """Under a guard the address is moved to element 0, which every buffer has."""
        if mask is not None:
            offset = self.b.select(mask, offset, self.b.const(0, I64))
        address = self.address(element, base, offset)
        align = max(1, tensor.dtype.bits // 8)
        depth = max(offset.depth, least)
        raw = self.b.raw(f"load {element}, ptr {address}, align {align}", depth)
        return self.from_memory(raw, tensor.dtype, 1, depth)

    def address(self, element: str, base: str, offset: Operand) -> str:
        return self.b.raw(f"getelementptr {element}, ptr {base}, i64 {offset.ref}", offset.depth)

    def from_memory(self, raw: str, dtype: DType, lanes: int, depth: int) -> Operand:
        if dtype is BOOL:
            return nonzero(self.b, Operand(raw, I8, lanes, depth))
        return Operand(raw, register_type(dtype), lanes, depth)

    def checked(
        self, read: Read, mask: Operand | None, lane: str | None, first: bool
    ) -> Operand | None:
        """Compare subscripts that hold data; a lane that leaves the tensor is masked off and the
        check's number is written to the error word."""
        for axis, subscript in enumerate(read.subscripts):
            number = self.scope.checks.get((read, axis))
            if number is None:
                continue
            position = as_i64(self.b, self.integer(subscript, mask, first))
            inside = self.b.op("icmp ult", position, self.size(read.tensor, axis), BOOL)
            self.report(number, inside, mask, lane)
            mask = self.both(mask, inside)
        return mask

    def size(self, tensor: Tensor, axis: int) -> Operand:
        return self.scope.extents[f"{tensor.name}.{axis}"]

    def report(self, number: int, inside: Operand, mask: Operand | None, lane: str | None) -> None:
        outside = FUNCTIONS["not"](self.b, [inside])
        if outside.lanes > 1:
            mask = self.both(mask, self.domain(lane))
        bad = outside if mask is None else self.b.op("and", mask, outside)
        bad = self.somewhere(bad) or bad
        old = self.b.result(f"load i64, ptr {self.scope.error}, align 8", I64, 1, bad.depth)
        new = self.b.select(bad, self.b.const(number, I64), old)
        self.b.emit(f"store {new}, ptr {self.scope.error}, align 8", new.depth)

    def store(self, tensor: Tensor, subscripts: tuple[Expr, ...], value: Operand) -> None:
        """Store a value, rounded to the tensor's type, in the lanes inside the domain."""
        lane = self.lane_index(subscripts)
        offset, run = self.offset(tensor, subscripts, None, lane)
        lanes = self.lanes_of(lane) if lane else 1
        stored = narrowed(self.b, value, tensor.dtype)
        if tensor.dtype is BOOL:
            stored = self.b.convert("zext", stored, I8)
        stored = self.b.splat(stored, lanes)
        element, base = memory_type(tensor.dtype), self.scope.storage[tensor.name].pointer
        align, depth = max(1, tensor.dtype.bits // 8), self.b.depth
        mask = self.domain(lane) if lanes > 1 else None
        kind = vector_of(element, lanes)
        if lanes == 1 or (run and mask is None):
            address = self.address(element, base, offset)
            self.b.emit(f"store {kind} {stored.ref}, ptr {address}, align {align}", depth)
            return
        test = self.b.splat(mask or self.b.const(1, BOOL), lanes)
        self.masked_store(kind, stored, element, base, offset, run, align, test)

    def masked_store(
        self, kind: str, stored: Operand, element: str, base: str, offset: Operand, run: bool,
        align: int, test: Operand,
    ) -> None:  # fmt: skip
        name = "masked.store" if run else "masked.scatter"
        spread = offset if run else self.b.splat(offset, stored.lanes)
        address = self.b.raw(
            f"getelementptr {element}, ptr {base}, {spread.type} {spread.ref}", spread.depth
        )
        pointer = "ptr" if run else f"<{stored.lanes} x ptr>"
        shape = kind[1:-1].replace(" x ", "").replace("float", "f32").replace("double", "f64")
        tail = "p0" if run else f"v{stored.lanes}p0"
        callee = f"llvm.{name}.v{shape.replace('half', 'f16')}.{tail}"
        self.b.declare(callee, "void", f"{kind}, {pointer}, i32, {test.type}")
        self.b.emit(
            f"call void @{callee}({kind} {stored.ref}, {pointer} {address}, i32 {align}, {test})",
            self.b.depth,
        )


def stored_type(expr: Expr) -> DType:
    """The type as which the bits of an expression are stored, for a bitcast."""
    match expr:
        case Read(tensor, _):
            return tensor.dtype
        case Cast(dtype, _) | Bitcast(dtype, _) | Value(_, _, dtype):
            return dtype
        case _:
            return resolved(value_type(expr), I64)
