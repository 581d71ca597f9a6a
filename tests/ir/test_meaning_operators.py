"""The meaning of the language's own examples, against NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorc.ir import sizes
from tensorc.ir.accept import Outcome, accept
from tensorc.ir.bound_tensor import bound_tensor
from tensorc.ir.dtypes import BY_NAME
from tensorc.ir.interpret_tensor import interpret
from tensorc.ir.rounding import round_to
from tensorc.lang import read

Array = npt.NDArray[Any]
INF = math.inf
TEXT = Path(__file__).parents[1].joinpath("programs", "language.tc").read_text()
LANGUAGE = {item.name: item for item in read(TEXT)}


def draw(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Random values that the storage type holds exactly."""
    return round_to(np.random.default_rng(seed).standard_normal(shape), BY_NAME[dtype])


def outputs(name: str, *arrays: Array) -> list[Array]:
    """All outputs of an example on storage-typed arrays, once the rounding twin was accepted, and a
    result that is a quarter off was not."""
    program = LANGUAGE[name]
    named = {p.tensor.name: a for p, a in zip(program.parameters, arrays, strict=True)}
    const = [p.tensor.name for p in program.parameters if p.const and not p.dims]
    shapes = {name: array.shape for name, array in named.items()}
    extents = sizes.bind(program, shapes, {name: int(named[name]) for name in const})
    twin = interpret(program, named, extents, rounded=True)
    found = interpret(program, named, extents)
    bounds = bound_tensor(program, named, extents)
    for output in program.outputs:
        item, dtype = output.tensor.name, output.tensor.dtype
        np.testing.assert_array_equal(bounds[item].value, found[item])
        verdict = accept(twin[item], found[item], twin[item], bounds[item].error, dtype)
        assert verdict.outcome is not Outcome.FAIL, f"{name} {item}: {verdict}"
        if dtype.floating and twin[item].size:
            off = twin[item] * twin[item].dtype.type(1.25)
            verdict = accept(off, found[item], twin[item], bounds[item].error, dtype)
            assert verdict.outcome is Outcome.FAIL, f"{name} {item}: {verdict}"
    return list(found.values())


def wide(*arrays: Array) -> list[Array]:
    return [array.astype(np.float64) for array in arrays]


def test_gemm() -> None:
    a, b, c = draw((5, 7), "bf16", 0), draw((7, 3), "bf16", 1), draw((3,), "f32", 2)
    (got,) = outputs("gemm", a, b, c)
    x, y, z = wide(a, b, c)
    t = x @ y + z
    np.testing.assert_allclose(got, t / (1 + np.exp(-t)), rtol=1e-13)


def test_attention() -> None:
    q, k, v = (
        draw((2, 4, 3, 8), "f16", 0),
        draw((2, 2, 5, 8), "f16", 1),
        draw((2, 2, 5, 6), "f16", 2),
    )
    o, lse = outputs("attention", q, k, v)
    x, y, z = wide(q, k, v)
    y, z = y.repeat(2, axis=1), z.repeat(2, axis=1)
    s = np.einsum("bhmd,bhnd->bhmn", x, y) / math.sqrt(8)
    s = np.where(np.arange(5) <= np.arange(3)[:, None] + 2, s, -INF)
    e = np.exp(s)
    np.testing.assert_allclose(o, np.einsum("bhmn,bhne->bhme", e / e.sum(-1, keepdims=True), z))
    np.testing.assert_allclose(lse, np.log(e.sum(-1)))


def test_norm() -> None:
    x, g, b = draw((3, 16), "bf16", 0), draw((16,), "f32", 1), draw((16,), "f32", 2)
    (got,) = outputs("norm", x, g, b)
    t, p, c = wide(x, g, b)
    deviation = t - t.mean(1, keepdims=True)
    right = deviation / np.sqrt((deviation**2).mean(1, keepdims=True) + 1e-5) * p + c
    np.testing.assert_allclose(got, right, rtol=1e-12)


def test_convolution() -> None:
    x, k = draw((2, 3, 5, 6), "f16", 0), draw((4, 3, 3, 3), "f16", 1)
    (got,) = outputs("conv", x, k)
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    right = np.zeros((2, 4, 3, 3))
    for r in range(3):
        for s in range(3):
            window = padded[:, :, r : r + 5 : 2, s : s + 6 : 2]
            right += np.einsum("ncyx,oc->noyx", window, k[:, :, r, s].astype(float))
    np.testing.assert_allclose(got, right, rtol=1e-12)


def test_rope() -> None:
    u = draw((4, 2, 6), "bf16", 0)
    (got,) = outputs("rope", u)
    x = u.astype(float)
    angle = np.arange(4)[:, None] * 10000.0 ** (-2 * (np.arange(6) % 3) / 6)
    turned = np.concatenate([-x[..., 3:], x[..., :3]], axis=-1)
    right = np.cos(angle)[:, None] * x + np.sin(angle)[:, None] * turned
    np.testing.assert_allclose(got, right, rtol=1e-12)


def test_gathers() -> None:
    table, tok = draw((7, 3), "f16", 0), np.array([[6, 0, 2], [1, 1, 5]], np.int32)
    (got,) = outputs("embed", table, tok)
    assert (got == table.astype(float)[tok]).all()
    x, w, gate = draw((4, 5), "bf16", 1), draw((3, 5, 6), "bf16", 2), draw((4, 2), "f32", 3)
    pick = np.array([[0, 2], [1, 1], [2, 0], [0, 1]], np.int32)
    (got,) = outputs("moe", x, w, pick, gate)
    right = np.einsum("ta,tk,takn->tn", gate.astype(float), x.astype(float), w.astype(float)[pick])
    np.testing.assert_allclose(got, right, rtol=1e-12)


def test_maxsim() -> None:
    q, d = draw((2, 3, 4), "f16", 0), draw((3, 5, 4), "f16", 1)
    lengths = np.array([5, 2, 0], np.int32)
    score, win = outputs("maxsim", q, d, lengths)
    s = np.einsum("qik,djk->qdij", q.astype(float), d.astype(float))
    s = np.where(np.arange(5) < lengths[:, None, None], s, -INF)
    np.testing.assert_allclose(score, s.max(-1).sum(-1))
    assert (win == np.where(lengths[:, None] > 0, s.argmax(-1), -1)).all()


def test_integers_and_bools() -> None:
    p = np.random.default_rng(0).random((5, 5)) < 0.3
    (got,) = outputs("closure", p)
    assert (got == (p | (p.astype(int) @ p.astype(int) > 0))).all()
    rng = np.random.default_rng(1)
    x, w = rng.integers(-128, 128, (3, 8)).astype("i1"), rng.integers(0, 256, (4, 2)).astype("u1")
    z = draw((2,), "f32", 2)
    (got,) = outputs("int4", x, w, z)
    nibbles = np.stack([w & 15, w >> 4], axis=1).reshape(8, 2).astype(int) - 8
    assert (got == z.astype(float) * (x.astype(int) @ nibbles)).all()


def test_segments_and_symmetry() -> None:
    x, dst, c = (
        draw((6, 2), "f32", 0),
        np.array([0, 3, 1, 3, 0, 9], np.int32),
        draw((2, 3), "f32", 1),
    )
    (got,) = outputs("segment", x, dst, c, np.array(4))
    right = np.zeros((4, 3))
    for row, target in zip(x.astype(float) @ c.astype(float), dst, strict=True):
        if target < 4:
            right[target] += row
    np.testing.assert_allclose(got, right, rtol=1e-12)
    g = draw((2, 3, 4), "f64", 2)
    (got,) = outputs("symmetric", g)
    left = np.einsum("bij,bkj->bik", g, abs(g))
    np.testing.assert_allclose(got, (left + left.transpose(0, 2, 1)) / 2, rtol=1e-13)
