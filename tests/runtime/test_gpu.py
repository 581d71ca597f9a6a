"""A GPU as a device, with the emulator in the place of CuPy and its driver."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tensorc as tc
from tensorc import cubins, gpu
from tensorc.codegen import cuda_driver
from tensorc.errors import ArgumentError, OutOfRange, Unavailable
from tests.requirements import need
from tests.runtime.fake_cupy import STREAM, FakeCupy

Array = npt.NDArray[Any]

OPS = tc.loads("""
op product(a: f32[m, k], b: f32[k, n]) -> o: f32[m, n]
  o[m, n] = sum[k](a[m, k] * b[k, n])

op both(x: f32[n], s: f32) -> y: f32[n], total: f32
  y[n] = s * x[n]
  total = sum[n](x[n])

op look(t: f32[n], at: i64[m]) -> o: f32[m]
  o[m] = t[at[m]]

op halves(a: f16[m, k], b: f16[k, n]) -> o: f16[m, n]
  o[m, n] = sum[k](a[m, k] * b[k, n])

op turned(z: complex64[m, n], w: complex64[n]) -> o: complex64[m]
  o[m] = sum[n](z[m, n] * conj(w[n]))
""")


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    """The stand-in, imported as `cupy`; images are what the emulator compiles."""
    need("cxx")
    fake = FakeCupy("sm_90a", "90")
    monkeypatch.setitem(sys.modules, "cupy", fake)

    def image_of(source: str, arch: str, kind: str = "cubin") -> bytes:
        assert (arch, kind) == ("sm_90a", "cubin")
        return fake.emulator.compile(source)

    monkeypatch.setattr(cubins, "image_of", image_of)
    monkeypatch.setattr(cuda_driver, "_libcuda", lambda: fake.libcuda)
    gpu.forget()
    yield fake
    gpu.forget()
    fake.emulator.close()


def draw(*shape: int) -> Array:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def test_arrays_of_this_machine_are_copied(cupy: FakeCupy) -> None:
    a, b = draw(5, 17), draw(17, 9)
    got: Array = OPS.product.on("cuda")(a, b)
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_arrays_of_the_gpu_stay_there(cupy: FakeCupy, device: str) -> None:
    a, b = draw(5, 17), draw(9, 17).T
    got = OPS.product.on(device)(cupy.array(a), cupy.array(b))
    np.testing.assert_allclose(got.get(), a @ b, rtol=1e-5, atol=1e-5)
    assert set(cupy.streams) == {STREAM}  # the caller's


def test_tensor_maps_are_made_at_the_call_and_only_where_they_can_be(
    cupy: FakeCupy, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = draw(130, 72).astype(np.float16), draw(72, 136).astype(np.float16)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    with caplog.at_level("INFO", "tensorc"):
        np.testing.assert_allclose(
            OPS.halves(cupy.array(a), cupy.array(b)).get(), wanted, rtol=1e-2, atol=1e-2
        )
        assert cupy.libcuda.made == 3 and not caplog.text
        wide = np.zeros((130, 76), np.float16)  # rows of 152 bytes: no map can have them
        wide[:, 2:74] = a
        got = OPS.halves(cupy.array(wide[:, 2:74]), cupy.array(b))
        np.testing.assert_allclose(got.get(), wanted, rtol=1e-2, atol=1e-2)
    assert cupy.libcuda.made == 3
    assert "halves: no warp groups with tensor maps: a: strides (152,)" in caplog.text
    host: Array = OPS.halves.on("cuda")(a, b)
    np.testing.assert_allclose(host, wanted, rtol=1e-2, atol=1e-2)
    assert cupy.libcuda.made == 6


def test_any_strides(cupy: FakeCupy) -> None:
    a, b = draw(6, 9)[::-2, ::-1], np.broadcast_to(draw(4), (9, 4))
    got = OPS.product(cupy.array(a), cupy.array(b))
    np.testing.assert_allclose(got.get(), a @ b, rtol=1e-5, atol=1e-5)


def test_scalars_and_several_outputs(cupy: FakeCupy) -> None:
    x = draw(13)
    y, total = OPS.both(cupy.array(x), 2.5)
    np.testing.assert_allclose(y.get(), 2.5 * x, rtol=1e-6)
    np.testing.assert_allclose(total.get(), x.sum(), rtol=1e-5)


def test_complex_arrays(cupy: FakeCupy) -> None:
    z, w = (draw(4, 9) + 1j * draw(4, 9)[::-1]), (draw(9) - 2j * draw(9)[::-1])
    z, w = z.astype(np.complex64), w.astype(np.complex64)
    got = OPS.turned(cupy.array(z), cupy.array(w))
    np.testing.assert_allclose(got.get(), z @ w.conj(), rtol=1e-5, atol=1e-5)


def test_empty_arrays(cupy: FakeCupy) -> None:
    assert OPS.product(cupy.array(draw(0, 4)), cupy.array(draw(4, 3))).get().shape == (0, 3)
    got = OPS.product(cupy.array(draw(2, 0)), cupy.array(draw(0, 3)))
    np.testing.assert_array_equal(got.get(), np.zeros((2, 3)))


def test_data_subscripts_are_checked_unless_work_is_captured(cupy: FakeCupy) -> None:
    t, good, bad = cupy.array(draw(5)), np.array([4, 0]), np.array([1, 5])
    np.testing.assert_array_equal(OPS.look(t, cupy.array(good)).get(), draw(5)[good])
    with pytest.raises(OutOfRange, match="R704"):
        OPS.look(t, cupy.array(bad))
    cupy.capturing = True
    OPS.look(t, cupy.array(bad))  # a graph must not wait; the access itself is never made


def test_into(cupy: FakeCupy) -> None:
    a, b = draw(5, 17), draw(17, 9)
    there, out = cupy.array(a), cupy.empty((5, 9), np.float32)
    assert OPS.product.into(out)(there, cupy.array(b)) is out
    np.testing.assert_allclose(out.get(), a @ b, rtol=1e-5, atol=1e-5)
    turned = cupy.array(np.empty((9, 5), np.float32).T)
    for wrong, code in (
        (cupy.empty((5, 8), np.float32), "E201"), (cupy.empty((5, 9), np.float64), "E211"),
        (turned, "row-major"), (np.empty((5, 9), np.float32), "E210"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=code):
            OPS.product.into(wrong)(there, cupy.array(b))
    square = cupy.array(draw(4, 4))
    with pytest.raises(ArgumentError, match="shares memory"):
        OPS.product.into(square)(square, cupy.array(draw(4, 4)))


def test_what_does_not_fit_is_said_before_anything_runs(cupy: FakeCupy) -> None:
    with pytest.raises(ArgumentError, match="E201"):
        OPS.product(cupy.array(draw(2, 3)), cupy.array(draw(4, 2)))
    with pytest.raises(ArgumentError, match="E211"):
        OPS.product(cupy.array(np.ones((2, 3))), cupy.array(draw(3, 2)))


def test_without_a_gpu_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    gpu.forget()
    with pytest.raises(Unavailable, match="tensorc\\[cuda\\]"):
        OPS.product.on("cuda")(draw(2, 2), draw(2, 2))
