"""wgmma against NumPy: every type, both sources of A, both orders of memory, every swizzle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.profiles import CAMPAIGN
from tests.emulator.running import BF16, Array
from tests.emulator.snippets import Out, clean
from tests.requirements import need

CODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""Layout code of a swizzle span in bits 62..63 of an sm_90 matrix descriptor."""

MASKS = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}

KERNEL = """
TC_KERNEL(128, 1) test(const u32* in, const u32* registers, const {value}* C, {value}* D,
                       u64 a, u64 b) {{
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  const int t = threadIdx.x;
  for (int i = t; i < {bytes} / 4; i += 128) ((u32*)smem)[i] = in[i];
  tc_fence_proxy_async();
  tc_syncthreads();
  {value} d[{n} / 2];
  const int row = (t >> 5) * 16 + (t >> 2 & 7), column = (t & 3) * 2;
  for (int i = 0; i < {n} / 2; i++)
    d[i] = C[(row + (i >> 1 & 1) * 8) * {n} + (i >> 2) * 8 + column + (i & 1)];
  u32 r[4];
  for (int i = 0; i < 4; i++) r[i] = registers[(row + (i & 1) * 8) * 8 + (i >> 1) * 4 + (t & 3)];
  a += base >> 4;
  b += base >> 4;
  tc_wgmma_fence();
  {call}(d, {a}, b, 1);
  tc_wgmma_commit();
  tc_wgmma_wait<0>();
  for (int i = 0; i < {n} / 2; i++)
    D[(row + (i >> 1 & 1) * 8) * {n} + (i >> 2) * 8 + column + (i & 1)] = d[i];
}}
"""


@dataclass(frozen=True)
class Placed:
    """An operand in shared memory: its bytes, and its descriptor with an address relative to it."""

    raw: Array
    descriptor: int


Place = Callable[[Array], Placed]


def _scattered(values: Array, address: Array, span: int) -> Array:
    """Bytes of 16-byte chunks at swizzled addresses."""
    chunks = np.ascontiguousarray(values).view(np.uint8).reshape(-1, 16)
    address = address.reshape(-1)
    address = address ^ (address >> 3 & MASKS[span])
    raw = np.zeros(-(-(int(address.max()) + 16) // 1024) * 1024, np.uint8)
    raw[address[:, None] + np.arange(16)] = chunks
    return raw


def _descriptor(leading: int, stride: int, span: int) -> int:
    return leading >> 4 << 16 | stride >> 4 << 32 | CODES[span] << 62


def k_major(matrix: Array, span: int) -> Placed:
    """[rows, k], k contiguous, 32 bytes; rows `span` bytes apart, or cores of 8 x 16 bytes."""
    rows = matrix.shape[0]
    row, half = np.mgrid[0:rows, 0:2]
    if span:
        address, leading, stride = row * span + half * 16, 16, 8 * span
    else:
        leading, stride = 128, 256
        address = row // 8 * stride + row % 8 * 16 + half * leading
    return Placed(_scattered(matrix, address, span), _descriptor(leading, stride, span))


def mn_major(matrix: Array, span: int) -> Placed:
    """[rows, 16], rows contiguous: `span` bytes of one k, 8 of them, then panels and k groups."""
    rows = matrix.shape[0]
    k, chunk = np.mgrid[0:16, 0 : rows // 8]
    per = max(span, 16) // 16
    if span:
        leading = 16 * span  # from panel to panel
        stride = 8 * span  # from 8 k to the next 8
        address = chunk // per * leading + chunk % per * 16 + k // 8 * stride + k % 8 * span
    else:
        leading, stride = 128, 256
        address = chunk * stride + k // 8 * leading + k % 8 * 16
    return Placed(_scattered(matrix.T, address, span), _descriptor(leading, stride, span))


def _matrix(rows: int, dtype: Any, seed: int) -> Array:
    k = 32 // np.dtype(dtype).itemsize
    rng = np.random.default_rng(seed)
    if np.issubdtype(np.dtype(dtype), np.integer):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, (rows, k)).astype(dtype)
    return (rng.integers(-8, 9, (rows, k)) / 4).astype(dtype)


def check(
    name: str, dtype: Any, n: int, a_place: Place | None, b_place: Place, majors: str = ""
) -> None:
    """One product: small multiples of 1/4 or whole integers, so that every sum is exact."""
    a, b = _matrix(64, dtype, 1), _matrix(n, dtype, 2)
    registers = a_place is None
    left, right = a_place(a) if a_place else Placed(np.zeros(0, np.uint8), 0), b_place(b)
    raw = np.concatenate([left.raw, right.raw])
    integer = np.issubdtype(np.dtype(dtype), np.integer)
    result = np.int32 if integer else np.float32
    text = KERNEL.format(
        value="int" if integer else "float",
        n=n,
        bytes=raw.size,
        call=f"tc_wgmma_{name}{'_rs' if registers else ''}<{n}{majors}>",
        a="r" if registers else "a",
    )
    c = np.random.default_rng(3).integers(-9, 10, (64, n)).astype(result)
    arguments = [
        raw.view(np.uint32),
        a.view(np.uint32),
        c,
        Out((64, n), result),
        np.uint64(left.descriptor),
        np.uint64(right.descriptor + (left.raw.size >> 4)),
    ]
    (got,) = clean("sm_90a", text, arguments, threads=128, shared=raw.size)
    expected = a.astype(np.float64) @ b.astype(np.float64).T + c
    np.testing.assert_array_equal(got, expected.astype(result))


TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": BF16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
WIDTHS = range(8, 257, 8) if CAMPAIGN else (8, 64, 176)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("n", WIDTHS)
def test_types_and_widths(name: str, n: int) -> None:
    need("cxx")
    check(name, TYPES[name], n, partial(k_major, span=128), partial(k_major, span=128))


@pytest.mark.parametrize("name", TYPES)
def test_a_in_registers(name: str) -> None:
    need("cxx")
    check(name, TYPES[name], 64, None, partial(k_major, span=128))


@pytest.mark.parametrize("span", CODES)
def test_swizzles_k_major(span: int) -> None:
    need("cxx")
    check("f16", np.float16, 128, partial(k_major, span=span), partial(k_major, span=span))


@pytest.mark.parametrize("span", CODES)
@pytest.mark.parametrize("majors", [", 0, 1", ", 1, 0", ", 1, 1"])
def test_swizzles_mn_major(span: int, majors: str) -> None:
    need("cxx")
    places = [mn_major if bit == "1" else k_major for bit in majors.split(", ")[1:]]
    check(
        "bf16",
        BF16,
        128,
        partial(places[0], span=span),
        partial(places[1], span=span),
        majors,
    )


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_a_in_registers_and_b_mn_major(name: str) -> None:
    need("cxx")
    check(name, TYPES[name], 192, None, partial(mn_major, span=128), ", 1")
