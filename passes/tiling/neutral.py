"""Canonical reducers at level 2: what changes nothing in them, and how two values join."""

from __future__ import annotations

from tensorc.ir.dtypes import REAL, DType, integer_range
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.tensor import Expr, Literal
from tensorc.passes.canonicalise import call, integer, truth

# The function that joins two values of a reduction.
COMBINE: dict[Reducer, str] = {
    SUM: "add", PROD: "mul", MAX: "max", MIN: "min", ANY: "or", ALL: "and",
}  # fmt: skip


def identity(reducer: Reducer, dtype: DType) -> Expr:
    """The neutral element of a canonical reducer at a value or storage type."""
    if reducer in (ANY, ALL):
        return truth(reducer is ALL)
    if reducer in (SUM, PROD):
        return integer(0 if reducer is SUM else 1)
    if dtype.floating:
        infinity = Literal("inf", REAL)
        return call("neg", infinity) if reducer is MAX else infinity
    low, high = integer_range(dtype)
    return integer(low if reducer is MAX else high)
