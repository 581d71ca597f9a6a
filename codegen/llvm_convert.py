"""Conversions between value types, and rounding to and from storage types, as LLVM IR.

Semantics are the language's: integers wrap, floats to integers truncate, saturate and take NaN to
0, numbers to bool are `x != 0`, floats round once to nearest even.
"""

from __future__ import annotations

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_small import SMALL, from_small, to_small
from tensorc.codegen.llvm_types import (
    Operand,
    element_type,
    register_type,
    vector_of,
    widen_opcode,
)
from tensorc.ir.dtypes import BF16, BOOL, F16, F32, F64, I16, I32, I64, DType, Kind, value_of


def convert(b: Builder, x: Operand, dtype: DType) -> Operand:
    """A value of one value type as another value type."""
    if x.dtype is dtype:
        return x
    if dtype is BOOL:
        return nonzero(b, x)
    if dtype.floating:
        return _to_float(b, x, dtype)
    if x.dtype.floating:
        return _saturate(b, x, dtype)
    return _resize(b, x, dtype)


def nonzero(b: Builder, x: Operand) -> Operand:
    """x != 0; NaN is true."""
    zero = b.const(0, x.dtype)
    return b.op("fcmp une" if x.dtype.floating else "icmp ne", x, zero, BOOL)


def _to_float(b: Builder, x: Operand, dtype: DType) -> Operand:
    if x.dtype.floating:
        return b.convert("fpext" if dtype is F64 else "fptrunc", x, dtype)
    unsigned = x.dtype is BOOL or x.dtype.kind is Kind.UINT
    return b.convert("uitofp" if unsigned else "sitofp", x, dtype)


def _saturate(b: Builder, x: Operand, dtype: DType) -> Operand:
    """llvm.fptosi.sat: truncates, saturates, NaN gives 0."""
    name = "fptoui.sat" if dtype.kind is Kind.UINT else "fptosi.sat"
    shape = "" if x.lanes == 1 else f"v{x.lanes}"
    callee = f"llvm.{name}.{shape}i{dtype.bits}.{shape}f{x.dtype.bits}"
    result = vector_of(f"i{dtype.bits}", x.lanes)
    b.declare(callee, result, x.type)
    return b.result(f"call {result} @{callee}({x})", dtype, x.lanes, x.depth)


def _resize(b: Builder, x: Operand, dtype: DType) -> Operand:
    """Between integers: wrap or extend by the sign of the source. Same width: the same bits."""
    width = 1 if x.dtype is BOOL else x.dtype.bits
    if width == dtype.bits:
        return Operand(x.ref, dtype, x.lanes, x.depth)
    if width > dtype.bits:
        return b.convert("trunc", x, dtype)
    unsigned = x.dtype is BOOL or x.dtype.kind is Kind.UINT
    return b.convert("zext" if unsigned else "sext", x, dtype)


def narrowed(b: Builder, x: Operand, dtype: DType) -> Operand:
    """A value as the storage type `dtype` in a register of that width (bf16: its bits as i16)."""
    if dtype.floating and dtype.bits < 32 and not x.dtype.floating:
        x = _sticky_f64(b, x)
    if dtype is BF16:
        return _to_bf16(b, x)
    if dtype in SMALL:
        return to_small(b, _odd_f32(b, x) if x.dtype is F64 else convert(b, x, F32), dtype)
    if dtype is F16:
        wide = _odd_f32(b, x) if x.dtype is F64 else convert(b, x, F32)
        return b.convert("fptrunc", wide, F16)
    if value_of(dtype) is dtype:
        return convert(b, x, dtype)
    if x.dtype.floating:
        return _saturate(b, x, dtype)
    return _resize(b, x, dtype)


def _sticky_f64(b: Builder, x: Operand) -> Operand:
    """An integer as an f64 that rounds to 16 bits as the integer itself would: past 2**53 the low
    12 bits are gathered into the last bit kept."""
    if x.dtype is BOOL or x.dtype.bits < 64:
        return convert(b, x, F64)
    zero = b.const(0, x.dtype)
    low = b.op("and", x, b.const(0xFFF, x.dtype))
    sticky = b.select(b.op("icmp ne", low, zero, BOOL), b.const(0x1000, x.dtype), zero)
    coarse = b.op("or", b.op("xor", x, low), sticky)
    exact = convert(b, x, F64)
    large = b.op("fcmp ogt", b.intrinsic("fabs", [exact]), b.const(2**53, F64), BOOL)
    return b.select(large, convert(b, coarse, F64), exact)


def widened(b: Builder, x: Operand, dtype: DType) -> Operand:
    """The value of a register that holds the storage type `dtype`."""
    if dtype is BF16:
        wide = b.convert("zext", x, I32)
        return _as_bits(b, b.op("shl", wide, b.const(16, I32)), F32)
    if dtype in SMALL:
        return from_small(b, x, dtype)
    opcode = widen_opcode(dtype)
    return x if opcode is None else b.convert(opcode, x, value_of(dtype))


def rounded(b: Builder, x: Operand, dtype: DType) -> Operand:
    """A value rounded to a storage type and widened again."""
    if value_of(dtype) is dtype:
        return convert(b, x, dtype)
    return widened(b, narrowed(b, x, dtype), dtype)


def _to_bf16(b: Builder, x: Operand) -> Operand:
    """Round to nearest even on the bits of f32; NaN stays NaN (quiet)."""
    wide = _odd_f32(b, x) if x.dtype is F64 else convert(b, x, F32)
    bits = _as_bits(b, wide, I32)
    odd = b.op("and", b.op("lshr", bits, b.const(16, I32)), b.const(1, I32))
    sum_ = b.op("add", bits, b.op("add", odd, b.const(0x7FFF, I32)))
    quiet = b.op("or", bits, b.const(0x400000, I32))
    nan = b.op("fcmp uno", wide, wide, BOOL)
    high = b.op("lshr", b.select(nan, quiet, sum_), b.const(16, I32))
    return b.convert("trunc", high, I16)


def _odd_f32(b: Builder, x: Operand) -> Operand:
    """f64 to f32 rounded to odd: truncated, with the last bit set where inexact, so that a second
    rounding to 16 bits gives what one direct rounding would. Infinities and NaN pass."""
    near = b.convert("fptrunc", x, F32)
    back = b.convert("fpext", near, F64)
    magnitude = b.intrinsic("fabs", [x])
    too_far = b.op("fcmp ogt", b.intrinsic("fabs", [back]), magnitude, BOOL)
    bits = _as_bits(b, near, I32)
    down = b.op("sub", bits, b.const(1, I32))
    toward = b.select(too_far, down, bits)
    inexact = b.op("fcmp one", back, x, BOOL)
    odd = b.op("or", toward, b.const(1, I32))
    return _as_bits(b, b.select(inexact, odd, toward), F32)


def _as_bits(b: Builder, x: Operand, dtype: DType) -> Operand:
    return b.convert("bitcast", x, dtype)


def bitcast(b: Builder, x: Operand, source: DType, dtype: DType) -> Operand:
    """The bits of `x` stored as `source`, read as `dtype` of the same width, widened."""
    stored = narrowed(b, x, source)
    if (
        register_type(source) is not source
        or register_type(dtype) is not dtype
        or element_type(source) == element_type(dtype)
    ):
        bits = stored if not stored.dtype.floating else _as_bits(b, stored, I16)
        same = bits if dtype is not F16 else _as_bits(b, bits, F16)
        return widened(b, Operand(same.ref, _bits_of(dtype), same.lanes, same.depth), dtype)
    return widened(b, _as_bits(b, stored, dtype), dtype)


def _bits_of(dtype: DType) -> DType:
    return register_type(dtype)


def as_i64(b: Builder, x: Operand) -> Operand:
    """An integer as an i64, by its own sign."""
    return convert(b, x, I64)
