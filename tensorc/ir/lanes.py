"""Level-2 expressions on the lanes of one statement in one block.

Every lane has a value and a state: whether the value may be used, and if not, why. What lies
outside the domain, what no kernel stored and what was read outside a tensor has no value; guards
drop the states, with the values, of what they do not select. So evaluation needs no masks, and a
statement finds out only at its lanes inside the domain whether something was missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tensorc.ir import constants, elementwise
from tensorc.ir.dtypes import BOOL, F64, I64, DType, settled, value_of
from tensorc.ir.rounding import Array, numpy_dtype, round_exact, round_to
from tensorc.ir.stores import storage_of
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

KNOWN, UNKNOWN = 0, 1  # states; larger ones are 2 + the number of a fault in `Site.faults`


@dataclass(frozen=True)
class Lanes:
    """Values and their states, of shapes that broadcast against each other. `errors` are what
    `bound` knows of the values' rounding; interpreting has none."""

    values: Array
    states: Array
    errors: Array | None = None

    def at(self, window: tuple[slice, ...]) -> Lanes:
        """Some of the lanes of a whole tile."""
        errors = None if self.errors is None else self.errors[window]
        return Lanes(self.values[window], self.states[window], errors)

    def put(self, window: tuple[slice, ...], lanes: Lanes) -> None:
        """Set some of the lanes of a whole tile."""
        self.values[window], self.states[window] = lanes.values, lanes.states != KNOWN
        if self.errors is not None:
            self.errors[window] = lanes.errors

    def each(self, change: Callable[[Array], Array]) -> Lanes:
        """A change of shape of all arrays."""
        errors = None if self.errors is None else change(self.errors)
        return Lanes(change(self.values), change(self.states), errors)

    def blank(self, sizes: tuple[int, ...]) -> Lanes:
        """A whole tile for lanes like these, none of which has a value."""
        errors = None if self.errors is None else np.zeros(sizes)
        values = np.zeros(sizes, self.values.dtype)
        return Lanes(values, np.full(sizes, UNKNOWN, np.uint8), errors)

    def chosen(self, mask: Array) -> Lanes:
        """The lanes of a mask, in row-major order."""
        arrays = (self.values, self.states, self.errors)
        values, states, errors = (
            None if item is None else np.broadcast_to(item, mask.shape)[mask] for item in arrays
        )
        assert values is not None and states is not None
        return Lanes(values, states, errors)


@dataclass(frozen=True)
class Axis:
    """Lanes [start, start + count) along an index, whose lane 0 has position `base`.

    `extent` None: the axis counts lanes, all of which are inside the domain.
    """

    index: str
    base: int
    start: int
    count: int
    extent: int | None

    @property
    def positions(self) -> Array:
        """The position of each lane."""
        return np.arange(self.base + self.start, self.base + self.start + self.count)

    @property
    def inside(self) -> Array:
        """Which lanes are inside the domain."""
        if self.extent is None:
            return np.ones(self.count, bool)
        return self.positions < self.extent

    @property
    def window(self) -> slice:
        """The lanes as a slice of a tile's axis."""
        return slice(self.start, self.start + self.count)


@dataclass
class Memory:
    """Tensors in memory: storage-typed arrays and which elements hold something."""

    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    stored: dict[str, Array] = field(default_factory=dict[str, Array])


@dataclass(frozen=True)
class Site:
    """A statement in one block: what its expressions may refer to.

    `axes`: the statement's, in the order of the arrays' dimensions; `fixed`: the position of each
    index bound here with one lane; `seen`: elements of each loop's index consumed before and
    after this block; `fill`: the value of elements beyond a tensor's bounds, if any.
    """

    memory: Memory
    extents: Mapping[str, int]
    axes: tuple[Axis, ...]
    fixed: Mapping[str, int]
    seen: Mapping[str, tuple[int, int]]
    tiles: Mapping[str, tuple[tuple[str, ...], Lanes]]
    fill: Literal | None = None
    checked: frozenset[Read] = frozenset()
    faults: list[tuple[Read, int]] = field(default_factory=list[tuple[Read, int]])
    memo: dict[tuple[Expr, DType], Lanes] = field(default_factory=dict[tuple[Expr, DType], Lanes])

    @property
    def shape(self) -> tuple[int, ...]:
        """Lanes along every axis."""
        return tuple(axis.count for axis in self.axes)

    def along(self, index: str, values: Array) -> Array:
        """A vector over the lanes of an index, shaped to broadcast."""
        shape = [axis.count if axis.index == index else 1 for axis in self.axes]
        return values.reshape(shape)

    def inside(self, indices: Iterable[str]) -> Array:
        """Which lanes are inside the domain of these indices."""
        wanted, mask = set(indices), self.constant(np.True_)
        for axis in self.axes:
            if axis.index in wanted:
                mask = mask & self.along(axis.index, axis.inside)
        return mask

    def constant(self, value: object) -> Array:
        """One value for all lanes."""
        return np.asarray(value).reshape((1,) * len(self.axes))

    def wanted(self, expr: Expr, storage: DType) -> DType:
        """The value type in which an expression is computed that is stored as `storage`."""
        return resolved(value_type(expr), value_of(storage))

    def value(self, expr: Expr, dtype: DType) -> Lanes:
        """`expr` in the value type `dtype`: computed in its own type, or in `dtype` if weak."""
        key = (expr, dtype)
        if key not in self.memo:
            self.memo[key] = self.compute(expr, dtype)
        return self.memo[key]

    def stored(self, expr: Expr, storage: DType) -> Lanes:
        """`expr` rounded once to a storage type."""
        exact = constants.fold(expr, self.extents)
        if exact is not None:
            return self.known(round_exact(exact, storage))
        lanes = self.value(expr, self.wanted(expr, storage))
        return Lanes(round_to(lanes.values, storage), lanes.states)

    def compute(self, expr: Expr, dtype: DType) -> Lanes:
        """`value`, not remembered."""
        exact = constants.fold(expr, self.extents)
        if exact is not None:
            return self.known(round_exact(exact, dtype))
        own = resolved(value_type(expr), dtype)
        lanes = self.own(expr, own)
        return lanes if own is dtype else Lanes(round_to(lanes.values, dtype), lanes.states)

    def known(self, values: Array) -> Lanes:
        """Lanes that all have a value."""
        if values.ndim == 0:
            values = self.constant(values)
        return Lanes(values, self.constant(np.uint8(KNOWN)))

    def own(self, expr: Expr, own: DType) -> Lanes:
        """`expr` in its own strong type."""
        match expr:
            case Position(index):
                return self.known(round_to(self.position(index), own))
            case Extent(index):
                return self.known(round_exact(Fraction(self.extents[index]), own))
            case Seen(index, after):
                return self.known(round_to(np.asarray(self.seen[index][int(after)]), own))
            case Value():
                return self.tile(expr)
            case Read(tensor, subscripts):
                return self.read(expr, tensor, subscripts)
            case Apply(function, args):
                if function.name in ("and", "or"):
                    return self.logic(function.name, args)
                types = operand_types(expr, own)
                operands = [self.value(a, t) for a, t in zip(args, types, strict=True)]
                values = elementwise.apply(function.name, [item.values for item in operands])
                return Lanes(round_to(values, own), _worst([item.states for item in operands]))
            case Select(condition, yes, no):
                return self.select(condition, self.value(yes, own), self.value(no, own))
            case Cast(dtype, arg):
                return self.cast(arg, dtype)
            case Bitcast(dtype, arg):
                return self.bits(arg, dtype)
            case Literal(value, _):  # an imaginary one: the others are constants
                return self.known(np.asarray(round_exact(value, own) * 1j))
            case Round() | Reduce():
                raise TypeError(f"{type(expr).__name__} in a level-2 body")

    def position(self, index: str) -> Array:
        """The position of an index on each lane."""
        for axis in self.axes:
            if axis.index == index:
                return self.along(index, axis.positions)
        return self.constant(self.fixed[index])

    def tile(self, value: Value) -> Lanes:
        """The lanes of a tile that this statement covers, in the order of its axes."""
        part = self.arranged(value)
        return Lanes(self.widened(part.values, value.dtype), part.states, part.errors)

    def arranged(self, value: Value) -> Lanes:
        """Those lanes, as they are stored."""
        names, lanes = self.tiles[value.tile]
        order = [axis for axis in self.axes if axis.index in names]
        window = {axis.index: axis.window for axis in order}
        part = lanes.at(tuple(window.get(name, slice(0, 1)) for name in names))
        kept = [names.index(axis.index) for axis in order]
        shape = [axis.count if axis.index in names else 1 for axis in self.axes]
        rest = [place for place in range(len(names)) if place not in kept]
        return part.each(lambda array: array.transpose(*kept, *rest).reshape(shape))

    def widened(self, values: Array, dtype: DType) -> Array:
        """What is stored as `dtype`, in its value type."""
        return round_to(values, value_of(dtype))

    def read(self, read: Read, tensor: Tensor, subscripts: tuple[Expr, ...]) -> Lanes:
        """Elements of a tensor: unknown outside the domain or where nothing was stored."""
        array, stored = self.memory.arrays[tensor.name], self.memory.stored[tensor.name]
        found = [self.value(item, I64) for item in subscripts]
        states = _worst([item.states for item in found] or [self.constant(np.uint8(KNOWN))])
        places: list[Array] = []
        beyond = self.constant(np.False_)
        for axis, (item, size) in enumerate(zip(found, array.shape, strict=True)):
            leaves = (item.values < 0) | (item.values >= size)
            states = np.where((states == KNOWN) & leaves, self.fault(read, axis), states)
            beyond = beyond | leaves
            places.append(np.clip(item.values, 0, max(size - 1, 0)))
        values, held = self.elements(array, places, beyond), self.elements(stored, places, beyond)
        states = np.where((states == KNOWN) & ~held, np.uint8(UNKNOWN), states)
        outside = ~self.inside(free_indices(read))
        states = np.where(outside, np.uint8(UNKNOWN), states)
        errors = self.read_errors(tensor, places, beyond, found)
        lanes = Lanes(self.widened(values, tensor.dtype), states, errors)
        beyond = beyond & outside if read in self.checked else beyond
        return lanes if self.fill is None else self.filled(lanes, beyond, self.fill)

    def elements(self, array: Array, places: list[Array], beyond: Array) -> Array:
        """The elements of an array at some places, all of them inside if it has any."""
        if not places:
            return self.constant(array)
        return array[tuple(places)] if array.size else np.zeros(beyond.shape, array.dtype)

    def read_errors(
        self, tensor: Tensor, places: list[Array], beyond: Array, found: list[Lanes]
    ) -> Array | None:
        """The errors of the elements read; interpreting has none."""
        return None

    def filled(self, lanes: Lanes, beyond: Array, fill: Literal) -> Lanes:
        """What a copy with a fill delivers beyond the bounds of the tensor."""
        value = round_exact(fill.value, F64).astype(lanes.values.dtype)
        values = np.where(beyond, value, lanes.values)
        errors = None if lanes.errors is None else np.where(beyond, 0.0, lanes.errors)
        return Lanes(values, np.where(beyond, np.uint8(KNOWN), lanes.states), errors)

    def fault(self, read: Read, axis: int) -> np.uint8:
        """The state of lanes where subscript `axis` of `read` leaves its dimension."""
        if (read, axis) not in self.faults:
            self.faults.append((read, axis))
        return np.uint8(2 + self.faults.index((read, axis)))

    def logic(self, name: str, args: tuple[Expr, ...]) -> Lanes:
        """`and` and `or`: what an earlier operand decides, later ones cannot change."""
        total = self.value(args[0], BOOL)
        values, states = total.values, total.states
        for arg in args[1:]:
            item = self.value(arg, BOOL)
            decided = (states != KNOWN) | (values == (name == "or"))
            values = np.where(decided, values, item.values)
            states = np.where(decided, states, item.states)
        return Lanes(values, states)

    def select(self, condition: Expr, yes: Lanes, no: Lanes) -> Lanes:
        """The branch that the condition chooses, with its states."""
        chosen = self.value(condition, BOOL)
        values = np.where(chosen.values, yes.values, no.values)
        states = np.where(chosen.values, yes.states, no.states)
        return Lanes(values, np.where(chosen.states == KNOWN, states, chosen.states))

    def cast(self, arg: Expr, dtype: DType) -> Lanes:
        """Rounded to storage, widened again."""
        lanes = self.value(arg, self.wanted(arg, dtype))
        return Lanes(round_to(round_to(lanes.values, dtype), value_of(dtype)), lanes.states)

    def bits(self, arg: Expr, dtype: DType) -> Lanes:
        """The same bits as another type: of the stored type of a read, else of the value type."""
        own = stored_type(arg, dtype)
        lanes = self.value(arg, value_of(own))
        values = round_to(lanes.values, own).view(numpy_dtype(dtype))
        return Lanes(round_to(values, value_of(dtype)), lanes.states)


def stored_type(arg: Expr, dtype: DType) -> DType:
    """The type whose bits are taken as `dtype`: that in which `arg` is stored, if it has as many,
    else its value type."""
    stored = arg.dtype if isinstance(arg, Value) else storage_of(arg)
    return stored if stored.bits == dtype.bits else settled(value_type(arg))


def _worst(states: list[Array]) -> Array:
    """The state of a function's result: known where all its operands are."""
    total = states[0]
    for item in states[1:]:
        total = np.maximum(total, item)
    return total
