"""Each kind of report: told on every seed, naming object, role and place."""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.codegen.emulator import Emulator, Mode
from tensorc.codegen.emulator_report import Report
from tensorc.errors import KernelError
from tests.emulator.snippets import Argument, Map, Out, call, clean, told
from tests.requirements import has, need

OUT = Out((64,), np.uint32, 0)


def body(text: str, threads: int = 64) -> str:
    return f"""TC_KERNEL({threads}, 1) test(u32* out) {{
      TC_DYN_SMEM(smem);
      const u32 base = tc_smem_u32(smem);
      u32* box = (u32*)smem;
      const int t = threadIdx.x;
      {text}
    }}"""


CASES: dict[str, tuple[str, str]] = {
    "write-write race": (
        'tc_note_name(base, 256, "box"); box[t & 31] = t;',
        r"race: plain write writes box, not ordered after the write by thread",
    ),
    "write after read": (
        "box[t] = t; tc_syncthreads(); out[t] = box[63 - t]; box[t] = 0;",
        "race: plain write writes shared memory 0x400.., not ordered after the read by thread",
    ),
    "global race in a block": (
        "out[0] = t;",
        "race: plain write writes a global buffer of 256 bytes",
    ),
    "uninitialised shared memory": (
        "out[t] = box[t];",
        "uninitialised: plain read reads shared memory 0x400.., which nothing has written",
    ),
    "shared memory past the end": (
        "box[t + 20] = 1;",
        "bounds: plain write writes shared memory at byte",
    ),
    "global memory past the end": (
        "out[t + 1] = 1;",
        "bounds: plain write writes outside a global buffer of 256 bytes: 4 bytes at offset 256",
    ),
    "global memory before the start": (
        "out[t - 1] = 1;",
        "bounds: plain write writes outside a global buffer of 256 bytes: 4 bytes at offset -4",
    ),
    "no memory at all": (
        "*(volatile u32*)(u64)(t * 4) = 1;",
        "bounds: write of 4 bytes at address 0x",
    ),
    "misaligned access": (
        "*(volatile u32*)((u8*)out + 1 + 4 * (t & 1)) = 1;",
        "alignment: 4-byte write at an address that is 1 past a multiple of 4",
    ),
    "different barriers": (
        'tc_note_role(t < 32 ? "one" : "two"); if (t < 32) tc_bar_sync<1, 64>();',
        "deadlock: one waits for named barrier 1, where 32 of 64 threads have arrived (32 threads)",
    ),
    "different counts": (
        "if (t < 32) tc_bar_sync<1, 64>(); else tc_bar_sync<1, 32>();",
        "divergence: threads of one named barrier reached different calls",
    ),
    "impossible barrier": (
        "tc_bar_sync<1, 96>();",
        "barrier: named barrier 1 of 96 threads is impossible in a block of 64",
    ),
    "arrivals left over": (
        "if (t < 32) tc_bar_arrive<3, 64>();",
        "leftover: the block ended with 32 of 64 arrivals on named barrier 3",
    ),
    "diverging collectives": (
        "if (t & 1) out[t] = tc_shfl_xor(t, 1); else out[t] = tc_ballot(t);",
        "divergence: threads of one warp",
    ),
    "mbarrier never initialised": (
        'tc_note_name(base, 8, "full", 2); if (t == 0) tc_mbar_arrive(base);',
        "barrier: mbarrier.arrive on full[2], which is no initialised mbarrier",
    ),
    "mbarrier initialised twice": (
        "if (t == 0) { tc_mbar_init(base, 1); tc_mbar_init(base, 1); }",
        "barrier: mbarrier shared memory 0x400 is initialised twice",
    ),
    "mbarrier counted over": (
        """if (t == 0) { tc_mbar_init(base, 1); tc_mbar_expect_tx(base, 16); }
           tc_syncthreads();
           if (t == 0 || t == 32) tc_mbar_arrive(base);""",
        "barrier: more arrivals on mbarrier shared memory 0x400 than its count of 1",
    ),
    "mbarrier written over": (
        "if (t == 0) { tc_mbar_init(base, 1); box[1] = 0; }",
        "barrier: plain write writes over the live mbarrier shared memory 0x400",
    ),
    "mbarrier waited for in vain": (
        """tc_note_role("reader", 1); tc_note_name(base, 8, "ready");
           if (t == 0) { tc_mbar_init(base, 3); tc_mbar_arrive_expect_tx(base, 512); }
           tc_syncthreads(); tc_mbar_wait(base, 0);""",
        "deadlock: reader 1 waits for phase 0 (parity 0) of mbarrier ready, "
        "which misses 2 of 3 arrivals and 512 bytes (64 threads)",
    ),
    "arrival in the wrong phase": (
        """if (t == 0) tc_mbar_init(base, 32);
           tc_syncthreads(); tc_mbar_arrive(base);""",
        "barrier: an arrival on mbarrier shared memory 0x400 may be counted in the phase before",
    ),
    "pointer out of shared memory": (
        "out[t] = tc_smem_u32(out);",
        "bounds: tc_smem_u32 of a pointer that is not into the block's dynamic shared memory",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_report(name: str) -> None:
    need("cxx")
    text, expected = CASES[name]
    assert expected in told("sm_90a", body(text), [OUT], threads=64, shared=256 + 8)


def test_uninitialised_global_memory() -> None:
    need("cxx")
    text = "TC_KERNEL(32, 1) test(const u32* in, u32* out) { out[threadIdx.x] = in[threadIdx.x]; }"
    unset, out = Out((32,), np.uint32), Out((32,), np.uint32)
    reports = told("sm_80", text, [unset, out])
    assert "uninitialised: plain read reads a global buffer of 128 bytes" in reports


COPIED = """
TC_KERNEL(128, 1) test(const u32* in, float* out) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  for (int i = threadIdx.x; i < 256; i += 128) tc_cp_async16(base + i * 16, in + i * 4, 16);
  tc_cp_async_commit();
  tc_cp_async_wait<0>();
  FENCE
  tc_syncthreads();
  float d[4] = {0, 0, 0, 0};
  const u64 low = base >> 4 | 8 << 16 | (u64)16 << 32;
  tc_wgmma_fence();
  tc_wgmma_f16<8>(d, low, low, 1);
  tc_wgmma_commit();
  tc_wgmma_wait<0>();
  for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}
"""


def test_cp_async_writes_through_the_generic_proxy() -> None:
    """What cp.async has brought needs a proxy fence before wgmma may read it."""
    need("cxx")
    arguments: list[Argument] = [np.zeros(1024, np.uint32), Out((512,))]
    launch: dict[str, int] = {"threads": 128, "shared": 4096}
    reports = told("sm_90a", COPIED.replace("FENCE", ""), arguments, **launch)
    assert "proxy: wgmma reads shared memory 0x400.., written by cp.async" in reports
    clean("sm_90a", COPIED.replace("FENCE", "tc_fence_proxy_async();"), arguments, **launch)


def test_a_report_names_its_place_and_the_other_one() -> None:
    need("cxx")
    need("addr2line")
    text = """
    TC_KERNEL(32, 1) test(const u32* in, u32* out) {
      TC_DYN_SMEM(smem);
      tc_note_role("copier");
      tc_cp_async4(tc_smem_u32(smem) + threadIdx.x * 4, in + threadIdx.x, 4);
      tc_syncwarp();
      tc_cp_async_commit();
      out[threadIdx.x] =
          ((u32*)smem)[threadIdx.x];
      tc_cp_async_wait<0>();
    }
    """
    arguments: list[Argument] = [np.zeros(32, np.uint32), Out((32,), np.uint32)]
    _, outcome = call("sm_80", text, arguments, shared=128, mode=Mode(seed=2))  # copies at once
    races = [report for report in outcome.reports if report.kind == "race"]
    report = next(report for report in races if report.text.startswith("plain read reads"))
    assert report.role == "copier"
    assert report.place == "test.cu:10"
    assert report.other == "test.cu:6"
    assert report.count > 16
    assert str(report).startswith("test.cu:10: race: plain read reads shared memory 0x400..")
    assert "(issued at test.cu:6)" in str(report)


def test_launch_raises_what_run_returns() -> None:
    need("cxx")
    device = Emulator("sm_80")
    image = device.compile('#include "device.cuh"\n' + body("out[0] = t;"), "test.cu")
    kernel = device.load(image).function("test")
    address = device.alloc(256)
    with pytest.raises(KernelError, match=r"(?s)R702: test on sm_80 .* race: plain write writes"):
        device.launch(kernel, (1, 1, 1), (64, 1, 1), 0, [np.uint64(address)])
    device.close()


def test_tensor_maps_are_checked() -> None:
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(TC_GRID_CONST CUtensorMap map, u32* out) {
      TC_DYN_SMEM(smem);
      const u32 base = tc_smem_u32(smem), bar = base + 1024;
      if (threadIdx.x == 0) {
        tc_mbar_init(bar, 1);
        tc_fence_mbar_init();
        tc_mbar_arrive_expect_tx(bar, 128);
        LOAD
      }
    }
    """
    arguments: list[Argument] = [Map(1, (32,)), Out((64,), np.float32, 0)]
    rank = text.replace("LOAD", "tc_tma_load_2d(base, &map, bar, 0, 0);")
    assert "the map has another rank" in told("sm_90a", rank, arguments, shared=1040)
    odd = text.replace("LOAD", "tc_tma_load_1d(base + 64, &map, bar, 0);")
    assert "alignment: TMA load: shared address" in told("sm_90a", odd, arguments, shared=1040)


def test_reports_print_one_line_each() -> None:
    report = Report("race", "text", "load", "k.cu:3", "", (1, 0, 0), (5, 0, 0), 10, 2)
    assert str(report) == "k.cu:3: race: text [block (1, 0, 0), load, 2 times]"


def test_has_knows_modules() -> None:
    assert has("numpy") and not has("no_such_module")
