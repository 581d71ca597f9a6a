"""The level-1 interpreter: guards, broadcasting, reductions, blocks, reads out of range."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.errors import ArgumentError, OutOfRange
from tensorc.ir import dtypes as T
from tensorc.ir import interpret_tensor
from tensorc.ir.dtypes import DType
from tensorc.ir.functions import FUNCTIONS, REDUCERS
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.polynomial import extent, polynomial
from tensorc.ir.tensor import (
    Apply,
    Cast,
    Declaration,
    Equation,
    Expr,
    Extent,
    Literal,
    Position,
    Program,
    Read,
    Reduce,
    Round,
    Select,
    Tensor,
    value_type,
)

Array = npt.NDArray[Any]
I, J, K = Position("i"), Position("j"), Position("k")  # noqa: E741


def num(value: int | float | str | Fraction) -> Literal:
    """A literal: an int is INTEGER, a float REAL by its text."""
    if isinstance(value, int):
        return Literal(Fraction(value), T.INTEGER)
    exact = value if value in ("inf", "nan", "pi", "-0") else Fraction(str(value))
    return Literal(exact, T.REAL)


def call(name: str, *args: Expr) -> Apply:
    return Apply(FUNCTIONS[name], args)


def tensor(name: str, dtype: DType, *dims: str) -> Tensor:
    return Tensor(name, dtype, tuple(extent(d) for d in dims))


def reduce(
    name: str, indices: str, body: Expr, where: Expr | None = None, dtype: DType | None = None
) -> Reduce:
    return Reduce(REDUCERS[name], tuple(indices), body, where, dtype)


def program(out: Tensor, indices: str, body: Expr, *inputs: Tensor) -> Program:
    """out[indices] = body, with a Round where the types differ."""
    dims = {name: extent(name) for name in "bdehijkmn"}
    if T.settled(value_type(body)) is not out.dtype:
        body = Round(out.dtype, body)
    parameters = tuple(Declaration(t, (None,) * len(t.shape)) for t in inputs)
    outputs = (Declaration(out, tuple(indices)),)
    return Program(
        "p", parameters, outputs, (Equation(out, tuple(indices), body),), tuple(dims.items())
    )


def run(
    body: Expr,
    dtype: DType,
    indices: str,
    extents: Mapping[str, int],
    rounded: bool = False,
    /,
    **inputs: tuple[DType, npt.ArrayLike],
) -> Array:
    """The value of one equation over `indices`; inputs by name, with their storage types."""
    arrays = {name: np.asarray(values) for name, (_, values) in inputs.items()}
    shapes = {name: tuple(map(polynomial, a.shape)) for name, a in arrays.items()}
    tensors = [Tensor(name, t, shapes[name]) for name, (t, _) in inputs.items()]
    out = tensor("out", dtype, *indices)
    made = program(out, indices, body, *tensors)
    return interpret(made, arrays, extents, rounded)["out"]


def read(name: str, dtype: DType, shape: tuple[int, ...], *subscripts: Expr) -> Read:
    return Read(Tensor(name, dtype, tuple(map(polynomial, shape))), subscripts)


def test_matrix_product_is_numpys() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 5)).astype("f4"), rng.standard_normal((5, 4)).astype("f4")
    body = reduce(
        "sum", "k", call("mul", read("a", T.F32, (3, 5), I, K), read("b", T.F32, (5, 4), K, J))
    )
    got = run(body, T.F32, "ij", dict(i=3, j=4, k=5), a=(T.F32, a), b=(T.F32, b))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, a.astype(float) @ b.astype(float), rtol=1e-14)
    twin = run(body, T.F16, "ij", dict(i=3, j=4, k=5), True, a=(T.F32, a), b=(T.F32, b))
    assert twin.dtype == np.float16


def test_guard_of_padding_keeps_reads_inside() -> None:
    x = np.arange(1.0, 5.0, dtype="f4")
    at = call("sub", call("add", I, K), num(1))
    inside = call("and", call("le", num(0), at), call("lt", at, Extent("i")))
    body = reduce("sum", "k", read("x", T.F32, (4,), at), inside)
    got = run(body, T.F32, "i", dict(i=4, k=3), x=(T.F32, x))
    assert got.tolist() == [3.0, 6.0, 9.0, 7.0]
    with pytest.raises(ArgumentError, match=r"E216.* subscript 0 at i = 0, k = 0 = -1, x has 4"):
        run(
            reduce("sum", "k", read("x", T.F32, (4,), at)), T.F32, "i", dict(i=4, k=3), x=(T.F32, x)
        )


def test_data_out_of_range_names_element_value_and_bound() -> None:
    tok = np.array([[0, 2], [1, 3]], "i4")
    table = np.arange(6.0).reshape(3, 2)
    row = read("tok", T.I32, (2, 2), I, J)
    body = read("E", T.F64, (3, 2), row, K)
    sizes = dict(i=2, j=2, k=2)
    with pytest.raises(OutOfRange, match=r"R704: tok\[1, 1\] = 3, E has 3 rows \(0\.\.2\)"):
        run(body, T.F64, "ijk", sizes, tok=(T.I32, tok), E=(T.F64, table))
    guarded = Select(call("lt", row, num(3)), body, num("nan"))
    got = run(guarded, T.F64, "ijk", sizes, tok=(T.I32, tok), E=(T.F64, table))
    assert got[0, 1].tolist() == [4.0, 5.0] and np.isnan(got[1, 1]).all()
    tok[1, 1] = -1  # negative values do not wrap
    with pytest.raises(OutOfRange, match=r"tok\[1, 1\] = -1"):
        run(body, T.F64, "ijk", sizes, tok=(T.I32, tok), E=(T.F64, table))


def test_movable_rounding_is_the_identity_and_a_cast_rounds() -> None:
    x = np.array([1 / 3], "f4")
    source = read("x", T.F32, (1,), I)
    assert run(source, T.F16, "i", dict(i=1), x=(T.F32, x))[0] == float(x[0])
    assert run(Cast(T.F16, source), T.F32, "i", dict(i=1), x=(T.F32, x))[0] == float(
        x.astype("f2")[0]
    )
    assert run(source, T.F16, "i", dict(i=1), True, x=(T.F32, x))[0] == x.astype("f2")[0]


def test_blocks_cover_every_element(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(-5, 6, (7, 6, 5)).astype("i8")
    total = reduce("sum", "k", read("a", T.I8, (7, 6, 5), I, J, K))
    peak = reduce(
        "softmax", "j", Cast(T.F64, reduce("max", "k", read("a", T.I8, (7, 6, 5), I, J, K)))
    )
    whole = [
        run(b, T.F64, "ij", dict(i=7, j=6, k=5), a=(T.I8, a)) for b in (Cast(T.F64, total), peak)
    ]
    monkeypatch.setattr(interpret_tensor, "POINTS", 12)
    cut = [
        run(b, T.F64, "ij", dict(i=7, j=6, k=5), a=(T.I8, a)) for b in (Cast(T.F64, total), peak)
    ]
    assert (whole[0] == a.sum(axis=2)).all() and (cut[0] == whole[0]).all()
    assert (cut[1] == whole[1]).all()
    np.testing.assert_allclose(cut[1].sum(axis=1), 1)
