"""The 8-bit floats as LLVM IR: bits in a register to f32 and back, rounded once to nearest even.

f8e4m3 is the finite "fn" form: bias 7, one NaN per sign, no infinity, what is too large is NaN.
f8e5m2 is IEEE's: bias 15, infinities, what is too large is one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import BOOL, F8E4M3, F8E5M2, F16, F32, I8, I16, I32, DType


@dataclass(frozen=True)
class Small:
    """A format: bits of the fraction, bias, the pattern of what is too large, and of NaN."""

    fraction: int
    bias: int
    over: int
    nan: int


SMALL: dict[DType, Small] = {
    F8E4M3: Small(3, 7, 0x7F, 0x7F),
    F8E5M2: Small(2, 15, 0x7C, 0x7E),
}


def from_small(b: Builder, x: Operand, dtype: DType) -> Operand:
    """The value of the bits, exactly, by way of f16, whose exponent holds both."""
    wide = b.convert("zext", x, I16)
    if dtype is F8E5M2:  # the upper half of an f16
        return b.convert("fpext", b.convert("bitcast", _left(b, wide, 8), F16), F32)
    sign = _left(b, b.op("and", wide, b.const(0x80, I16)), 8)
    magnitude = b.op("and", wide, b.const(0x7F, I16))
    half = b.convert("bitcast", b.op("or", sign, _left(b, magnitude, 7)), F16)
    scaled = b.op(
        "fmul", b.convert("fpext", half, F32), b.const(256, F32)
    )  # the biases differ by 8
    nan = b.op("icmp eq", magnitude, b.const(0x7F, I16), BOOL)
    return b.select(nan, b.const("nan", F32), scaled)


def _left(b: Builder, x: Operand, count: int) -> Operand:
    return b.op("shl", x, b.const(count, x.dtype))


def to_small(b: Builder, x: Operand, dtype: DType) -> Operand:
    """The bits of an f32 rounded to nearest even."""
    form = SMALL[dtype]
    bits = b.convert("bitcast", x, I32)
    magnitude = b.op("and", bits, b.const(0x7FFFFFFF, I32))
    small = b.op("icmp ult", magnitude, b.const(128 - form.bias << 23, I32), BOOL)
    rounded = b.select(small, _subnormal(b, magnitude, form), _normal(b, magnitude, form))
    finite = b.intrinsic("umin", [rounded, b.const(form.over, I32)])
    found = b.select(b.op("fcmp uno", x, x, BOOL), b.const(form.nan, I32), finite)
    sign = b.op("and", b.op("lshr", bits, b.const(24, I32)), b.const(0x80, I32))
    return b.convert("trunc", b.op("or", sign, found), I8)


def _normal(b: Builder, magnitude: Operand, form: Small) -> Operand:
    """Exponents count from another bias; half a unit less one, and the last bit kept, are added."""
    shift = 23 - form.fraction
    moved = b.op("sub", magnitude, b.const(127 - form.bias << 23, I32))
    odd = b.op("and", b.op("lshr", moved, b.const(shift, I32)), b.const(1, I32))
    half = b.op("add", odd, b.const((1 << shift - 1) - 1, I32))
    return b.op("lshr", b.op("add", moved, half), b.const(shift, I32))


def _subnormal(b: Builder, magnitude: Operand, form: Small) -> Operand:
    """Adding 2**k, whose unit in the last place is the format's, rounds to a count of units."""
    large = Fraction(2) ** (24 - form.bias - form.fraction)
    exponent = 127 + 24 - form.bias - form.fraction
    total = b.op("fadd", b.convert("bitcast", magnitude, F32), b.const(large, F32))
    return b.op("sub", b.convert("bitcast", total, I32), b.const(exponent << 23, I32))
