"""Reductions of the lanes of one vector as LLVM IR."""

from __future__ import annotations

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_types import Operand, suffix
from tensorc.ir.dtypes import BOOL, DType, Kind, integer_range, value_of
from tensorc.ir.functions import ALL, ANY, MAX, MIN, PROD, SUM, Reducer
from tensorc.ir.rounding import LARGEST

JOIN: dict[Reducer, str] = {
    SUM: "add", PROD: "mul", MAX: "max", MIN: "min", ANY: "or", ALL: "and",
}  # fmt: skip


def across(b: Builder, op: Reducer, value: Operand) -> Operand:
    """Reduce over the lanes; sums and products as a tree."""
    if value.lanes == 1:
        return value
    name, flags, start = _across(op, value)
    callee = f"llvm.vector.reduce.{name}.{suffix(value.dtype, value.lanes)}"
    element = Operand("", value.dtype, 1, 0).type
    first = f"{element} {start}, " if start else ""
    b.declare(callee, element, (f"{element}, " if start else "") + value.type)
    text = f"call {flags}{element} @{callee}({first}{value})"
    return b.result(text, value.dtype, 1, value.depth)


def _across(op: Reducer, value: Operand) -> tuple[str, str, str]:
    """(name, flags, start value) of the reduction over lanes."""
    floating = value.dtype.floating
    if op is SUM:
        return ("fadd", "reassoc ", "-0.0") if floating else ("add", "", "")
    if op is PROD:
        return ("fmul", "reassoc ", "1.0") if floating else ("mul", "", "")
    if op in (MAX, MIN):
        if floating:
            return f"f{op.name}imum", "", ""
        return ("s" if value.dtype.kind is Kind.INT else "u") + op.name, "", ""
    if op in (ANY, ALL):
        return ("or" if op is ANY else "and"), "", ""
    raise ValueError(f"{op} is not a canonical reduction")


def neutral(b: Builder, op: Reducer, dtype: DType) -> Operand:
    """What a reduction of nothing gives."""
    if op in (SUM, PROD):
        return b.const(0 if op is SUM else 1, dtype)
    if op in (ANY, ALL) or dtype is BOOL:
        return b.const(op in (ALL, MIN), dtype)
    if dtype.floating:
        return b.const("-inf" if op is MAX else "inf", dtype)
    return b.const(integer_range(dtype)[0 if op is MAX else 1], dtype)


def lowest(b: Builder, dtype: DType) -> Operand:
    """The lowest finite value of a storage type."""
    least = -LARGEST[dtype] if dtype.floating else integer_range(dtype)[0]
    return b.const(least, value_of(dtype))
