"""sin, cos, erf and pow as vector LLVM IR.

Errors measured by `tests/codegen`: at most 1 unit in the last place for sin and cos, 2 for erf and
for pow in f32, which is computed in f64. Every special value has the language's result. pow in f64
is the C library's, lane by lane, as are sin and cos where an argument is large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

from tensorc.codegen.llvm_builder import Builder, float_name
from tensorc.codegen.llvm_math import (
    FORMATS,
    exp,
    exp2,
    exp_between,
    log2,
    nearest,
    series,
)
from tensorc.codegen.llvm_types import Operand, element_type
from tensorc.ir.dtypes import BOOL, F32, F64, DType

# pi / 2 to 300 bits and 2 / sqrt(pi) to 200, as integers.
_PI = int(
    "3199768629175266702249451148138047809984299702371191478122285091567856416068937959718465990"
)
_ROOT = int("1813235411955051368075975534027907639852476658415964181376627")
_HALF_PI, _TWO_OVER_ROOT_PI = Fraction(_PI, 2**300), Fraction(_ROOT, 2**200)


@dataclass(frozen=True)
class _Special:
    """Of a float format: significand bits; the largest argument that sin and cos reduce here;
    terms of their series on |r| <= pi / 4."""

    bits: int
    largest: int
    sin_terms: int


_SPECIAL: dict[DType, _Special] = {
    F32: _Special(24, 1 << 16, 5), F64: _Special(53, 1 << 27, 9),
}  # fmt: skip

# erf in f64: terms of its series on |x| <= 1; 1 from 6 on; between, 1 - exp(-x**2) g(x), where g is
# a polynomial in (x - 3) / (x + 3) that has the values of exp(x**2) erfc(x) at Chebyshev points,
# computed with 50 digits. What that makes of erf is off by less than 2**-57.
_ERF_TERMS, _ERF_ENDS, _ERF_CENTRE = 19, 6, 3
_ERF_BEYOND = (
    "0.17900115118138995023", "-0.32623356004303717477", "0.24560380171233194479",
    "-0.15011593650078743912", "0.071665837197748743386", "-0.024392499318273193125",
    "0.0042691363475082563605", "0.00070774644439015373147", "-0.00059706235170932842794",
    "0.000045254726354833541373", "0.000064061820735305467428", "-0.000012848894512523528795",
    "-8.0080213194126843348e-6", "2.0236031796417566352e-6", "1.2801900862962661938e-6",
)  # fmt: skip
# erf in f32: x + x times a polynomial in x**2 up to 0.921875, off by less than 2**-25.9 of it; then
# 1 - exp(-q) up to 4, q a polynomial that is near -log(erfc(x)), off by less than 2**-29. Both have
# the least largest error among polynomials of their degree, by Lawson's weights.
_ERF_NEAR = (
    "0.128379149554", "-0.376124936795", "0.112818161078", "-0.0267666144408", "0.00499317796146",
    "-0.000599084339439",
)  # fmt: skip
_ERF_FAR = (
    "0.00020988593175", "1.12761558168", "0.637285536256", "0.103839114297", "-0.0221815056222",
    "0.0030316294562", "-0.000194737634178",
)  # fmt: skip
_ERF_MIDDLE, _ERF_LAST = Fraction(59, 64), 4


def sin(b: Builder, args: Sequence[Operand]) -> Operand:
    """(-1)**(n // 2) times sin(r) or cos(r) with x = n pi / 2 + r, by n modulo 4."""
    return _checked(b, "sin", args[0], 0)


def cos(b: Builder, args: Sequence[Operand]) -> Operand:
    """As sin, a quarter of a turn further."""
    return _checked(b, "cos", args[0], 1)


def _checked(b: Builder, stem: str, x: Operand, turn: int) -> Operand:
    """A call of a function that takes the library's way if an argument is large."""
    name = f"tc.{stem}.{x.lanes}.{element_type(x.dtype)}"
    if name not in b.functions:
        b.functions[name] = _with_library(b, name, stem, x, turn)
    return b.result(f"call {x.type} @{name}({x})", x.dtype, x.lanes, x.depth)


def _with_library(b: Builder, name: str, stem: str, like: Operand, turn: int) -> str:
    own = Builder(False)
    own.functions, own.declarations = b.functions, b.declarations
    x = Operand("%x", like.dtype, like.lanes, 0)
    bound = own.const(_SPECIAL[x.dtype].largest, x.dtype)
    size = own.intrinsic("fabs", [x])
    finite = own.op("fcmp olt", size, own.const("inf", x.dtype), BOOL)
    large = own.op("and", own.op("fcmp ogt", size, bound, BOOL), finite)
    own.emit(f"br i1 {_any(own, large)}, label %slow, label %fast", 0)
    own.mark("fast")
    own.emit(f"ret {_quarter_turns(own, x, turn)}", 0)
    own.mark("slow")
    own.texts_forgotten()
    own.emit(f"ret {own.each_lane(float_name(x.dtype, stem), [x], x.dtype)}", 0)
    lines = [f"define internal {x.type} @{name}({x}) #0 {{", "work:", *own.text(), "}", ""]
    return "\n".join(lines)


def _any(b: Builder, test: Operand) -> str:
    if test.lanes == 1:
        return test.ref
    callee = f"llvm.vector.reduce.or.v{test.lanes}i1"
    b.declare(callee, "i1", test.type)
    return b.raw(f"call i1 @{callee}({test})", 0)


def _quarter_turns(b: Builder, x: Operand, turn: int) -> Operand:
    """sin(x + turn pi / 2) for arguments that are not large."""
    form, integer = _SPECIAL[x.dtype], FORMATS[x.dtype].integer
    whole, n = nearest(b, b.op("fmul", x, b.const(1 / _HALF_PI, x.dtype)))
    r, low = _reduced(b, x, whole, form.bits)
    quarter = b.op("add", n, b.const(turn, integer))
    odd = b.op("icmp ne", b.op("and", quarter, b.const(1, integer)), b.const(0, integer), BOOL)
    back = b.op("icmp ne", b.op("and", quarter, b.const(2, integer)), b.const(0, integer), BOOL)
    square = b.op("fmul", r, r)
    value = b.select(odd, _cos(b, r, low, square, form), _sin(b, r, low, square, form))
    value = b.select(back, _negative(b, value), value)
    if turn:
        return value
    tiny = b.op("fcmp olt", b.intrinsic("fabs", [x]), _small(b, x.dtype), BOOL)
    return b.select(tiny, x, value)  # keeps the sign of 0


def _small(b: Builder, dtype: DType) -> Operand:
    """Below this sin(x) is x."""
    return b.const(Fraction(1, 2 ** (_SPECIAL[dtype].bits // 2 + 2)), dtype)


def _reduced(b: Builder, x: Operand, whole: Operand, bits: int) -> tuple[Operand, Operand]:
    """(r, what r lacks) of x - n pi / 2. The first step is exact: the difference is a multiple of
    the last place of pi / 2 and below 1. What the second one rounds off goes to the third."""
    high = _cut(_HALF_PI, bits - 1)
    middle = _rounded(_HALF_PI - high, bits)
    minus = _negative(b, whole)
    first = b.intrinsic("fma", [minus, b.const(high, x.dtype), x])
    step = b.op("fmul", minus, b.const(middle, x.dtype))
    rest = b.intrinsic("fma", [minus, b.const(middle, x.dtype), _negative(b, step)])
    r, lost = _sum(b, first, step)
    rest = b.intrinsic("fma", [minus, b.const(_HALF_PI - high - middle, x.dtype), rest])
    return r, b.op("fadd", lost, rest)


def _sum(b: Builder, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """x + y rounded, and its rounding error, exactly (Knuth's two-sum)."""
    total = b.op("fadd", x, y)
    part = b.op("fsub", total, x)
    of_x = b.op("fsub", x, b.op("fsub", total, part))
    return total, b.op("fadd", of_x, b.op("fsub", y, part))


def _cut(value: Fraction, bits: int) -> Fraction:
    """`value` cut to that many bits after the point."""
    return Fraction(int(value * 2**bits), 2**bits)


def _rounded(value: Fraction, bits: int) -> Fraction:
    """`value` to that many significant bits."""
    scale = Fraction(2) ** bits
    while abs(value * scale) >= 2**bits:
        scale /= 2
    while abs(value * scale * 2) < 2**bits:
        scale *= 2
    return Fraction(round(value * scale)) / scale


def _sin(b: Builder, r: Operand, low: Operand, square: Operand, form: _Special) -> Operand:
    """r + (low + r**3 (-1/3! + r**2/5! - ...))."""
    terms = [Fraction((-1) ** k, factorial(2 * k + 1)) for k in range(1, form.sin_terms)]
    cube = b.op("fmul", square, r)
    return b.op("fadd", r, b.intrinsic("fma", [cube, series(b, square, terms), low]))


def _cos(b: Builder, r: Operand, low: Operand, square: Operand, form: _Special) -> Operand:
    """1 - r**2/2 with what its rounding loses, + r**4 (1/4! - r**2/6! + ...) - r low."""
    terms = [Fraction((-1) ** k, factorial(2 * k)) for k in range(2, form.sin_terms + 2)]
    one, half = b.const(1, r.dtype), b.op("fmul", square, b.const(Fraction(1, 2), r.dtype))
    near = b.op("fsub", one, half)
    lost = b.op("fsub", b.op("fsub", one, near), half)
    rest = b.intrinsic("fma", [_negative(b, r), low, lost])
    fourth = b.op("fmul", square, square)
    return b.op("fadd", near, b.intrinsic("fma", [fourth, series(b, square, terms), rest]))


def _negative(b: Builder, x: Operand) -> Operand:
    return b.result(f"fneg {x}", x.dtype, x.lanes, x.depth)


def erf(b: Builder, args: Sequence[Operand]) -> Operand:
    """A polynomial near 0, 1 less what an exponential leaves beyond."""
    (x,) = args
    size = b.intrinsic("fabs", [x])
    if x.dtype is F32:
        middle, terms = _ERF_MIDDLE, [Fraction(item) for item in _ERF_NEAR]
        beyond = _far_single(b, size)
    else:
        middle, terms = Fraction(1), [_erf_term(k) for k in range(_ERF_TERMS)]
        terms[0] -= 1
        beyond = _far(b, size)
    far = b.intrinsic("copysign", [beyond, x])
    near = b.intrinsic("fma", [x, series(b, b.op("fmul", x, x), terms), x])
    return b.select(b.op("fcmp olt", size, b.const(middle, x.dtype), BOOL), near, far)


def _erf_term(k: int) -> Fraction:
    return _TWO_OVER_ROOT_PI * Fraction((-1) ** k, factorial(k) * (2 * k + 1))


def _far(b: Builder, size: Operand) -> Operand:
    kind = size.dtype
    least = b.intrinsic("minimum", [size, b.const(_ERF_ENDS, kind)])
    centre = b.const(_ERF_CENTRE, kind)
    place = b.op("fdiv", b.op("fsub", least, centre), b.op("fadd", least, centre))
    g = series(b, place, [Fraction(item) for item in _ERF_BEYOND])
    power = exp(b, [_negative(b, b.op("fmul", least, least))])
    return b.intrinsic("fma", [_negative(b, power), g, b.const(1, kind)])


def _far_single(b: Builder, size: Operand) -> Operand:
    least = b.intrinsic("minimum", [size, b.const(_ERF_LAST, F32)])
    minus = [-Fraction(item) for item in _ERF_FAR]
    return b.op("fsub", b.const(1, F32), exp_between(b, series(b, least, minus)))


def power(b: Builder, args: Sequence[Operand]) -> Operand:
    """|x| ** y as 2 ** (y log2 |x|), with C's special values; squares and cubes as products."""
    x, y = args
    for exponent in (2, 3):
        if y.ref == b.const(exponent, y.dtype).ref:
            square = b.op("fmul", x, x)
            return square if exponent == 2 else b.op("fmul", square, x)
    if x.dtype is F64:
        return b.each_lane("pow", args, F64)
    return b.convert(
        "fptrunc", _power(b, b.convert("fpext", x, F64), b.convert("fpext", y, F64)), F32
    )


def _power(b: Builder, x: Operand, y: Operand) -> Operand:
    one, zero, infinity = b.const(1, F64), b.const(0, F64), b.const("inf", F64)
    size = b.intrinsic("fabs", [x])
    value = exp2(b, [b.op("fmul", y, log2(b, [size]))])
    half = b.op("fmul", y, b.const(Fraction(1, 2), F64))
    whole, even = (b.op("fcmp oeq", b.intrinsic("floor", [v]), v, BOOL) for v in (y, half))
    odd = b.op("and", whole, b.op("xor", even, b.const(1, BOOL)))
    value = b.select(odd, b.intrinsic("copysign", [value, x]), value)
    below = b.op("fcmp olt", x, zero, BOOL)
    bounded = b.op("fcmp olt", size, infinity, BOOL)
    between = b.op("xor", whole, b.const(1, BOOL))
    nowhere = b.op("and", b.op("and", below, bounded), between)
    value = b.select(nowhere, b.const("nan", F64), value)
    # 0 * inf is no number in the exponent, where the result is 1 nevertheless.
    flat = b.op(
        "and",
        b.op("fcmp oeq", size, one, BOOL),
        b.op("fcmp oeq", b.intrinsic("fabs", [y]), infinity, BOOL),
    )
    certain = b.op("or", b.op("fcmp oeq", x, one, BOOL), b.op("fcmp oeq", y, zero, BOOL))
    return b.select(b.op("or", flat, certain), one, value)
