"""The worst-case rounding error of a level-1 program, element by element.

The meaning of `interpret_tensor` with an error beside every value (`propagate` has the rules): the
fallback where no level-2 program is at hand, and what rewriting may be compared with. Sums are
taken in any order with one rounding a term, as the source groups them. A program whose algebra was
changed (re-based maxima, delayed divisions) has the bound of its own level 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tensorc.ir import interpret_tensor, propagate, reductions
from tensorc.ir.bounded import Bounded
from tensorc.ir.constants import fixed
from tensorc.ir.dtypes import F32, F64, DType
from tensorc.ir.evaluate import Evaluator
from tensorc.ir.needed import needed
from tensorc.ir.operands import narrows, taken
from tensorc.ir.propagate_reductions import contracted, reduced
from tensorc.ir.representable import representable
from tensorc.ir.rounding import Array
from tensorc.ir.scopes import Found, Reduction, Scope, gathered, viewed
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Seen,
    Select,
    Value,
    value_type,
)


def bound_tensor(
    program: Program, arrays: Mapping[str, npt.ArrayLike], extents: Mapping[str, int]
) -> dict[str, Bounded]:
    """The outputs of `program` with their errors, the rounding of the store included.

    Arguments and errors raised as those of `interpret_tensor.interpret`; values as it gives them.
    Errors are float64, of the outputs' shapes; infinite where rounding may change a decision or
    overflow. For integers and bools an error is 0, or not, which means that they may differ.
    """
    program, machine = needed(program), Bounder({}, extents)
    interpret_tensor.load(machine, program, arrays)
    errors: dict[str, Array] = {}
    done = interpret_tensor.last_reads(program)
    for equation, dead in zip(program.equations, done, strict=True):
        tensor, made = equation.tensor, interpret_tensor.empty(machine, equation)
        error = np.zeros(made.shape)
        for part, found in interpret_tensor.solved(machine, equation, program):
            made[part] = interpret_tensor.hold(machine, found.value, tensor.dtype)
            error[part] = _error(found)
        machine.tensors[tensor.name], errors[tensor.name] = made, error
        inexact = tensor.dtype.floating or tensor.dtype.complex
        overflow = propagate.rounded(error, made, tensor.dtype) if inexact else error
        machine.errors[tensor.name] = overflow
        for name in dead:
            for table in (machine.tensors, machine.errors, errors):
                table.pop(name, None)
    names = [output.tensor.name for output in program.outputs]
    return {name: Bounded(machine.tensors[name], errors[name]) for name in names}


def _error(found: Found) -> Array:
    return np.zeros(()) if found.error is None else found.error


def _bounded(found: Found) -> Bounded:
    return Bounded(found.value, _error(found))


class Bounder(Evaluator):
    """An evaluator of the meaning whose values carry errors; `errors` are those of the tensors
    (none: exact)."""

    def __init__(self, tensors: dict[str, Array], extents: Mapping[str, int]) -> None:
        super().__init__(tensors, extents, rounded=False)
        self.errors: dict[str, Array] = {}

    def _compute(self, expr: Expr, wanted: DType, args: Sequence[Found], scope: Scope) -> Found:
        own = taken(value_type(expr), wanted)
        if self._constant(expr) is not None:
            found = super()._compute(expr, wanted, args, scope)
            return Found(found.value, None, _of_constant(found.value, wanted))
        found = self._node(expr, own, args, scope)
        value, error = self._converted(found.value, own, wanted), _error(found)
        if own is not wanted and (wanted.floating or wanted.complex):
            error = propagate.converted(_bounded(found), wanted)
        return Found(value, found.fault, error)

    def _node(self, expr: Expr, own: DType, args: Sequence[Found], scope: Scope) -> Found:
        found = super()._node(expr, own, args, scope)
        if isinstance(expr, Reduce):
            return found
        error = self._error_of(expr, own, args, found, scope)
        return Found(found.value, found.fault, error)

    def _error_of(
        self, expr: Expr, own: DType, args: Sequence[Found], found: Found, scope: Scope
    ) -> Array:
        items = [_bounded(arg) for arg in args]
        match expr:
            case Read():
                return self._read_error(expr, args, scope)
            case Apply(function, _):
                return propagate.applied(function.name, items, found.value, own)
            case Select():
                return propagate.chosen(items[0], items[1], items[2])
            case Cast(dtype, arg):
                if fixed(arg):
                    return np.zeros(())  # its bits are those of the exact value, rounded
                return items[0].error if found.value is args[0].value else _cast(items[0], dtype)
            case Round(dtype, _):
                inexact = dtype.floating or dtype.complex
                if not inexact:
                    return _cast(items[0], dtype)
                copied = representable(expr.arg, dtype, self.extents)
                return items[0].error if copied else propagate.stored(items[0], dtype)
            case Bitcast():
                return np.where(items[0].error > 0, np.inf, 0.0)
            case Literal():
                return _of_constant(found.value, own)
            case Position() | Extent() | Reduce() | Value() | Seen():
                return np.zeros(())

    def _read_error(self, read: Read, args: Sequence[Found], scope: Scope) -> Array:
        """The error of what is read; infinite where a subscript is open."""
        errors = self.errors.get(read.tensor.name)
        if errors is None:
            error = np.zeros(())
        else:
            view = viewed(errors, read, scope)
            error = gathered(errors, args) if view is None else view
        for arg in args:
            if arg.error is not None and arg.error.any():
                error = np.where(arg.error > 0, np.inf, error)
        return error

    def _contracted(self, expr: Reduce, a: Reduction, b: Reduction, scope: Scope) -> Found:
        found = super()._contracted(expr, a, b, scope)
        first, second = (
            Bounded(item.flat(item.body.value), item.flat(_error(item.body))) for item in (a, b)
        )
        error = contracted(first, second, found.value, a.wanted)
        return Found(found.value, found.fault, error)

    def _reduce(self, expr: Reduce, scope: Scope) -> Found:
        factors = self._factors(expr, scope)
        if factors is not None:
            return self._contracted(expr, *factors, scope)
        work = self._reduction(expr, scope)
        values, name = self._operand(work), expr.reducer.name
        result = reductions.reduce(name, values, work.selected, False)
        dtype = work.stored or work.wanted
        body = Bounded(values, work.flat(_operand_error(work)))
        error = reduced(name, body, work.selected, result, dtype)
        if work.where is not None and work.where.error is not None:
            error = np.where(work.flat(work.where.error).any(axis=0), np.inf, error)
        if work.stored is not None and narrows(work.wanted, work.stored):
            error = _cast(Bounded(result, error), work.stored)
        if expr.reducer.keeps:
            error = work.spread(np.broadcast_to(error, result.shape), expr.indices, scope)
        return Found(self._placed(expr, work, result, scope), work.fault, error)


def _of_constant(value: Array, dtype: DType) -> Array:
    """The error of a constant, which a kernel holds in its value type."""
    if not (dtype.floating or dtype.complex):
        return np.zeros(())
    part = dtype if dtype.floating else F32 if dtype.bits == 64 else F64
    parts = (np.real(value), np.imag(value))
    return np.asarray(sum(propagate.constant(float(number), part) for number in parts))


def _cast(item: Bounded, dtype: DType) -> Array:
    """The error of a cast: of floats that of the interval; of open integers infinite."""
    if item.value.dtype.kind == "f":
        return propagate.cast(item, dtype)
    if item.value.dtype.kind == "c":
        return propagate.stored(item, dtype)
    return np.where(item.error > 0, np.inf, 0.0)


def _operand_error(work: Reduction) -> Array:
    """The error of what is summed, once converted to the accumulator."""
    item, stored = _bounded(work.body), work.stored
    if stored is None or stored is work.wanted:
        return item.error
    if narrows(work.wanted, stored) or stored.integral:
        return _cast(item, stored)
    return propagate.converted(item, stored)
