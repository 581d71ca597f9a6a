"""Storage types as NumPy arrays: rounding, wrapping and saturating to each of them.

Every conversion of the language in one place: one direct rounding to nearest even for floats
(never by way of another type), two's complement for integers, saturation from float to integer.
What it is not: a choice of where to round; the interpreters make that.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir.dtypes import (
    BF16,
    BOOL,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    LOWEST_EXPONENT,
    PRECISION,
    DType,
    integer_range,
)

# Arrays of any element type: the language's dtype travels beside the array, not in its type.
Array = npt.NDArray[Any]

# The largest finite value of each float: (2 - 2**(1 - precision)) * 2**(highest exponent), but for
# f8e4m3 ("fn") 1.75 * 2**8, since its pattern 1.875 * 2**8 is NaN.
LARGEST: dict[DType, float] = {
    F8E4M3: 448.0,
    F8E5M2: 57344.0,
    F16: 65504.0,
    BF16: (2 - 2**-7) * 2.0**127,
    F32: (2 - 2**-23) * 2.0**127,
    F64: (2 - 2**-52) * 2.0**1023,
}
_NUMPY: dict[str, str] = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64",
    "complex64": "complex64", "complex128": "complex128",
}  # fmt: skip
_EXTENSION: dict[str, str] = {
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype that stores `dtype`; bf16 and f8 are those of ml_dtypes.

    ValueError: a weak type has no storage.
    """
    if dtype.weak:
        raise ValueError(f"{dtype} is the type of a literal and has no storage")
    if dtype.name in _NUMPY:
        return np.dtype(_NUMPY[dtype.name])
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _EXTENSION[dtype.name]))


def round_to(values: npt.ArrayLike, dtype: DType) -> Array:
    """`values` as a cast to `dtype` makes them: an array of `numpy_dtype(dtype)`, same shape.

    Floats round once to nearest even and overflow to inf (f8e4m3: NaN); integers wrap; float to
    integer truncates, saturates and takes NaN to 0; complex to real drops the imaginary part;
    anything to bool is `!= 0`. Object arrays hold unbounded Python integers.
    """
    array = np.asarray(values)
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return array
    with np.errstate(all="ignore"):
        if dtype is BOOL:
            return np.asarray(array != 0)
        if dtype.complex:
            return _to_complex(array, dtype)
        if np.issubdtype(array.dtype, np.complexfloating):
            array = np.asarray(np.real(array))
        if dtype.integral:
            return _to_integer(array, dtype)
        return _to_float(array, dtype)


def round_exact(value: Fraction | str, dtype: DType) -> Array:
    """An exact constant (a Fraction, or "inf", "-inf", "nan", "-0") rounded once to `dtype`, 0-d.

    ValueError: an integer type has no infinity or NaN.
    """
    if dtype.complex:
        part = F32 if dtype.bits == 64 else F64
        return np.asarray(round_exact(value, part).astype(numpy_dtype(dtype)))
    if dtype.floating:
        return np.asarray(nearest(value, dtype)).astype(numpy_dtype(dtype))
    if isinstance(value, str):
        if value != "-0":
            raise ValueError(f"{value} does not fit {dtype}")
        value = Fraction(0)
    if dtype is BOOL:
        return np.asarray(value != 0)
    return round_to(np.asarray(int(value), dtype=object), dtype)


def nearest(value: Fraction | str, dtype: DType) -> float:
    """The float of type `dtype` nearest to an exact value, ties to even; overflow as a cast's."""
    if isinstance(value, str):
        number = {"-0": -0.0}.get(value)
        return float(_limited(np.float64(value if number is None else number), dtype))
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent + 1 - PRECISION[dtype], LOWEST_EXPONENT[dtype])
    rounded = round(size / unit) * unit
    if rounded > Fraction(LARGEST[dtype]):
        over = np.float64("nan") if dtype is F8E4M3 else np.float64("inf")
        return float(-over if value < 0 else over)
    return -float(rounded) if value < 0 else float(rounded)


def _limited(values: Array | np.float64, dtype: DType) -> Array:
    """`values`, already on the grid of `dtype`, with what exceeds its range made inf or NaN."""
    over = np.nan if dtype is F8E4M3 else np.inf
    beyond = np.abs(values) > LARGEST[dtype]
    return np.where(beyond, np.copysign(over, values), values)


def _to_float(array: Array, dtype: DType) -> Array:
    target = numpy_dtype(dtype)
    if array.dtype == object:
        flat = [nearest(Fraction(int(v)), dtype) for v in array.ravel().tolist()]
        return np.array(flat, dtype=np.float64).reshape(array.shape).astype(target)
    if dtype in (F32, F64):  # a conversion of the processor, direct from every type
        return array.astype(target)
    if array.dtype.kind in "iub":
        array = _to_odd(array)
    wide = array if array.dtype == np.longdouble else array.astype(np.float64)
    return np.asarray(_on_grid(wide, dtype)).astype(target)


def _on_grid(values: Array, dtype: DType) -> Array:
    """float64 or long double values rounded to the nearest value of `dtype`, ties to even, in
    their own type."""
    _, exponent = np.frexp(values)
    lowest = np.maximum(exponent - PRECISION[dtype], LOWEST_EXPONENT[dtype])
    return _limited(np.ldexp(np.rint(np.ldexp(values, -lowest)), lowest), dtype)


def _to_odd(array: Array) -> Array:
    """Integers as float64 rounded to odd, so that a second, narrower rounding is right.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums" (2008), theorem 1.
    """
    near = array.astype(np.float64)
    if array.dtype.itemsize < 8:
        return near
    top = near >= float(integer_range(_wide(array))[1])  # 2**63 or 2**64: not an integer here
    back = np.where(top, 0.0, near).astype(array.dtype)
    below = top | (array < back)  # the integer is below its float
    inexact = top | (array != back)
    even = (near.view(np.int64) & 1) == 0
    toward = np.where(below, -np.inf, np.inf)
    return np.where(inexact & even, np.nextafter(near, toward), near)


def _wide(array: Array) -> DType:
    from tensorc.ir.dtypes import I64, U64

    return I64 if array.dtype.kind == "i" else U64


def _to_integer(array: Array, dtype: DType) -> Array:
    target = numpy_dtype(dtype)
    if array.dtype == object:
        mask = (1 << dtype.bits) - 1
        flat = [int(v) & mask for v in array.ravel().tolist()]
        unsigned = np.array(flat, dtype=np.uint64).reshape(array.shape)
        return unsigned.astype(target)
    if array.dtype.kind in "iub":
        return array.astype(target)
    whole = np.trunc(array if array.dtype == np.longdouble else array.astype(np.float64))
    low, high = integer_range(dtype)
    above, beneath = whole >= float(high + 1), whole < float(low)
    inside = np.where(above | beneath | np.isnan(whole), 0.0, whole).astype(target)
    return np.where(above, target.type(high), np.where(beneath, target.type(low), inside))


def _to_complex(array: Array, dtype: DType) -> Array:
    part = F32 if dtype.bits == 64 else F64
    parts = (np.real(array), np.imag(array)) if array.dtype.kind == "c" else (array, 0)
    real, imaginary = (round_to(values, part) for values in parts)
    whole = np.empty(np.shape(real), numpy_dtype(dtype))
    whole.real, whole.imag = real, imaginary  # not by a sum: inf * 1j has a part that is NaN
    return whole
