"""Exact folding of what literals and extents make."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tensorc.ir import dtypes as T
from tensorc.ir import elementwise, exact
from tensorc.ir.constants import closed, fold
from tensorc.ir.dtypes import F64, DType
from tensorc.ir.functions import FUNCTIONS
from tensorc.ir.rounding import nearest
from tensorc.ir.tensor import Apply, Cast, Expr, Extent, Literal, Position, Select

D = Extent("d")


def num(value: int | float | str) -> Literal:
    if isinstance(value, int):
        return Literal(Fraction(value), T.INTEGER)
    text = isinstance(value, str)
    return Literal(value if text else Fraction(repr(value)), T.REAL)


def call(name: str, *args: Expr | int | float | str) -> Apply:
    made = tuple(num(a) if isinstance(a, int | float | str) else a for a in args)
    return Apply(FUNCTIONS[name], made)


def value(expr: Expr, **extents: int) -> Any:
    """The folded value: a Fraction or a special's name; irrational ones as the nearest float."""
    found = fold(expr, extents)
    assert found is not None
    return found if isinstance(found, str) or found.denominator < 10**9 else nearest(found, F64)


@pytest.mark.parametrize(
    ("expr", "right"),
    [
        (call("add", 0.1, 0.2), Fraction(3, 10)),  # decimal, not binary
        (call("div", 1, 3), Fraction(1, 3)), (call("div", 1, 0), "inf"),
        (call("div", -1, 0), "-inf"), (call("div", 0, 0), "nan"),
        (call("floordiv", -7, 2), -4), (call("floordiv", 7, 0), 0), (call("mod", 7, 0), 7),
        (call("mod", -7, 4), 1), (call("floordiv", 7.0, 0), "inf"), (call("mod", 7.0, 0), "nan"),
        (call("floordiv", 1.0, 0.1), 10), (call("floordiv", -1.5, 0.5), -3),
        (call("pow", 2, 100), 2**100), (call("pow", 2.0, -1), Fraction(1, 2)),
        (call("pow", 0, 0), 1), (call("pow", 0.0, -1), "inf"), (call("pow", -8.0, 0.5), "nan"),
        (call("pow", 2.25, 1.5), Fraction(27, 8)), (call("pow", 10.0, 10**9), "inf"),
        (call("pow", -1, 10**12 + 1), -1), (call("pow", "nan", 0), 1),
        (call("sqrt", 2.25), Fraction(3, 2)), (call("rsqrt", 4), Fraction(1, 2)),
        (call("rsqrt", 0.0), "inf"), (call("sqrt", -1.0), "nan"),
        (call("sin", "pi"), 0), (call("cos", "pi"), -1),
        (call("cos", call("div", "pi", 3)), 0.5), (call("cos", call("div", "pi", 2)), 0),
        (call("sin", call("mul", 2, "pi")), 0), (call("div", "pi", "pi"), 1),
        (call("sub", "pi", "pi"), 0),
        (call("log2", 8), 3), (call("log2", 0.125), -3), (call("exp2", -3), Fraction(1, 8)),
        (call("log", 1), 0), (call("log", 0), "-inf"), (call("log", -1), "nan"),
        (call("exp", 0), 1), (call("exp", "-0"), 1), (call("exp", call("neg", "inf")), 0),
        (call("log1p", -1), "-inf"), (call("expm1", 0), 0), (call("tanh", "inf"), 1),
        (call("floor", -0.5), -1), (call("ceil", -0.5), "-0"), (call("round", 2.5), 2),
        (call("round", 3.5), 4), (call("round", -0.5), "-0"), (call("neg", 0.0), "-0"),
        (call("neg", 0), 0), (call("mul", 0.0, -2), "-0"), (call("mul", 0, -2), 0),
        (call("add", "-0", 0.0), 0), (call("add", "-0", "-0"), "-0"),
        (call("add", "-0", 0.1), Fraction(1, 10)), (call("mul", "inf", 0.0), "nan"),
        (call("min", "inf", call("div", 1, 3)), Fraction(1, 3)), (call("max", "nan", 1.0), "nan"),
        (call("max", 0.0, "-0"), 0), (call("min", 0.0, "-0"), "-0"),
        (call("sub", "inf", "inf"), "nan"), (call("sign", -2.5), -1), (call("sign", "nan"), "nan"),
        (call("abs", -2.5), Fraction(5, 2)), (call("lt", 0.1, call("div", 1, 10)), 0),
        (call("eq", "nan", "nan"), 0), (call("ne", "nan", "nan"), 1),
        (call("and", call("lt", 1, 2), call("lt", 2, 1)), 0),
        (call("shl", 1, 70), 2**70), (call("shr", -5, 1), -3), (call("shr", -5, 10**9), -1),
        (call("bitand", -1, 12), 12), (call("bitxor", 5, 1), 4), (call("invert", 0), -1),
        (call("popcount", -1), 64), (call("popcount", 255), 8),
        (call("exponent", 0.3), -2), (call("exponent", 0.0), -(2**31)),
        (call("ldexp", 0.75, 4), 12), (call("isinf", "inf"), 1), (call("isnan", 0.5), 0),
        (Select(call("lt", 1, 2), num(3), num(4)), 3),
        (Cast(T.F16, num(0.1)), Fraction(float(np.float16(0.1)))),
        (Cast(T.F8E4M3, num(1000)), "nan"), (Cast(T.I8, num(300)), 44),
        (Cast(T.I8, num(300.0)), 127), (Cast(T.U8, num(-1.5)), 0), (Cast(T.I32, num("nan")), 0),
        (Cast(T.BOOL, num("nan")), 1), (Cast(T.BOOL, num("-0")), 0),
        (call("mul", D, D), 16384), (call("floordiv", call("sub", D, 1), 4), 31),
        (call("div", 1, call("sqrt", D)), 1 / math.sqrt(128)),
        (call("exp", 1), math.e), (call("log2", call("exp", 1)), 1 / math.log(2)),
        (call("pow", 10000.0, call("div", -2, D)), 10000.0 ** (-1 / 64)),
        (call("erf", 0.5), math.erf(0.5)), (call("sigmoid", -40.0), 1 / (1 + math.exp(40))),
        (call("exp", 100000), "inf"), (call("exp", -100000), 0.0),
    ],
    ids=lambda item: getattr(getattr(item, "function", None), "name", ""),
)  # fmt: skip
def test_fold(expr: Expr, right: object) -> None:
    got = value(expr, d=128)
    if isinstance(right, float):
        assert math.isclose(got, right, rel_tol=4e-16)
    else:
        assert got == right and type(got) is not float


def test_what_does_not_fold() -> None:
    assert not closed(Position("i")) and fold(Position("i"), {}) is None
    assert fold(D, {}) is None and fold(D, {"d": 3}) == 3
    strong = call("add", Cast(T.F16, num(0.1)), num(1))  # added in f32, by the interpreters
    assert closed(strong) and fold(strong, {}) is None
    assert fold(Literal(Fraction(1), T.IMAGINARY), {}) is None


def test_hundreds_of_digits() -> None:
    found = fold(call("sub", call("exp", 1), 2.5), {})
    assert isinstance(found, Fraction)
    digits = "2182818284590452353602874713526624977572470936999595749669676277240766303535475945713"
    assert str(int(found * 10 ** len(digits)))[:80] == digits[:80]


def test_deep_expressions_do_not_recurse() -> None:
    expr: Expr = num(1)
    for _ in range(5000):
        expr = call("add", expr, 1)
    assert fold(expr, {}) == 5001


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_folding_is_what_running_computes(name: str) -> None:
    """On exactly representable arguments the folded value is the computed one (bug log, W2)."""
    function = FUNCTIONS[name]
    bits = name in ("bitand", "bitor", "bitxor", "invert", "shl", "shr", "popcount")
    logic = name in ("and", "or", "not", "xor")
    plain: tuple[float, ...] = (0, 1) if logic else (0, 1, -1, 3, -7, 12)
    reals = () if bits or logic else (0.5, -0.75, 2.5, math.inf, -math.inf, math.nan, -0.0, 1e300)
    pool = (*plain, *reals)
    count = function.least
    dtype: DType = T.BOOL if logic else T.INTEGER if bits else T.REAL
    for chosen in itertools.product(pool, repeat=count):
        args = list(chosen)
        if name == "ldexp":
            args[1] = math.floor(args[1]) if math.isfinite(args[1]) and abs(args[1]) < 99 else 2
        folded = exact.evaluate(name, [exact.of_float(float(a)) for a in args], dtype is T.REAL)
        arrays = [np.asarray(a, np.int64 if bits else np.bool_ if logic else float) for a in args]
        if name == "ldexp":
            arrays[1] = arrays[1].astype(np.int64)
        ran = float(elementwise.apply(name, arrays))
        found = nearest(exact.rational(folded), F64)
        same = found == ran or (math.isnan(found) and math.isnan(ran))
        assert same or math.isclose(found, ran, rel_tol=1e-15), (name, args, found, ran)
        signed = name not in ("sin", "floordiv", "mod", "pow", "sub", "expm1", "log1p", "erf")
        if found == 0 and signed and dtype is T.REAL and ran == 0:
            assert math.copysign(1, found) == math.copysign(1, ran), (name, args)
