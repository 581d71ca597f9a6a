"""Public reports about repeated indices, extents and output orders, with the right answers.

The numbers are those of the list of reports that the project keeps; each test names what went
wrong elsewhere. The operands, where given, are the reports'.
"""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.errors import ArgumentError, NotationError
from tensorc.ir.dtypes import COMPLEX128
from tensorc.lang import read
from tests.buglog.running import run

FLOAT = np.float64


def test_BL001_a_diagonal_whose_repeated_index_is_not_last() -> None:
    x = np.arange(16).reshape(2, 2, 4)
    total = run("op f(x: i64[i, i, j]) -> y: i64[i]\n  y[i] = sum[j](x[i, i, j])", x=x)
    assert total.tolist() == [6, 54]
    kept = run("op f(x: i64[i, i, j]) -> y: i64[i, j]\n  y[i, j] = x[i, i, j]", x=x)
    assert kept.tolist() == [[0, 1, 2, 3], [12, 13, 14, 15]]


def test_BL003_a_double_trace() -> None:
    x = np.random.default_rng(3).integers(-9, 9, (10, 10, 10, 10))
    total = run("op f(x: i64[i, j, i, j]) -> y: i64\n  y = sum[i, j](x[i, j, i, j])", x=x)
    assert total == np.einsum("ijij->", x)


def test_BL005_a_batch_of_diagonals() -> None:
    x = np.arange(96.0).reshape(2, 3, 4, 4)
    got = run("op f(x: f64[a, b, i, i]) -> y: f64[a, b, i]\n  y[a, b, i] = x[a, b, i, i]", x=x)
    assert got.shape == (2, 3, 4)
    assert np.array_equal(got, np.diagonal(x, axis1=2, axis2=3))


def test_BL007_more_indices_than_there_are_letters() -> None:
    names = [f"d{n}" for n in range(53)]
    params = ", ".join(f"x{n}: f64[{name}]" for n, name in enumerate(names))
    product = " * ".join(f"x{n}[{name}]" for n, name in enumerate(names))
    (program,) = read(f"op f({params}) -> y: f64\n  y = sum[{', '.join(names)}]({product})")
    assert len(program.extents) == 53


def test_BL009_a_chain_of_a_hundred_products_has_no_tensor_of_high_rank() -> None:
    lines = ["op f(" + ", ".join(f"x{n}: f64[a, a]" for n in range(101)) + ") -> y: f64[a, a]"]
    lines.append("  t0[a, b] = x0[a, b]")
    for n in range(1, 101):
        lines.append(f"  t{n}[a, b] = sum[k](t{n - 1}[a, k] * x{n}[k, b])")
    lines.append("  y[a, b] = t100[a, b]")
    (program,) = read("\n".join(lines))
    assert max(len(equation.indices) for equation in program.equations) == 2
    x = {f"x{n}": np.array([[1.0, 1.0], [0.0, 1.0]]) for n in range(101)}
    assert run("\n".join(lines), **x).tolist() == [[1.0, 101.0], [0.0, 1.0]]


@pytest.mark.parametrize("shapes", [((5, 1), (2,)), ((2, 1), (1,)), ((2, 3), (1,))])
def test_BL011_BL015_sizes_that_disagree_are_refused_on_every_path(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    text = "op f(a: f64[i, j], b: f64[i]) -> y: f64\n  y = sum[i, j](a[i, j] * b[i])"
    a, b = (np.ones(shape) for shape in shapes)
    with pytest.raises(ArgumentError, match="E201"):
        run(text, a=a, b=b)


def test_BL013_whether_sizes_agree_never_depends_on_the_data() -> None:
    text = "op f(a: f64[i], b: f64[i]) -> y: f64\n  y = sum[i](a[i] * b[i])"
    for value in (0.0, 1.0):
        with pytest.raises(ArgumentError, match="i is 1 in b and 2 in a"):
            run(text, a=[0.0, 0.0], b=[value])
    assert run(text, a=[2.0], b=[1.0]) == 2.0


def test_BL019_one_rule_of_promotion_whether_an_index_is_kept_or_reduced() -> None:
    head = "op f(a: f32[i], b: complex128[i]) -> "
    for body in ("y: complex128[i]\n  y[i] = a[i] * b[i]",
                 "y: complex128\n  y = sum[i](a[i] * b[i])"):  # fmt: skip
        (program,) = read(head + body)
        assert program.equations[0].tensor.dtype is COMPLEX128
        assert program.equations[0].body.__class__.__name__ != "Round"


def test_BL023_three_operands_without_a_pairwise_step() -> None:
    text = "op f(a: f64[i], b: f64[i], c: f64[i]) -> y: f64[i]\n  y[i] = a[i] * b[i] * c[i]"
    assert run(text, a=[1.0, 2.0], b=[3.0, 4.0], c=[5.0, 6.0]).tolist() == [15.0, 48.0]


def test_BL025_a_diagonal_of_bools_is_a_logical_or() -> None:
    x = np.zeros((2, 2, 2, 2), dtype=bool)
    x[1, 1, 0, 1] = x[0, 1, 1, 1] = True
    text = "op f(x: bool[i, i, j, k]) -> y: bool[j, k]\n  y[j, k] = any[i](x[i, i, j, k])"
    assert run(text, x=x).tolist() == [[False, True], [False, False]]


def test_BL027_what_is_off_the_diagonal_is_never_read() -> None:
    x = np.array([[1.0, np.inf], [np.nan, 2.0]])
    assert run("op f(x: f64[i, i]) -> y: f64[i]\n  y[i] = x[i, i]", x=x).tolist() == [1.0, 2.0]
    assert run("op f(x: f64[i, i]) -> y: f64\n  y = sum[i](x[i, i])", x=x) == 3.0


def test_BL029_any_order_of_the_output_is_legal() -> None:
    rng = np.random.default_rng(29)
    f, g = rng.integers(-9, 9, (6, 6)).astype(FLOAT), rng.integers(-9, 9, (6, 6)).astype(FLOAT)
    text = "op f(f: f64[i, i], g: f64[i, i]) -> y: f64[i, i]\n  y[i, j] = f[i, j] + g[j, i]"
    assert np.array_equal(run(text, f=f, g=g), f + g.T)
    text = "op f(B: f64[i, j], C: f64[j, k]) -> A: f64[k, i]\n  A[k, i] = sum[j](B[i, j] * C[j, k])"
    b, c = rng.integers(-9, 9, (4, 5)).astype(FLOAT), rng.integers(-9, 9, (5, 3)).astype(FLOAT)
    assert np.array_equal(run(text, B=b, C=c), (b @ c).T)


def test_a_different_symbol_is_never_taken_for_equal() -> None:
    text = "op f(a: f64[m], b: f64[n]) -> y: f64\n  y = sum[m](a[m] * b[m])"
    with pytest.raises(NotationError, match="E201"):
        read(text)
