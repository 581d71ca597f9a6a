"""Complex numbers on the CPU against the interpreter: every function, every layout."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.print_tensor import show_program
from tensorc.lang import read
from tensorc.passes.complex_parts import complex_parts
from tensorc.pipeline import run_passes
from tensorc.prepare import prepare
from tensorc.request import Request, cpu_target
from tensorc.verify import Outcome, judge, worst

Array = npt.NDArray[Any]
BODIES = {
    "add": "x[n] + y[n]", "sub": "x[n] - y[n]", "mul": "x[n] * y[n]", "div": "x[n] / y[n]",
    "three factors": "x[n] * y[n] * x[n]", "neg": "-x[n]", "conj": "conj(x[n])",
    "real factor": "x[n] * r[n]", "over a real": "x[n] / r[n]", "integer": "x[n] * k[n] + k[n]",
    "a literal": "x[n] * (2 + 3j) - 1j", "exp": "exp(x[n])", "sqrt": "sqrt(x[n])",
    "sin": "sin(x[n])", "cos": "cos(x[n])", "square": "x[n] ** 2", "fifth power": "x[n] ** 5",
    "select": "select(x[n] == y[n], x[n] + 1, y[n])", "of a real": "TYPE(r[n]) + x[n]",
    "there and back": "TYPE(complex64(x[n])) * 2",
}  # fmt: skip
REALS = {
    "abs": "abs(x[n])", "real": "real(x[n] * y[n])", "imag": "imag(x[n] * y[n])",
    "eq": "PART(x[n] == y[n])", "ne": "PART(x[n] != 0)", "cast to bool": "PART(bool(x[n]))",
}  # fmt: skip


def drawn(size: int, dtype: str) -> dict[str, Array]:
    """Complex arrays with zeros and equal elements among them, real and integer ones."""
    generator = np.random.default_rng(size)
    parts = [generator.standard_normal(size) for _ in range(5)]
    x, y = parts[0] + 1j * parts[1], parts[2] + 1j * parts[3]
    x[::7], x[1::11], x[2::13] = y[::7], x[1::11].real, 1j * x[2::13].imag
    if size > 20:
        x[20] = 0
    kind = np.dtype(dtype)
    real = np.dtype(f"f{kind.itemsize // 2}")
    r = (np.abs(parts[4]) + 0.5).astype(real)
    k = generator.integers(-4, 5, size).astype(np.int32)
    return {"x": x.astype(kind), "y": y.astype(kind), "r": r, "k": k}


def program_text(body: str, dtype: str, result: str) -> str:
    part = {"complex64": "f32", "complex128": "f64"}[dtype]
    body = body.replace("TYPE", dtype).replace("PART", part)
    given = f"x: {dtype}[n], y: {dtype}[n], r: {part}[n], k: i32[n]"
    return f"op f({given}) -> z: {result.replace('PART', part)}[n]\n  z[n] = {body}\n"


def check(text: str, arrays: dict[str, Array], sizes: tuple[int, ...] = ()) -> None:
    (program,) = read(text)
    used = {item.tensor.name for item in program.parameters}
    call = prepare(program, {name: array for name, array in arrays.items() if name in used})
    got = call.compiled().run(call.arrays, call.extents)
    want = interpret(program, call.arrays, call.extents)
    for name, array in got.items():
        rtol = 3e-6 if array.dtype.itemsize // (1 + (array.dtype.kind == "c")) == 4 else 1e-14
        scale = np.maximum(np.abs(want[name]), 1e-2)
        assert np.all(np.abs(array - want[name]) <= 8 * rtol * scale), text


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_every_function(dtype: str) -> None:
    arrays = drawn(37, dtype)
    for body in BODIES.values():
        check(program_text(body, dtype, dtype), arrays)
    for body in REALS.values():
        check(program_text(body, dtype, "PART"), arrays)


def test_reductions_intermediates_and_layouts() -> None:
    text = (
        "op f(A: complex64[m, k], B: complex64[k, n], w: f32[n]) -> C: complex64[m, n],"
        " s: complex64[m], t: complex64\n"
        "  p[m, n] = sum[k](A[m, k] * conj(B[k, n]) where k <= m + 1)\n"
        "  C[m, n] = p[m, n] * w[n]\n  s[m] = mean[n](p[m, n])\n  t = sum[m, n](p[m, n])\n"
    )
    generator = np.random.default_rng(3)

    def matrix(*shape: int) -> Array:
        parts = generator.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(np.complex64)

    w = generator.standard_normal(19).astype(np.float32)
    A, B = matrix(5, 17), matrix(17, 19)
    for a, b in [(A, B), (np.asfortranarray(A), B[:, ::-1]), (matrix(17, 5).T, B), (A[:0], B)]:
        check(text, {"A": a, "B": b, "w": w})
    out = [np.zeros((5, 19), np.complex64), np.zeros(5, np.complex64), np.zeros((), np.complex64)]
    f = tc.loads(text).f
    f.into(*out)(A, B, w)
    for array, want in zip(out, f(A, B, w), strict=True):
        np.testing.assert_array_equal(array, want)


def test_gathered_elements_are_checked() -> None:
    f = tc.loads("op f(x: complex64[n], i: i32[m]) -> y: complex64[m]\n  y[m] = x[i[m]]\n").f
    x = np.array([1, 2j], np.complex64)
    assert f(x, np.array([1, 0, 1], np.int32)).tolist() == [2j, 1, 2j]
    with pytest.raises(tc.OutOfRange):
        f(x, np.array([2], np.int32))


def test_einsum_of_complex_arrays() -> None:
    x = np.arange(12).reshape(3, 4) * (1 + 2j)
    np.testing.assert_array_equal(tc.einsum("ij,kj->ik", x, x), np.einsum("ij,kj->ik", x, x))
    y = tc.einsum("ij,j->i", x.astype(np.complex64), np.ones(4, np.float32))
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-6)
    assert y.dtype == np.complex64


def test_division_does_not_overflow_on_the_way() -> None:
    f = tc.loads(
        "op f(x: complex64[n], y: complex64[n]) -> z: complex64[n]\n  z[n] = x[n] / y[n]\n"
    ).f
    large = np.array([1e30 + 1e30j, 1e-30 + 1e-30j, 3e38], np.complex64)
    np.testing.assert_allclose(f(large, large), np.ones(3), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::tensorc.NotationWarning")
def test_what_is_missing_is_said() -> None:
    arrays = drawn(5, "complex64")
    op = tc.loads(program_text("prod[n](x[n]) + x[n]", "complex64", "complex64")).f
    with pytest.raises(tc.Unavailable, match="interpreter"):
        op(*arrays.values())
    assert op.on("interpreter")(*arrays.values()).dtype == np.complex64


SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-30, 1e30, float("inf"), -float("inf"), float("nan"))


@pytest.mark.parametrize(
    ("name", "dtype"), [("complex64", np.complex64), ("complex128", np.complex128)]
)
def test_logarithms_are_numpys(name: str, dtype: Any) -> None:
    """On special values, near 1, and everywhere; angles at the cut have NumPy's sign."""
    f = tc.loads(f"op f(x: {name}[n]) -> y: {name}[n]\n  y[n] = log(x[n])\n").f
    special = np.array([complex(a, b) for a in SPECIAL for b in SPECIAL], dtype)
    draw = np.random.default_rng(3)
    parts = draw.standard_normal((2, 4000)) * 10.0 ** draw.integers(-18, 18, (2, 4000))
    circle = np.exp(1j * np.linspace(-np.pi, np.pi, 2001)) * (1 + 1e-5 * draw.standard_normal(2001))
    eps, tiny = np.finfo(dtype).eps, np.finfo(dtype).smallest_subnormal
    for x in (special, (parts[0] + 1j * parts[1]).astype(dtype), circle.astype(dtype)):
        with np.errstate(all="ignore"):
            want: Any = np.log(x.astype(np.clongdouble))
            got: Any = f(x)
            for w, g, least in ((want.real, got.real, 1.0), (want.imag, got.imag, 0.0)):
                same = (w == g) | (np.isnan(w) & np.isnan(g))
                close = np.abs(w - g) <= 4 * eps * np.maximum(np.abs(w), least) + tiny
                assert (same | close).all(), x[~(same | close)]
                assert (np.signbit(w) == np.signbit(g))[(w == 0) & (least == 0)].all()


POWERS = (
    "x[n] ** y[n]", "x[n] ** r[n]", "r[n] ** x[n]", "x[n] ** k[n]", "k[n] ** x[n]", "x[n] ** 0.5",
    "2 ** x[n]", "x[n] ** (-3)", "x[n] ** 1.5j", "x[n] ** 17", "x[n] ** -1", "(-2) ** x[n]",
    "x[n] ** 0",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::tensorc.NotationWarning")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_powers_are_numpys(dtype: str) -> None:
    """Judged by the bound, and to some units in the last place beside NumPy's wider result."""
    arrays = drawn(200, dtype)
    arrays["k"][:2] = 0, 1
    wide = {
        n: a.astype({"c": np.complex128, "f": float}.get(a.dtype.kind)) for n, a in arrays.items()
    }
    eps = np.finfo(arrays["r"].dtype).eps
    for body in POWERS if dtype == "complex128" else POWERS[:5]:
        op = tc.loads(program_text(body, dtype, dtype)).f
        given = {item.tensor.name: arrays[item.tensor.name] for item in op.program.parameters}
        got = op(*given.values())
        with np.errstate(all="ignore"):
            want = numpy_power(body, wide)
        finite = np.isfinite(want)
        assert (np.isfinite(got) == finite).all(), body
        size = np.abs(want[finite])
        assert (np.abs(got - want)[finite] <= 40 * eps * size + np.finfo(got.dtype).tiny).all(), (
            body
        )
        assert worst(judge(prepare(op.program, given), {"z": got})) is not Outcome.FAIL, body


@pytest.mark.parametrize(
    "body", ["(x[n] * y[n]) ** 3", "(x[n] * r[n] + 1) ** y[n]", "r[n] ** (x[n] * y[n])"]
)
def test_errors_of_bases_and_exponents_have_a_bound(body: str) -> None:
    arrays = drawn(200, "complex64")
    arrays["x"] = arrays["x"] + np.complex64(5)
    op = tc.loads(program_text(body, "complex64", "complex64")).f
    given = {item.tensor.name: arrays[item.tensor.name] for item in op.program.parameters}
    found = judge(prepare(op.program, given), {"z": op(*given.values())})["z"]
    assert found.outcome is Outcome.PASS and not found.vacuous
    wrong = op(*given.values()) * np.complex64(1 + 1e-3j)
    assert judge(prepare(op.program, given), {"z": wrong})["z"].outcome is Outcome.FAIL


def numpy_power(body: str, given: dict[str, Array]) -> Array:
    """The value of a body of POWERS."""
    base, exponent = body.replace("[n]", "").split(" ** ")

    def side(text: str) -> Any:
        return given[text] if text in given else complex(text.strip("()"))

    return np.asarray(np.power(side(base), side(exponent)))


@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "cos", "power"])
def test_finite_numbers_are_finite_or_not_as_in_numpy(name: str) -> None:
    """Zeros of both signs, and sizes whose exponential is infinite beside a sine of 0."""
    body = "x[n] ** y[n]" if name == "power" else f"{name}(x[n]) + 0 * y[n]"
    op = tc.loads(
        f"op f(x: complex128[n], y: complex128[n]) -> z: complex128[n]\n  z[n] = {body}\n"
    ).f
    parts = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 800.0, -1e30)
    numbers = np.array([complex(a, b) for a in parts for b in parts])
    x, y = map(np.ravel, np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        want: Any = np.power(x, y) if name == "power" else getattr(np, name)(x)
        got: Any = op(x, y)
        for w, g in ((want.real, got.real), (want.imag, got.imag)):
            same = (w == g) | (np.isnan(w) & np.isnan(g))
            assert (same | (np.abs(w - g) <= 1e-11 * np.maximum(1, np.abs(want)))).all()


def test_roots_at_the_cut_have_numpys_sign() -> None:
    op = tc.loads("op f(x: complex128[n]) -> y: complex128[n]\n  y[n] = sqrt(x[n])\n").f
    x = np.array([complex(a, b) for a in SPECIAL[:8] for b in (0.0, -0.0, np.inf, -np.inf)])
    np.testing.assert_allclose(op(x), np.sqrt(x), rtol=1e-14)


def test_tables_of_complex_numbers() -> None:
    f = tc.loads(
        "const w: complex64[k=4] = [1, 1j, -1, 0.5 - 2j]\n"
        "op f(x: complex64[n=4]) -> y: complex64[n]\n  y[n] = x[n] * w[n]\n"
    ).f
    x = (np.arange(4) + 1j).astype(np.complex64)
    want = x * np.array([1, 1j, -1, 0.5 - 2j], np.complex64)
    for op in (f, f.on("interpreter"), f.on("cpu", specialize=False), f.on("emulator")):
        np.testing.assert_array_equal(op(x), want, strict=True)


def test_real_programs_stay_as_they_are() -> None:
    (program,) = read("op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n] * 2\n")
    assert complex_parts(program) is program


def test_no_complex_number_is_left() -> None:
    (program,) = read("op f(x: complex64[n]) -> y: complex64[n]\n  y[n] = x[n] * 1j\n")
    made = complex_parts(program)
    assert [item.tensor.name for item in made.parameters] == ["x_re", "x_im"]
    assert run_passes(program, Request(cpu_target(), {}))


def test_parts_that_are_zero_are_left_out() -> None:
    """A Fourier transform of real data, and a rotation: no formula for what is not there."""
    text = (
        "op dft(x: f32[n]) -> X: complex64[k=|n|]\n"
        "  X[k] = sum[n](x[n] * exp(-2j * pi * k * n / |n|))\n"
    )
    (program,) = read(text)
    found = show_program(complex_parts(program))
    assert "select" not in found and "0.0" not in found and found.count("cos(") == 1
    x = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    (op,) = tc.loads(text)
    np.testing.assert_allclose(op(x), np.fft.fft(x), rtol=1e-4, atol=1e-4)
    assert "exp(" in show_program(complex_parts(read(text.replace("-2j", "(1-2j)"))[0]))


def test_zero_times_an_infinite_element_is_nan_as_in_numpy() -> None:
    (op,) = tc.loads("op f(x: complex64[n], r: f32[n]) -> y: complex64[n]\n  y[n] = x[n] * r[n]\n")
    x = np.array([complex(1, np.inf), complex(np.inf, 1), 2 + 1j], np.complex64)
    r = np.array([2, 3, 4], np.float32)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.isnan(op(x, r)), np.isnan(x * r))


def test_a_modulus_has_an_error() -> None:
    """Of real numbers the absolute value is exact, of complex ones it is rounded."""
    (op,) = tc.loads("op f(x: complex64[n]) -> y: f32[n]\n  y[n] = abs(x[n])\n")
    x = drawn(200, "complex64")["x"]
    call = prepare(op.program, {"x": x})
    assert worst(judge(call, {"y": op(x)})) is Outcome.PASS
    assert worst(judge(call, {"y": op(x) * np.float32(1.00001)})) is Outcome.FAIL


def test_the_part_that_is_read_is_checked() -> None:
    (op,) = tc.loads("op f(x: complex64[n], t: i32[m]) -> y: f32[m]\n  y[m] = imag(x[t[m]])\n")
    x, t = np.array([1 + 2j, 3 + 4j], np.complex64), np.array([1, 0], np.int32)
    assert op(x, t).tolist() == [4, 2]
    with pytest.raises(tc.OutOfRange):
        op(x, t + 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("complex128", "complex64"),
        ("f64", "complex64"),
        ("complex64", "f64"),
        ("complex64", "complex128"),
    ],
)
def test_a_quotient_of_two_types_is_computed_in_the_wider_one(first: str, second: str) -> None:
    (op,) = tc.loads(
        f"op f(x: {first}[n], y: {second}[n]) -> z: complex128[n]\n  z[n] = x[n] / y[n]\n"
    )
    draw = np.random.default_rng(3)
    real = draw.standard_normal((4, 50))
    x, y = real[0] + 1j * real[1], real[2] + 1j * real[3]
    kinds = {"complex128": np.complex128, "complex64": np.complex64, "f64": np.float64}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = x.astype(kinds[first]), y.astype(kinds[second])
    for device in ("cpu", "emulator"):
        np.testing.assert_allclose(op.on(device)(x, y), x / y.astype(complex), rtol=1e-14)
