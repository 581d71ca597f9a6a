"""Python and NumPy numbers as constants of the language.

Python's are weak and exact: a float is taken by its `repr`, so 0.1 is one tenth. NumPy's keep their
type: np.float32(0.1) is f32(0.1). NumPy is not imported; its scalars are known by their type.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

from tensorc.ir.dtypes import BOOL, BY_NAME, IMAGINARY, INTEGER, REAL, DType
from tensorc.ir.numbers import MOST_DIGITS
from tensorc.ir.source import Place
from tensorc.ir.syntax import Call, Constant, Convert, Syntax
from tensorc.ir.tensor import Literal
from tensorc.lang.spot import raised

Number: TypeAlias = int | float | complex

_SCALARS = {
    "bool": "bool", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "complex64": "complex64", "complex128": "complex128",
    **{f"int{width}": f"i{width}" for width in (8, 16, 32, 64)},
    **{f"uint{width}": f"u{width}" for width in (8, 16, 32, 64)},
}  # fmt: skip


def type_name(item: object) -> str:
    """The class of an object with its module: "numpy.float32"; plain for builtins: "bool"."""
    kind = type(item)
    name = kind.__name__.rstrip("_") if kind.__module__ == "numpy" else kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def is_scalar(item: object) -> bool:
    """Whether `item` is a NumPy (or ml_dtypes) scalar, which has a type of its own."""
    return scalar_type(item) is not None


def is_bool(item: object) -> bool:
    """Whether `item` is a bool of Python or NumPy."""
    return isinstance(item, bool) or scalar_type(item) is BOOL


def as_plain(item: object) -> object:
    """A NumPy integer as a Python one; anything else as it is."""
    dtype = scalar_type(item)
    return int(item) if dtype is not None and dtype.integral else item  # type: ignore[call-overload]


def scalar_type(item: object) -> DType | None:
    """The storage type of a NumPy scalar; None for everything else."""
    module = type(item).__module__
    if module not in ("numpy", "ml_dtypes"):
        return None
    return BY_NAME.get(_SCALARS.get(type(item).__name__.rstrip("_"), ""))


def constant(item: object, place: Place) -> Syntax | None:
    """The constant that a Python or NumPy number stands for; None for any other object."""
    dtype = scalar_type(item)
    if dtype is not None:
        return _strong(item, dtype, place)
    match item:
        case bool():
            return Constant(Literal(Fraction(int(item)), BOOL), place)
        case int():
            return _integer(item, place)
        case float():
            return _real(item, repr(abs(float(item))), place)
        case complex():
            return _complex(item, place)
        case _:
            return None


def _integer(value: int, place: Place) -> Syntax:
    """E107 beyond 40 digits, as in a text."""
    if abs(value) >= 10**MOST_DIGITS:
        size = value.bit_length()
        shown = f"an integer of {size} bits"
        raise raised("E107.digits", place, literal=shown, digits=f"over {MOST_DIGITS}")
    return _signed(value < 0, Literal(Fraction(abs(value)), INTEGER), place)


def _strong(item: object, dtype: DType, place: Place) -> Syntax | None:
    """A cast of the shortest decimal that rounds to the scalar."""
    if dtype is BOOL:
        return Constant(Literal(Fraction(int(bool(item))), BOOL), place)
    if dtype.integral:
        weak = _integer(int(item), place)  # type: ignore[call-overload]
    elif dtype.complex:
        weak = _complex(complex(item), place)  # type: ignore[call-overload]
    else:
        weak = _real(float(item), str(abs(item)), place)  # type: ignore[arg-type]
    return Convert(dtype, weak, False, place)


def _real(value: float, digits: str, place: Place) -> Syntax:
    if math.isnan(value):
        return Constant(Literal("nan", REAL), place)
    negative = math.copysign(1.0, value) < 0
    exact = "inf" if math.isinf(value) else Fraction(digits)
    return _signed(negative, Literal(exact, REAL), place)


def _complex(value: complex, place: Place) -> Syntax:
    imaginary = _signed(
        math.copysign(1.0, value.imag) < 0,
        Literal(Fraction(repr(abs(value.imag))), IMAGINARY),
        place,
    )
    if value.real == 0:
        return imaginary
    return Call("add", (_real(value.real, repr(abs(value.real)), place), imaginary), place)


def _signed(negative: bool, literal: Literal, place: Place) -> Syntax:
    """As the language reads it: a sign is part of a number, an operator before `inf`."""
    if not negative:
        return Constant(literal, place)
    if isinstance(literal.value, str):
        return Call("neg", (Constant(literal, place),), place)
    if literal.value == 0 and literal.dtype is REAL:
        return Constant(Literal("-0", REAL), place)
    return Constant(Literal(-literal.value, literal.dtype), place)
