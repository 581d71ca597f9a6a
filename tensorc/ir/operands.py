"""In which types a node takes its operands, as the evaluators of level 1 need it.

`tensor.operand_types` says it for kernels; here positions and extents have no width where only
they meet, and a reduction's accumulator is told from the type of what it adds.
"""

from __future__ import annotations

from tensorc.ir.dtypes import BOOL, I32, INDEX, DType, settled, value_of
from tensorc.ir.functions import (
    ALL,
    ANY,
    ARGMAX,
    ARGMIN,
    MAX,
    MIN,
    SUM,
    Typing,
    accumulator,
)
from tensorc.ir.rounding import Array, round_to
from tensorc.ir.tensor import (
    Apply,
    Bitcast,
    Cast,
    Expr,
    Read,
    Reduce,
    Round,
    Select,
    operand_types,
    resolved,
    value_type,
)

_DECIDING = frozenset({Typing.COMPARISON, Typing.EQUALITY})
_PICKING = frozenset({"floordiv", "mod", "min", "max"})


def decides(expr: Expr) -> bool:
    """Whether a constant is there as precise as what it meets: where rounding decides the result,
    and where an operand may come out as it is."""
    match expr:
        case Apply(function, _):
            return function.typing in _DECIDING or function.name in _PICKING
        case _:
            return isinstance(expr, Select)


def met(value: Array, dtype: DType) -> Array:
    """A constant with the precision of value type `dtype`, held as `value` is."""
    return round_to(value, dtype).astype(value.dtype)


def taken(own: DType, wanted: DType) -> DType:
    """The type in which a value of type `own` is computed: weak integers have no width where the
    context is a subscript."""
    return INDEX if wanted is INDEX and own.weak and own.integral else resolved(own, wanted)


def argument_types(expr: Apply, wanted: DType) -> tuple[DType, ...]:
    """`operand_types`, with integers without width where only positions and extents meet."""
    types = [value_type(arg) for arg in expr.args]
    weak = all(dtype.weak and dtype.integral for dtype in types)
    if weak and expr.function.typing in _DECIDING:
        return (INDEX,) * len(types)
    if wanted is INDEX and value_type(expr).weak and value_type(expr).integral:
        return tuple(taken(dtype, INDEX) for dtype in types)
    return operand_types(expr, wanted)


def narrows(wanted: DType, stored: DType) -> bool:
    """Whether an accumulator of type `stored` rounds operands of value type `wanted`."""
    inexact = wanted.floating or wanted.complex
    return value_of(stored) is not stored or (inexact and stored.bits < wanted.bits)


def taken_as(expr: Reduce) -> tuple[DType, DType | None]:
    """The type in which a reduction takes its body, and the storage type that it accumulates in."""
    reducer, body = expr.reducer, value_type(expr.body)
    if reducer in (ANY, ALL):
        return BOOL, None
    if reducer in (MAX, MIN, ARGMAX, ARGMIN):
        return (I32 if body is BOOL else settled(body)), None
    stored = accumulator(reducer, body, expr.dtype)
    return resolved(body, value_of(stored)), stored


def contraction(expr: Reduce) -> bool:
    """Whether this is a sum of products of two factors in their own float type."""
    body = expr.body
    if expr.reducer is not SUM or expr.where is not None or not isinstance(body, Apply):
        return False
    wanted, stored = taken_as(expr)
    inexact = wanted.floating or wanted.complex
    product = body.function.name == "mul" and len(body.args) == 2
    return product and inexact and stored is wanted and value_type(body) is wanted


def bits_of(arg: Expr, dtype: DType) -> DType:
    """The type as which `arg` is stored when its bits are taken as `dtype`."""
    match arg:
        case Read(tensor, _):
            own = tensor.dtype
        case Cast(stored, _) | Round(stored, _) | Bitcast(stored, _):
            own = stored
        case _:
            own = settled(value_type(arg))
    return own if own.bits == dtype.bits else settled(value_type(arg))
