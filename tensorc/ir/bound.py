"""The worst-case rounding error of a level-2 program, element by element.

The program is walked as `interpret_tile` walks it, but values are computed in float64 and not
rounded at movable roundings (tiles and tensors of a narrow type), and each carries the largest
error that rounding where level 2 says, in any order of a reduction's lanes, can cause
(`propagate`). So re-based maxima, split sums and delayed divisions cost what they cost.

Rule 1 of `accept` compares a kernel with this bound. For the walk's own assertions and errors see
`interpret_tile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tensorc.ir import constants, elementwise, propagate, reductions
from tensorc.ir.bounded import Bounded
from tensorc.ir.dtypes import BOOL, F32, F64, DType, value_of
from tensorc.ir.functions import PROD, SUM, Reducer
from tensorc.ir.interpret_tile import Run
from tensorc.ir.lanes import KNOWN, UNKNOWN, Lanes, Memory, Site, stored_type
from tensorc.ir.operands import decides, met
from tensorc.ir.propagate_reductions import reduced, steps
from tensorc.ir.representable import representable
from tensorc.ir.rounding import Array, nearest, numpy_dtype, round_exact, round_to
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
    Table,
    Tensor,
    Value,
    operand_types,
    resolved,
    value_type,
)
from tensorc.ir.tile import Carry, Kernel, Let, Store, TileProgram, Use
from tensorc.ir.tile_block import Axes, Block, exact, parts, stacked


def bound(
    program: TileProgram, arrays: Mapping[str, npt.ArrayLike], extents: Mapping[str, int]
) -> dict[str, Bounded]:
    """The outputs of `program`, as float64 (complex128, exact integers, bool), with their errors.

    Arguments as those of `interpret_tile.interpret`. An error is the largest distance of a result
    from the exact value, the store's rounding included; infinite where a decision is open or a
    value may overflow on the way; of integers and bools 0, or not: they may differ.
    """
    run = BoundRun(program, BoundMemory(), dict(extents), None)
    for item in program.parameters:
        run.hold(item.tensor, round_to(arrays[item.tensor.name], item.tensor.dtype))
    run.complete_extents()
    for table in program.tables:
        run.hold(table.tensor, run.entries(table))
    for kernel in program.kernels:
        run.kernel(kernel)
    memory, names = run.memory, [item.tensor.name for item in program.outputs]
    assert isinstance(memory, BoundMemory)
    return {name: Bounded(memory.arrays[name], memory.errors[name]) for name in names}


@dataclass
class BoundMemory(Memory):
    """Tensors in memory with the errors of their elements. `combined`: of what concurrent stores
    added up, the errors, the sizes and the number of parts."""

    errors: dict[str, Array] = field(default_factory=dict[str, Array])
    combined: dict[str, tuple[Array, Array, Array]] = field(
        default_factory=dict[str, tuple[Array, Array, Array]]
    )


def _held(dtype: DType) -> np.dtype[np.generic]:
    """The NumPy type of values that are not rounded."""
    if dtype.floating or dtype.complex:
        return np.dtype(np.complex128 if dtype.complex else np.float64)
    return numpy_dtype(dtype)


def _bounded(lanes: Lanes) -> Bounded:
    assert lanes.errors is not None
    return Bounded(lanes.values, lanes.errors)


def _inexact(dtype: DType) -> bool:
    return dtype.floating or dtype.complex


class BoundSite(Site):
    """A site whose lanes are unrounded and have errors."""

    def known(self, values: Array, errors: Array | float = 0.0) -> Lanes:
        lanes = super().known(values)
        return Lanes(lanes.values, lanes.states, self.constant(errors))

    def compute(self, expr: Expr, dtype: DType) -> Lanes:
        constant = constants.fold(expr, self.extents)
        if constant is not None:
            if not _inexact(dtype):
                return self.known(round_exact(constant, dtype))
            number = nearest(constant, F64)
            return self.known(np.asarray(number, _held(dtype)), _constant_error(number, dtype))
        own = resolved(value_type(expr), dtype)
        lanes = self.own(expr, own)
        if own is dtype:
            return lanes
        if not _inexact(dtype):
            return Lanes(round_to(lanes.values, dtype), lanes.states, lanes.errors)
        errors = propagate.converted(_bounded(lanes), dtype)
        return Lanes(lanes.values.astype(_held(dtype)), lanes.states, errors)

    def stored(self, expr: Expr, storage: DType) -> Lanes:
        """`expr` with the error of a movable rounding to a storage type."""
        wanted = self.wanted(expr, storage)
        lanes = self.value(expr, wanted)
        if storage is wanted:
            return lanes
        if not _inexact(storage):
            errors = np.where(_bounded(lanes).error > 0, np.inf, 0.0)
            return Lanes(round_to(lanes.values, storage), lanes.states, errors)
        values = lanes.values.astype(_held(storage))
        errors = propagate.rounded(_bounded(lanes).error, values, storage)
        if not representable(expr, storage, self.extents):
            errors = propagate.stored(Bounded(values, errors), storage)
        return Lanes(values, lanes.states, errors)

    def own(self, expr: Expr, own: DType) -> Lanes:
        match expr:
            case Position() | Extent() | Seen() | Read():
                return super().own(expr, own)
            case Value():
                return self.tile(expr)
            case Apply(function, args) if function.name not in ("and", "or"):
                types = operand_types(expr, own)
                items = [self.value(a, t) for a, t in zip(args, types, strict=True)]
                if decides(expr):
                    items = [self.met(*pair) for pair in zip(items, args, types, strict=True)]
                return self.applied(expr, own, items)
            case Apply():
                logic = super().own(expr, own)
                items = [_bounded(self.value(arg, BOOL)) for arg in expr.args]
                errors = propagate.applied(expr.function.name, items, logic.values, BOOL)
                return Lanes(logic.values, logic.states, errors)
            case Select(condition, yes, no):
                sides = [self.met(self.value(side, own), side, own) for side in (yes, no)]
                lanes = self.select(condition, sides[0], sides[1])
                items = [_bounded(item) for item in (self.value(condition, BOOL), *sides)]
                return Lanes(lanes.values, lanes.states, propagate.chosen(*items))
            case Cast(dtype, arg):
                return self.cast(arg, dtype)
            case Bitcast():
                lanes = super().own(expr, own)
                stored = stored_type(expr.arg, expr.dtype)
                arg = _bounded(self.value(expr.arg, value_of(stored)))
                errors = np.where(arg.error > 0, np.inf, 0.0)
                return Lanes(lanes.values.astype(_held(own)), lanes.states, errors)
            case Literal() | Round() | Reduce():
                raise TypeError(f"{type(expr).__name__} in a level-2 body")

    def met(self, item: Lanes, arg: Expr, dtype: DType) -> Lanes:
        """A constant where rounding decides: what its type makes of it, without error."""
        if not _inexact(dtype) or constants.fold(arg, self.extents) is None:
            return item
        return self.known(met(item.values, dtype))

    def applied(self, expr: Apply, own: DType, items: list[Lanes]) -> Lanes:
        """A function of its operands."""
        name, states = expr.function.name, items[0].states
        values = elementwise.apply(name, [item.values for item in items])
        errors = propagate.applied(name, [_bounded(item) for item in items], values, own)
        for item in items[1:]:
            states = np.maximum(states, item.states)
        return Lanes(values.astype(_held(own), copy=False), states, errors)

    def cast(self, arg: Expr, dtype: DType) -> Lanes:
        """A cast: rounds here."""
        wanted = self.wanted(arg, dtype)
        lanes = self.value(arg, wanted)
        if wanted is dtype:
            return lanes
        values = round_to(lanes.values, dtype).astype(_held(value_of(dtype)))
        if lanes.values.dtype.kind == "f":
            errors = propagate.cast(_bounded(lanes), dtype)
        elif lanes.values.dtype.kind == "c":
            errors = propagate.stored(_bounded(lanes), dtype)
        else:
            errors = np.where(_bounded(lanes).error > 0, np.inf, 0.0)
        return Lanes(values, lanes.states, errors)

    def widened(self, values: Array, dtype: DType) -> Array:
        return values.astype(_held(value_of(dtype)))

    def read_errors(
        self, tensor: Tensor, places: list[Array], beyond: Array, found: list[Lanes]
    ) -> Array | None:
        """The errors of the elements; infinite where a subscript is open."""
        assert isinstance(self.memory, BoundMemory)
        errors = self.elements(self.memory.errors[tensor.name], places, beyond)
        for item in found:
            errors = np.where(_bounded(item).error > 0, np.inf, errors)
        return errors


def _constant_error(value: float, dtype: DType) -> float:
    return propagate.constant(value, F32 if dtype.bits == 64 and dtype.complex else dtype)


class BoundRun(Run):
    """A run whose tensors and tiles are unrounded and have errors."""

    @property
    def marks(self) -> BoundMemory:
        """The memory, with its errors."""
        assert isinstance(self.memory, BoundMemory)
        return self.memory

    def hold(self, tensor: Tensor, values: Array) -> None:
        super().hold(tensor, values.astype(_held(tensor.dtype)))
        self.marks.errors[tensor.name] = np.zeros(values.shape)

    def entries(self, table: Table) -> Array:
        """A table's array, rounded to its type: tables are data."""
        shape = tuple(self.number(size, None) for size in table.tensor.shape)
        site, dtype = Site(self.memory, self.extents, (), {}, {}, {}), table.tensor.dtype
        cells = [site.stored(value, dtype).values for value in table.values]
        return np.array(cells, numpy_dtype(dtype)).reshape(shape)

    def kernel(self, kernel: Kernel) -> None:
        for tensor in kernel.writes:
            shape = tuple(self.number(size, None) for size in tensor.shape)
            self.memory.arrays.setdefault(tensor.name, np.zeros(shape, _held(tensor.dtype)))
            self.marks.errors.setdefault(tensor.name, np.zeros(shape))
        super().kernel(kernel)

    def site(self, block: Block | None, axes: Axes, by: Use | None = None) -> Site:
        plain = super().site(block, axes, by)
        return BoundSite(
            plain.memory, plain.extents, plain.axes, plain.fixed, plain.seen, plain.tiles,
            plain.fill, plain.checked,
        )  # fmt: skip

    def start(self, carry: Carry, block: Block) -> Lanes:
        lanes = super().start(carry, block)
        if lanes.errors is not None:
            return lanes
        values = lanes.values.astype(_held(carry.tile.dtype))
        return Lanes(values, lanes.states, np.zeros(()))

    def reduced(self, let: Let, op: Reducer, axes: Axes, block: Block) -> Lanes:
        rank, dtype = len(block.batch) + len(let.tile.axes), let.tile.dtype
        inner = tuple(exact(axis) if axis.index in let.by.exact else axis for axis in axes[rank:])
        total = block.fetch(let.onto) if let.onto else None
        for part in parts(axes[:rank], inner):
            site = self.site(block, (*axes[:rank], *part), let.by)
            lanes = self.operand(let, op, site)
            self.reads_inside(site, lanes, block)
            self.values_inside(site, lanes, rank, let, block)
            accumulates = dtype if op in (SUM, PROD) else site.wanted(let.body, F32)
            total = _combined(op, total, lanes, site.shape, rank, accumulates)
        assert total is not None
        return Lanes(total.values.astype(_held(dtype)), total.states, total.errors)

    def operand(self, let: Let, op: Reducer, site: Site) -> Lanes:
        """What is reduced: of a sum in a narrow type converted, which is a fixed rounding."""
        assert isinstance(site, BoundSite)
        narrow = value_of(let.tile.dtype) is not let.tile.dtype
        if op in (SUM, PROD) and narrow:
            return site.cast(let.body, let.tile.dtype)
        wanted = let.tile.dtype if op in (SUM, PROD) else site.wanted(let.body, F32)
        return site.stored(let.body, wanted)

    def write(self, store: Store, places: list[Array], lanes: Lanes, block: Block) -> None:
        super().write(store, places, lanes, block)
        name = store.tensor.name
        errors, flat = self.marks.errors[name], self.flat(places, self.memory.arrays[name])
        if store.combine is None:
            errors.reshape(-1)[flat] = _bounded(lanes).error
        else:
            self.meet(store, store.combine, flat, _bounded(lanes))

    def meet(self, store: Store, op: Reducer, flat: Array, item: Bounded) -> None:
        """Stores that meet in memory, in any order."""
        name, dtype = store.tensor.name, store.tensor.dtype
        errors = self.marks.errors[name].reshape(-1)
        blank = (np.zeros(errors.shape), np.zeros(errors.shape), np.zeros(errors.shape))
        sums, sizes, count = self.marks.combined.setdefault(name, blank)
        sums[flat] += item.error
        sizes[flat] += np.abs(item.value) + item.error
        count[flat] += 1
        if op is SUM and _inexact(dtype):
            errors[flat] = sums[flat] + steps(count[flat] - 1, dtype) * sizes[flat]
        elif op is PROD or not _inexact(dtype):
            errors[flat] = np.where((sums[flat] > 0) | _inexact(dtype), np.inf, 0.0)
        else:
            errors[flat] = np.maximum(errors[flat], item.error)


def _combined(
    op: Reducer, total: Lanes | None, lanes: Lanes, shape: tuple[int, ...], rank: int, dtype: DType
) -> Lanes:
    """`total` reduced with `lanes` over all axes but the first `rank`, unrounded, with errors."""
    known = None if total is None else total.states != KNOWN
    values = stacked(None if total is None else total.values, lanes.values, shape, rank)
    states = stacked(known, lanes.states != KNOWN, shape, rank)
    errors = stacked(None if total is None else total.errors, _bounded(lanes).error, shape, rank)
    found = reductions.reduce(op.name, values, None, ordered=False)
    error = reduced(op.name, Bounded(values, errors), None, found, dtype)
    if value_of(dtype) is not dtype and _inexact(dtype):  # a narrow total is stored as such
        error = propagate.stored(Bounded(found, error), dtype)
    unknown = np.where(states.any(axis=0), np.uint8(UNKNOWN), np.uint8(KNOWN))
    return Lanes(found, unknown, np.broadcast_to(error, found.shape))
