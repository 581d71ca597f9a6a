"""The scalar functions of the language as LLVM IR, one entry of a table per function.

Every emitter takes operands of one strong type (shifts: of two) and gives the result. Division by
zero, shifts past the width and MIN // -1 have the language's values and never trap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from tensorc.codegen import llvm_math, llvm_special
from tensorc.codegen.llvm_builder import Builder, float_name
from tensorc.codegen.llvm_convert import convert
from tensorc.codegen.llvm_types import Operand
from tensorc.ir.dtypes import BOOL, F64, I32, I64, Kind, integer_range

Emitter = Callable[[Builder, Sequence[Operand]], Operand]


def _chain(integer: str, floating: str) -> Emitter:
    def emit(b: Builder, args: Sequence[Operand]) -> Operand:
        total = args[0]
        for arg in args[1:]:
            if total.dtype.floating:
                total = b.float_op(floating, total, arg)
            else:
                total = b.op(integer, total, arg)
        return total

    return emit


def _compare(ordered: str) -> Emitter:
    def emit(b: Builder, args: Sequence[Operand]) -> Operand:
        x, y = args
        if x.dtype.floating:
            return b.op(f"fcmp {'une' if ordered == 'ne' else 'o' + ordered}", x, y, BOOL)
        if ordered in ("eq", "ne"):
            return b.op(f"icmp {ordered}", x, y, BOOL)
        sign = "u" if x.dtype.kind is not Kind.INT else "s"
        return b.op(f"icmp {sign}{ordered}", x, y, BOOL)

    return emit


def _extreme(name: str) -> Emitter:
    """NaN wins, and +0 is above -0: llvm.maximum and llvm.minimum."""

    def emit(b: Builder, args: Sequence[Operand]) -> Operand:
        total = args[0]
        for arg in args[1:]:
            if total.dtype.floating:
                total = b.intrinsic(f"{name}imum", [total, arg])
            else:
                sign = "s" if total.dtype.kind is Kind.INT else "u"
                total = b.intrinsic(f"{sign}{name}", [total, arg])
        return total

    return emit


def _bits(opcode: str) -> Emitter:
    return lambda b, args: _fold(b, opcode, args)


def _fold(b: Builder, opcode: str, args: Sequence[Operand]) -> Operand:
    total = args[0]
    for arg in args[1:]:
        total = b.op(opcode, total, arg)
    return total


def _intrinsic(name: str) -> Emitter:
    return lambda b, args: b.intrinsic(name, args)


def _negate(b: Builder, args: Sequence[Operand]) -> Operand:
    (x,) = args
    if x.dtype.floating:
        return b.result(f"fneg {x}", x.dtype, x.lanes, x.depth)
    return b.op("sub", b.const(0, x.dtype), x)


def _invert(b: Builder, args: Sequence[Operand]) -> Operand:
    (x,) = args
    return b.op("xor", x, b.const(1 if x.dtype is BOOL else -1, x.dtype))


def _floor_divide(b: Builder, args: Sequence[Operand]) -> Operand:
    x, y = args
    return _float_floordiv(b, x, y) if x.dtype.floating else _int_divmod(b, x, y)[0]


def _modulo(b: Builder, args: Sequence[Operand]) -> Operand:
    x, y = args
    return _float_mod(b, x, y) if x.dtype.floating else _int_divmod(b, x, y)[1]


def _int_divmod(b: Builder, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """Floor division and modulo with x // 0 = 0, x % 0 = x and MIN // -1 = MIN."""
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    by_zero = b.op("icmp eq", y, zero, BOOL)
    if x.dtype.kind is Kind.UINT:
        safe = b.select(by_zero, one, y)
        quotient = b.select(by_zero, zero, b.op("udiv", x, safe))
        return quotient, b.op("sub", x, b.op("mul", quotient, y))
    negative = b.op("icmp eq", y, b.const(-1, x.dtype), BOOL)
    safe = b.select(b.op("or", by_zero, negative), one, y)
    cut, rest = b.op("sdiv", x, safe), b.op("srem", x, safe)
    signs = b.op("icmp slt", b.op("xor", rest, safe), zero, BOOL)
    lower = b.op("and", signs, b.op("icmp ne", rest, zero, BOOL))
    floored = b.op("sub", cut, b.select(lower, one, zero))
    quotient = b.select(negative, b.op("sub", zero, x), b.select(by_zero, zero, floored))
    return quotient, b.op("sub", x, b.op("mul", quotient, y))


def _float_rest(b: Builder, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """(fmod(x, y), whether it is not zero and lies on the other side of zero than y)."""
    rest = b.each_lane(float_name(x.dtype, "fmod"), [x, y], x.dtype)
    zero = b.const(0, x.dtype)
    low = b.op("fcmp olt", rest, zero, BOOL)
    other = b.op("xor", low, b.op("fcmp olt", y, zero, BOOL))
    return rest, b.op("and", b.op("fcmp one", rest, zero, BOOL), other)


def _float_mod(b: Builder, x: Operand, y: Operand) -> Operand:
    """Python's: the sign of the divisor; a zero result takes it too; x % 0.0 is NaN."""
    rest, other = _float_rest(b, x, y)
    zero = b.const(0, x.dtype)
    moved = b.select(other, b.op("fadd", rest, y), rest)
    signed = b.intrinsic("copysign", [zero, y])
    return b.select(b.op("fcmp oeq", rest, zero, BOOL), signed, moved)


def _float_floordiv(b: Builder, x: Operand, y: Operand) -> Operand:
    """Python's divmod: (x - fmod(x, y)) / y, one less where the signs differ, made whole; by zero:
    IEEE's x / y."""
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    exact = b.op("fdiv", x, y)
    rest, other = _float_rest(b, x, y)
    cut = b.op("fdiv", b.op("fsub", x, rest), y)
    quotient = b.select(other, b.op("fsub", cut, one), cut)
    floored = b.intrinsic("floor", [quotient])
    above = b.op("fsub", quotient, floored)
    up = b.op("fcmp ogt", above, b.const(Fraction(1, 2), x.dtype), BOOL)
    whole = b.select(up, b.op("fadd", floored, one), floored)
    signed = b.intrinsic("copysign", [zero, exact])
    value = b.select(b.op("fcmp oeq", quotient, zero, BOOL), signed, whole)
    return b.select(b.op("fcmp oeq", y, zero, BOOL), exact, value)


def _shift(opcode: str) -> Emitter:
    """The shift count is taken as unsigned: negative or past the width gives 0, or the sign."""

    def emit(b: Builder, args: Sequence[Operand]) -> Operand:
        x, count = args
        width = x.dtype.bits
        wide = b.const(width, count.dtype)
        inside = b.op("icmp ult", count, wide, BOOL)
        signed = x.dtype.kind is Kind.INT
        fill = b.const(width - 1, count.dtype)
        safe = convert(b, b.select(inside, count, fill), x.dtype)
        code = opcode if opcode == "shl" else ("ashr" if signed else "lshr")
        shifted = b.op(code, x, safe)
        if code == "ashr":
            return shifted
        return b.select(inside, shifted, b.const(0, x.dtype))

    return emit


def _absolute(b: Builder, args: Sequence[Operand]) -> Operand:
    (x,) = args
    if x.dtype.floating:
        return b.intrinsic("fabs", [x])
    return x if x.dtype.kind is Kind.UINT else b.intrinsic("abs", [x], extra="false")


def _sign(b: Builder, args: Sequence[Operand]) -> Operand:
    (x,) = args
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    less, more = ("fcmp olt", "fcmp ogt") if x.dtype.floating else ("icmp slt", "icmp sgt")
    if x.dtype.kind is Kind.UINT:
        return b.select(b.op("icmp ne", x, zero, BOOL), one, zero)
    minus = b.select(b.op(less, x, zero, BOOL), b.const(-1, x.dtype), x)
    return b.select(b.op(more, x, zero, BOOL), one, minus)


def _rounding(name: str) -> Emitter:
    return lambda b, args: b.intrinsic(name, args) if args[0].dtype.floating else args[0]


def _power(b: Builder, args: Sequence[Operand]) -> Operand:
    x, y = args
    if x.dtype.floating:
        return llvm_special.power(b, [x, y])
    return _int_power(b, x, y)


def _int_power(b: Builder, x: Operand, y: Operand) -> Operand:
    """Square and multiply over the bits of the exponent; a negative one gives 1, -1 or 0."""
    one, zero = b.const(1, x.dtype), b.const(0, x.dtype)
    total, square = one, x
    for bit in range(x.dtype.bits - (x.dtype.kind is Kind.INT)):
        mask = b.op("and", b.op("lshr", y, b.const(bit, y.dtype)), b.const(1, y.dtype))
        total = b.op("mul", total, b.select(b.op("icmp ne", mask, zero, BOOL), square, one))
        square = b.op("mul", square, square)
    if x.dtype.kind is Kind.UINT:
        return total
    odd = b.op("icmp ne", b.op("and", y, one), zero, BOOL)
    minus = b.op("icmp eq", x, b.const(-1, x.dtype), BOOL)
    unit = b.select(b.op("icmp eq", x, one, BOOL), one, zero)
    inverse = b.select(minus, b.select(odd, x, one), unit)
    return b.select(b.op("icmp slt", y, zero, BOOL), inverse, total)


def _reciprocal_root(b: Builder, args: Sequence[Operand]) -> Operand:
    (x,) = args
    return b.op("fdiv", b.const(1, x.dtype), b.intrinsic("sqrt", [x]))


def _is_nan(b: Builder, args: Sequence[Operand]) -> Operand:
    (x,) = args
    return b.op("fcmp uno", x, x, BOOL) if x.dtype.floating else b.const(0, BOOL)


def _is_infinite(b: Builder, args: Sequence[Operand]) -> Operand:
    (x,) = args
    if not x.dtype.floating:
        return b.const(0, BOOL)
    return b.op("fcmp oeq", b.intrinsic("fabs", [x]), b.const("inf", x.dtype), BOOL)


def _itself(b: Builder, args: Sequence[Operand]) -> Operand:
    """The real part and the conjugate of a real."""
    return args[0]


def _zero(b: Builder, args: Sequence[Operand]) -> Operand:
    """The imaginary part of a real."""
    return b.splat(b.const(0, args[0].dtype), args[0].lanes)


def _popcount(b: Builder, args: Sequence[Operand]) -> Operand:
    return convert(b, b.intrinsic("ctpop", args), I32)


def _exponent(b: Builder, args: Sequence[Operand]) -> Operand:
    """floor(log2 |x|) from the bits; subnormals are scaled up first. 0 gives the lowest i32, inf
    the highest, NaN 0, as conversions to integers do."""
    (x,) = args
    double = x.dtype is F64
    bits, bias, size = (52, 1023, I64) if double else (23, 127, I32)
    magnitude = b.intrinsic("fabs", [x])
    tiny = b.op("fcmp olt", magnitude, b.const(Fraction(2) ** (1 - bias), x.dtype), BOOL)
    scaled = b.op("fmul", magnitude, b.const(Fraction(2) ** 64, x.dtype))
    field = b.convert("bitcast", b.select(tiny, scaled, magnitude), size)
    raw = b.op("sub", b.op("lshr", field, b.const(bits, size)), b.const(bias, size))
    number = convert(b, b.op("sub", raw, b.select(tiny, b.const(64, size), b.const(0, size))), I32)
    return _exponent_specials(b, magnitude, number)


def _exponent_specials(b: Builder, magnitude: Operand, number: Operand) -> Operand:
    low, high = integer_range(I32)
    zero, infinity = b.const(0, magnitude.dtype), b.const("inf", magnitude.dtype)
    finite = b.select(b.op("fcmp oeq", magnitude, zero, BOOL), b.const(low, I32), number)
    ends = b.select(b.op("fcmp oeq", magnitude, infinity, BOOL), b.const(high, I32), finite)
    nan = b.op("fcmp uno", magnitude, magnitude, BOOL)
    return b.select(nan, b.const(0, I32), ends)


def _scale(b: Builder, args: Sequence[Operand]) -> Operand:
    """ldexp with the exponent saturated to what a C int holds."""
    x, count = args
    if count.dtype.kind is Kind.UINT or count.dtype.bits > 32:
        count = b.intrinsic("umin" if count.dtype.kind is Kind.UINT else "smin",
                            [count, b.const(1 << 20, count.dtype)])  # fmt: skip
        if count.dtype.kind is Kind.INT:
            count = b.intrinsic("smax", [count, b.const(-(1 << 20), count.dtype)])
    return b.each_lane(float_name(x.dtype, "ldexp"), [x, convert(b, count, I32)], x.dtype)


FUNCTIONS: dict[str, Emitter] = {
    "add": _chain("add", "fadd"), "mul": _chain("mul", "fmul"), "sub": _chain("sub", "fsub"),
    "div": _chain("sdiv", "fdiv"), "neg": _negate,
    "floordiv": _floor_divide, "mod": _modulo, "pow": _power,
    "lt": _compare("lt"), "le": _compare("le"), "gt": _compare("gt"), "ge": _compare("ge"),
    "eq": _compare("eq"), "ne": _compare("ne"),
    "and": _bits("and"), "or": _bits("or"), "not": _invert, "xor": _bits("xor"),
    "bitand": _bits("and"), "bitor": _bits("or"), "bitxor": _bits("xor"), "invert": _invert,
    "shl": _shift("shl"), "shr": _shift("shr"),
    "min": _extreme("min"), "max": _extreme("max"), "abs": _absolute, "sign": _sign,
    "floor": _rounding("floor"), "ceil": _rounding("ceil"), "round": _rounding("roundeven"),
    "sqrt": _intrinsic("sqrt"), "rsqrt": _reciprocal_root,
    "exp": llvm_math.exp, "exp2": llvm_math.exp2, "log": llvm_math.log, "log2": llvm_math.log2,
    "sin": llvm_special.sin, "cos": llvm_special.cos, "tanh": llvm_math.tanh,
    "sigmoid": llvm_math.sigmoid, "erf": llvm_special.erf,
    "expm1": llvm_math.expm1, "log1p": llvm_math.log1p,
    "isnan": _is_nan, "isinf": _is_infinite,
    "real": _itself, "conj": _itself, "imag": _zero,
    "popcount": _popcount, "exponent": _exponent, "ldexp": _scale,
}  # fmt: skip
