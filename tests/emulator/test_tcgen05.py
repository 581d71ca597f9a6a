"""tcgen05 against NumPy: products into tensor memory, commits, loads of every width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emulator.running import BF16, Array
from tests.emulator.snippets import Out, clean, told
from tests.emulator.test_wgmma import MASKS
from tests.requirements import need

LAYOUTS = {0: 0, 128: 2, 64: 4, 32: 6}
"""Layout code of a swizzle span in bits 61..63 of an sm_100 matrix descriptor."""

KERNEL = """
TC_KERNEL(128, 1) test(const u32* in, float* D, u64 a, u64 b, u32 instruction) {{
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem), bar = base + {bytes}, slot = bar + 8;
  const int t = threadIdx.x, warp = t >> 5;
  for (int i = t; i < {bytes} / 4; i += 128) ((u32*)smem)[i] = in[i];
  tc_fence_proxy_async();
  if (t == 0) {{ tc_mbar_init(bar, 1); tc_fence_mbar_init(); }}
  if (warp == 0) {{ tc_tmem_alloc(slot, 256); tc_tmem_relinquish(); }}
  tc_syncthreads();
  const u32 tmem = *(volatile u32*)(smem + {bytes} + 8);
  if (t == 32) {{
    tc_umma_f16(tmem, a + (base >> 4), b + (base >> 4), instruction, 0);
    tc_umma_f16(tmem, a + (base >> 4), b + (base >> 4), instruction, 1);
    tc_umma_commit(bar);
  }}
  tc_mbar_wait(bar, 0);
  tc_tcgen05_fence_after();
  for (int c = 0; c < {n}; c += {width}) {{
    u32 r[{width}];
    tc_tmem_load<{width}>(r, tmem + (warp * 32 << 16) + c);
    tc_tmem_wait_load();
    for (int i = 0; i < {width}; i++) D[t * {n} + c + i] = tc_bits_f32(r[i]);
  }}
  tc_tcgen05_fence_before();
  tc_syncthreads();
  if (warp == 0) tc_tmem_dealloc(tmem, 256);
}}
"""


@pytest.mark.parametrize("span", LAYOUTS)
@pytest.mark.parametrize(("dtype", "code"), [(np.float16, 0), (BF16, 1)], ids=["f16", "bf16"])
@pytest.mark.parametrize(("n", "width"), [(64, 16), (128, 32), (256, 64)])
def test_product(span: int, dtype: Any, code: int, n: int, width: int) -> None:
    need("cxx")
    rng = np.random.default_rng(0)
    a, b = ((rng.integers(-8, 9, (rows, 16)) / 4).astype(dtype) for rows in (128, n))
    parts: list[Array] = []
    for matrix in (a, b):
        row, half = np.mgrid[0 : matrix.shape[0], 0:2]
        plain = row * span + half * 16 if span else row // 8 * 256 + row % 8 * 16 + half * 128
        address = (plain ^ (plain >> 3 & MASKS[span])).reshape(-1)
        raw = np.zeros(matrix.shape[0] * max(span, 32), np.uint8)
        raw[address[:, None] + np.arange(16)] = matrix.view(np.uint8).reshape(-1, 16)
        parts.append(raw)
    raw = np.concatenate(parts)
    stride = (8 * span if span else 256) >> 4
    base = (8 if not span else 1) << 16 | stride << 32 | 1 << 46 | LAYOUTS[span] << 61
    instruction = 1 << 4 | code << 7 | code << 10 | n // 8 << 17 | 128 // 16 << 24
    text = KERNEL.format(bytes=raw.size, n=n, width=width)
    arguments = [
        raw.view(np.uint32),
        Out((128, n)),
        np.uint64(base),
        np.uint64(base + (parts[0].size >> 4)),
        np.uint32(instruction),
    ]
    (got,) = clean("sm_100a", text, arguments, threads=128, shared=raw.size + 16)
    expected = 2 * (a.astype(np.float64) @ b.astype(np.float64).T)
    np.testing.assert_array_equal(got, expected.astype(np.float32))


def test_allocations_are_checked() -> None:
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(u32* out) {
      TC_DYN_SMEM(smem);
      tc_tmem_alloc(tc_smem_u32(smem), COLUMNS);
      out[threadIdx.x] = *(volatile u32*)smem;
    }
    """
    out = Out((32,), np.uint32)
    odd = told("sm_100a", text, [out], shared=16, defines=["COLUMNS=48"])
    assert "bounds: tcgen05.alloc of 48 columns with 0 in use" in odd
    kept = told("sm_100a", text, [out], shared=16, defines=["COLUMNS=64"])
    assert "leftover: the block ended with 64 columns of tensor memory allocated" in kept
