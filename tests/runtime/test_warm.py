"""Calls like earlier ones: the short way gives what the long way does, and refuses it likewise."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorc as tc
from tensorc.calls import Calls
from tensorc.prepare import MOST_CALLS
from tensorc.runtime import forms
from tests.requirements import need

TEXT = """
op sums(x: f32[n], y: f32[n], a: f32) -> z: f32[n], s: f32
  z[n] = x[n] + a * y[n]
  s = sum[n](x[n])
op gather(x: f32[n], i: i64[m]) -> y: f32[m]
  y[m] = x[i[m]]
op twice(x: bf16[n]) -> y: bf16[n]
  y[n] = 2 * x[n]
op repeated(x: f32[n], k: const i32) -> y: f32[n]
  y[n] = x[n] * k
"""


@pytest.fixture
def ops() -> tc.Ops:
    return tc.loads(TEXT)


@pytest.fixture
def torch() -> Any:
    need("torch")
    return importlib.import_module("torch")


def kept(op: tc.Op) -> int:
    """How many bound calls an operator has."""
    calls: Calls = vars(op)["_calls"]
    return len(vars(calls)["_warm"])


def vector(*values: float) -> Any:
    return np.array(values, np.float32)


def test_outputs_given_are_written_every_time(ops: tc.Ops) -> None:
    z, s = np.zeros(3, np.float32), np.zeros((), np.float32)
    into = ops.sums.into(z, s)
    for number in range(4):
        x = vector(1, 2, 3) + number
        got = into(x, x, 2.0)
        assert got[0] is z and got[1] is s
        assert z.tolist() == (3 * x).tolist() and s == x.sum()
    assert kept(into) == 1


def test_an_operand_in_the_way_is_seen_on_the_short_way(ops: tc.Ops) -> None:
    whole = np.zeros(8, np.float32)
    s = np.zeros((), np.float32)
    into = ops.sums.into(whole[:3], s)
    x = vector(1, 2, 3)
    into(x, x, 1)
    into(whole[3:6], whole[5:8], 1)  # beside it
    for other in (whole[2:5], whole[:3], whole[2::-1]):
        with pytest.raises(tc.ArgumentError, match="E208"):
            into(x, other, 1)
    # Between its elements, but sharing none: refused by no one.
    every = ops.sums.into(whole[::2][:3], s)
    for _ in range(2):
        every(whole[1::2][:3], x, 1)


def test_an_output_that_has_changed_is_looked_at_again(ops: tc.Ops) -> None:
    z, s, x = np.zeros(3, np.float32), np.zeros((), np.float32), vector(1, 2, 3)
    into = ops.sums.into(z, s)
    into(x, x, 1)
    z.flags.writeable = False
    with pytest.raises(tc.ArgumentError, match="E212"):
        into(x, x, 1)
    z.flags.writeable = True
    z.resize(4, refcheck=False)
    with pytest.raises(tc.ArgumentError, match="E201"):
        into(x, x, 1)
    z.resize(3, refcheck=False)
    assert into(x, x, 1)[0].tolist() == [2, 4, 6]


def test_a_failed_check_leaves_warm_outputs_alone(ops: tc.Ops) -> None:
    out, x = np.full(2, 7, np.float32), vector(1, 2, 3)
    into = ops.gather.into(out)
    into(x, np.array([0, 2]))
    assert out.tolist() == [1, 3]
    with pytest.raises(tc.OutOfRange):
        into(x, np.array([0, 3]))
    assert out.tolist() == [1, 3]


def test_options_and_scalars_have_a_short_way(ops: tc.Ops) -> None:
    x = vector(1, 2, 3)
    for op in (ops.sums, ops.sums.on("cpu", policy="strict"), ops.sums.on("cpu", threads=2)):
        for a in (2, 2.0, np.float32(2), np.array(2, np.float32), True, 3, -1.5):
            for _ in range(2):
                z, s = op(x, x, a)
                assert z.tolist() == (x + np.float32(a) * x).tolist() and s == 6
        assert kept(op) == 5
    with pytest.raises(tc.ArgumentError, match="E211"):
        ops.sums(x, x, np.int64(2))
    with pytest.raises(tc.ArgumentError, match="E211"):
        ops.sums(x, x, 2j)


def test_integers_that_sizes_use_go_the_long_way(ops: tc.Ops) -> None:
    for k in (2, 3, 2):
        assert ops.repeated(vector(1, 2), k).tolist() == [k, 2 * k]
    assert kept(ops.repeated) == 0


def test_only_so_many_are_kept(ops: tc.Ops) -> None:
    for n in range(1, MOST_CALLS + 9):
        ops.twice(np.ones(n, ml_dtypes.bfloat16))
    assert 0 < kept(ops.twice) <= MOST_CALLS


def test_what_has_no_form_goes_the_long_way(ops: tc.Ops) -> None:
    class Own(np.ndarray):
        pass

    x = vector(1, 2, 3)
    for other in (x.view(Own), [1, 2], None, "x", object()):
        assert forms.key((x, other)) is None
    assert ops.sums(x.view(Own), x, 1)[0].tolist() == [2, 4, 6]
    assert kept(ops.sums) == 0


def test_tensors_have_a_short_way(ops: tc.Ops, torch: Any) -> None:
    x = torch.arange(4, dtype=torch.float32)
    for view in (x, x[1:], x[::2], x.expand(4), torch.zeros(0), x[:1]):
        for _ in range(2):
            z, s = ops.sums(view, view, 2.0)
            assert type(z) is type(s) is torch.Tensor
            assert torch.equal(z, 3 * view) and s == view.sum()
    z, s = torch.zeros(4), torch.zeros(())
    into = ops.sums.into(z, s)
    for number in range(3):
        assert into(x + number, x, 1)[0] is z and torch.equal(z, 2 * x + number)
    with pytest.raises(tc.ArgumentError, match="E208"):
        into(z, x, 1)
    z.resize_(5)
    with pytest.raises(tc.ArgumentError, match="E201"):
        into(x, x, 1)


def test_tensors_that_are_refused_stay_refused(ops: tc.Ops, torch: Any) -> None:
    """After a good call with the same shapes and strides."""
    x = torch.ones(3)
    ops.sums(x, x, 1)
    with pytest.raises(tc.ArgumentError, match="E226"):
        ops.sums(torch.ones(3, requires_grad=True), x, 1)
    with pytest.raises(tc.ArgumentError, match="E211"):
        ops.sums(torch.ones(3, dtype=torch.float64), x, 1)
    with pytest.raises(tc.ArgumentError, match="E213"):
        ops.sums(torch.ones(3, device="meta"), x, 1)
    with pytest.raises(tc.ArgumentError):
        ops.sums(torch.ones(3).to_sparse(), x, 1)
    y = torch.ones(3, dtype=torch.complex64) * 1j
    conj = tc.loads("op f(x: complex64[n]) -> y: complex64[n]\n  y[n] = x[n]\n").f
    assert conj(y).tolist() == [1j] * 3
    lazy = y.conj()
    assert conj(lazy.resolve_conj()).tolist() == [-1j] * 3
    with pytest.raises(tc.ArgumentError, match="E213"):
        conj(lazy)


def test_arrays_of_jax_have_a_short_way(ops: tc.Ops) -> None:
    need("jax")
    jax = importlib.import_module("jax")
    x = jax.numpy.zeros(4, dtype=jax.numpy.float32)
    for number in range(3):
        x = jax.numpy.arange(4, dtype=jax.numpy.float32) + number
        z, s = ops.sums(x, x, 2.0)
        assert isinstance(z, jax.Array) and z.tolist() == (3 * x).tolist() and s == x.sum()
    x.delete()
    with pytest.raises(tc.ArgumentError, match="E213"):
        ops.sums(x, x, 2.0)


def test_arrays_of_jax_may_be_laid_out_in_another_order() -> None:
    need("jax")
    jax = importlib.import_module("jax")
    layout = importlib.import_module("jax.experimental.layout")
    op = tc.loads("op f(x: f32[m, n]) -> y: f32[m, n]\n  y[m, n] = 2 * x[m, n]\n").f
    x = jax.numpy.arange(12, dtype=jax.numpy.float32).reshape(3, 4)
    turned = jax.device_put(x, layout.Format(layout.Layout((1, 0)), x.sharding))
    for given in (x, x, turned, turned, x):
        assert op(given).tolist() == (2 * x).tolist()
    assert kept(op) == 2


def test_addresses_of_all_arrays() -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    fixed = whole.copy()
    fixed.flags.writeable = False
    narrow = np.ones(3, ml_dtypes.bfloat16)
    views = (whole, whole.T, whole[::-1, ::2], whole[3, 5], whole[:0], fixed, fixed[1:], narrow,
             np.broadcast_to(whole[1], (9, 6)), np.zeros(()), narrow.view("V2"))  # fmt: skip
    arrays = [np.asarray(view) for view in views]
    for array in arrays:
        assert forms.reader(array)(array) == forms.address(array) == array.ctypes.data
    for one in arrays:  # what was quickest for one is right for all of its type
        assert [forms.reader(one)(array) for array in arrays] == [a.ctypes.data for a in arrays]
        assert forms.starting([one])([arrays[2]]) == [arrays[2].ctypes.data]


def test_tensors_without_memory_are_refused_after_those_with_it(torch: Any) -> None:
    """Under torch.vmap, and of torch.func, a tensor has the type of any other."""
    op = tc.loads("op f(x: f32[n]) -> y: f32[n]\n  y[n] = x[n]\n").f
    for call in (op, functools.partial(tc.einsum, "i->i")):

        def total(x: Any, call: Any = call) -> Any:
            return call(x).sum()

        for _ in range(2):
            assert torch.equal(call(torch.ones(3)), torch.ones(3))
        with pytest.raises(tc.ArgumentError, match="E213"):
            torch.vmap(call)(torch.ones(2, 3))
        with pytest.raises(tc.ArgumentError, match="E2(13|26)"):
            torch.func.grad(total)(torch.ones(3))


def test_einsum_has_a_short_way_for_all_of_them(torch: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    want, out = x @ x.T, np.zeros((2, 2))
    for _ in range(2):
        got = tc.einsum("ij,kj->ik", torch.from_numpy(x), torch.from_numpy(x))
        assert type(got) is torch.Tensor and got.tolist() == want.tolist()
        assert tc.einsum("ij,kj->ik", x, x, out=out) is out and out.tolist() == want.tolist()
        assert type(tc.einsum("ij,ij->", x, x)) is np.float32
    with pytest.raises(ValueError, match="out has shape"):
        tc.einsum("ij,kj->ik", x, x, out=np.zeros(4))
    with pytest.raises(TypeError, match="cannot be cast"):
        tc.einsum("ij,kj->ik", x, x, out=np.zeros((2, 2), np.int32))
