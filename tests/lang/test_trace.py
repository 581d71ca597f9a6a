"""The Python surface: what may be written, and that it gives the program of the same text."""

from __future__ import annotations

import functools
import operator
import threading
from decimal import Decimal

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorc as tc
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.tensor import Program

b, c, d, e, h, i, j, k, m, n, t = tc.indices("b c d e h i j k m n t")
r = tc.index("r=3")


def same(op: tc.Op, body: str) -> None:
    """The operator is the one of the text `body` under its own header, and reads back as itself."""
    header = op.text.partition(" = ")[0].rpartition("\n")[0]
    text = "\n  ".join([header, *body.strip().split("\n")])
    assert op.program == only(text), f"\n{op.text}\n{text}"
    assert op.program == only(op.text)


def only(text: str) -> Program:
    (found,) = tc.loads(text)
    return found.program


def test_gemm_is_the_program_of_the_text() -> None:
    @tc.op("A: bf16[m, k], B: bf16[k, n], b: f32[n] -> Y: bf16[m, n]")
    def gemm(A: tc.Tensor, B: tc.Tensor, b: tc.Tensor) -> tc.Expr:
        z = tc.let[m, n](tc.sum[k](A[m, k] * B[k, n]) + b[n], name="z")
        return z[m, n] * tc.sigmoid(z[m, n])

    same(gemm, "z[m, n] = sum[k](A[m, k] * B[k, n]) + b[n]\nY[m, n] = z[m, n] * sigmoid(z[m, n])")


def test_an_expression_used_twice_is_used_by_value() -> None:
    @tc.op("x: bf16[t, i] -> y: bf16[t, i]")
    def norm(x: tc.Tensor) -> tc.Expr:
        z = x[t, i] - tc.mean[i](x[t, i])
        return z * tc.rsqrt(tc.mean[i](z**2) + 1e-5)

    z = "(x[t, i] - mean[i](x[t, i]))"
    same(norm, f"y[t, i] = {z} * rsqrt(mean[i]({z} ** 2) + 1e-5)")


def test_declared_rounding_and_guards() -> None:
    @tc.op("q: f16[b, m, d], v: f16[b, n, d] -> o: f16[b, m, d], l: f32[b, m]")
    def attend(q: tc.Tensor, v: tc.Tensor) -> tuple[tc.Expr, tc.Expr]:
        s = tc.sum[d](q[b, m, d] * v[b, n, d]) / tc.sqrt(d.size)
        seen = n <= m + n.size - m.size
        p = tc.let[b, m, n](tc.softmax[n](s, where=seen), dtype=tc.f16)
        return tc.sum[n](p[b, m, n] * v[b, n, d]), tc.logsumexp[n](s, where=seen)

    s = "sum[d](q[b, m, d] * v[b, n, d]) / sqrt(|d|) where n <= m + |n| - |m|"
    same(
        attend,
        f"t1: f16[b, m, n] = softmax[n]({s})\n"
        "o[b, m, d] = sum[n](t1[b, m, n] * v[b, n, d])\n"
        f"l[b, m] = logsumexp[n]({s})",
    )


def test_every_operator_and_function() -> None:
    @tc.op("x: f32[i], a: i32[i], p: bool[i], z: complex64[i] -> y: f32[i], u: i64[i], f: bool[i]")
    def every(x: tc.Tensor, a: tc.Tensor, p: tc.Tensor, z: tc.Tensor) -> tuple[tc.Expr, ...]:
        v, w = x[i], a[i]
        y = -v + +v - 2 * v / 3 // 4 % 5 ** abs(v) - round(v) + divmod(v, 2.0)[1]
        for f in (tc.sign, tc.floor, tc.ceil, tc.round, tc.abs, tc.sqrt, tc.rsqrt, tc.exp):
            y = y + f(v)
        for f in (tc.exp2, tc.log, tc.log2, tc.sin, tc.cos, tc.tanh, tc.sigmoid, tc.erf):
            y = y * f(v)
        y = y + tc.expm1(v) - tc.log1p(v) + tc.pow(v, 2) + tc.ldexp(v, w) + tc.clamp(v, 0, 1)
        y = y + tc.max(v, w, 0) + tc.min(v, tc.pi) + tc.real(z[i]) + tc.imag(tc.conj(z[i]))
        bits = (~w & 15 | w ^ 3) << 2 >> 1
        u = bits + tc.popcount(w) + tc.exponent(v) + tc.i64(v) + tc.bitcast(tc.i32, v)
        near = (v < 1) & (v > 0) | (v >= w) ^ ~(v <= 2) | (v == w) | (v != w)
        near = near & tc.inside(i - 1, i.size) & p[i] | tc.isnan(v) | tc.isinf(v)
        return tc.where(near, y, tc.select(p[i], v, 0)), u, near

    near = (
        "(x[i] < 1 and x[i] > 0 or (x[i] >= a[i]) ^ (not x[i] <= 2) or x[i] == a[i]"
        " or x[i] != a[i]) and inside(i - 1, |i|) and p[i] or isnan(x[i]) or isinf(x[i])"
    )
    y = "-x[i] + x[i] - 2 * x[i] / 3 // 4 % 5 ** abs(x[i]) - round(x[i]) + x[i] % 2.0"
    for name in ("sign", "floor", "ceil", "round", "abs", "sqrt", "rsqrt", "exp"):
        y += f" + {name}(x[i])"
    y = f"({y})"
    for name in ("exp2", "log", "log2", "sin", "cos", "tanh", "sigmoid", "erf"):
        y += f" * {name}(x[i])"
    y += " + expm1(x[i]) - log1p(x[i]) + x[i] ** 2 + ldexp(x[i], a[i]) + clamp(x[i], 0, 1)"
    y += " + max(x[i], a[i], 0) + min(x[i], pi) + real(z[i]) + imag(conj(z[i]))"
    u = "((~a[i] & 15 | a[i] ^ 3) << 2 >> 1) + popcount(a[i]) + exponent(x[i])"
    same(
        every,
        f"y[i] = select({near}, {y}, select(p[i], x[i], 0))\n"
        f"u[i] = {u} + i64(x[i]) + bitcast(i32, x[i])\nf[i] = {near}",
    )


def test_every_reduction() -> None:
    @tc.op("x: f32[i, j], p: bool[i, j] -> y: f32[i], a: i64, f: bool[i], s: f32[i, j]")
    def every(x: tc.Tensor, p: tc.Tensor) -> tuple[tc.Expr, ...]:
        v = x[i, j]
        y = tc.sum[j, tc.f64](v) + tc.prod[j](v, where=p[i, j]) + tc.max[j](v) - tc.min[j](v)
        y = y + tc.mean[j](v) + tc.logsumexp[j](v, where=j < 3)
        a = tc.argmax[i, j](v) + tc.argmin[i, j](v)
        return tc.f32(y), a, tc.any[j](p[i, j]) & tc.all[j](p[i, j]), tc.softmax[j](v)

    y = "sum[j, f64](x[i, j]) + prod[j](x[i, j] where p[i, j]) + max[j](x[i, j]) - min[j](x[i, j])"
    same(
        every,
        f"y[i] = f32({y} + mean[j](x[i, j]) + logsumexp[j](x[i, j] where j < 3))\n"
        "a = argmax[i, j](x[i, j]) + argmin[i, j](x[i, j])\n"
        "f[i] = any[j](p[i, j]) and all[j](p[i, j])\ns[i, j] = softmax[j](x[i, j])",
    )


def test_an_index_with_a_size_of_its_own() -> None:
    @tc.op("x: f32[n] -> y: f32[i=|n| - 2]")
    def windows(x: tc.Tensor) -> tc.Expr:
        w = tc.let[i, r](x[i + r] * r)
        return tc.max[r](w[i, r]) + tc.sum[r](x[i + r])

    same(windows, "t1[i, r=3] = x[i + r] * r\ny[i] = max[r](t1[i, r]) + sum[r=3](x[i + r])")


def test_result_orders_the_indices_of_an_output() -> None:
    @tc.op("P: bool[n, n] -> R: bool[n, n]")
    def closure(P: tc.Tensor) -> tc.Tensor:
        return tc.result[i, j](P[i, j] | tc.any[k](P[i, k] & P[k, j]))

    same(closure, "R[i, j] = P[i, j] or any[k](P[i, k] and P[k, j])")


def test_a_named_tensor_that_is_returned_is_the_output() -> None:
    @tc.op("x: f32[i, j] -> s: f32[i], y: f32[i, j], z: f16[i]")
    def rows(x: tc.Tensor) -> tuple[tc.Tensor, tc.Expr, tc.Tensor]:
        s = tc.let[i](tc.sum[j](x[i, j]))
        return s, x[i, j] / s[i], s

    same(rows, "s[i] = sum[j](x[i, j])\ny[i, j] = x[i, j] / s[i]\nz[i] = s[i]")


def test_names_of_their_own_do_not_clash() -> None:
    @tc.op("t1: f32[t2], w: f32[t2] -> t3: f32[t2]")
    def clash(t1: tc.Tensor, w: tc.Tensor) -> tc.Expr:
        t2 = tc.index("t2")
        first = tc.let[t2](t1[t2] * 2)
        second = tc.let[t2](first[t2] * 2, name="w")
        third = tc.let[t2](second[t2] * w[t2], name="w")
        return third[t2] + first[t2]

    same(
        clash,
        "t4[t2] = t1[t2] * 2\nw2[t2] = t4[t2] * 2\n"
        "w3[t2] = w2[t2] * w[t2]\nt3[t2] = w3[t2] + t4[t2]",
    )


def test_scalars() -> None:
    @tc.op("x: f32[i], w: f32, c: const i64 -> y: f32[i], s: f32")
    def scaled(x: tc.Tensor, w: tc.Tensor, c: tc.Tensor) -> tuple[tc.Expr, tc.Expr]:
        s = tc.let[()](tc.sum[i](x[i]) * w)
        return x[i] * w / s + c, s[()] * 2

    same(scaled, "t1 = sum[i](x[i]) * w\ny[i] = x[i] * w / t1 + c\ns = t1 * 2")


def test_numbers_keep_their_value_and_numpy_numbers_their_type() -> None:
    @tc.op("x: f32[i] -> y: f64[i], z: complex128[i]")
    def numbers(x: tc.Tensor) -> tuple[tc.Expr, tc.Expr]:
        half: np.generic = ml_dtypes.bfloat16(1.5)
        y = 0.1 * x[i] + 2**70 - -3 * x[i] + 1e-300 - float("inf") + True
        y = y * np.float64(0.1) + np.float32(0.1) - np.int64(-7) * x[i]
        y = y + half * x[i] + (i + np.int64(2)) * np.uint8(3)
        return y, x[i] * (1 - 2j) + np.complex64(3j)

    same(
        numbers,
        "y[i] = (0.1 * x[i] + 1180591620717411303424 - -3 * x[i] + 1e-300 - inf + true)"
        " * f64(0.1) + f32(0.1) - i64(-7) * x[i] + bf16(1.5) * x[i] + (i + 2) * 3\n"
        "z[i] = x[i] * (1.0 + -2.0j) + complex64(3.0j)",
    )


def test_helpers_closures_loops_methods_lambdas() -> None:
    def horner(x: tc.Expr, coefficients: list[float]) -> tc.Expr:
        return functools.reduce(lambda value, a: value * x + a, coefficients[1:], x * 0)

    class Scaled:
        eps = 1e-3

        def forward(self, x: tc.Tensor) -> tc.Expr:
            y: tc.Expr = x[i] + self.eps
            for shift in range(2):
                y = y + shift * x[i]
            return y

    def times(s: float, x: tc.Tensor) -> tc.Expr:
        return x[i] * s

    def inner(x: tc.Tensor) -> tc.Expr:
        return horner(x[i], [1, *taps])

    taps = [0.5, 0.25]
    signature = "x: f32[i] -> y: f32[i]"
    twice = tc.op(signature)(lambda x: x[i] * 2)  # pyright: ignore
    method = tc.op(signature)(Scaled().forward)
    partial = tc.op(signature)(functools.partial(times, 3))
    plain = tc.op(signature, name="poly")(inner)
    same(twice, "y[i] = x[i] * 2")
    same(method, "y[i] = x[i] + 0.001 + 0 * x[i] + 1 * x[i]")
    same(partial, "y[i] = x[i] * 3")
    same(plain, "y[i] = (x[i] * 0 * x[i] + 0.5) * x[i] + 0.25")
    assert (twice.name, method.name, partial.name, plain.name) == (
        "lambda", "forward", "times", "poly",
    )  # fmt: skip


class Layer:
    """A class with an operator among its methods."""

    def __init__(self, eps: float) -> None:
        self.eps = eps

    @tc.op("x: f32[i] -> y: f32[i]")
    def shifted(self, x: tc.Tensor) -> tc.Expr:
        return x[i] + self.eps


def test_an_operator_among_methods_is_traced_for_each_instance() -> None:
    one, two = Layer(0.5), Layer(0.25)
    assert "x[i] + 0.5" in one.shifted.text
    assert "x[i] + 0.25" in two.shifted.text
    assert one.shifted is one.shifted


def test_default_values_are_not_operands() -> None:
    @tc.op("x: f32[i] -> y: f32[i]")
    def shifted(x: tc.Tensor, by: float = 0.5, *, twice: bool = True) -> tc.Expr:
        return x[i] + by * (2 if twice else 1)

    same(shifted, "y[i] = x[i] + 1.0")


def test_an_inner_binding_hides_an_outer_one() -> None:
    def centred(x: tc.Expr) -> tc.Expr:
        return x - tc.mean[j](x)

    @tc.op("x: f32[i, j] -> y: f32[i]")
    def nested(x: tc.Tensor) -> tc.Expr:
        return tc.sum[j](centred(centred(x[i, j])))

    z = "(x[i, j] - mean[j](x[i, j]))"
    same(nested, f"y[i] = sum[j]({z[1:-1]} - mean[j]({z[1:-1]}))")


def test_builtin_sum_of_a_list_and_an_operator_as_function() -> None:
    @tc.op("x: f32[i], y: f32[i] -> z: f32[i]")
    def total(x: tc.Tensor, y: tc.Tensor) -> tc.Expr:
        return sum([x[i], y[i], x[i]]) + operator.mul(x[i], y[i])

    same(total, "z[i] = 0 + x[i] + y[i] + x[i] + x[i] * y[i]")


def test_traced_once_by_any_number_of_threads() -> None:
    calls: list[int] = []

    @tc.op("x: f32[i] -> y: f32[i]")
    def slow(x: tc.Tensor) -> tc.Expr:
        calls.append(1)
        threading.Event().wait(0.02)
        return x[i] * 2

    programs: list[Program] = []
    threads = [threading.Thread(target=lambda: programs.append(slow.program)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert len({id(program) for program in programs}) == 1


def test_a_value_is_neither_hashed_nor_compared_as_an_object() -> None:
    x = i + 1
    for value in (x, i):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)
    assert isinstance(x == x, tc.Expr)
    assert repr(x * (i.size - 2)) == "<(i + 1) * (|i| - 2)>"
    assert not hasattr(x, "shape")


def test_operands_are_bound_by_position_or_name() -> None:
    @tc.op("x: f32[i], w: f32 -> y: f32[i]", name="lambda")
    def op(x: tc.Tensor, w: tc.Tensor) -> tc.Expr:
        return x[i] * w

    for call, message in (
        (lambda: op(1, 2, 3), r"lambda\(x, w\) takes 2 operands, 3 given"),
        (lambda: op(1), r"lambda\(x, w\): w not given"),
        (lambda: op(1, x=2, w=3), r"lambda\(x, w\): x is given twice"),
        (lambda: op(1, v=2), r"lambda\(x, w\): v is unknown"),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_operators_of_a_text_are_attributes() -> None:
    ops = tc.loads("op f(x: f32[i]) -> y: f32[i]\n  y[i] = x[i]\nop g(x: f32) -> y: f32\n  y = x")
    assert [op.name for op in ops] == ["f", "g"]
    assert ops.g.program.name == "g"
    assert "f" in dir(ops)
    with pytest.raises(AttributeError, match="no operator h; it has f, g"):
        ops.h  # noqa: B018
    assert not hasattr(ops, "h")


@pytest.mark.filterwarnings("error::tensorc.NotationWarning")
def test_a_line_that_may_not_be_meant_is_warned_of() -> None:
    @tc.op("x: i32[i], w: f32 -> y: u8[i]")
    def narrow(x: tc.Tensor, w: tc.Tensor) -> tc.Expr:
        return x[i] + 1

    with pytest.warns(tc.NotationWarning) as found:
        narrow.program  # noqa: B018
        narrow.program  # noqa: B018
    codes = [str(item.message).partition(" at ")[0] for item in found]
    assert codes == ["TC-W201", "TC-W202"]
    assert found[1].filename == __file__


OBJECTS: tuple[object, ...] = (
    object(), "s", b"", [], {}, set[int](), (1,), int, np.array(1.0), np.ones(3), np.float32, None,
    Decimal(1), range(3), np.str_("a"), np.datetime64("2020"), np.longdouble(1), ...,
)  # fmt: skip
BINARY = "add sub mul truediv floordiv mod and_ or_ xor lshift rshift lt le gt ge eq ne".split()


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_no_other_object_becomes_an_operand(value: object) -> None:
    for name in BINARY:
        for operands in ((i, value), (i + 1, value), (value, i)):
            if name == "mod" and isinstance(value, str | bytes) and operands[0] is value:
                continue  # a format string
            with pytest.raises(tc.NotationError, match="TC-E114"):
                getattr(operator, name)(*operands)


@given(st.floats() | st.integers(-(2**63), 2**63 - 1) | st.booleans())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_numbers_keep_their_value(value: float) -> None:
    @tc.op("x: f64[i] -> y: f64[i]")
    def scaled(x: tc.Tensor) -> tc.Expr:
        return x[i] * value

    (again,) = tc.loads(scaled.text)
    assert again.program == scaled.program
    (found,) = interpret(scaled.program, {"x": np.ones(1)}, {"i": 1})["y"]
    np.testing.assert_array_equal(found, np.float64(value))
