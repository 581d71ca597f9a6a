"""Counting and virtual time."""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.codegen.emulator import Mode
from tensorc.codegen.emulator_report import Count
from tensorc.codegen.emulator_time import KEYS, Rates
from tensorc.machine.product import load_product
from tests.emulator.running import Kernel, attention, gemm
from tests.emulator.snippets import Out, call
from tests.requirements import need


def counts(access: str, kind: str, shared: int = 8192) -> Count:
    """The count of one access by one warp."""
    text = f"""
    TC_KERNEL(32, 1) test(const float* in, float* out) {{
      TC_DYN_SMEM(smem);
      const int t = threadIdx.x;
      float* s = (float*)smem;
      {access}
    }}
    """
    arguments = [np.zeros(4096, np.float32), Out((4096,), np.float32, 0)]
    _, outcome = call("sm_80", text, arguments, shared=shared, mode=Mode(counting=True))
    return next(count for count in outcome.counts if count.kind == kind)


@pytest.mark.parametrize(
    ("access", "cost", "least"),
    [
        ("s[t] = 0;", 1, 1),
        ("s[t * 2] = 0;", 2, 1),
        ("s[t * 32] = 0;", 32, 1),
        ("s[t * 33] = 0;", 1, 1),
        ("s[t >> 3] = 0;", 1, 1),
        ("((tc_u32x2*)s)[t] = ((tc_u32x2*)in)[t];", 2, 2),
        ("((tc_u32x4*)s)[t] = ((tc_u32x4*)in)[t];", 4, 4),
        ("((tc_u32x4*)s)[t * 8] = ((tc_u32x4*)in)[t];", 32, 4),
        ("((tc_u32x4*)s)[t * 8 + (t & 7)] = ((tc_u32x4*)in)[t];", 4, 4),
    ],
)
def test_bank_conflicts(access: str, cost: int, least: int) -> None:
    need("cxx")
    count = counts(access, "shared write")
    assert (count.requests, count.cost, count.least) == (1, cost, least)


@pytest.mark.parametrize(
    ("access", "cost", "least"),
    [
        ("out[t] = 0;", 4, 4),
        ("out[t * 2] = 0;", 8, 4),
        ("out[t * 8] = 0;", 32, 4),
        ("out[t + 1] = 0;", 5, 4),
        ("((tc_u32x4*)out)[t] = ((tc_u32x4*)in)[t];", 16, 16),
    ],
)
def test_sectors(access: str, cost: int, least: int) -> None:
    need("cxx")
    count = counts(access, "global write")
    assert (count.requests, count.cost, count.least) == (1, cost, least)


def test_ldmatrix_conflicts() -> None:
    need("cxx")
    fill = "for (int i = t; i < 2048; i += 32) s[i] = 0; tc_syncwarp(); u32 r[4];"
    straight = counts(fill + "tc_ldmatrix_x4(r, tc_smem_u32(smem) + t * 16);", "ldmatrix")
    assert (straight.cost, straight.least) == (4, 4)
    column = counts(fill + "tc_ldmatrix_x4(r, tc_smem_u32(smem) + t * 128);", "ldmatrix")
    assert (column.cost, column.least) == (32, 4)
    swizzled = fill + "tc_ldmatrix_x4(r, tc_smem_u32(smem) + t * 128 + ((t & 7) << 4));"
    assert counts(swizzled, "ldmatrix").cost == 4


def test_the_kernels_have_no_bank_conflicts() -> None:
    need("cxx")
    mode = Mode(counting=True)
    outcomes = [
        gemm(Kernel("gemm_sm80.cu", "sm_80"), (128, 64, 128), mode).outcome,
        gemm(Kernel("gemm_sm90a.cu", "sm_90a"), (128, 256, 64), mode).outcome,
        attention(Kernel("attention_sm90a.cu", "sm_90a"), (1, 1, 128, 128), mode).outcome,
        attention(Kernel("attention_sm80.cu", "sm_80"), (1, 1, 128, 64), mode).outcome,
    ]
    for outcome in outcomes:
        shared = [c for c in outcome.counts if "shared" in c.kind or "matrix" in c.kind]
        assert shared
        assert all(count.cost == count.least for count in shared), shared


def test_bytes_through_tma() -> None:
    need("cxx")
    outcome = gemm(Kernel("gemm_sm90a.cu", "sm_90a"), (256, 256, 128), Mode(), blocks=1).outcome
    assert outcome.bulk_loaded == 2 * 2 * (128 + 256) * 64 * 2
    assert outcome.bulk_stored == 256 * 256 * 2


def cycles(stages: int, rates: Rates) -> tuple[int, int]:
    kernel = Kernel("gemm_sm90a.cu", "sm_90a", (("STAGES", stages),))
    result = gemm(kernel, (256, 256, 1024), Mode(rates=rates), blocks=1)
    assert result.error < 8e-3 and result.outcome.clean, str(result.outcome)
    return result.outcome.cycles, result.outcome.tensor_cycles


def test_virtual_time_ranks_depths() -> None:
    """Deeper rings hide more latency, and nothing beats the tensor core's own time."""
    need("cxx")
    rates = Rates(copy_latency=1000, copy_bytes=400)
    times = [cycles(stages, rates) for stages in (2, 3, 4)]
    busy = 256 * 256 * 1024 / rates.mma_f16
    assert [tensor for _, tensor in times] == [busy] * 3
    assert times[0][0] > times[1][0] > times[2][0] > busy


def test_virtual_time_follows_the_numbers() -> None:
    need("cxx")
    slow, fast = cycles(4, Rates(copy_bytes=20)), cycles(4, Rates(copy_bytes=80))
    assert slow[0] > 2 * fast[0]
    assert slow[0] >= 2 * 16 * 49152 / 20
    assert cycles(4, Rates())[0] == cycles(4, Rates())[0]


def test_rates_come_from_a_machine_file() -> None:
    numbers = {key: float(i) for i, key in enumerate(KEYS.values())}
    rates = Rates.of(numbers.__getitem__)
    assert (rates.copy_latency, rates.exp) == (0.0, 11.0)
    assert "copy_latency 0" in rates.assumptions()
    assert "no prediction" in rates.assumptions()
    assert Rates.of(load_product("h100").__getitem__) == Rates()
