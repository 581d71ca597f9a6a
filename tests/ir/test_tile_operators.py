"""Operators of other shapes at level 2, against NumPy: single-pass variance, convolution through
three loops, ragged data, split reductions with a combining kernel, 4-bit weights, tropical sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tensorc.errors import BrokenInvariant, OutOfRange
from tensorc.ir.interpret_tile import interpret
from tensorc.ir.print_tile import show
from tensorc.ir.read_tile import read
from tensorc.ir.tile import TileProgram
from tensorc.ir.verify_tile import verify

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]


def program(text: str) -> TileProgram:
    """Read, verified, and read back from its own print."""
    found = read(text)
    assert verify(found) == []
    assert read(show(found)) == found
    return found


def run(tiles: TileProgram, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> Outputs:
    """The outputs, the same if blocks run one by one in a random order."""
    found = interpret(tiles, arrays, sizes)
    again = interpret(tiles, arrays, sizes, np.random.default_rng(1))
    for name, values in found.items():
        np.testing.assert_array_equal(again[name], values)
    return found


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


VARIANCE = """
program variance for avx512
index m, d
input x: f32[m, d]
output o: f32[m]

kernel variance(x) -> o
  grid m by 4
  loop d by 32
    carry sx[m] = 0                                   f32 register
    carry m2[m] = 0                                   f32 register
    X[m, d] = select(d < |d|, x[m, d], 0)             f32 memory    edge d    by vector
    sx'[m] = sx + sum[d](X)                           f32 register            by vector
    u[m] = sx' / seen'(d)                             f32 register            by vector
    g[m] = sx * seen'(d) - sx' * seen(d)              f32 register            by vector
    v[m] = select(seen(d) == 0, m2, m2 + g * g / (seen(d) * seen'(d) ** 2))
                                                      f32 register            by vector
    w[m, d] = select(d < |d|, X - u, 0)               f32 memory    edge d    by vector
    m2'[m] = v + sum[d](w * w)                        f32 register            by vector
  store o[m] = m2 / |d|                                                       by vector
"""


@pytest.mark.parametrize(("m", "d"), [(4, 32), (5, 31), (3, 97), (1, 1)])
def test_variance_in_one_pass_far_from_zero(m: int, d: int) -> None:
    x = 1000 + draw(m, d)
    found = run(program(VARIANCE), {"x": x}, {"m": m, "d": d})["o"]
    np.testing.assert_allclose(found, x.astype(np.float64).var(axis=1), rtol=0, atol=3e-4)


CONVOLUTION = """
program conv for sm_90a
index n, h, w, f, c, r = 3, s = 3, y, x
input a: f16[n, y, x, c]
input b: f16[r, s, c, f]
output o: f32[n, h, w, f]

kernel conv(a, b) -> o
  grid n, h by 8, w by 8, f by 64
  loop r
    carry o0[h, w, f] = 0                              f32 register wgmma(h w; f)
    loop s
      carry o0'[h, w, f] = o0                          f32 register wgmma(h w; f)
      loop c by 64
        carry o0''[h, w, f] = o0'                      f32 register wgmma(h w; f)
        A[h, w, c] = a[n, 2*h + r - 1, 2*w + s - 1, c]
                                                       f16 shared swizzle 128          by tma fill 0
        B[c, f] = b[r, s, c, f]                        f16 shared swizzle 128          by tma fill 0
        o0'''[h, w, f] = o0'' + sum[c](A * B)         f32 register wgmma(h w; f)
               into o0''  by wgmma.m64n64k16 (m: h w, n: f, k: c x 4)
  store o[n, h, w, f] = o0                                                             by simt
"""


@pytest.mark.parametrize(("size", "channels"), [(16, 64), (13, 40), (19, 70)])
def test_strided_padded_convolution_through_three_loops(size: int, channels: int) -> None:
    out = (size + 2 - 3) // 2 + 1
    a = draw(2, size, size, channels, dtype="float16")
    b = draw(3, 3, channels, 20, dtype="float16", seed=1)
    padded = np.pad(a.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = sum(
        padded[:, r : r + 2 * out : 2, s : s + 2 * out : 2][:, :out, :out] @ b[r, s].astype(float)
        for r in range(3)
        for s in range(3)
    )
    sizes = dict(n=2, h=out, w=out, f=20, c=channels, y=size, x=size)
    found = run(program(CONVOLUTION), {"a": a, "b": b}, sizes)["o"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


RAGGED = """
program bag for sm_80
index b, t, d, v
input tab: f32[v, d]
input tok: i32[b, t]
input len: i32[b]
output o: f32[b, d]

kernel bag(tab, tok, len) -> o
  grid b, d by 16
  loop t by 8 in 0..len[b] full 0..len[b]
    carry s[d] = 0                                     f32 register
    T[t] = tok[b, t]                                   i32 register            by simt
    E[t, d] = select(t < len[b], tab[T, d], 0)         f32 register  edge t    by simt
    s'[d] = s + sum[t](E)                              f32 register  into s    by simt
  store o[b, d] = s                                                            by simt
  check 1 tab[T, d] axis 0
"""


def test_ragged_rows_of_a_table() -> None:
    tab, lengths = draw(10, 20), np.array([0, 3, 8, 11], np.int32)
    tok = np.random.default_rng(0).integers(0, 10, (4, 11)).astype(np.int32)
    tok[1, 5] = 99  # beyond the length of its row: never used
    arrays = {"tab": tab, "tok": tok, "len": lengths}
    sizes = {"b": 4, "t": 11, "d": 20, "v": 10}
    found = run(program(RAGGED), arrays, sizes)["o"]
    wanted = [tab[row[:n]].sum(axis=0) for row, n in zip(tok, lengths, strict=True)]
    np.testing.assert_allclose(found, np.array(wanted), rtol=0, atol=1e-6)
    tok[3, 10] = 10
    with pytest.raises(OutOfRange, match=r"tab: subscript 0 is 10, allowed are 0\.\.9"):
        interpret(program(RAGGED), arrays, sizes)
    unchecked = program(RAGGED.replace("  check 1 tab[T, d] axis 0\n", ""))
    with pytest.raises(BrokenInvariant, match="tab: subscript 0 is 10"):
        interpret(unchecked, arrays, sizes)


SPLIT = """
program decode for avx512
index m, n, d, s = 3, c = 16
input q: f32[m, d]
input k: f32[n, d]
input v: f32[n, d]
output o: f32[m, d]
workspace rp: f32[3, |m|]
workspace lp: f32[3, |m|]
workspace ap: f32[3, |m|, |d|]

kernel partial(q, k, v) -> rp, lp, ap
  grid s, m by 4
  whole d by 24
  loop n by 8 in 16*base(s)..min(16*base(s) + 16, |n|) full 0..16*base(s) + 16
    carry r[m] = lowest                                f32 register
    carry l[m] = 0                                     f32 register
    carry a[m, d] = 0                                  f32 memory
    Q[m, d] = q[m, d]                                  f32 global                by view
    K[n, d] = k[n, d]                                  f32 global                by view
    t[m, n] = sum[d](Q * K)                            f32 memory                by vector exact d
    S[m, n] = select(n < |n| and n < 16*s + 16, t, -inf)
                                                       f32 memory      into t    by vector
    r'[m] = max(r, max[n](S))                          f32 register              by vector
    x[m] = exp(r - r')                                 f32 register              by vector
    y[m, n] = exp(S - r')                              f32 memory      into S    by vector
    xl[m] = x * l                                      f32 register              by vector
    l'[m] = xl + sum[n](y)                             f32 register              by vector
    xa[m, d] = x * a                                   f32 memory      into a    by vector
    V[n, d] = v[n, d]                                  f32 global                by view
    a'[m, d] = xa + sum[n](y * V)                      f32 memory      into xa   by vector exact n
  store rp[s, m] = r                                                             by vector
  store lp[s, m] = l                                                             by vector
  store ap[s, m, d] = a                                                          by vector

kernel combine(rp, lp, ap) -> o
  grid m by 4
  whole s by 3, d by 24
  R[s, m] = rp[s, m]                                   f32 register              by vector
  r_[m] = max[s](R)                                    f32 register              by vector
  x_[s, m] = exp(R - r_)                               f32 register              by vector
  L[s, m] = lp[s, m]                                   f32 register              by vector
  A[s, m, d] = ap[s, m, d]                             f32 memory                by vector
  l_[m] = sum[s](x_ * L)                               f32 register              by vector
  a_[m, d] = sum[s](x_ * A)                            f32 memory                by vector
  store o[m, d] = a_ / l_                                                        by vector
"""


@pytest.mark.parametrize(("m", "n", "d"), [(4, 48, 24), (5, 40, 20), (1, 33, 7)])
def test_split_attention_and_the_kernel_that_combines(m: int, n: int, d: int) -> None:
    q, k, v = draw(m, d), draw(n, d, seed=1), draw(n, d, seed=2)
    scores = np.exp(q.astype(float) @ k.T.astype(float))
    wanted = scores @ v / scores.sum(axis=1, keepdims=True)
    sizes = {"m": m, "n": n, "d": d}
    found = run(program(SPLIT), {"q": q, "k": k, "v": v}, sizes)["o"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5)


PACKED = """
program int4 for sm_80
index m, n, k2, k1 = 16, k0 = 2
input x: f16[m, 32*|k2|]
input w: u8[16*|k2|, n]
input scale: f16[k2, n]
output o: f32[m, n]

kernel int4(x, w, scale) -> o
  grid m by 16, n by 8
  whole k1 by 16, k0 by 2
  loop k2 by 2
    carry c[m, n] = 0                                    f32 register
    X[m, k2, k1, k0] = x[m, 32*k2 + 2*k1 + k0]           f16 shared linear     by cp.async fill 0
    W[k2, k1, n] = w[16*k2 + k1, n]                      u8 shared linear      by cp.async fill 0
    S[k2, n] = scale[k2, n]                              f16 shared linear     by cp.async fill 0
    D[k2, k1, k0, n] = ((W >> 4*k0) % 16 - 8) * S        f16 shared linear     by simt
    c'[m, n] = c + sum[k2, k1, k0](X * D)                f32 register          by simt
  store o[m, n] = c                                                            by simt
"""


def test_four_bit_weights_by_their_digits() -> None:
    m, n, k2 = 17, 9, 3
    x, scale = draw(m, 32 * k2, dtype="float16"), draw(k2, n, dtype="float16", seed=1)
    w = np.random.default_rng(2).integers(0, 256, (16 * k2, n)).astype(np.uint8)
    digits = np.stack([w & 15, w >> 4], axis=1).reshape(32 * k2, n).astype(float) - 8
    weights = (digits * np.repeat(scale.astype(float), 32, axis=0)).astype(np.float16)
    wanted = x.astype(float) @ weights.astype(float)
    found = run(program(PACKED), {"x": x, "w": w, "scale": scale}, {"m": m, "n": n, "k2": k2})
    np.testing.assert_allclose(found["o"], wanted, rtol=0, atol=2e-4)


TROPICAL = """
program tropical for avx512
index i, j, k
input a: f32[i, k]
input b: f32[k, j]
output o: f32[i, j]

kernel tropical(a, b) -> o
  grid i by 8, j by 16
  loop k by 4
    carry c[i, j] = inf                                f32 memory
    A[i, k] = a[i, k]                                  f32 global              by view
    B[k, j] = b[k, j]                                  f32 global              by view
    c'[i, j] = min(c, min[k](A + B))                   f32 memory  into c      by vector exact k
  store o[i, j] = c                                                            by vector
"""


def test_tropical_product() -> None:
    a, b = draw(9, 6), draw(6, 17, seed=1)
    found = run(program(TROPICAL), {"a": a, "b": b}, {"i": 9, "j": 17, "k": 6})["o"]
    np.testing.assert_array_equal(found, (a[:, :, None] + b[None]).min(axis=1))


HISTOGRAM = """
program columns for avx512
index i, j
input a: i32[i, j]
output o: i32[j]

kernel columns(a) -> o
  grid i by 4, j by 8
  A[i, j] = select(i < |i|, a[i, j], 0)                i32 register  edge i           by vector
  s[j] = sum[i](A)                                     i32 register                   by vector
  store o[j] = s                                                     combine sum      by vector
"""


def test_stores_that_combine_wrap_as_integers_do() -> None:
    a = np.random.default_rng(0).integers(-(2**31), 2**31, (11, 13)).astype(np.int32)
    found = run(program(HISTOGRAM), {"a": a}, {"i": 11, "j": 13})["o"]
    np.testing.assert_array_equal(found, a.sum(axis=0, dtype=np.int32))
