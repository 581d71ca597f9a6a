"""Expressions of level 1 on NumPy arrays: the inside of `interpret_tensor`, which says what they
mean.

Every expression is evaluated at every point, also where a guard excludes it, and carries a *fault*
beside its value: where it rests on a read that left its tensor. Guards drop the values and the
faults of what they do not select; a fault that reaches an equation's root is an error. So
evaluation needs no masks, and each node of the DAG is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tensorc.ir import constants, elementwise, reductions
from tensorc.ir.dtypes import BOOL, F32, F64, I32, INDEX, DType, settled, value_of
from tensorc.ir.exact import Pi, rational
from tensorc.ir.functions import ALL, ANY, ARGMAX, ARGMIN, MAX, MIN, Reducer, Typing, accumulator
from tensorc.ir.node import postorder
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
    Value,
    free_indices,
    operand_types,
    resolved,
    value_type,
)


@dataclass(frozen=True)
class Found:
    """A value at every point of its scope, and where it rests on a read that left its tensor:
    0, or the number of that read (see `Interpreter.fault`)."""

    value: Array
    fault: Array | None = None


@dataclass(frozen=True)
class Scope:
    """The indices bound here, outermost last axis: a reduction adds axes in front, so that arrays
    of outer scopes broadcast. `memo` holds what was computed here."""

    axes: Mapping[str, int]
    ranges: Mapping[str, range]
    depth: int
    own: frozenset[str] = frozenset()
    outer: Scope | None = None
    memo: dict[tuple[Expr, DType], Found] = field(default_factory=dict[tuple[Expr, DType], Found])

    def enter(self, indices: tuple[str, ...], extents: Mapping[str, int]) -> Scope:
        """A scope with `indices` bound to their whole extents, in front and in order."""
        depth = self.depth + len(indices)
        axes = {**self.axes, **{name: place - depth for place, name in enumerate(indices)}}
        ranges = {**self.ranges, **{name: range(extents[name]) for name in indices}}
        return Scope(axes, ranges, depth, frozenset(indices), self)

    def home(self, expr: Expr) -> Scope:
        """The outermost scope in which `expr` has the same value."""
        scope, free = self, free_indices(expr)
        while scope.outer is not None and not (scope.own & free):
            scope = scope.outer
        return scope

    def positions(self, index: str) -> Array:
        """The positions of an index along its axis."""
        span = self.ranges[index]
        return np.arange(span.start, span.stop).reshape((-1,) + (1,) * (-self.axes[index] - 1))


@dataclass(frozen=True)
class Escape:
    """A read that left `tensor` on `axis` at some points; the first of them has number `first`.

    `bad` marks them over the trailing axes of `scope`; `subscripts` are the values there.
    """

    first: int
    read: Read
    axis: int
    bad: Array
    subscripts: tuple[Array, ...]
    scope: Scope


class Evaluator:
    """Evaluates expressions over `tensors` (float64, complex128 and exact integers; with `rounded`,
    arrays of storage type). `escapes` lists the reads that left their tensors, selected or not."""

    def __init__(
        self, tensors: Mapping[str, Array], extents: Mapping[str, int], rounded: bool
    ) -> None:
        self.tensors = tensors
        self.extents = extents
        self.rounded = rounded
        self.escapes: list[Escape] = []
        self._folded: dict[Expr, Fraction | str | None] = {}

    def value(self, expr: Expr, wanted: DType, scope: Scope) -> Found:
        """`expr` as a value of type `wanted` (INDEX: an integer without width), at every point of
        `scope`. Iterates over the DAG; only reductions recurse."""
        for item in postorder((expr,)):  # facts of children first, so that they do not recurse
            if isinstance(item, Expr):
                value_type(item)
                free_indices(item)
        stack = [(expr, wanted)]
        while stack:
            item, want = stack[-1]
            home = scope.home(item)
            if (item, want) not in home.memo:
                needs = self._operands(item, want)
                missing = [n for n in needs if n not in scope.home(n[0]).memo]
                if missing:
                    stack.extend(missing)
                    continue
                args = [scope.home(n[0]).memo[n] for n in needs]
                home.memo[item, want] = self._compute(item, want, args, home)
            stack.pop()
        return scope.home(expr).memo[expr, wanted]

    # --- types ----------------------------------------------------------------------------------

    def held(self, dtype: DType) -> np.dtype[np.generic]:
        """The NumPy type in which values of a value type are held."""
        if dtype is INDEX:
            return np.dtype(np.int64)
        if self.rounded or not (dtype.floating or dtype.complex):
            return numpy_dtype(dtype)
        return np.dtype(np.complex128 if dtype.complex else np.float64)

    def _converted(self, values: Array, source: DType, target: DType) -> Array:
        """A value of type `source` where the context takes it as `target`: never a narrowing."""
        if source is target:
            return values
        if target is INDEX:
            large = values.dtype == np.uint64 and bool((values >> np.uint64(63)).any())
            return values.astype(object if large or values.dtype == object else np.int64)
        if self.rounded or target.integral or values.dtype == object:
            return round_to(values, target if self.rounded or target.integral else F64)
        return values.astype(self.held(target))

    def widened(self, stored: Array, dtype: DType) -> Array:
        """What is stored as `dtype`, as its value type."""
        return np.asarray(stored).astype(self.held(value_of(dtype)), copy=False)

    # --- one node -------------------------------------------------------------------------------

    def _operands(self, expr: Expr, wanted: DType) -> tuple[tuple[Expr, DType], ...]:
        """What must be known before `expr`, each in the type in which it is taken."""
        if self._constant(expr) is not None:
            return ()
        match expr:
            case Read(_, subscripts):
                return tuple((subscript, INDEX) for subscript in subscripts)
            case Apply(_, args):
                own = _taken(value_type(expr), wanted)
                return tuple(zip(args, _argument_types(expr, own), strict=True))
            case Select(condition, yes, no):
                own = _taken(value_type(expr), wanted)
                return (condition, BOOL), (yes, own), (no, own)
            case Cast(dtype, arg) | Round(dtype, arg):
                return ((arg, resolved(value_type(arg), value_of(dtype))),)
            case Bitcast(_, arg):
                return ((arg, settled(value_type(arg))),)
            case Literal() | Position() | Extent() | Reduce() | Value() | Seen():
                return ()

    def _compute(self, expr: Expr, wanted: DType, args: Sequence[Found], scope: Scope) -> Found:
        own = _taken(value_type(expr), wanted)
        constant = self._constant(expr)
        if constant is not None:
            return Found(self._converted(self._exactly(constant, own), own, wanted))
        found = self._node(expr, own, args, scope)
        return Found(self._converted(found.value, own, wanted), found.fault)

    def _node(self, expr: Expr, own: DType, args: Sequence[Found], scope: Scope) -> Found:
        match expr:
            case Position(index):
                return Found(self._converted(scope.positions(index), INDEX, own))
            case Read():
                return self._read(expr, args, scope)
            case Apply():
                return self._apply(expr, own, args)
            case Select():
                condition, yes, no = args
                fault = _chosen(condition.value, yes.fault, no.fault)
                chosen = np.where(condition.value, yes.value, no.value)
                return Found(chosen, _worse(condition.fault, fault))
            case Cast(dtype, arg):
                return Found(self._cast(args[0].value, arg, dtype), args[0].fault)
            case Round(dtype, arg):
                return Found(self._round(args[0].value, arg, dtype), args[0].fault)
            case Bitcast(dtype, arg):
                return Found(self._bits(args[0].value, arg, dtype), args[0].fault)
            case Reduce():
                return self._reduce(expr, scope)
            case Literal(value, _):  # an imaginary one: the others are constants
                part = rational(Pi(Fraction(1)) if value == "pi" else value)
                return Found(np.asarray(1j * nearest(part, F64), self.held(own)))
            case Extent(index):
                raise KeyError(f"no extent for {index}")
            case Value() | Seen():
                raise TypeError(f"{type(expr).__name__} belongs to level 2")

    def _constant(self, expr: Expr) -> Fraction | str | None:
        """The exact value of a closed weak or bool expression, or of a cast of one."""
        if not constants.closed(expr):
            return None
        if expr not in self._folded:
            dtype = value_type(expr)
            exact = dtype.weak or dtype is BOOL or isinstance(expr, Cast)
            self._folded[expr] = constants.fold(expr, self.extents) if exact else None
        return self._folded[expr]

    def _exactly(self, value: Fraction | str, dtype: DType) -> Array:
        """A constant rounded once to a value type; to float64 for the meaning of any float."""
        if dtype is INDEX:
            number = int(Fraction(value))
            small = -(1 << 63) <= number < 1 << 63
            return np.asarray(number, dtype=np.int64 if small else object)
        if (dtype.floating or dtype.complex) and not self.rounded:
            return np.asarray(nearest(value, F64)).astype(self.held(dtype))
        return round_exact(value, dtype).astype(self.held(dtype))

    def _apply(self, expr: Apply, own: DType, args: Sequence[Found]) -> Found:
        types = _argument_types(expr, own)
        values = [found.value for found in args]
        if expr.function.typing in _DECIDING or expr.function.name in ("floordiv", "mod"):
            values = [
                self._met(value, arg, dtype)
                for value, arg, dtype in zip(values, expr.args, types, strict=True)
            ]
        compute = elementwise.unbounded if INDEX in types else elementwise.apply
        result = compute(expr.function.name, values)
        if result.dtype != object:
            result = result.astype(self.held(own), copy=False)
        return Found(result, _applied_fault(expr, args))

    def _met(self, value: Array, arg: Expr, dtype: DType) -> Array:
        """A constant where rounding decides (comparisons, `//`, `%`): as precise as its type."""
        if self.rounded or dtype is not F32 or self._constant(arg) is None:
            return value
        return round_to(value, F32).astype(np.float64)

    def _cast(self, value: Array, arg: Expr, dtype: DType) -> Array:
        if resolved(value_type(arg), value_of(dtype)) is dtype:
            return value  # already of that type: nothing to round
        return self.widened(round_to(value, dtype), dtype)

    def _round(self, value: Array, arg: Expr, dtype: DType) -> Array:
        inexact = dtype.floating or dtype.complex
        if inexact and not self.rounded:
            return value.astype(self.held(value_of(dtype)))
        return self._cast(value, arg, dtype)

    def _bits(self, value: Array, arg: Expr, dtype: DType) -> Array:
        stored = round_to(value, _storage(arg, dtype))
        return self.widened(stored.view(numpy_dtype(dtype)), dtype)

    # --- reads ----------------------------------------------------------------------------------

    def _read(self, read: Read, args: Sequence[Found], scope: Scope) -> Found:
        array = self.tensors[read.tensor.name]
        view = _view(array, read, scope)
        if view is not None:
            return Found(self.widened(view, read.tensor.dtype))
        fault: Array | None = None
        places: list[Array] = []
        for axis, found in enumerate(args):
            size, place = array.shape[axis], found.value
            bad = np.asarray((place < 0) | (place >= size), bool)
            fault = _worse(fault, found.fault)
            if bad.any():
                fault = _worse(fault, self._escape(read, axis, bad, args, scope))
            places.append(np.clip(place, 0, max(size - 1, 0)).astype(np.int64))
        if 0 in array.shape:
            shape = np.broadcast_shapes(*(place.shape for place in places))
            return Found(np.zeros(shape, self.held(value_of(read.tensor.dtype))), fault)
        return Found(self.widened(array[tuple(places)], read.tensor.dtype), fault)

    def _escape(
        self, read: Read, axis: int, bad: Array, args: Sequence[Found], scope: Scope
    ) -> Array:
        """Numbers for the points at which a read leaves its tensor."""
        last = self.escapes[-1] if self.escapes else None
        first = 1 if last is None else last.first + last.bad.size
        self.escapes.append(Escape(first, read, axis, bad, tuple(a.value for a in args), scope))
        return np.where(bad, np.arange(bad.size).reshape(bad.shape) + first, 0)

    # --- reductions -----------------------------------------------------------------------------

    def _reduce(self, expr: Reduce, scope: Scope) -> Found:
        inner = scope.enter(expr.indices, self.extents)
        own = value_type(expr.body)
        wanted, stored = _operand_type(expr.reducer, own, expr.dtype)
        body = self.value(expr.body, wanted, inner)
        where = None if expr.where is None else self.value(expr.where, BOOL, inner)
        count = len(expr.indices)
        shape = tuple(self.extents[name] for name in expr.indices)
        values = _flat(self._accumulated(body.value, wanted, stored), inner.depth, shape)
        selected = None if where is None else _flat(where.value, inner.depth, shape)
        result = reductions.reduce(expr.reducer.name, values, selected, self.rounded)
        fault = _reduced_fault(body, where, inner.depth, shape)
        if not expr.reducer.keeps:
            return Found(self._finished(result, stored, value_type(expr)), fault)
        result = result.reshape(shape + result.shape[1:])
        return Found(_kept(result, expr.indices, scope, count), fault)

    def _accumulated(self, values: Array, wanted: DType, stored: DType | None) -> Array:
        """The operands of a sum converted to the accumulator that was asked for."""
        if stored is None or stored is wanted:
            return values
        inexact = wanted.floating or wanted.complex
        narrow = value_of(stored) is not stored or (inexact and stored.bits < wanted.bits)
        if self.rounded or stored.integral or narrow:
            values = round_to(values, stored)
        return values if self.rounded or stored.integral else values.astype(self.held(stored))

    def _finished(self, result: Array, stored: DType | None, own: DType) -> Array:
        if stored is not None and value_of(stored) is not stored:
            return self.widened(round_to(result, stored), stored)
        return result.astype(self.held(own), copy=False)


_DECIDING = frozenset({Typing.COMPARISON, Typing.EQUALITY})


def _taken(own: DType, wanted: DType) -> DType:
    """The type in which a value of type `own` is computed: weak integers have no width where the
    context is a subscript."""
    return INDEX if wanted is INDEX and own.weak and own.integral else resolved(own, wanted)


def _argument_types(expr: Apply, wanted: DType) -> tuple[DType, ...]:
    """`operand_types`, with integers without width where only positions and extents meet."""
    types = [value_type(arg) for arg in expr.args]
    weak = all(dtype.weak and dtype.integral for dtype in types)
    if weak and expr.function.typing in _DECIDING:
        return (INDEX,) * len(types)
    if wanted is INDEX and value_type(expr).weak and value_type(expr).integral:
        return tuple(_taken(dtype, INDEX) for dtype in types)
    return operand_types(expr, wanted)


def _operand_type(
    reducer: Reducer, body: DType, declared: DType | None
) -> tuple[DType, DType | None]:
    """The type in which a reduction takes its body, and the storage type that it accumulates in."""
    if reducer in (ANY, ALL):
        return BOOL, None
    if reducer in (MAX, MIN, ARGMAX, ARGMIN):
        return (I32 if body is BOOL else settled(body)), None
    stored = accumulator(reducer, body, declared)
    return resolved(body, value_of(stored)), stored


def _storage(arg: Expr, dtype: DType) -> DType:
    """The type as which `arg` is stored when its bits are taken as `dtype`."""
    match arg:
        case Read(tensor, _):
            own = tensor.dtype
        case Cast(stored, _) | Round(stored, _) | Bitcast(stored, _):
            own = stored
        case _:
            own = settled(value_type(arg))
    return own if own.bits == dtype.bits else settled(value_type(arg))


# --- faults -------------------------------------------------------------------------------------


def _worse(a: Array | None, b: Array | None) -> Array | None:
    """Both faults together."""
    if a is None or b is None:
        return b if a is None else a
    return np.maximum(a, b)


def _chosen(condition: Array, yes: Array | None, no: Array | None) -> Array | None:
    """The faults of the selected sides."""
    if yes is None and no is None:
        return None
    return np.where(condition, 0 if yes is None else yes, 0 if no is None else no)


def _applied_fault(expr: Apply, args: Sequence[Found]) -> Array | None:
    """`and` evaluates an operand where all before it hold, `or` where none does."""
    fault = args[0].fault
    reached = args[0].value if expr.function.name in ("and", "or") else None
    for found in args[1:]:
        new = found.fault
        if reached is not None:
            if new is not None:
                new = np.where(reached == (expr.function.name == "and"), new, 0)
            step = np.logical_and if expr.function.name == "and" else np.logical_or
            reached = step(reached, found.value)
        fault = _worse(fault, new)
    return fault


def _reduced_fault(
    body: Found, where: Found | None, depth: int, shape: tuple[int, ...]
) -> Array | None:
    """The faults of the selected elements, and of the condition anywhere."""
    fault = body.fault
    if where is not None:
        fault = _worse(_chosen(where.value, fault, None), where.fault)
    if fault is None:
        return None
    return np.asarray(_flat(fault, depth, shape).max(axis=0, initial=0))


# --- axes ---------------------------------------------------------------------------------------


def _flat(values: Array, depth: int, shape: tuple[int, ...]) -> Array:
    """`values` over a scope of `depth` axes, with the first ones, of `shape`, made one."""
    full = values.reshape((1,) * (depth - values.ndim) + values.shape)
    rest = full.shape[len(shape) :]
    return np.broadcast_to(full, shape + rest).reshape((math.prod(shape), *rest))


def _kept(values: Array, indices: tuple[str, ...], scope: Scope, count: int) -> Array:
    """The result of a reduction that keeps its indices, moved from the axes in front to those
    that the indices have outside, and cut to the positions there."""
    for place, name in enumerate(indices):
        span = scope.ranges[name]
        block = (slice(None),) * place + (slice(span.start, span.stop),)
        values = np.swapaxes(values[block], place, values.ndim + scope.axes[name])
    return values.reshape(values.shape[count:])


def _view(array: Array, read: Read, scope: Scope) -> Array | None:
    """A read at bare, distinct, fitting indices: a view with its axes in the scope's order."""
    names = [sub.index for sub in read.subscripts if isinstance(sub, Position)]
    if len(set(names)) < array.ndim:
        return None
    spans = [scope.ranges[name] for name in names]
    if any(span.stop > size for span, size in zip(spans, array.shape, strict=True)):
        return None
    part = array[tuple(slice(span.start, span.stop) for span in spans)]
    order = sorted(range(len(names)), key=lambda place: scope.axes[names[place]])
    moved = part.transpose(order)
    axes = {scope.axes[names[place]] for place in order}
    shape = [slice(None) if axis in axes else None for axis in range(min(axes, default=0), 0)]
    return moved[tuple(shape)] if shape else moved
