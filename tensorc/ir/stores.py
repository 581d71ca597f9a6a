"""What may be stored as what without a cast, and which literals a type can represent."""

from __future__ import annotations

from tensorc.ir import weak
from tensorc.ir.diagnostics import fault
from tensorc.ir.dtypes import BOOL, IMAGINARY, INTEGER, REAL, DType, Kind, integer_range, settled
from tensorc.ir.functions import PROD, SUM, Reducer
from tensorc.ir.source import Diagnostic, Place
from tensorc.ir.tensor import Bitcast, Cast, Expr, Literal, Read, value_type


def accumulates(reducer: Reducer, body: DType, declared: DType) -> bool:
    """Whether a body of this type may be converted to the declared accumulator: as a store.

    mean, logsumexp and softmax accumulate floats or complex numbers.
    """
    whole = declared.integral or declared is BOOL
    return stores(settled(body), declared) and (reducer in (SUM, PROD) or not whole)


def stores(value: DType, storage: DType) -> bool:
    """Whether a value may be stored as `storage` without a cast: never to a narrower kind."""
    order = {Kind.BOOL: 0, Kind.INT: 1, Kind.UINT: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}
    return order[value.kind] <= order[storage.kind]


def storage_of(expr: Expr) -> DType:
    """The type whose bits a bitcast of `expr` takes: as stored, as cast, else its value type."""
    match expr:
        case Read(tensor, _):
            return tensor.dtype
        case Cast(dtype, _) | Bitcast(dtype, _):
            return dtype
        case _:
            return settled(value_type(expr))


def _beyond_all(expr: Expr) -> bool:
    """Whether a constant is too large to be computed. Folding needs NumPy, checking does not."""
    from tensorc.ir.constants import fold

    return fold(expr, {}) in ("inf", "-inf")


def literal_fault(expr: Expr, dtype: DType, span: Place) -> Diagnostic | None:
    """E224 or E107 if a weak constant is not representable in the type that it meets."""
    if value_type(expr) is INTEGER and dtype.integral:
        number = weak.integer(expr)
        low, high = integer_range(settled(dtype))
        if number is None and _beyond_all(expr):
            literal = "a number beyond 2**16384"
        elif number is None or low <= number <= high:
            return None
        else:
            literal = weak.short(number)
        return fault("E224", span, literal=literal, dtype=dtype, low=low, high=high)
    if dtype.floating or dtype.complex:
        return _overflow(expr, settled(dtype), span)
    return None


def _overflow(expr: Expr, dtype: DType, span: Place) -> Diagnostic | None:
    if not isinstance(expr, Literal) or expr.dtype not in (REAL, INTEGER, IMAGINARY):
        return None
    if isinstance(expr.value, str) or abs(expr.value) < weak.overflow(dtype):
        return None
    text = weak.number(expr.value) + "j" * (expr.dtype is IMAGINARY)
    return fault("E107", span, literal=text, dtype=weak.part(dtype), value="inf")
