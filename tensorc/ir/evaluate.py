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
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tensorc.ir import constants, elementwise, reductions
from tensorc.ir.contract import ascending, contract
from tensorc.ir.dtypes import BOOL, COMPLEX128, F64, INDEX, DType, settled, value_of
from tensorc.ir.exact import Pi, rational
from tensorc.ir.node import postorder
from tensorc.ir.operands import (
    argument_types,
    bits_of,
    contraction,
    decides,
    met,
    narrows,
    taken,
    taken_as,
)
from tensorc.ir.rounding import Array, nearest, numpy_dtype, round_exact, round_to
from tensorc.ir.scopes import (
    Escape,
    Found,
    Reduction,
    Scope,
    applied_fault,
    chosen,
    gathered,
    viewed,
    worse,
)
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
    resolved,
    value_type,
)

MANY = 1 << 16  # products, from which a sum of them does without their array


class Evaluator:
    """Evaluates expressions over `tensors`: float64, complex128 and exact integers; with `rounded`,
    arrays of storage type; with `extended`, f64 and complex128 in long double. `escapes` lists the
    reads that left their tensors, selected or not."""

    def __init__(
        self,
        tensors: dict[str, Array],
        extents: Mapping[str, int],
        rounded: bool,
        extended: bool = False,
    ) -> None:
        self.tensors = tensors
        self.extents = extents
        self.rounded = rounded
        self.extended = extended
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
                args = [self._known(item, need, scope) for need in needs]
                home.memo[item, want] = self._compute(item, want, args, home)
            stack.pop()
        return scope.home(expr).memo[expr, wanted]

    def _known(self, user: Expr, need: tuple[Expr, DType], scope: Scope) -> Found:
        """An operand of `user`: a constant with the precision of its type where that decides."""
        found = scope.home(need[0]).memo[need]
        return self.met(found, *need) if decides(user) else found

    def met(self, found: Found, expr: Expr, dtype: DType) -> Found:
        """What was found for `expr`; a constant with the precision of its type, without error."""
        known = self._constant(expr) is not None or (
            constants.fixed(expr)  # with an imaginary part
        )
        if self.rounded or not known or not (dtype.floating or dtype.complex):
            return found
        return Found(met(found.value, dtype), found.fault)

    # --- types ----------------------------------------------------------------------------------

    def held(self, dtype: DType) -> np.dtype[np.generic]:
        """The NumPy type in which values of a value type are held."""
        if dtype is INDEX:
            return np.dtype(np.int64)
        if self.rounded or not (dtype.floating or dtype.complex):
            return numpy_dtype(dtype)
        if self.extended and dtype in (F64, COMPLEX128):
            return np.dtype(np.clongdouble if dtype.complex else np.longdouble)
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
                own = taken(value_type(expr), wanted)
                return tuple(zip(args, argument_types(expr, own), strict=True))
            case Select(condition, yes, no):
                own = taken(value_type(expr), wanted)
                return (condition, BOOL), (yes, own), (no, own)
            case Cast(dtype, arg) | Round(dtype, arg):
                return ((arg, resolved(value_type(arg), value_of(dtype))),)
            case Bitcast(_, arg):
                return ((arg, settled(value_type(arg))),)
            case Literal() | Position() | Extent() | Reduce() | Value() | Seen():
                return ()

    def _compute(self, expr: Expr, wanted: DType, args: Sequence[Found], scope: Scope) -> Found:
        own = taken(value_type(expr), wanted)
        constant = self._constant(expr)
        if constant is not None:
            weak = value_type(expr).weak  # rounded once, to what it meets
            exact = self._exactly(constant, wanted if weak else own)
            return Found(exact if weak else self._converted(exact, own, wanted))
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
                fault = chosen(condition.value, yes.fault, no.fault)
                value = np.where(condition.value, yes.value, no.value)
                return Found(value, worse(condition.fault, fault))
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
                return Found(np.asarray(complex(0, nearest(part, F64)), self.held(own)))
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
            near = nearest(value, F64)
            part = np.asarray(near).astype(self.held(dtype))
            if not self.extended or isinstance(value, str) or not math.isfinite(near):
                return part
            rest = np.asarray(nearest(value - Fraction(near), F64))
            return np.asarray(np.add(part, rest))
        return round_exact(value, dtype).astype(self.held(dtype))

    def _apply(self, expr: Apply, own: DType, args: Sequence[Found]) -> Found:
        types = argument_types(expr, own)
        values = [found.value for found in args]
        compute = elementwise.unbounded if INDEX in types else elementwise.apply
        result = compute(expr.function.name, values)
        if result.dtype != object:
            result = result.astype(self.held(own), copy=False)
        return Found(result, applied_fault(expr, args))

    def _cast(self, value: Array, arg: Expr, dtype: DType) -> Array:
        if resolved(value_type(arg), value_of(dtype)) is dtype and not constants.fixed(arg):
            return value  # already of that type: nothing to round
        return self.widened(round_to(value, dtype), dtype)

    def _round(self, value: Array, arg: Expr, dtype: DType) -> Array:
        inexact = dtype.floating or dtype.complex
        if inexact and not self.rounded:
            return value.astype(self.held(value_of(dtype)))
        return self._cast(value, arg, dtype)

    def _bits(self, value: Array, arg: Expr, dtype: DType) -> Array:
        stored = round_to(value, bits_of(arg, dtype))
        return self.widened(stored.view(numpy_dtype(dtype)), dtype)

    # --- reads ----------------------------------------------------------------------------------

    def _read(self, read: Read, args: Sequence[Found], scope: Scope) -> Found:
        array = self.tensors[read.tensor.name]
        view = viewed(array, read, scope)
        if view is not None:
            return Found(self.widened(view, read.tensor.dtype))
        fault: Array | None = None
        for axis, (found, size) in enumerate(zip(args, array.shape, strict=True)):
            bad = np.asarray((found.value < 0) | (found.value >= size), bool)
            fault = worse(fault, found.fault)
            if bad.any():
                fault = worse(fault, self._escape(read, axis, bad, args, scope))
        return Found(self.widened(gathered(array, args), read.tensor.dtype), fault)

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
        factors = self._factors(expr, scope)
        if factors is not None:
            return self._contracted(expr, *factors, scope)
        work = self._reduction(expr, scope)
        result = reductions.reduce(
            expr.reducer.name, self._operand(work), work.selected, self.rounded
        )
        return Found(self._placed(expr, work, result, scope), work.fault)

    def _factors(self, expr: Reduce, scope: Scope) -> tuple[Reduction, Reduction] | None:
        """The two factors of a sum of products, where the products are many."""
        if not contraction(expr) or not isinstance(expr.body, Apply):
            return None
        inner, (wanted, stored) = scope.enter(expr.indices, self.extents), taken_as(expr)
        shape = tuple(self.extents[name] for name in expr.indices)
        a, b = (
            Reduction(self.value(arg, wanted, inner), None, wanted, stored, inner.depth, shape)
            for arg in expr.body.args
        )
        size = math.prod(np.broadcast_shapes(a.body.value.shape, b.body.value.shape))
        return None if size < MANY else (a, b)

    def _contracted(self, expr: Reduce, a: Reduction, b: Reduction, scope: Scope) -> Found:
        x, y = a.flat(a.body.value), b.flat(b.body.value)
        special = not (np.isfinite(x).all() and np.isfinite(y).all())
        result = ascending(x, y) if self.rounded or special else contract(x, y)
        body = Found(a.body.value, worse(a.body.fault, b.body.fault))
        work = replace(a, body=body)
        return Found(self._placed(expr, work, result, scope), work.fault)

    def _reduction(self, expr: Reduce, scope: Scope) -> Reduction:
        """What a reduction works on."""
        inner = scope.enter(expr.indices, self.extents)
        wanted, stored = taken_as(expr)
        body = self.value(expr.body, wanted, inner)
        where = None if expr.where is None else self.value(expr.where, BOOL, inner)
        shape = tuple(self.extents[name] for name in expr.indices)
        return Reduction(body, where, wanted, stored, inner.depth, shape)

    def _operand(self, work: Reduction) -> Array:
        """The operands of a reduction, of a sum converted to the accumulator asked for."""
        values, wanted, stored = work.body.value, work.wanted, work.stored
        if stored is not None and stored is not wanted:
            if self.rounded or stored.integral or narrows(wanted, stored):
                values = round_to(values, stored)
            if not self.rounded and not stored.integral:
                values = values.astype(self.held(stored))
        return work.flat(values)

    def _placed(self, expr: Reduce, work: Reduction, result: Array, scope: Scope) -> Array:
        """The result in its value type, where its axes lie outside."""
        if expr.reducer.keeps:
            return work.spread(result, expr.indices, scope)
        return self._finished(result, work.stored, value_type(expr))

    def _finished(self, result: Array, stored: DType | None, own: DType) -> Array:
        if stored is not None and value_of(stored) is not stored:
            return self.widened(round_to(result, stored), stored)
        return result.astype(self.held(own), copy=False)
