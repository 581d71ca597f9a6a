"""Which expressions have values that a storage type holds exactly: storing them rounds nothing."""

from __future__ import annotations

from collections.abc import Mapping

from tensorc.ir import constants
from tensorc.ir.dtypes import LOWEST_EXPONENT, PRECISION, DType
from tensorc.ir.rounding import LARGEST, nearest
from tensorc.ir.tensor import Apply, Cast, Expr, Read, Round, Select, Value, value_type

_KEEPING = frozenset({"neg", "abs", "min", "max", "sign", "floor", "ceil", "round", "conj"})


def representable(expr: Expr, dtype: DType, extents: Mapping[str, int]) -> bool:
    """Whether `dtype` holds every value of `expr`: a copy, a choice between copies, a constant."""
    constant = constants.fold(expr, extents)
    if constant is not None and dtype.floating:
        return isinstance(constant, str) or nearest(constant, dtype) == constant
    match expr:
        case Read(tensor, _):
            return _holds(dtype, tensor.dtype)
        case Value(_, _, own) | Cast(own, _) | Round(own, _):
            return _holds(dtype, own)
        case Select(_, yes, no):
            return all(representable(side, dtype, extents) for side in (yes, no))
        case Apply(function, args) if function.name in _KEEPING:
            return all(representable(arg, dtype, extents) for arg in args)
        case _:
            return _holds(dtype, value_type(expr))


def _holds(dtype: DType, own: DType) -> bool:
    """Whether all values of a storage type are values of another."""
    if own is dtype:
        return True
    if own.weak or dtype not in PRECISION or own not in PRECISION:
        return False
    finer = PRECISION[dtype] >= PRECISION[own] and LOWEST_EXPONENT[dtype] <= LOWEST_EXPONENT[own]
    return finer and LARGEST[dtype] >= LARGEST[own]
