"""exp, log and their kin as vector LLVM IR, for f32 and f64, from their series.

Argument reduction leaves a short interval on which a truncated power series is below a tenth of a
unit in the last place; coefficients are the series' own. Errors measured by `tests/codegen`:
at most 2 units in the last place for exp, exp2, log and log2, 4 for expm1, log1p and tanh.
Subnormal arguments and results, infinities and NaN have their exact values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

from tensorc.codegen.llvm_builder import Builder
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import BOOL, F32, F64, I32, I64, DType

# ln 2 to 200 bits, as a fraction: enough for a high and a low part in either type.
_LN2 = Fraction(1113844574712631719546256151097547306333272293549090750737802, 2**200)


@dataclass(frozen=True)
class Format:
    """What the code needs to know of a float format."""

    bits: int  # of the significand field
    bias: int
    integer: DType
    exp_terms: int  # of the series of exp on |r| <= ln(2) / 2
    log_terms: int  # of the series of atanh(s) / s on |s| <= 0.172
    high_bits: int  # of ln 2 that multiply an exponent exactly
    exp_low: int  # below this exp is 0
    exp_high: int  # above this exp is inf


FORMATS: dict[DType, Format] = {
    F32: Format(23, 127, I32, 7, 5, 15, -105, 89),
    F64: Format(52, 1023, I64, 13, 11, 41, -746, 710),
}


def exp(b: Builder, args: Sequence[Operand]) -> Operand:
    """e ** x = 2 ** n * e ** r with n = round(x / ln 2)."""
    (x,) = args
    reduced, n = _reduce_exp(b, x)
    return _times_power(b, _exp_series(b, reduced), n)


def exp_between(b: Builder, x: Operand) -> Operand:
    """e ** x where neither that nor e ** r times it leaves the normal numbers: |x| < 80 in f32."""
    reduced, n = _reduced_exp(b, x)
    return b.op("fmul", _exp_series(b, reduced), _power(b, n, x.dtype))


def exp2(b: Builder, args: Sequence[Operand]) -> Operand:
    """2 ** x = 2 ** n * e ** (r ln 2); exact for integers."""
    (x,) = args
    form = FORMATS[x.dtype]
    low, high = Fraction(form.exp_low) / _LN2, Fraction(form.exp_high) / _LN2
    x = _clamp(b, x, low, high)
    whole, n = nearest(b, x)
    reduced = b.op("fmul", b.op("fsub", x, whole), b.const(_LN2, x.dtype))
    return _times_power(b, _exp_series(b, reduced), n)


def expm1(b: Builder, args: Sequence[Operand]) -> Operand:
    """2 ** n * (e ** r - 1) + (2 ** n - 1); x itself where it is tiny."""
    (x,) = args
    form = FORMATS[x.dtype]
    reduced, n = _reduce_exp(b, x)
    one = b.const(1, x.dtype)
    small = b.op("fmul", reduced, series(b, reduced, _exp_coefficients(form)[1:]))
    # Half of everything, doubled at the end, so that 2 ** n alone does not overflow too early.
    n = b.op("sub", n, b.const(1, form.integer))
    scaled = _times_power(b, small, n)
    shift = b.op("fsub", _times_power(b, one, n), b.const(Fraction(1, 2), x.dtype))
    total = b.op("fmul", b.op("fadd", scaled, shift), b.const(2, x.dtype))
    tiny = b.op("fcmp olt", b.intrinsic("fabs", [x]), _epsilon(b, x.dtype), BOOL)
    return b.select(tiny, x, total)


def log(b: Builder, args: Sequence[Operand]) -> Operand:
    """e ln 2 + ln m with x = 2 ** e * m, m within [1 / sqrt 2, sqrt 2)."""
    (x,) = args
    form = FORMATS[x.dtype]
    number, fraction = _split(b, x)
    high = head(_LN2, form.high_bits)
    near = _log_series(b, fraction)
    low = b.intrinsic("fma", [number, b.const(_LN2 - high, x.dtype), near])
    return _log_specials(b, x, b.intrinsic("fma", [number, b.const(high, x.dtype), low]))


def log2(b: Builder, args: Sequence[Operand]) -> Operand:
    """e + ln m / ln 2; exact for powers of two."""
    (x,) = args
    number, fraction = _split(b, x)
    high = head(1 / _LN2, FORMATS[x.dtype].high_bits)
    near = _log_series(b, fraction)
    rest = b.op("fmul", near, b.const(1 / _LN2 - high, x.dtype))
    scaled = b.intrinsic("fma", [near, b.const(high, x.dtype), rest])
    return _log_specials(b, x, b.op("fadd", number, scaled))


def log1p(b: Builder, args: Sequence[Operand]) -> Operand:
    """ln u - ((u - 1) - x) / u with u = 1 + x as rounded; x itself where it is tiny."""
    (x,) = args
    one = b.const(1, x.dtype)
    u = b.op("fadd", one, x)
    lost = b.op("fsub", b.op("fsub", u, one), x)
    value = b.op("fsub", log(b, [u]), b.op("fdiv", lost, u))
    ends = b.op("fcmp oeq", u, b.const("inf", x.dtype), BOOL)
    zero = b.op("fcmp oeq", u, b.const(0, x.dtype), BOOL)
    special = b.select(zero, b.const("-inf", x.dtype), b.select(ends, u, value))
    tiny = b.op("fcmp olt", b.intrinsic("fabs", [x]), _epsilon(b, x.dtype), BOOL)
    return b.select(tiny, x, special)


def tanh(b: Builder, args: Sequence[Operand]) -> Operand:
    """t / (t + 2) with t = e ** (2 |x|) - 1, with the sign of x."""
    (x,) = args
    magnitude = _clamp(b, b.intrinsic("fabs", [x]), Fraction(0), Fraction(20))
    t = expm1(b, [b.op("fadd", magnitude, magnitude)])
    value = b.op("fdiv", t, b.op("fadd", t, b.const(2, x.dtype)))
    return b.intrinsic("copysign", [value, x])


def sigmoid(b: Builder, args: Sequence[Operand]) -> Operand:
    """1 / (1 + e ** -x), and e ** x / (1 + e ** x) below 0, where e ** -x might overflow."""
    (x,) = args
    one, zero = b.const(1, x.dtype), b.const(0, x.dtype)
    magnitude = b.intrinsic("fabs", [x])
    power = exp(b, [b.result(f"fneg {magnitude}", x.dtype, x.lanes, x.depth)])
    upper = b.select(b.op("fcmp olt", x, zero, BOOL), power, one)
    return b.op("fdiv", upper, b.op("fadd", one, power))


def _epsilon(b: Builder, dtype: DType) -> Operand:
    """Below this, x and the function differ by less than half a unit in the last place."""
    return b.const(Fraction(1, 2 ** (FORMATS[dtype].bits + 2)), dtype)


def _clamp(b: Builder, x: Operand, low: Fraction, high: Fraction) -> Operand:
    """NaN passes."""
    above = b.intrinsic("maximum", [x, b.const(low, x.dtype)])
    return b.intrinsic("minimum", [above, b.const(high, x.dtype)])


def nearest(b: Builder, x: Operand) -> tuple[Operand, Operand]:
    """(round(x), the same as an integer): adding 1.5 * 2**bits leaves the integer in the low bits
    of the sum. |x| must be far below 2**bits."""
    form = FORMATS[x.dtype]
    magic = b.const(Fraction(3 * 2**form.bits, 2), x.dtype)
    total = b.op("fadd", x, magic)
    start = ((form.bits + form.bias) << form.bits) + (1 << (form.bits - 1))
    integer = b.op("sub", b.convert("bitcast", total, form.integer), b.const(start, form.integer))
    return b.op("fsub", total, magic), integer


def _reduce_exp(b: Builder, x: Operand) -> tuple[Operand, Operand]:
    """(r, n) with x = n ln 2 + r; x is first clamped to where exp is neither 0 nor inf."""
    form = FORMATS[x.dtype]
    return _reduced_exp(b, _clamp(b, x, Fraction(form.exp_low), Fraction(form.exp_high)))


def _reduced_exp(b: Builder, x: Operand) -> tuple[Operand, Operand]:
    form = FORMATS[x.dtype]
    whole, n = nearest(b, b.op("fmul", x, b.const(1 / _LN2, x.dtype)))
    high = head(_LN2, form.high_bits)
    minus = b.result(f"fneg {whole}", x.dtype, whole.lanes, whole.depth)
    near = b.intrinsic("fma", [minus, b.const(high, x.dtype), x])
    return b.intrinsic("fma", [minus, b.const(_LN2 - high, x.dtype), near]), n


def head(value: Fraction, bits: int) -> Fraction:
    """`value` cut to that many bits after the point."""
    return Fraction(int(value * 2**bits), 2**bits)


def _exp_coefficients(form: Format) -> list[Fraction]:
    return [Fraction(1, factorial(k)) for k in range(form.exp_terms + 1)]


def _exp_series(b: Builder, r: Operand) -> Operand:
    return series(b, r, _exp_coefficients(FORMATS[r.dtype]))


def series(b: Builder, x: Operand, coefficients: list[Fraction]) -> Operand:
    """Horner's rule with fused multiply-add."""
    total = b.const(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        total = b.intrinsic("fma", [total, x, b.const(coefficient, x.dtype)])
    return total


def _times_power(b: Builder, x: Operand, n: Operand) -> Operand:
    """x * 2 ** n in two steps, so that subnormal results round once and overflow is inf."""
    form = FORMATS[x.dtype]
    half = b.op("ashr", n, b.const(1, form.integer))
    rest = b.op("sub", n, half)
    return b.op("fmul", b.op("fmul", x, _power(b, half, x.dtype)), _power(b, rest, x.dtype))


def _power(b: Builder, n: Operand, dtype: DType) -> Operand:
    form = FORMATS[dtype]
    field = b.op("add", n, b.const(form.bias, form.integer))
    return b.convert("bitcast", b.op("shl", field, b.const(form.bits, form.integer)), dtype)


def _split(b: Builder, x: Operand) -> tuple[Operand, Operand]:
    """(e as a float, m - 1) with x = 2 ** e * m and m within [1 / sqrt 2, sqrt 2)."""
    form = FORMATS[x.dtype]
    least = b.const(Fraction(2) ** (1 - form.bias), x.dtype)
    tiny = b.op("fcmp olt", x, least, BOOL)
    grown = b.op("fmul", x, b.const(Fraction(2) ** (form.bits + 1), x.dtype))
    bits = b.convert("bitcast", b.select(tiny, grown, x), form.integer)
    # Moving the cut from 1 to sqrt(1/2) before the exponent is taken rounds it to the nearest.
    root = int((Fraction(5, 7) - Fraction(1, 2)) * 2 ** (form.bits + 1))
    cut = ((form.bias - 1) << form.bits) + root
    shifted = b.op("sub", bits, b.const(cut, form.integer))
    exponent = b.op("ashr", shifted, b.const(form.bits, form.integer))
    scale = b.op("shl", exponent, b.const(form.bits, form.integer))
    mantissa = b.convert("bitcast", b.op("sub", bits, scale), x.dtype)
    zero = b.const(0, form.integer)
    extra = b.select(tiny, b.const(form.bits + 1, form.integer), zero)
    number = b.convert("sitofp", b.op("sub", exponent, extra), x.dtype)
    return number, b.op("fsub", mantissa, b.const(1, x.dtype))


def _log_series(b: Builder, f: Operand) -> Operand:
    """ln(1 + f) = 2 atanh(s), s = f / (2 + f), as f - s (f - 2 (s**2 / 3 + s**4 / 5 + ...))."""
    form = FORMATS[f.dtype]
    s = b.op("fdiv", f, b.op("fadd", f, b.const(2, f.dtype)))
    square = b.op("fmul", s, s)
    coefficients = [Fraction(2, 2 * k + 3) for k in range(form.log_terms)]
    rest = b.op("fmul", square, series(b, square, coefficients))
    return b.op("fsub", f, b.op("fmul", s, b.op("fsub", f, rest)))


def _log_specials(b: Builder, x: Operand, value: Operand) -> Operand:
    """0 gives -inf, negative numbers NaN, inf and NaN themselves."""
    zero, infinity = b.const(0, x.dtype), b.const("inf", x.dtype)
    ends = b.op("fcmp oeq", x, infinity, BOOL)
    nan = b.op("fcmp ult", x, zero, BOOL)
    bottom = b.op("fcmp oeq", x, zero, BOOL)
    value = b.select(ends, infinity, value)
    value = b.select(nan, b.const("nan", x.dtype), value)
    return b.select(bottom, b.const("-inf", x.dtype), value)
