"""Arrays nobody planned for: taken where they mean something, refused in words that help."""

from __future__ import annotations

import array as arrays
import importlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import tensorc as tc
from tests.requirements import need

TEXT = """
op scaled(x: f32[m, n], a: f32) -> y: f32[m, n]
  y[m, n] = x[m, n] * a
op twice(x: f32[n]) -> y: f32[n]
  y[n] = 2 * x[n]
op shifted(x: i8[n], k: i8) -> y: i8[n]
  y[n] = i8(x[n] + k)
op marked(x: bool[n], b: bool) -> y: i32[n]
  y[n] = i32(x[n] and b)
op narrow(x: bf16[n], a: f16, c: complex64) -> y: complex64[n]
  y[n] = x[n] * a * c
"""
ops = tc.loads(TEXT)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
ROW = np.arange(3, dtype=np.float32)


class Own(np.ndarray):
    """A subclass of anybody's."""


class Lends:
    """What NumPy can look into."""

    __array_interface__ = ROW.__array_interface__


class Converts:
    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        return ROW


TAKEN: dict[str, Callable[[Path], Any]] = {
    "a subclass": lambda _: ROW.view(Own),
    "a field of records": lambda _: np.rec.array(ROW.view([("a", "f4")])).a,
    "a file": lambda path: memory_map(path),
    "a memoryview": lambda _: memoryview(cast(Any, ROW)),
    "array.array": lambda _: arrays.array("f", [0, 1, 2]),
    "what lends an interface": lambda _: Lends(),
    "what converts itself": lambda _: Converts(),
    "behind another": lambda _: np.arange(20, dtype=np.float32)[:6:2] / 2,
    "backwards": lambda _: np.array([2, 1, 0], np.float32)[::-1],
    "with a stride of no use": lambda _: np.lib.stride_tricks.as_strided(ROW, (3,), (4,)),
}


def memory_map(path: Path) -> Any:
    file = np.memmap(path / "x.bin", np.float32, "w+", shape=(3,))
    file[:] = ROW
    return file


@pytest.mark.parametrize("kind", TAKEN)
def test_taken(kind: str, tmp_path: Path) -> None:
    for _ in range(2):
        got = ops.twice(TAKEN[kind](tmp_path))
        assert type(got) is np.ndarray and got.tolist() == [0, 2, 4]


def test_strides_that_lead_nowhere_are_not_followed() -> None:
    far = np.lib.stride_tricks.as_strided(ROW, (1,), (2**62,))
    assert ops.twice(far).tolist() == [0]
    none = np.lib.stride_tricks.as_strided(X, (0, 2**40), (2**40, 4))
    assert ops.scaled(none, 1).shape == (0, 2**40)
    with pytest.raises(tc.ArgumentError, match="E301"):
        ops.scaled(np.broadcast_to(np.float32(1), (2**20, 2**20)), 1)


@pytest.mark.parametrize(
    ("value", "found", "do"),
    [
        ([1.0, 2.0], "a list", "np.asarray(x, np.float32)"),
        ((1, 2), "a tuple", "np.asarray(x, np.float32)"),
        (range(3), "a range", "np.asarray(x, np.float32)"),
        (None, "None", "pass an array for x"),
        ("abc", "a str", "numbers for x"),
        (b"abc", "a bytes", "numbers for x"),
        ({"a": 1}, "a dict", "pass an array of f32"),
        (ops.twice, "a Op", "pass an array of f32"),
        (Decimal(1), "a Decimal", "pass an array of f32"),
        (np.array([1, None], object), "an array of object", "pass an array of f32"),
        (np.array(["a"]), "an array of <U1", "pass an array of f32"),
        (np.array(["2020"], "datetime64[D]"), "an array of datetime64[D]", "an array of f32"),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), "records of a, b", "one field, x['a']"),
        (np.zeros(2), "float64", "pass x.astype(np.float32)"),
        (np.zeros(2, int), "int64", "pass x.astype(np.float32)"),
        (np.zeros(2, ">f4"), ">f4", "pass x.astype(np.float32)"),
        (np.zeros(2, np.complex64), "complex64", "pass x.astype(np.float32)"),
        (np.float32(3), "shape ()", "pass an array of 1 dimension"),
        (X, "shape (2, 3)", "pass an array of 1 dimension"),
        (X[:1], "shape (1, 3)", "x.squeeze()"),
    ],
)
def test_refused_with_advice(value: object, found: str, do: str) -> None:
    with pytest.raises(tc.ArgumentError) as caught:
        ops.twice(value)
    assert caught.value.found == found and do in str(caught.value.do)


@pytest.mark.parametrize("bad", [300, -129, 1.5, 1j, float("nan")])
def test_numbers_that_a_type_cannot_hold_are_refused(bad: complex) -> None:
    x = np.zeros(2, np.int8)
    assert ops.shifted(x, -128).tolist() == [-128, -128] and ops.shifted(x, True).tolist() == [1, 1]
    with pytest.raises(tc.ArgumentError, match="pass a number that i8 can hold"):
        ops.shifted(x, bad)


def test_numbers_round_but_do_not_become_infinite() -> None:
    assert ops.scaled(X[:1], 0.1)[0, 1] == np.float32(0.1)
    assert np.isinf(ops.scaled(X, float("inf"))[1, 0])
    assert np.isnan(ops.scaled(X, float("nan"))).all()
    for bad in (1e300, 10**400, -(10**39), 1j):
        with pytest.raises(tc.ArgumentError, match="pass a number that f32 can hold") as caught:
            ops.scaled(X, bad)
        assert len(str(caught.value.found)) <= 40
    narrow = np.ones(1, ml_dtypes.bfloat16)
    assert ops.narrow(narrow, 2, 1 + 2j).tolist() == [2 + 4j]
    with pytest.raises(tc.ArgumentError, match="f16 can hold"):
        ops.narrow(narrow, 70000, 1)
    with pytest.raises(tc.ArgumentError, match="complex64 can hold"):
        ops.narrow(narrow, 1, 1e39j)
    x = np.array([True, False])
    assert ops.marked(x, True).tolist() == [1, 0]
    with pytest.raises(tc.ArgumentError, match="bool can hold"):
        ops.marked(x, 1)
    assert ops.marked(np.array([0, 1, 2, 255], np.uint8).view(bool), True).tolist() == [0, 1, 1, 1]


def test_one_number_where_an_array_was_given() -> None:
    with pytest.raises(tc.ArgumentError, match=r"found: shape \(1,\)(.|\n)*one element of a"):
        ops.scaled(X, np.ones(1, np.float32))


def test_outputs_that_cannot_be_written() -> None:
    folded = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (3,), (0,))
    windows = np.lib.stride_tricks.sliding_window_view(np.zeros(4, np.float32), 3, writeable=True)
    for out, op, given in ((folded, ops.twice, (ROW,)), (windows, ops.scaled, (X, 1))):
        with pytest.raises(tc.ArgumentError, match="E208.*y overlaps itself"):
            op.into(out)(*given)
    for out in (np.zeros((5, 3), np.float32)[::2][:2], np.zeros((3, 2), np.float32).T[:, ::-1]):
        assert ops.scaled.into(out)(X, 2) is out and (out == 2 * X).all()
    with pytest.raises(TypeError, match="y is written into an array, not a list"):
        ops.twice.into([1, 2, 3])(ROW)
    with pytest.raises(TypeError, match=r"twice.into\(\) needs an array"):
        ops.twice.into()
    with pytest.raises(tc.ArgumentError, match="E212"):
        ops.twice.into(np.broadcast_to(np.float32(0), (3,)))(ROW)
    uneven = np.zeros(13, np.uint8)[1:].view(np.float32)
    assert ops.twice.into(uneven)(ROW) is uneven and uneven.tolist() == [0, 2, 4]


def test_sparse_matrices_and_frames() -> None:
    need("scipy")
    sparse = importlib.import_module("scipy.sparse")
    for value in (sparse.csr_matrix(X), sparse.coo_array(X)):
        with pytest.raises(tc.ArgumentError, match=r"x.toarray\(\).astype\(np.float32\)"):
            ops.scaled(value, 1)
        with pytest.raises(TypeError, match="no kernel for a cs|no kernel for a co"):
            tc.einsum("ij->i", value)


def test_frames() -> None:
    need("pandas")
    pandas = importlib.import_module("pandas")
    assert ops.scaled(pandas.DataFrame(X), 2).tolist() == (2 * X).tolist()
    with pytest.raises(tc.ArgumentError, match=r"found: a DataFrame of float64(.|\n)*to_numpy"):
        ops.scaled(pandas.DataFrame({"a": [1.5], "b": [2]}), 1)
    with pytest.raises(tc.ArgumentError, match="found: a DataFrame of object"):
        ops.scaled(pandas.DataFrame({"a": [1.5], "b": ["c"]}), 1)


def test_tensors_are_told_in_their_own_words() -> None:
    need("torch")
    torch = importlib.import_module("torch")
    with pytest.raises(tc.ArgumentError, match=r"found: torch.float64(.|\n)*x.to\(torch.float32\)"):
        ops.twice(torch.ones(3, dtype=torch.float64))
    lazy = torch.view_as_complex(torch.ones(3, 2)).conj().imag
    assert lazy.is_neg()
    with pytest.raises(tc.ArgumentError, match="resolve_neg"):
        ops.twice(lazy)
    assert ops.twice(lazy.resolve_neg()).tolist() == [-2, -2, -2]
    kind = type("Own", (torch.Tensor,), {})
    assert isinstance(ops.twice(torch.ones(3).as_subclass(kind)), torch.Tensor)
    with pytest.raises(tc.ArgumentError, match="E226"):
        ops.twice(torch.nn.Parameter(torch.ones(3)))


def test_arrays_under_a_transformation_of_jax() -> None:
    need("jax")
    jax = importlib.import_module("jax")
    for transformed in (jax.jit, jax.grad):
        with pytest.raises(tc.ArgumentError, match="jax.pure_callback"):
            transformed(ops.twice)(jax.numpy.ones(3))
