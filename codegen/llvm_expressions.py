"""Scalar expressions of level 2 as LLVM IR: positions, reads, tiles, functions, guards.

An expression is computed once per region in which its operands are known and with as many lanes as
it needs. A guard (the condition of a select, the left operands of `and` and `or`, the lanes of a
partial block) becomes a mask: a read outside it touches no memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorc.codegen import llvm_memory
from tensorc.codegen.llvm_ahead import AHEAD, LINE
from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_convert import as_i64, bitcast, convert, rounded, widened
from tensorc.codegen.llvm_functions import FUNCTIONS
from tensorc.codegen.llvm_guards import Guards
from tensorc.codegen.llvm_places import step_of
from tensorc.codegen.llvm_scope import ZERO, Scope, values_in
from tensorc.codegen.llvm_tiles import Tiles
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.affine import coefficient, is_whole, literal_integer
from tensorc.ir.constants import fold
from tensorc.ir.dtypes import BOOL, I32, I64, DType, value_of
from tensorc.ir.node import fact
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


class Expressions:
    """Emits the value of an expression at the current point."""

    def __init__(
        self, builder: Builder, scope: Scope, tiles: Tiles,
        streams: Mapping[Read, tuple[str, int]],
    ) -> None:  # fmt: skip
        """`streams`: reads to fetch ahead, see `llvm_ahead`."""
        self.b, self.scope, self.tiles, self.streams = builder, scope, tiles, streams
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
        # A tile has another value in each copy of a loop's body, so it counts with its value.
        tiles = tuple(map(self.tile_key, values_in(expr)))
        place = (first, self.scope.place(expr), tiles)
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
            case Value(name, _, _) if name in self.scope.views:
                return self.value(self.scope.views[name], dtype, mask, first)
            case Value():
                return self.tiles.read(expr)
            case Seen(index, after):
                return convert(self.b, self.seen(index, after), dtype)
            case Read() if expr in self.scope.turned:
                return self.scope.turned[expr]
            case Read():
                return self.read(expr, mask, first)
            case Select(condition, yes, no):
                return self.select(condition, yes, no, dtype, mask, first)
            case Apply(function, (Position(index), Extent(size))) if (
                function.name == "lt" and index == size
            ):
                return self.inside(index, first)
            case Apply(function, (left, right)) if (
                function.name in _LESS and not first and self.ramps(left, right)
            ):
                return self.lanes_where(function.name, left, right)
            case Apply(function, args) if function.name in ("and", "or"):
                return self.lazy(function.name, args, mask, first)
            case Apply(function, (base, exponent)) if function.name == "pow" and _few(exponent):
                kind, _ = operand_types(expr, dtype)
                factors = [self.value(base, kind, mask, first)] * _few(exponent)
                return convert(self.b, FUNCTIONS["mul"](self.b, factors), dtype)
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
            case Round() | Reduce():
                raise AssertionError(f"{type(expr).__name__} does not reach LLVM")

    def tile_key(self, item: Value) -> object:
        """What tells the present value of a tile apart; a view's is its place alone."""
        return None if item.tile in self.scope.views else self.tiles.key(item)

    def position(self, index: str, first: bool) -> Operand:
        """The index as i64: where its first lane is, plus the lane."""
        base = self.scope.positions.get(index, ZERO)
        width = self.scope.widths.get(index, 1)
        return base if first or width == 1 else self.b.op("add", base, self.b.iota(width))

    def seen(self, index: str, after: bool) -> Operand:
        """Elements that a loop consumed before this block, or with it."""
        walk, b = self.scope.walks[index], self.b
        base = self.scope.bases[index]
        past = b.add(base, b.const(walk.block, I64))
        if walk.end is None:
            end = b.extreme("min", past, self.scope.extents[index])
            return b.minus(end if after else base, walk.lower)
        return b.extreme("max", b.minus(walk.end, base if after else past), ZERO)

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

    def domain(self, indices: Iterable[str]) -> Operand | None:
        """Of indices that may leave their extent here, the lanes inside."""
        total: Operand | None = None
        for index in sorted(self.scope.edges.intersection(indices)):
            total = self.both(total, self.inside(index, False))
        return total

    def ramps(self, left: Expr, right: Expr) -> bool:
        """Whether one side is a position, or something beside it, that grows by 1 from lane to
        lane, and the other is the same on all."""
        if not (_is_position(left) and _is_position(right)):
            return False
        lane = self.scope.vector((left, right))
        moves = {coefficient(left, lane), coefficient(right, lane)} if lane else set[int | None]()
        return moves == {0, 1}

    def lanes_where(self, name: str, left: Expr, right: Expr) -> Operand:
        """A comparison of such sides, in 32 bits: of the number of a lane with how far the other
        side is from lane 0."""
        lane, b = self.scope.vector((left, right)) or "", self.b
        rising = coefficient(left, lane) == 1
        moving, still = (left, right) if rising else (right, left)
        start, end = (self.value(side, I64, None, True) for side in (moving, still))
        width = self.scope.widths[lane]
        far = b.extreme("min", b.minus(end, start), b.const(width, I64))
        far = convert(b, b.extreme("max", far, b.const(-1, I64)), I32)
        sides = (b.iota(width, I32), far) if rising else (far, b.iota(width, I32))
        return b.op(f"icmp {_LESS[name]}", *sides, BOOL)

    def inside(self, index: str, first: bool) -> Operand:
        """The lanes of an index that lie in its extent: of a vector those below what is left of
        it, which 32 bits hold."""
        base, size = self.scope.positions.get(index, ZERO), self.scope.extents[index]
        width = self.scope.widths.get(index, 1)
        if first or width == 1:
            return self.b.op("icmp slt", base, size, BOOL)
        left = self.b.extreme("min", self.b.minus(size, base), self.b.const(width, I64))
        left = self.b.extreme("max", left, ZERO)
        return self.b.op("icmp sgt", convert(self.b, left, I32), self.b.iota(width, I32), BOOL)

    def read(self, read: Read, mask: Operand | None, first: bool) -> Operand:
        """Load the element, widened: one address, a run of lanes, or a gather. What is in range
        wherever its indices are needs no mask."""
        lane = None if first else self.scope.vector(read.subscripts)
        whole = is_whole(read, self.scope.shapes)
        mask = self.checked(read, None if whole else mask, first)
        offset, step = self.offset(read.tensor, read.subscripts, mask, lane)
        guard = self.both(mask, self.domain(free_indices(read)))
        varies = step or offset.lanes > 1
        guard = guard if varies else self.somewhere(guard)
        lanes = self.scope.widths[lane] if step and lane else offset.lanes
        # Only a read of whole dimensions is in range wherever its indices are; others stay where
        # they stand, since a loop around them may run no times. Lanes without a mask are in range
        # where their block is known to be full.
        least = max(self.region_of(lane), *map(self.scope.full_in, free_indices(read)), 0)
        least = least if whole else self.b.depth
        base = self.scope.storage[read.tensor.name].pointer
        dtype = read.tensor.dtype
        raw = llvm_memory.load(self.b, base, dtype, offset, step, lanes, guard, least)
        if read in self.streams and step == 1 and guard is None and raw.depth == self.b.depth:
            self.fetch(read, lane or "", offset, lanes)
        return widened(self.b, raw, dtype)

    def fetch(self, read: Read, lane: str, offset: Operand, lanes: int) -> None:
        """Ask for what the loop around a stream reads next but a few."""
        index, block = self.streams[read]
        tensor, storage = read.tensor, self.scope.storage[read.tensor.name]
        size = max(1, tensor.dtype.bits // 8)
        far = self.b.const(AHEAD // size, I64)
        if index != lane:
            steps = max(1, AHEAD // (lanes * size)) * block
            moves = [coefficient(subscript, index) or 0 for subscript in read.subscripts]
            far = self.b.const(0, I64)
            for move, stride in zip(moves, storage.strides, strict=True):
                far = self.b.add(far, self.b.mul(stride, self.b.const(move * steps, I64)))
        for line in range(0, lanes * size, LINE):
            place = self.b.add(offset, self.b.add(far, self.b.const(line // size, I64)))
            llvm_memory.fetch(self.b, storage.pointer, tensor.dtype, place)

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
    ) -> tuple[Operand, int]:
        """(element offset, how far lanes are apart from there on); where that is known (not 0), the
        offset is lane 0's."""
        strides, step = self.scope.storage[tensor.name].strides, 0
        if lane is not None:
            places, width = [s.ref for s in strides], self.scope.widths[lane]
            step = step_of(subscripts, places, lane, width, tensor.dtype.bits)
        return self.dot(subscripts, strides, mask, bool(step) or lane is None), step

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

    def checked(self, read: Read, mask: Operand | None, first: bool) -> Operand | None:
        """Compare subscripts that hold data; a lane that leaves the tensor is masked off and the
        check's number is written to the error word."""
        for axis, subscript in enumerate(read.subscripts):
            number = self.scope.checks.get((read, axis))
            if number is None:
                continue
            position = as_i64(self.b, self.integer(subscript, mask, first))
            inside = self.b.op("icmp ult", position, self.size(read.tensor, axis), BOOL)
            self.report(number, inside, self.both(mask, self.domain(free_indices(read))))
            mask = self.both(mask, inside)
        return mask

    def size(self, tensor: Tensor, axis: int) -> Operand:
        return self.scope.extents[f"{tensor.name}.{axis}"]

    def report(self, number: int, inside: Operand, mask: Operand | None) -> None:
        outside = FUNCTIONS["not"](self.b, [inside])
        bad = outside if mask is None else self.b.op("and", mask, outside)
        bad = self.somewhere(bad) or bad
        old = self.b.result(f"load i64, ptr {self.scope.error}, align 8", I64, 1, bad.depth)
        new = self.b.select(bad, self.b.const(number, I64), old)
        self.b.emit(f"store {new}, ptr {self.scope.error}, align 8", new.depth)

    def store(self, tensor: Tensor, subscripts: tuple[Expr, ...], value: Operand) -> None:
        """Store a value, rounded to the tensor's type, in the lanes inside the domain."""
        lane = self.scope.vector(subscripts)
        offset, step = self.offset(tensor, subscripts, None, lane)
        lanes = self.scope.widths[lane] if lane else 1
        mask = self.domain((lane,)) if lane else None
        base = self.scope.storage[tensor.name].pointer
        llvm_memory.store(self.b, base, tensor.dtype, offset, step, lanes, value, mask)


def stored_type(expr: Expr) -> DType:
    """The type as which the bits of an expression are stored, for a bitcast."""
    match expr:
        case Read(tensor, _):
            return tensor.dtype
        case Cast(dtype, _) | Bitcast(dtype, _) | Value(_, _, dtype):
            return dtype
        case _:
            return resolved(value_type(expr), I64)


_LESS = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


@fact
def _is_position(expr: Expr) -> bool:
    """Whether an expression is made of positions, extents and whole numbers by sums alone: far from
    where 64 bits end."""
    match expr:
        case Position() | Extent():
            return True
        case Literal():
            return abs(literal_integer(expr) or 1 << 31) < 1 << 31 or expr.value == 0
        case Apply(function, args):
            return function.name in ("add", "sub", "neg") and all(map(_is_position, args))
        case _:
            return False


def _few(exponent: Expr) -> int:
    """A whole exponent so small that the power is a product, with no larger error; else 0."""
    value = exponent.value if isinstance(exponent, Literal) else 0
    return int(value) if value in (2, 3, 4) else 0
