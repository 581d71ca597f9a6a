"""Warp-level helpers against NumPy: shuffles, votes, matrix loads and stores, mma.sync."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensorc.codegen.emulator import Mode
from tests.emulator.running import BF16, Array
from tests.emulator.snippets import Out, call, clean, told
from tests.requirements import need

LANES = np.arange(64)


def test_shuffles() -> None:
    need("cxx")
    text = """
    TC_KERNEL(64, 1) test(const u32* in, u32* out, float* floats) {
      const int t = threadIdx.x;
      out[t] = tc_shfl_xor(in[t], 5);
      out[64 + t] = tc_shfl_idx(in[t], 3);
      out[128 + t] = tc_shfl_up(in[t], 2);
      out[192 + t] = tc_shfl_down(in[t], 7);
      out[256 + t] = tc_ballot(t % 3 == 0);
      out[320 + t] = tc_warp_uniform(t >> 5);
      floats[t] = tc_shfl_xor_f32((float)in[t], 16) + tc_shfl_idx_f32(t, 1) * 256
                + tc_shfl_up_f32(t, 1) * 65536 - tc_shfl_down_f32(t, 1);
    }
    """
    values = np.arange(100, 164, dtype=np.uint32)
    got, floats = clean("sm_80", text, [values, Out((6, 64), np.uint32), Out((64,))], threads=64)
    warp, lane = LANES & ~31, LANES & 31
    up = np.where(lane >= 2, LANES - 2, LANES)
    down = np.where(lane + 7 < 32, LANES + 7, LANES)
    np.testing.assert_array_equal(got[0], values[warp | lane ^ 5])
    np.testing.assert_array_equal(got[1], values[warp + 3])
    np.testing.assert_array_equal(got[2], values[up])
    np.testing.assert_array_equal(got[3], values[down])
    votes = [sum(1 << i for i in range(32) if (w * 32 + i) % 3 == 0) for w in range(2)]
    np.testing.assert_array_equal(got[4], np.repeat(votes, 32))
    np.testing.assert_array_equal(got[5], LANES >> 5)
    one_up, one_down = np.where(lane, LANES - 1, LANES), np.where(lane < 31, LANES + 1, LANES)
    expected = values[warp | lane ^ 16] + (warp + 1) * 256.0 + one_up * 65536.0 - one_down
    np.testing.assert_array_equal(floats, expected.astype(np.float32))


def test_shuffle_in_a_branch_is_a_deadlock() -> None:
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(u32* out) {
      tc_note_role("half");
      if (threadIdx.x < 16) out[threadIdx.x] = tc_shfl_xor(1, 1);
    }
    """
    reports = told("sm_80", text, [Out((32,), np.uint32)])
    assert "half waits for its warp (shuffle), where 16 of 32 threads have come" in reports


def test_elect_chooses_one_lane_always_the_same() -> None:
    need("cxx")
    text = """
    TC_KERNEL(64, 1) test(u32* out) {
      for (int i = 0; i < 3; i++)
        if (tc_elect()) tc_reduce_add_u32(out + i, 1u << (threadIdx.x & 31));
    }
    """
    for seed in range(8):
        (got,), outcome = call(
            "sm_90a", text, [Out((3,), np.uint32, 0)], threads=64, mode=Mode(seed=seed)
        )
        assert outcome.clean, str(outcome)
        assert (got == got[0]).all()
        assert got[0] % 2 == 0 and bin(int(got[0])).count("1") == 1


MATRICES = """
TC_KERNEL(32, 1) test(const u32* in, u32* out) {{
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  const int lane = threadIdx.x;
  for (int i = lane; i < 128; i += 32) ((u32*)smem)[i] = in[i];
  tc_syncwarp();
  {body}
}}
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", "_trans"])
def test_ldmatrix(count: int, trans: str) -> None:
    need("cxx")
    body = f"""
    u32 r[{count}];
    tc_ldmatrix_x{count}{trans}(r, base + (lane % {8 * count}) * 16);
    for (int i = 0; i < {count}; i++) out[i * 32 + lane] = r[i];
    """
    data = np.arange(256, dtype=np.uint16)
    arguments = [data.view(np.uint32), Out((count, 32, 1), np.uint32)]
    (got,) = clean("sm_80", MATRICES.format(body=body), arguments, shared=512)
    matrices = data.reshape(4, 8, 8)[:count]
    expected = matrices.transpose(0, 2, 1) if trans else matrices
    np.testing.assert_array_equal(got.view(np.uint16).reshape(count, 8, 8), expected)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", "_trans"])
def test_stmatrix(count: int, trans: str) -> None:
    need("cxx")
    words = ", ".join(f"in[{32 * i} + lane]" for i in range(count))
    body = f"""
    tc_stmatrix_x{count}{trans}(base + (lane % {8 * count}) * 16, {words});
    tc_syncwarp();
    for (int i = lane; i < {32 * count}; i += 32) out[i] = ((u32*)smem)[i];
    """
    data = np.arange(256, dtype=np.uint16)
    arguments = [data.view(np.uint32), Out((count, 32, 1), np.uint32)]
    (got,) = clean("sm_90a", MATRICES.format(body=body), arguments, shared=512)
    matrices = data.reshape(4, 8, 8)[:count]
    expected = matrices.transpose(0, 2, 1) if trans else matrices
    np.testing.assert_array_equal(got.view(np.uint16).reshape(count, 8, 8), expected)


MMA = """
TC_KERNEL(32, 1) test(const u32* A, const u32* B, const {value}* C, {value}* D) {{
  // operands in units of one 32-bit word: A[16][8], B[8][8] (n by k)
  const int g = threadIdx.x >> 2, t = threadIdx.x & 3;
  u32 a[4] = {{A[g * 8 + t], A[(g + 8) * 8 + t], A[g * 8 + t + 4], A[(g + 8) * 8 + t + 4]}};
  {value} d[4];
  for (int i = 0; i < 4; i++) d[i] = C[(g + (i >> 1) * 8) * 8 + t * 2 + (i & 1)];
  {helper}(d, a, B[g * 8 + t], B[g * 8 + t + 4]);
  for (int i = 0; i < 4; i++) D[(g + (i >> 1) * 8) * 8 + t * 2 + (i & 1)] = d[i];
}}
"""
TYPES: list[tuple[str, str, Any]] = [
    ("tc_mma_m16n8k16_f16", "sm_80", np.float16),
    ("tc_mma_m16n8k16_f16_zero", "sm_80", np.float16),
    ("tc_mma_m16n8k16_bf16", "sm_80", BF16),
    ("tc_mma_m16n8k16_bf16_zero", "sm_80", BF16),
    ("tc_mma_m16n8k8_tf32", "sm_80", np.float32),
    ("tc_mma_m16n8k32_s8", "sm_80", np.int8),
    ("tc_mma_m16n8k32_u8", "sm_80", np.uint8),
    ("tc_mma_m16n8k32_e4m3", "sm_89", ml_dtypes.float8_e4m3fn),
    ("tc_mma_m16n8k32_e5m2", "sm_89", ml_dtypes.float8_e5m2),
]


def _operands(dtype: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    k = 32 // np.dtype(dtype).itemsize
    if np.issubdtype(np.dtype(dtype), np.integer):
        info = np.iinfo(dtype)
        a, b = (rng.integers(info.min, info.max + 1, (rows, k)) for rows in (16, 8))
    else:
        a, b = (rng.integers(-8, 9, (rows, k)) / 4 for rows in (16, 8))
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize(("helper", "arch", "dtype"), TYPES, ids=[t[0] for t in TYPES])
def test_mma(helper: str, arch: str, dtype: Any) -> None:
    """Small multiples of 1/4 and whole integers: every product and sum is exact."""
    need("cxx")
    a, b = _operands(dtype, np.random.default_rng(1))
    integer = np.issubdtype(np.dtype(dtype), np.integer)
    result = np.int32 if integer else np.float32
    c = np.random.default_rng(2).integers(-50, 50, (16, 8)).astype(result)
    text = MMA.format(value="int" if integer else "float", helper=helper)
    arguments = [a.view(np.uint32), b.view(np.uint32), c, Out((16, 8), result)]
    (got,) = clean(arch, text, arguments)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    expected = expected + (0 if helper.endswith("_zero") else c)
    np.testing.assert_array_equal(got, expected.astype(result))


def test_tf32_drops_low_bits() -> None:
    """The tensor core reads 19 bits of a tf32 operand, whatever is in the others."""
    need("cxx")
    a = np.full((16, 8), 1 + 2.0**-12, np.float32)
    text = MMA.format(value="float", helper="tc_mma_m16n8k8_tf32")
    one = np.ones((8, 8), np.float32)
    zero = np.zeros((16, 8), np.float32)
    (got,) = clean("sm_80", text, [a.view(np.uint32), one.view(np.uint32), zero, Out((16, 8))])
    np.testing.assert_array_equal(got, np.full((16, 8), 8, np.float32))
