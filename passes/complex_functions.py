"""Functions of complex numbers as formulas on their parts.

Divisions and moduli scale by the larger part, so that they overflow only where the result does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from tensorc.ir.dtypes import INTEGER, REAL
from tensorc.ir.tensor import Expr, Literal, Select
from tensorc.passes.complex_zero import ZERO, add, call, div, is_zero, mul, neg, sub

Pair = tuple[Expr, Expr]  # real and imaginary part
Formula = Callable[[Pair, Pair], Pair]  # of one argument: given twice


def literal(value: int) -> Expr:
    """A whole number."""
    return Literal(Fraction(value), INTEGER)


def both(function: Callable[[Expr, Expr], Expr], a: Pair, b: Pair) -> Pair:
    """Part by part."""
    return function(a[0], b[0]), function(a[1], b[1])


_HALF = Literal(Fraction(1, 2), REAL)
_INF = Literal("inf", REAL)
_PI = Literal("pi", REAL)
_NAN = Literal("nan", REAL)


def _mul(a: Pair, b: Pair) -> Pair:
    re = sub(mul(a[0], b[0]), mul(a[1], b[1]))
    return re, add(mul(a[0], b[1]), mul(a[1], b[0]))


def _div(a: Pair, b: Pair) -> Pair:
    """Smith's method: with r the ratio of the divisor's parts, the smaller over the larger."""
    (ar, ai), (br, bi) = a, b
    if is_zero(bi):  # r is 0
        return div(add(ar, mul(ai, bi)), br), div(sub(ai, mul(ar, bi)), br)
    wide = call("ge", call("abs", br), call("abs", bi))
    large, small = Select(wide, br, bi), Select(wide, bi, br)
    nothing = call("eq", large, literal(0))
    r = Select(nothing, literal(0), call("div", small, Select(nothing, literal(1), large)))
    scale = call("add", large, call("mul", small, r))
    by = Select(nothing, call("abs", large), scale)
    # (ar + ai r) and (ai - ar r) where the real part is larger; (ar r + ai), (ai r - ar) else.
    re = Select(wide, call("add", ar, call("mul", ai, r)), call("add", call("mul", ar, r), ai))
    im = Select(wide, call("sub", ai, call("mul", ar, r)), call("sub", call("mul", ai, r), ar))
    return call("div", re, by), call("div", im, by)


def modulus(a: Pair) -> Expr:
    """|a| = m sqrt(1 + (n / m)^2), m and n the larger and the smaller part; infinite if one is."""
    if is_zero(a[1]):
        return call("abs", a[0])
    re, im = call("abs", a[0]), call("abs", a[1])
    m, n = call("max", re, im), call("min", re, im)
    ratio = call("div", n, Select(call("eq", m, literal(0)), literal(1), m))
    length = call("mul", m, call("sqrt", call("add", literal(1), call("mul", ratio, ratio))))
    infinite = call("or", call("isinf", re), call("isinf", im))
    return Select(infinite, _INF, length)


def _scaled(size: Expr, factor: Expr) -> Expr:
    """size * factor; the factor where that is 0, also beside an infinite size."""
    nothing = call("eq", factor, literal(0))
    return Select(nothing, factor, call("mul", size, factor))


def _exp(a: Pair, _: Pair) -> Pair:
    """e^re (cos im + i sin im); without an imaginary part, none in the result."""
    if is_zero(a[0]):
        return call("cos", a[1]), call("sin", a[1])
    size = call("exp", a[0])
    if is_zero(a[1]):
        return size, a[1]
    none = call("eq", a[1], literal(0))
    re = Select(none, size, call("mul", size, call("cos", a[1])))
    return re, Select(none, a[1], call("mul", size, call("sin", a[1])))


def _sqrt(a: Pair, _: Pair) -> Pair:
    """With t = sqrt((|re| + |a|) / 2): (t, im / 2t) right of the imaginary axis, else the other
    way round with the sign of im."""
    re, im = a
    t = call("sqrt", call("mul", _HALF, call("add", call("abs", re), modulus(a))))
    zero = call("eq", t, literal(0))
    other = call("div", im, call("mul", literal(2), Select(zero, literal(1), t)))
    right = call("ge", re, literal(0))
    signed = Select(_negative(im), call("neg", t), t)
    tall = call("isinf", im)
    return (
        Select(tall, _INF, Select(zero, literal(0), Select(right, t, call("abs", other)))),
        Select(call("or", tall, zero), im, Select(right, other, signed)),
    )


def _hyperbolic(b: Expr) -> tuple[Expr, Expr]:
    """(cosh b, sinh b)."""
    minus = call("neg", b)
    cosh = call("mul", _HALF, call("add", call("exp", b), call("exp", minus)))
    return cosh, call("mul", _HALF, call("sub", call("expm1", b), call("expm1", minus)))


def _sin(a: Pair, _: Pair) -> Pair:
    """sin re cosh im + i cos re sinh im."""
    if is_zero(a[1]):
        return call("sin", a[0]), a[1]
    cosh, sinh = _hyperbolic(a[1])
    return _scaled(cosh, call("sin", a[0])), _scaled(call("cos", a[0]), sinh)


def _cos(a: Pair, _: Pair) -> Pair:
    """cos re cosh im - i sin re sinh im."""
    if is_zero(a[1]):
        return call("cos", a[0]), a[1]
    cosh, sinh = _hyperbolic(a[1])
    return call("mul", call("cos", a[0]), cosh), call("neg", _scaled(sinh, call("sin", a[0])))


def _log(a: Pair, _: Pair) -> Pair:
    """(log |a|, the angle of a). Where |a| is near 1, |a|^2 - 1 = (m - 1)(m + 1) + n^2 keeps what
    the modulus would lose, m and n the larger and the smaller part."""
    re, im = call("abs", a[0]), call("abs", a[1])
    m, n = call("max", re, im), call("min", re, im)
    near = call("and", call("ge", m, _HALF), call("le", m, literal(2)))
    off = call("mul", call("sub", m, literal(1)), call("add", m, literal(1)))
    off = call("add", off, call("mul", n, n))
    close = call("mul", _HALF, call("log1p", Select(near, off, literal(0))))
    return Select(near, close, call("log", modulus(a))), angle(a)


def angle(a: Pair) -> Expr:
    """The angle of a, from -pi to pi: that of the ratio of the smaller part to the larger, seen
    from the axis of the larger one. Signs of zeros count as in C's atan2."""
    re, im = a
    x, y = call("abs", re), call("abs", im)
    large, small = call("max", x, y), call("min", x, y)
    nothing = call("eq", large, literal(0))
    ratio = call("div", small, Select(nothing, literal(1), large))
    ratio = Select(nothing, literal(0), Select(call("eq", small, large), literal(1), ratio))
    first = _arctangent(ratio)
    steep = Select(call("gt", y, x), call("sub", call("mul", _HALF, _PI), first), first)
    turned = Select(_negative(re), call("sub", _PI, steep), steep)
    signed = Select(_negative(im), call("neg", turned), turned)
    unknown = call("or", call("ne", re, re), call("ne", im, im))
    return Select(unknown, call("add", re, im), signed)


def _negative(x: Expr) -> Expr:
    """Whether the sign bit of a number is set: 1 / -0 is -inf."""
    zero = call("eq", x, literal(0))
    inverse = call("div", literal(1), Select(zero, x, literal(1)))
    return call("lt", Select(zero, inverse, x), literal(0))


_STEEP = Literal(Fraction(41, 100), REAL)  # below tan(pi / 8) = 0.41421...
_TERMS = 21  # of the series: 0.4185**43 / 43 < 1.3e-18, less than half a unit of f64 at 0.41


def _arctangent(t: Expr) -> Expr:
    """atan t for 0 <= t <= 1: pi/4 + atan((t - 1) / (t + 1)) where t is large, then the series
    t - t^3 / 3 + t^5 / 5 - ... for |t| < 0.4185."""
    large = call("gt", t, _STEEP)
    turned = call("div", call("sub", t, literal(1)), call("add", t, literal(1)))
    u = Select(large, turned, t)
    square = call("mul", u, u)
    total: Expr = _coefficient(_TERMS - 1)
    for k in reversed(range(1, _TERMS - 1)):
        total = call("add", _coefficient(k), call("mul", square, total))
    value = call("add", u, call("mul", u, call("mul", square, total)))
    quarter = call("mul", Literal(Fraction(1, 4), REAL), _PI)
    return Select(large, call("add", quarter, value), value)


def _coefficient(k: int) -> Expr:
    return Literal(Fraction((-1) ** k, 2 * k + 1), REAL)


def whole_power(base: Pair, n: int) -> Pair:
    """base ** n by squaring, from the highest bit of |n| down, n not 0. A negative power of
    0 is NaN, as in NumPy."""
    found = base
    for bit in f"{abs(n):b}"[1:]:
        found = _mul(found, found)
        if bit == "1":
            found = _mul(found, base)
    if n > 0:
        return found
    re, im = _div((literal(1), ZERO), found)
    nothing = _is_nothing(base)
    return Select(nothing, _NAN, re), Select(nothing, _NAN, im)


def power(a: Pair, b: Pair) -> Pair:
    """e^(b log a), with rho + i phi = b log a: e^rho (cos phi + i sin phi). As in NumPy, 0 ** b is
    0 where the real part of b is positive, NaN elsewhere, and a ** 0 is 1 for every a."""
    (c, d), (length, turn) = b, _log(a, a)
    rho, phi = call("mul", c, length), call("mul", c, turn)
    if not is_zero(d):
        rho, phi = call("sub", rho, call("mul", d, turn)), call("add", phi, call("mul", d, length))
    size = call("exp", rho)
    re, im = call("mul", size, call("cos", phi)), _scaled(size, call("sin", phi))
    nothing, none = _is_nothing(a), _is_nothing(b)
    at_zero = Select(call("gt", c, literal(0)), literal(0), _NAN)
    return (
        Select(none, literal(1), Select(nothing, at_zero, re)),
        Select(none, literal(0), Select(nothing, at_zero, im)),
    )


def _is_nothing(a: Pair) -> Expr:
    """Whether both parts are 0."""
    first = call("eq", a[0], literal(0))
    return first if is_zero(a[1]) else call("and", first, call("eq", a[1], literal(0)))


FORMULAS: Mapping[str, Formula] = {
    "add": lambda a, b: both(add, a, b),
    "sub": lambda a, b: both(sub, a, b),
    "neg": lambda a, _: both(lambda x, _: neg(x), a, a),
    "conj": lambda a, _: (a[0], neg(a[1])),
    "mul": _mul,
    "div": _div,
    "abs": lambda a, _: (modulus(a), literal(0)),
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "sin": _sin,
    "cos": _cos,
}
