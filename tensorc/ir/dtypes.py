"""Element types: what may be stored, what an expression's value may be, and how two types join.

Storage types are the ones that arrays have. *Values* have only bool, i32, i64, u32, u64, f32, f64,
complex64 and complex128: a read widens, exactly, and rounding to a narrow type happens at a cast or
a store. Three weak types describe literals, positions and extents until they meet a strong type:
`INTEGER` (an exact integer literal), `INDEX` (made of positions or extents), `REAL` (an exact real)
and `IMAGINARY` for complex literals.
"""

from __future__ import annotations

from enum import Enum

from tensorc.ir.node import Node, node


class Kind(Enum):
    """The kinds between which a store never converts silently."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    COMPLEX = "complex"


@node
class DType(Node):
    """An element type. `bits` is its storage width; weak types have width 0."""

    name: str
    kind: Kind
    bits: int

    def __str__(self) -> str:
        return self.name

    @property
    def weak(self) -> bool:
        """True for the types of literals, positions and extents."""
        return self.bits == 0

    @property
    def integral(self) -> bool:
        """True for signed and unsigned integers, weak ones included; not for bool."""
        return self.kind in (Kind.INT, Kind.UINT)

    @property
    def floating(self) -> bool:
        """True for real floating types, the weak real included."""
        return self.kind is Kind.FLOAT

    @property
    def complex(self) -> bool:
        """True for complex types, the weak imaginary included."""
        return self.kind is Kind.COMPLEX


BOOL = DType("bool", Kind.BOOL, 8)
I8 = DType("i8", Kind.INT, 8)
I16 = DType("i16", Kind.INT, 16)
I32 = DType("i32", Kind.INT, 32)
I64 = DType("i64", Kind.INT, 64)
U8 = DType("u8", Kind.UINT, 8)
U16 = DType("u16", Kind.UINT, 16)
U32 = DType("u32", Kind.UINT, 32)
U64 = DType("u64", Kind.UINT, 64)
F8E4M3 = DType("f8e4m3", Kind.FLOAT, 8)
F8E5M2 = DType("f8e5m2", Kind.FLOAT, 8)
F16 = DType("f16", Kind.FLOAT, 16)
BF16 = DType("bf16", Kind.FLOAT, 16)
F32 = DType("f32", Kind.FLOAT, 32)
F64 = DType("f64", Kind.FLOAT, 64)
COMPLEX64 = DType("complex64", Kind.COMPLEX, 64)
COMPLEX128 = DType("complex128", Kind.COMPLEX, 128)

INTEGER = DType("integer", Kind.INT, 0)
INDEX = DType("index", Kind.INT, 0)
REAL = DType("real", Kind.FLOAT, 0)
IMAGINARY = DType("imaginary", Kind.COMPLEX, 0)

STORAGE: tuple[DType, ...] = (
    BOOL, I8, I16, I32, I64, U8, U16, U32, U64,
    F8E4M3, F8E5M2, F16, BF16, F32, F64, COMPLEX64, COMPLEX128,
)  # fmt: skip
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in STORAGE}

# Significand bits (with the hidden one) and exponent range of each float: a value is
# m * 2**e with |m| < 2**precision; `lowest` is the exponent of the smallest subnormal.
PRECISION: dict[DType, int] = {F8E4M3: 4, F8E5M2: 3, F16: 11, BF16: 8, F32: 24, F64: 53}
LOWEST_EXPONENT: dict[DType, int] = {
    F8E4M3: -9, F8E5M2: -16, F16: -24, BF16: -133, F32: -149, F64: -1074,
}  # fmt: skip


def value_of(dtype: DType) -> DType:
    """The value type of what is stored as `dtype`: i8 i16 u8 u16 to i32, f8 f16 bf16 to f32."""
    if dtype.weak or dtype.bits >= 32 or dtype is BOOL:
        return dtype
    return F32 if dtype.floating else I32


def settled(dtype: DType) -> DType:
    """The value type that a weak type takes when nothing else decides."""
    return {INTEGER: I64, INDEX: I64, REAL: F32, IMAGINARY: COMPLEX64}.get(dtype, dtype)


_JOINS: dict[tuple[DType, DType], DType] = {
    (BOOL, BOOL): I32, (BOOL, I32): I32, (BOOL, U32): U32, (BOOL, I64): I64, (BOOL, U64): U64,
    (I32, I32): I32, (I32, U32): I64, (I32, I64): I64,
    (U32, U32): U32, (U32, I64): I64, (U32, U64): U64,
    (I64, I64): I64, (U64, U64): U64,
    (F32, F32): F32, (F32, F64): F64, (F64, F64): F64,
    (F32, COMPLEX64): COMPLEX64, (F32, COMPLEX128): COMPLEX128,
    (F64, COMPLEX64): COMPLEX128, (F64, COMPLEX128): COMPLEX128,
    (COMPLEX64, COMPLEX64): COMPLEX64, (COMPLEX64, COMPLEX128): COMPLEX128,
    (COMPLEX128, COMPLEX128): COMPLEX128,
}  # fmt: skip
_WEAK_ORDER = (INTEGER, INDEX, REAL, IMAGINARY)


def join(a: DType, b: DType) -> DType | None:
    """The type in which values of types `a` and `b` meet in arithmetic; None if there is none."""
    if a.weak and b.weak:
        return max(a, b, key=_WEAK_ORDER.index)
    if a.weak:
        a, b = b, a
    if b.weak:
        return _join_weak(a, b)
    found = _JOINS.get((a, b)) or _JOINS.get((b, a))
    if found is None and (a.integral or a is BOOL or b.integral or b is BOOL):
        other = b if a.integral or a is BOOL else a
        return other if other.floating or other.complex else None
    return found


def _join_weak(strong: DType, weak: DType) -> DType | None:
    if weak is INTEGER:
        return I32 if strong is BOOL else strong
    if weak is INDEX:
        return join(strong, I64)
    if weak is REAL:
        return strong if strong.floating or strong.complex else F32
    return COMPLEX128 if strong in (F64, COMPLEX128) else COMPLEX64


def as_float(dtype: DType) -> DType:
    """The type in which float functions take `dtype`: integers and bool as f32, weak as real."""
    if dtype.integral and dtype.weak:
        return REAL
    return F32 if dtype.integral or dtype is BOOL else dtype


def integer_range(dtype: DType) -> tuple[int, int]:
    """Lowest and highest value of an integer type (bool: 0, 1)."""
    if dtype is BOOL:
        return 0, 1
    if dtype.kind is Kind.UINT:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
