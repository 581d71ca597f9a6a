"""Synchronisation: what the helpers order, and what they do not."""

from __future__ import annotations

import numpy as np
import pytest

from tensorc.codegen.emulator import Mode
from tests.emulator.snippets import Out, call, clean, told
from tests.requirements import need


def test_named_barriers_hand_over() -> None:
    need("cxx")
    text = """
    TC_KERNEL(64, 1) test(u32* out) {
      TC_DYN_SMEM(smem);
      u32* box = (u32*)smem;
      for (int i = 0; i < 5; i++) {
        if (threadIdx.x < 32) {
          if (i) tc_bar_sync<2, 64>();
          box[threadIdx.x] = i * 100 + threadIdx.x;
          tc_bar_arrive<1, 64>();
        } else {
          tc_bar_sync<1, 64>();
          out[i * 32 + threadIdx.x - 32] = box[threadIdx.x - 32];
          if (i < 4) tc_bar_arrive<2, 64>();
        }
      }
    }
    """
    (got,) = clean("sm_90a", text, [Out((5, 32), np.uint32)], threads=64, shared=128)
    np.testing.assert_array_equal(got, np.arange(5)[:, None] * 100 + np.arange(32))


def test_syncthreads_waits_for_the_threads_that_are_left() -> None:
    need("cxx")
    text = """
    TC_KERNEL(50, 1) test(u32* out) {
      TC_DYN_SMEM(smem);
      u32* box = (u32*)smem;
      if (threadIdx.x >= 40) return;
      box[threadIdx.x] = threadIdx.x;
      tc_syncthreads();
      out[threadIdx.x] = box[39 - threadIdx.x];
      if (threadIdx.x >= 20) return;
      tc_syncthreads();
      box[threadIdx.x + 20] = 1;
    }
    """
    (got,) = clean("sm_80", text, [Out((40,), np.uint32)], threads=50, shared=160)
    np.testing.assert_array_equal(got, 39 - np.arange(40))


def test_mbarriers_count_and_turn() -> None:
    need("cxx")
    text = """
    TC_KERNEL(64, 1) test(u32* out) {
      TC_DYN_SMEM(smem);
      const u32 full = tc_smem_u32(smem) + 128, empty = full + 8;
      u32* box = (u32*)smem;
      if (threadIdx.x == 0) {
        tc_mbar_init(full, 32);
        tc_mbar_init(empty, 1);
        tc_fence_mbar_init();
      }
      tc_syncthreads();
      for (int i = 0; i < 6; i++) {
        if (threadIdx.x < 32) {
          tc_mbar_wait(empty, (i & 1) ^ 1);
          box[threadIdx.x] = i * 100 + threadIdx.x;
          tc_mbar_arrive(full);
        } else {
          while (!tc_mbar_try_wait(full, i & 1)) {}
          out[i * 32 + threadIdx.x - 32] = box[threadIdx.x - 32];
          tc_syncwarp();
          if (threadIdx.x == 32) tc_mbar_arrive(empty);
        }
      }
      tc_syncthreads();
      if (threadIdx.x == 0) { tc_mbar_invalidate(full); tc_mbar_init(full, 1); }
    }
    """
    (got,) = clean("sm_90a", text, [Out((6, 32), np.uint32)], threads=64, shared=160)
    np.testing.assert_array_equal(got, np.arange(6)[:, None] * 100 + np.arange(32))


def test_a_wait_that_is_overtaken() -> None:
    """Nobody waits for warp 0, so it may see phase 1 complete before it has seen phase 0."""
    need("cxx")
    text = """
    TC_KERNEL(64, 1) test(u32* out) {
      TC_DYN_SMEM(smem);
      const u32 bar = tc_smem_u32(smem);
      if (threadIdx.x == 0) { tc_mbar_init(bar, 1); tc_fence_mbar_init(); }
      tc_syncthreads();
      if (threadIdx.x < 32) {
        tc_mbar_wait(bar, 0);
      } else {
        for (int i = 0; i < 3; i++) {
          if (threadIdx.x == 32) tc_mbar_arrive(bar);
          tc_mbar_wait(bar, i & 1);
          tc_syncwarp();
        }
      }
      out[threadIdx.x] = 1;
    }
    """
    reports = ""
    for seed in range(12):
        _, outcome = call(
            "sm_90a", text, [Out((64,), np.uint32)], threads=64, shared=8, mode=Mode(seed=seed)
        )
        reports += str(outcome)
    assert "barrier: a wait for phase 0 of mbarrier shared memory 0x400 was overtaken" in reports


def test_expected_bytes_may_come_apart() -> None:
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(const u32* in, u32* out) {
      TC_DYN_SMEM(smem);
      const u32 base = tc_smem_u32(smem), bar = base + 256;
      if (threadIdx.x == 0) {
        tc_mbar_init(bar, 1);
        tc_fence_mbar_init();
        tc_mbar_expect_tx(bar, 64);
        tc_bulk_load(base, in, 64, bar);
        tc_mbar_expect_tx(bar, 64);
        tc_bulk_load(base + 64, in + 16, 64, bar);
        tc_mbar_arrive(bar);
      }
      tc_syncwarp();
      tc_mbar_wait(bar, 0);
      out[threadIdx.x] = ((u32*)smem)[threadIdx.x];
    }
    """
    data = np.arange(32, dtype=np.uint32)
    (got,) = clean("sm_90a", text, [data, Out((32,), np.uint32)], shared=272)
    np.testing.assert_array_equal(got, data)


CLUSTER = """
TC_KERNEL(32, 1) TC_CLUSTER(2, 2, 1) test(u32* out, float* floats) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem), rank = tc_cluster_rank();
  const u32 next = (rank + 1) % tc_cluster_size();
  ((u32*)smem)[threadIdx.x] = 1000 * rank + threadIdx.x;
  if (threadIdx.x == 0) { tc_mbar_init(base + 256, 1); tc_fence_mbar_init(); }
  tc_cluster_arrive();
  tc_cluster_wait();
  const u32 there = tc_cluster_map(base + threadIdx.x * 4, next);
  const u32 value = tc_cluster_load(there);
  tc_cluster_store(tc_cluster_map(base + 128 + threadIdx.x * 4, next), value + 7);
  tc_syncwarp();
  if (threadIdx.x == 0) tc_mbar_arrive_cluster(base + 256, next);
  tc_mbar_wait(base + 256, 0);
  const int at = (blockIdx.y * gridDim.x + blockIdx.x) * 32 + threadIdx.x;
  out[at] = ((u32*)smem)[32 + threadIdx.x];
  tc_cluster_store_f32(there, 0.5f);
  tc_cluster_sync();
  floats[at] = tc_cluster_load_f32(base + threadIdx.x * 4) + rank;
}
"""


def test_clusters_share_memory() -> None:
    """Each block reads its neighbour's row and puts it, plus 7, into the neighbour's second one."""
    need("cxx")
    arguments = [Out((4, 4, 32), np.uint32), Out((4, 4, 32))]
    got, floats = clean("sm_90a", CLUSTER, arguments, shared=264, grid=(4, 4, 1))
    y, x = np.mgrid[0:4, 0:4]
    rank = (y % 2 * 2 + x % 2)[:, :, None]
    np.testing.assert_array_equal(got, 1000 * rank + np.arange(32) + 7)
    np.testing.assert_array_equal(floats, np.broadcast_to(rank + 0.5, (4, 4, 32)))


def test_cluster_faults() -> None:
    need("cxx")
    arguments = [Out((2, 2, 32), np.uint32), Out((2, 2, 32))]
    launch = {"shared": 264, "grid": (2, 2, 1)}
    early = CLUSTER.replace("  tc_cluster_arrive();\n  tc_cluster_wait();\n", "")
    assert "ld.shared::cluster reads shared memory" in told("sm_90a", early, arguments, **launch)
    late = CLUSTER.replace("  tc_cluster_sync();\n", "")
    assert "race: " in told("sm_90a", late, arguments, **launch)
    wrong = CLUSTER.replace(
        "tc_cluster_map(base + threadIdx.x * 4, next)", "tc_cluster_map(base, 4)"
    )
    assert "shared memory of block 4 of a cluster of 4" in told(
        "sm_90a", wrong, arguments, **launch
    )
    uneven = {"shared": 264, "grid": (3, 2, 1)}
    assert "launch: clusters of 2 x 2 x 1 blocks" in told("sm_90a", CLUSTER, arguments, **uneven)


SPLIT = """
TC_KERNEL(32, 1) test(const u32* in, u32* partial, u32* ticket, u32* out) {
  const int block = blockIdx.x;
  partial[block * 32 + threadIdx.x] = in[block * 32 + threadIdx.x];
  tc_fence_gpu();
  tc_syncwarp();
  u32 place = 0;
  if (threadIdx.x == 0) place = tc_atomic_add(ticket, 1);
  if (tc_shfl_idx(place, 0) != gridDim.x - 1) return;
  tc_syncwarp();
  u32 sum = 0;
  for (int b = 0; b < gridDim.x; b++) sum += partial[b * 32 + threadIdx.x];
  out[threadIdx.x] = sum;
}
"""


def test_the_last_block_sums() -> None:
    need("cxx")
    data = np.random.default_rng(0).integers(0, 1 << 20, (7, 32)).astype(np.uint32)
    zero, part = Out((1,), np.uint32, 0), Out((7, 32), np.uint32)
    for seed in range(4):
        got, outcome = call(
            "sm_80",
            SPLIT,
            [data, part, zero, Out((32,), np.uint32)],
            grid=(7, 1, 1),
            mode=Mode(seed=seed),
        )
        assert outcome.clean, str(outcome)
        np.testing.assert_array_equal(got[2], data.sum(0, dtype=np.uint32))


def test_blocks_race_without_acquire() -> None:
    need("cxx")
    data = np.zeros((7, 32), np.uint32)
    arguments = [data, Out((7, 32), np.uint32), Out((1,), np.uint32, 0), Out((32,), np.uint32)]
    relaxed = SPLIT.replace(
        "place = tc_atomic_add(ticket, 1)", "place = (*(volatile u32*)ticket)++"
    )
    reports = told("sm_80", relaxed, arguments, grid=(7, 1, 1))
    assert "race: plain" in reports and "(another cluster)" in reports


def test_a_block_waits_for_a_later_one() -> None:
    """Block 0 polls a flag that the last block sets: blocks that wait make room for others."""
    need("cxx")
    text = """
    TC_KERNEL(32, 1) test(u32* flag, u32* data, u32* out) {
      if (blockIdx.x == gridDim.x - 1) {
        data[threadIdx.x] = 5 + threadIdx.x;
        tc_syncwarp();
        if (threadIdx.x == 0) tc_store_release(flag, 1);
      } else {
        if (threadIdx.x == 0) while (tc_load_acquire(flag) == 0) {}
        tc_syncwarp();
        out[blockIdx.x * 32 + threadIdx.x] = data[threadIdx.x];
      }
    }
    """
    flag, data = Out((1,), np.uint32, 0), Out((32,), np.uint32)
    got = clean("sm_80", text, [flag, data, Out((3, 32), np.uint32)], grid=(4, 1, 1))[2]
    np.testing.assert_array_equal(got, np.broadcast_to(5 + np.arange(32), (3, 32)))
    never = text.replace("tc_store_release(flag, 1)", "tc_store_release(flag, 0)")
    reports = told("sm_80", never, [flag, data, Out((3, 32), np.uint32)], grid=(4, 1, 1))
    assert "a change of a flag in global memory that holds 0" in reports


@pytest.mark.parametrize(
    ("helper", "value", "expected"),
    [
        ("tc_atomic_add(word, 3)", 10, 10 + 3 * 64),
        ("tc_atomic_max(word, threadIdx.x)", 10, 31),
        ("tc_atomic_min(word, threadIdx.x + 4)", 10, 4),
        ("tc_atomic_exchange(word, 9)", 10, 9),
        ("tc_atomic_cas(word, 10, 11)", 10, 11),
        ("tc_reduce_add_u32(word, 2)", 1, 129),
        ("tc_reduce_add_f32((float*)word, 0.5f)", 0, np.float32(32).view(np.uint32)),
        ("tc_reduce_add_f16x2(word, 0x3c003800)", 0, 0x54005000),
        ("tc_reduce_add_bf16x2(word, 0x3f803f00)", 0, 0x42804200),
    ],
)
def test_atomics(helper: str, value: int, expected: int) -> None:
    need("cxx")
    text = f"TC_KERNEL(32, 1) test(u32* word) {{ {helper}; }}"
    (got,) = clean("sm_90a", text, [Out((1,), np.uint32, value)], grid=(2, 1, 1))
    assert got[0] == expected


def test_registers_move() -> None:
    need("cxx")
    text = """
    TC_KERNEL(256, 2) test(u32* out) {
      if (threadIdx.x < 128) tc_setmaxnreg_dec<40>(); else tc_setmaxnreg_inc<216>();
      out[threadIdx.x] = 1;
    }
    """
    out = Out((256,), np.uint32)
    assert clean("sm_90a", text, [out], threads=256)[0].all()
    much = text.replace("dec<40>", "dec<120>").replace("inc<216>", "inc<256>")
    reports = told("sm_90a", much, [out], threads=256)
    assert "setmaxnreg.inc to 256 registers; the pool has" in reports
    more = text.replace("dec<40>", "dec<136>")
    assert "registers: setmaxnreg.dec to 136" in told("sm_90a", more, [out], threads=256)
