"""LLVM types, constants and conversions of the language's element types.

In registers a value has its value type; bool is i1. In memory bool is a byte, bf16 its 16 bits.
Narrowing rounds once, directly, to nearest even: hardware bf16 conversions flush subnormals and
LLVM's double to half goes through a library call, so both are written out in integer arithmetic.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tensorc.ir.dtypes import (
    BF16,
    BOOL,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I16,
    DType,
    integer_range,
    value_of,
)  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """An SSA value: its reference or constant, its type, its lanes (1: scalar), and the depth of
    the region from which it is available."""

    ref: str
    dtype: DType
    lanes: int
    depth: int

    @property
    def type(self) -> str:
        """The LLVM type."""
        return llvm_type(self.dtype, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"


def register_type(dtype: DType) -> DType:
    """What a register holds of a stored element: for types without LLVM arithmetic, their bits."""
    if dtype is BF16:
        return I16
    return I8 if dtype in (F8E4M3, F8E5M2) else dtype


def element_type(dtype: DType) -> str:
    """The LLVM type of one register value of this type."""
    if dtype is BOOL:
        return "i1"
    if dtype is F32:
        return "float"
    if dtype is F64:
        return "double"
    if dtype is F16:
        return "half"
    return f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """The LLVM type of one stored element."""
    return "i8" if dtype is BOOL else element_type(dtype)


def vector_of(element: str, lanes: int) -> str:
    """<lanes x element>, or the element itself for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


def llvm_type(dtype: DType, lanes: int) -> str:
    """The LLVM type of `lanes` register values."""
    return vector_of(element_type(dtype), lanes)


def suffix(dtype: DType, lanes: int) -> str:
    """The mangling of an intrinsic over this type: `f32`, `v16f32`, `i64`."""
    name = f"f{dtype.bits}" if dtype.floating else element_type(dtype)
    return name if lanes == 1 else f"v{lanes}{name}"


def constant(value: Fraction | int | float | str, dtype: DType) -> str:
    """An exact constant rounded once to a value type, spelled so that no digit is lost."""
    if dtype is BOOL:
        return "true" if value else "false"
    if dtype.floating:
        return _float_constant(value, dtype)
    low, high = integer_range(dtype)
    number = int(value)
    return str((number - low) % (high - low + 1) + low)


def _float_constant(value: Fraction | int | float | str, dtype: DType) -> str:
    """LLVM spells floats by the bits of the double with the same value."""
    special = {"inf": "inf", "-inf": "-inf", "nan": "nan", "-0": "-0.0"}
    if isinstance(value, str):
        number = np.float64(special[value])
    else:
        number = np.float64(nearest(Fraction(value), dtype))
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"


def nearest(value: Fraction, dtype: DType) -> float:
    """The float of type f32 or f64 nearest to an exact value, ties to even."""
    try:
        wide = value.numerator / value.denominator
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    if dtype is F64:
        return wide
    if Fraction(wide) != value:
        wide = _to_odd(wide, value)
    with np.errstate(over="ignore"):
        return float(np.float32(wide))


def _to_odd(wide: float, value: Fraction) -> float:
    """The double next to `value` whose last bit is 1: rounding it again to f32 is then right."""
    bits = struct.unpack("<q", struct.pack("<d", wide))[0]
    if bits & 1 == 0:
        away = abs(Fraction(wide)) < abs(value)
        bits += 1 if away else -1
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def widen_opcode(dtype: DType) -> str | None:
    """The opcode that takes a stored element to its value type, None if they are the same or
    the conversion needs more than one instruction."""
    if value_of(dtype) is dtype or dtype is BF16:
        return None
    if dtype.floating:
        return "fpext"
    return "zext" if dtype.kind.value == "uint" else "sext"
