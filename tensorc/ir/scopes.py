"""Where expressions of level 1 are evaluated: scopes of indices, values with faults, axes.

Arrays have one axis per bound index, the outermost last: a reduction adds axes in front, so that
arrays of outer scopes broadcast. See `evaluate`, which works on these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorc.ir.dtypes import DType
from tensorc.ir.rounding import Array
from tensorc.ir.tensor import Apply, Expr, Position, Read, free_indices


@dataclass(frozen=True)
class Found:
    """A value at every point of its scope, and where it rests on a read that left its tensor:
    0, or a number that `Evaluator.escapes` explains. `error` is used by `bound_tensor` alone."""

    value: Array
    fault: Array | None = None
    error: Array | None = None


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


@dataclass(frozen=True)
class Reduction:
    """The operand of a reduction over `shape` inside a scope of `depth` axes: taken as `wanted`,
    accumulated in the storage type `stored` (None: not a sum)."""

    body: Found
    where: Found | None
    wanted: DType
    stored: DType | None
    depth: int
    shape: tuple[int, ...]

    def flat(self, values: Array) -> Array:
        """`values` with the reduced axes, in front, made one, last index fastest."""
        full = values.reshape((1,) * (self.depth - values.ndim) + values.shape)
        rest = full.shape[len(self.shape) :]
        whole = np.broadcast_to(full, self.shape + rest)
        return whole.reshape((math.prod(self.shape), *rest))

    @property
    def selected(self) -> Array | None:
        """Which elements are reduced."""
        return None if self.where is None else self.flat(self.where.value)

    @property
    def fault(self) -> Array | None:
        """The faults of the selected elements, and of the condition anywhere."""
        fault = self.body.fault
        if self.where is not None:
            fault = worse(chosen(self.where.value, fault, None), self.where.fault)
        return None if fault is None else np.asarray(self.flat(fault).max(axis=0, initial=0))

    def spread(self, result: Array, indices: tuple[str, ...], scope: Scope) -> Array:
        """The result of a reduction that keeps its indices, moved from the axes in front to those
        that the indices have outside, and cut to the positions there."""
        values = result.reshape(self.shape + result.shape[1:])
        for place, name in enumerate(indices):
            span = scope.ranges[name]
            block = (slice(None),) * place + (slice(span.start, span.stop),)
            values = np.swapaxes(values[block], place, values.ndim + scope.axes[name])
        return values.reshape(values.shape[len(indices) :])


# --- faults -------------------------------------------------------------------------------------


def worse(a: Array | None, b: Array | None) -> Array | None:
    """Both faults together."""
    if a is None or b is None:
        return b if a is None else a
    return np.maximum(a, b)


def chosen(condition: Array, yes: Array | None, no: Array | None) -> Array | None:
    """The faults of the selected sides."""
    if yes is None and no is None:
        return None
    return np.where(condition, 0 if yes is None else yes, 0 if no is None else no)


def applied_fault(expr: Apply, args: Sequence[Found]) -> Array | None:
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
        fault = worse(fault, new)
    return fault


# --- axes ---------------------------------------------------------------------------------------


def gathered(array: Array, places: Sequence[Found]) -> Array:
    """The elements of `array` at some places, clipped into it; 0 of an empty array."""
    if 0 in array.shape:
        shape = np.broadcast_shapes(*(found.value.shape for found in places))
        return np.zeros(shape, array.dtype)
    clipped = [
        np.clip(found.value, 0, size - 1).astype(np.int64)
        for found, size in zip(places, array.shape, strict=True)
    ]
    return np.asarray(array[tuple(clipped)])


def viewed(array: Array, read: Read, scope: Scope) -> Array | None:
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
