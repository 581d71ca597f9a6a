"""The public words of the Python surface: reductions, storage types, functions, constants.

What they mean stands in the language reference; nothing is computed here.
"""

from __future__ import annotations

from tensorc.ir import dtypes
from tensorc.ir.dtypes import REAL
from tensorc.ir.syntax import Constant
from tensorc.ir.tensor import Literal
from tensorc.lang.binders import Cast, Extreme, Fold, Naming, converted, dtype_of
from tensorc.lang.spot import Spot, here
from tensorc.lang.value import Expr, Operand, apply, taken

sum = Fold("sum")
prod = Fold("prod")
max = Extreme("max")
min = Extreme("min")
any = Fold("any")
all = Fold("all")
mean = Fold("mean")
argmax = Fold("argmax")
argmin = Fold("argmin")
logsumexp = Fold("logsumexp")
softmax = Fold("softmax")
let = Naming(False)
result = Naming(True)

bool = Cast(dtypes.BOOL)
i8 = Cast(dtypes.I8)
i16 = Cast(dtypes.I16)
i32 = Cast(dtypes.I32)
i64 = Cast(dtypes.I64)
u8 = Cast(dtypes.U8)
u16 = Cast(dtypes.U16)
u32 = Cast(dtypes.U32)
u64 = Cast(dtypes.U64)
f8e4m3 = Cast(dtypes.F8E4M3)
f8e5m2 = Cast(dtypes.F8E5M2)
f16 = Cast(dtypes.F16)
bf16 = Cast(dtypes.BF16)
f32 = Cast(dtypes.F32)
f64 = Cast(dtypes.F64)
complex64 = Cast(dtypes.COMPLEX64)
complex128 = Cast(dtypes.COMPLEX128)


def bitcast(dtype: Cast, x: Operand) -> Expr:
    """The bits of x, stored as its own type, read as `dtype` of the same width."""
    spot = here()
    return converted(dtype_of(dtype, spot), x, True, spot)


def select(condition: Operand, yes: Operand, no: Operand) -> Expr:
    """`yes` where the condition holds, else `no`; the other one is not evaluated."""
    spot = here()
    logical = taken(yes, spot).logical and taken(no, spot).logical
    return apply("select", condition, yes, no, logical=logical)


def where(condition: Operand, yes: Operand, no: Operand) -> Expr:
    """The same as `select`."""
    return select(condition, yes, no)


def inside(x: Operand, n: Operand) -> Expr:
    """0 <= x and x < n."""
    return apply("inside", x, n, logical=True)


def clamp(x: Operand, lo: Operand, hi: Operand) -> Expr:
    """min(max(x, lo), hi)."""
    return apply("clamp", x, lo, hi)


def pow(x: Operand, y: Operand) -> Expr:
    """x ** y."""
    return apply("pow", x, y)


def ldexp(x: Operand, n: Operand) -> Expr:
    """x times 2 to the power of the integer n, exactly."""
    return apply("ldexp", x, n)


def sign(x: Operand) -> Expr:
    """-1, 0 or 1; NaN for NaN."""
    return apply("sign", x)


def floor(x: Operand) -> Expr:
    """The largest whole number that is not above x."""
    return apply("floor", x)


def ceil(x: Operand) -> Expr:
    """The smallest whole number that is not below x."""
    return apply("ceil", x)


def round(x: Operand) -> Expr:
    """The nearest whole number, half to even."""
    return apply("round", x)


def abs(x: Operand) -> Expr:
    """The magnitude of x."""
    return apply("abs", x)


def sqrt(x: Operand) -> Expr:
    """The square root."""
    return apply("sqrt", x)


def rsqrt(x: Operand) -> Expr:
    """1 / sqrt(x)."""
    return apply("rsqrt", x)


def exp(x: Operand) -> Expr:
    """Euler's number to the power x."""
    return apply("exp", x)


def exp2(x: Operand) -> Expr:
    """2 to the power x."""
    return apply("exp2", x)


def log(x: Operand) -> Expr:
    """The natural logarithm."""
    return apply("log", x)


def log2(x: Operand) -> Expr:
    """The logarithm to base 2."""
    return apply("log2", x)


def sin(x: Operand) -> Expr:
    """The sine of x in radians."""
    return apply("sin", x)


def cos(x: Operand) -> Expr:
    """The cosine of x in radians."""
    return apply("cos", x)


def tanh(x: Operand) -> Expr:
    """The hyperbolic tangent."""
    return apply("tanh", x)


def sigmoid(x: Operand) -> Expr:
    """1 / (1 + exp(-x))."""
    return apply("sigmoid", x)


def erf(x: Operand) -> Expr:
    """The error function."""
    return apply("erf", x)


def expm1(x: Operand) -> Expr:
    """exp(x) - 1 without cancellation."""
    return apply("expm1", x)


def log1p(x: Operand) -> Expr:
    """log(1 + x) without cancellation."""
    return apply("log1p", x)


def isnan(x: Operand) -> Expr:
    """Whether x is NaN."""
    return apply("isnan", x, logical=True)


def isinf(x: Operand) -> Expr:
    """Whether x is an infinity."""
    return apply("isinf", x, logical=True)


def real(x: Operand) -> Expr:
    """The real part."""
    return apply("real", x)


def imag(x: Operand) -> Expr:
    """The imaginary part."""
    return apply("imag", x)


def conj(x: Operand) -> Expr:
    """The complex conjugate."""
    return apply("conj", x)


def popcount(x: Operand) -> Expr:
    """How many bits of the integer x are set, as i32."""
    return apply("popcount", x)


def exponent(x: Operand) -> Expr:
    """floor(log2(|x|)) as i32; the lowest i32 for 0."""
    return apply("exponent", x)


def _number(value: str) -> Expr:
    return Expr(Constant(Literal(value, REAL), Spot(())), False, True, None)


pi = _number("pi")
inf = _number("inf")
nan = _number("nan")
