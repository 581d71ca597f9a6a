"""Arrays of a call: every layout, every library; what cannot be taken is refused by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc.runtime.dlpack import array_of
from tests.requirements import need

Array = npt.NDArray[Any]
TEXT = """
op scaled(x: f32[m, n], a: f32) -> y: f32[m, n], s: f32[m]
  y[m, n] = a * x[m, n]
  s[m] = sum[n](x[m, n])
op halves(x: bf16[n]) -> y: bf16[n]
  y[n] = x[n] / 2
op gather(x: f32[n], i: i64[m]) -> y: f32[m]
  y[m] = x[i[m]]
op wide(x: f64[n]) -> y: f64[n], k: i64[n]
  y[n] = x[n] / 3
  k[n] = i64(x[n])
"""
ops = tc.loads(TEXT)
BASE = np.arange(60, dtype=np.float32).reshape(6, 10)


LAYOUTS: dict[str, Callable[[], Array]] = {
    "dense": lambda: BASE,
    "transposed": lambda: BASE.T,
    "columns in order of Fortran": lambda: np.asfortranarray(BASE),
    "reversed": lambda: BASE[::-1, ::-1],
    "every other": lambda: BASE[::2, 1::3],
    "broadcast": lambda: np.broadcast_to(BASE[:1], (6, 10)),
    "overlapping windows": lambda: np.lib.stride_tricks.sliding_window_view(BASE[0], 4),
    "no rows": lambda: BASE[:0],
    "no columns": lambda: BASE[:, :0],
    "one element": lambda: BASE[3:4, 5:6],
    "misaligned": lambda: misaligned(BASE),
    "strides that are no whole elements": lambda: odd_strides(),
    "other byte order": lambda: BASE.astype(">f4"),
    "read-only": lambda: read_only(BASE),
}


def misaligned(array: Array) -> Array:
    data = np.zeros(array.nbytes + 1, np.uint8)
    view = data[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def odd_strides() -> Array:
    record = np.zeros((3, 4), np.dtype([("a", np.float32), ("b", np.uint8)]))
    record["a"] = BASE[:3, :4]
    return record["a"]


def read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_what_a_dense_copy_gives(layout: str) -> None:
    array = LAYOUTS[layout]()
    if not array.dtype.isnative:
        with pytest.raises(tc.ArgumentError, match="E211"):
            ops.scaled(array, 2)
        return
    for _ in range(2):  # the first call, and a warm one
        y, s = ops.scaled(array, np.float32(2))
        np.testing.assert_array_equal(y, 2 * array, strict=True)
        np.testing.assert_allclose(s, array.sum(1, dtype=np.float64), rtol=1e-6)


def test_scalars_are_arrays_without_dimensions() -> None:
    for a in (2, 2.0, np.float32(2), np.array(2, np.float32), True + True):
        np.testing.assert_array_equal(ops.scaled(BASE, a)[0], 2 * BASE, strict=True)


def test_raw_bits_are_taken_for_types_that_numpy_lacks() -> None:
    x = np.array([1, 3, -2.5], ml_dtypes.bfloat16)
    for given in (x, x.view("V2"), x.view(np.uint16)):
        assert ops.halves(given).tolist() == [0.5, 1.5, -1.25]
    out = np.zeros(3, np.uint16)
    assert ops.halves.into(out)(x) is out
    assert out.view(ml_dtypes.bfloat16).tolist() == [0.5, 1.5, -1.25]


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(tc.ArgumentError, match="TC-E227.*x is a masked array"):
        ops.halves(np.ma.masked_equal(np.zeros(3, np.uint16), 1))


def test_dense_outputs_are_written_in_place() -> None:
    y, s = np.zeros((6, 10), np.float32), np.zeros(6, np.float32)
    results = ops.scaled.into(y, s)(BASE, 3)
    assert results[0] is y and results[1] is s
    np.testing.assert_array_equal(y, 3 * BASE)
    large = np.zeros((12, 20), np.float32)
    ops.scaled.into(large[::2, ::2], s)(BASE, 5)
    np.testing.assert_array_equal(large[::2, ::2], 5 * BASE)
    assert not large[1::2].any() and not large[:, 1::2].any()


def test_a_failed_check_leaves_the_output_alone() -> None:
    out = np.full(2, 7, np.float32)
    with pytest.raises(tc.OutOfRange):
        ops.gather.into(out)(np.zeros(3, np.float32), np.array([0, 3]))
    assert out.tolist() == [7, 7]


@pytest.fixture
def torch() -> Any:
    need("torch")
    return importlib.import_module("torch")


@pytest.fixture
def jax() -> Any:
    need("jax")
    return importlib.import_module("jax")


def test_torch_in_torch_out(torch: Any) -> None:
    x = torch.from_numpy(BASE)
    for view in (x, x.T, x[::2, ::3], x.expand(6, 10), x[:0], torch.zeros(1, 4).expand(3, 4)):
        for _ in range(2):
            y, s = ops.scaled(view, 2.0)
            assert type(y) is torch.Tensor and torch.equal(y, 2 * view)
            assert torch.allclose(s, view.sum(1))


def test_narrow_types_of_torch(torch: Any) -> None:
    x = torch.tensor([1, 3, -2.5], dtype=torch.bfloat16)
    y = ops.halves(x)
    assert y.dtype is torch.bfloat16 and y.tolist() == [0.5, 1.5, -1.25]
    out = torch.zeros(3, dtype=torch.bfloat16)
    assert ops.halves.into(out)(x) is out and out.tolist() == [0.5, 1.5, -1.25]


def test_the_first_array_says_the_library(torch: Any) -> None:
    vector = torch.arange(3.0)
    assert type(ops.gather(vector, np.array([1, 2]))) is torch.Tensor
    assert type(ops.gather(vector.numpy(), torch.tensor([1, 2]))) is np.ndarray
    assert type(ops.gather(i=torch.tensor([1, 2]), x=np.ones(3, np.float32))) is torch.Tensor
    y = tc.einsum("i,i->", vector, vector.numpy())
    assert type(y) is torch.Tensor and y.item() == 5.0 and y.shape == ()


def test_tensors_that_require_grad_are_refused(torch: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with pytest.raises(tc.ArgumentError, match=r"TC-E226.*x requires grad(.|\n)*x.detach\(\)"):
        ops.scaled(x, 2)
    with pytest.raises(tc.ArgumentError, match="operand 1 requires grad"):
        tc.einsum("ij->i", x)
    np.testing.assert_array_equal(ops.scaled(x.detach(), 2)[0], np.full((2, 3), 2))


def test_what_torch_does_not_lend_is_refused(torch: Any) -> None:
    with pytest.raises(tc.ArgumentError, match="TC-E210.*x lies on another device"):
        ops.scaled(_Elsewhere(), 2)
    with pytest.raises(tc.ArgumentError, match="TC-E211"):
        ops.scaled(torch.ones(2, 3, dtype=torch.float64), 2)
    meta = torch.ones(2, 3, device="meta")
    with pytest.raises(tc.ArgumentError, match="TC-E213.*x cannot be read"):
        ops.scaled(meta, 2)


class _Elsewhere:
    """An array whose capsule says that it lies on a GPU."""

    def __dlpack__(self, **_: object) -> object:
        import ctypes

        from tensorc.runtime import dlpack

        self.tensor = dlpack.Managed()
        self.tensor.tensor.device = 2
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
        self.name = ctypes.create_string_buffer(b"dltensor")
        return new(ctypes.addressof(self.tensor), ctypes.addressof(self.name), None)


def test_capsules_keep_their_memory_and_give_it_back(torch: Any) -> None:
    x = torch.arange(100_000, dtype=torch.float32)
    view = array_of(x)
    x[5] = -1
    del x
    assert view[5] == -1 and view[99_999] == 99_999


def test_jax_in_jax_out(jax: Any) -> None:
    x = jax.numpy.asarray(BASE)
    y, s = ops.scaled(x, 2)
    assert isinstance(y, jax.Array) and isinstance(s, jax.Array)
    np.testing.assert_array_equal(np.asarray(y), 2 * BASE)
    narrow = jax.numpy.asarray([1, 3, -2.5], jax.numpy.bfloat16)
    assert ops.halves(narrow).dtype == jax.numpy.bfloat16
    with pytest.raises(tc.ArgumentError, match="TC-E212.*y is read-only"):
        ops.halves.into(narrow)(np.zeros(3, ml_dtypes.bfloat16))
    narrow.delete()
    with pytest.raises(tc.ArgumentError, match="TC-E213"):
        ops.halves(narrow)


def test_declared_types_outlive_jaxs_default(jax: Any) -> None:
    with jax.enable_x64(True):
        x = jax.numpy.asarray([1.0, 2.0])
    y, k = ops.wide(x)
    assert (str(y.dtype), str(k.dtype)) == ("float64", "int64")
