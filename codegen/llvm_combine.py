"""Stores that meet in memory: a value is combined with what is there, whoever else does the same.

The element is exchanged only if nobody changed it since it was read, else the sum is made again.
Which order stores meet in is not fixed, so rounding may differ from run to run.
"""

from __future__ import annotations

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_convert import convert, narrowed, nonzero, widened
from tensorc.codegen.llvm_expressions import Expressions
from tensorc.codegen.llvm_functions import FUNCTIONS
from tensorc.codegen.llvm_memory import address
from tensorc.codegen.llvm_reduce import JOIN
from tensorc.codegen.llvm_types import Operand, memory_type, register_type
from tensorc.ir.dtypes import BOOL, I8, DType, value_of
from tensorc.ir.functions import Reducer
from tensorc.ir.tensor import Expr, Tensor


def combine(
    e: Expressions, op: Reducer, tensor: Tensor, subscripts: tuple[Expr, ...], value: Operand
) -> None:
    """tensor[subscripts] = op(tensor[subscripts], value), for one element."""
    b, dtype = e.b, tensor.dtype
    offset, _ = e.offset(tensor, subscripts, None, None)
    element = memory_type(dtype)
    place = address(b, element, e.scope.storage[tensor.name].pointer, offset)
    whole = f"i{max(8, dtype.bits)}"
    before, again, done = b.label, b.fresh("again"), b.fresh("done")
    first = f"%{b.fresh()}"
    b.emit(f"{first} = load {whole}, ptr {place}", b.depth)
    b.emit(f"br label %{again}", b.depth)
    b.mark(again)
    old, found, pair = (f"%{b.fresh()}" for _ in range(3))
    b.emit(f"{old} = phi {whole} [ {first}, %{before} ], [ {found}, %{again} ]", b.depth)
    new = _bits(b, _joined(b, op, dtype, _element(b, old, whole, dtype), value), dtype, whole)
    b.emit(f"{pair} = cmpxchg ptr {place}, {whole} {old}, {whole} {new} seq_cst seq_cst", b.depth)
    b.emit(f"{found} = extractvalue {{ {whole}, i1 }} {pair}, 0", b.depth)
    same = f"%{b.fresh()}"
    b.emit(f"{same} = extractvalue {{ {whole}, i1 }} {pair}, 1", b.depth)
    b.emit(f"br i1 {same}, label %{done}, label %{again}", b.depth)
    b.mark(done)


def _element(b: Builder, old: str, whole: str, dtype: DType) -> Operand:
    """The value of what is in memory."""
    if dtype is BOOL:
        return nonzero(b, Operand(old, I8, 1, b.depth))
    kind = memory_type(dtype)
    raw = old if kind == whole else b.raw(f"bitcast {whole} {old} to {kind}", b.depth)
    return widened(b, Operand(raw, register_type(dtype), 1, b.depth), dtype)


def _joined(b: Builder, op: Reducer, dtype: DType, there: Operand, value: Operand) -> Operand:
    kind = value_of(dtype)
    return FUNCTIONS[JOIN[op]](b, [there, convert(b, value, kind)])


def _bits(b: Builder, value: Operand, dtype: DType, whole: str) -> str:
    """A value as it is stored, as an integer."""
    stored = narrowed(b, value, dtype)
    if dtype is BOOL:
        return b.convert("zext", stored, I8).ref
    if memory_type(dtype) == whole:
        return stored.ref
    return b.raw(f"bitcast {stored} to {whole}", b.depth)
