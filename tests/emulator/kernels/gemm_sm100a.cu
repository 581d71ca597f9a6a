// C[m, n] = sum over k of A[m, k] * B[n, k]; bf16 in, f32 out, by tcgen05. One block computes 128 x
// 128: warp 0 loads, warp 1 multiplies into tensor memory, then all four warps store their quarter
// of the rows.
#include "device.cuh"

#ifndef STAGES
#define STAGES 2
#endif
enum {
  BM = 128,
  BN = 128,
  BK = 64,
  A_BYTES = BM * BK * 2,
  B_BYTES = BN * BK * 2,
  STAGE_BYTES = A_BYTES + B_BYTES,
  FULL = STAGES * STAGE_BYTES,
  EMPTY = FULL + 8 * STAGES,
  DONE = EMPTY + 8 * STAGES,
  TMEM = DONE + 8,
  SHARED_BYTES = TMEM + 8
};
// K-major operand in the 128-byte swizzle (layout 2, version 1): start / 16, 8-row groups 1024
// bytes apart
TC_DEV u64 descriptor(u32 address) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 46 |
         (u64)2 << 61;
}
TC_DEV void name_objects(u32 base) {
  for (int s = 0; s < STAGES; s++) {
    tc_note_name(base + s * STAGE_BYTES, A_BYTES, "A", s);
    tc_note_name(base + s * STAGE_BYTES + A_BYTES, B_BYTES, "B", s);
    tc_note_name(base + FULL + 8 * s, 8, "full", s);
    tc_note_name(base + EMPTY + 8 * s, 8, "empty", s);
  }
  tc_note_name(base + DONE, 8, "done");
  tc_note_name(base + TMEM, 4, "tensor memory address");
}

TC_KERNEL(128, 1)
gemm(TC_GRID_CONST CUtensorMap A, TC_GRID_CONST CUtensorMap B, float* C, int m, int n, int depth) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  const int warp = tc_warp_uniform(threadIdx.x >> 5), lane = threadIdx.x & 31;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, steps = (depth + BK - 1) / BK;
  name_objects(base);
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      tc_mbar_init(base + FULL + 8 * s, 1);
      tc_mbar_init(base + EMPTY + 8 * s, 1);
    }
    tc_mbar_init(base + DONE, 1);
    tc_fence_mbar_init();
  }
  if (warp == 1) {
    tc_tmem_alloc(base + TMEM, BN);
    tc_tmem_relinquish();
  }
  tc_tcgen05_fence_before();
  tc_syncthreads();
  tc_tcgen05_fence_after();
  const u32 tmem = *(volatile u32*)(smem + TMEM);

  if (warp == 0) {
    // ---- role load: one thread ----
    tc_note_role("load");
    if (tc_elect()) {
      for (int k = 0; k < steps; k++) {
        const int slot = k % STAGES;
        const u32 stage = base + slot * STAGE_BYTES, full = base + FULL + 8 * slot;
        // put A, B
        tc_mbar_wait(base + EMPTY + 8 * slot, (k / STAGES & 1) ^ 1);
        tc_mbar_arrive_expect_tx(full, STAGE_BYTES);
        tc_tma_load_2d(stage, &A, full, k * BK, m0);
        tc_tma_load_2d(stage + A_BYTES, &B, full, k * BK, n0);
      }
    }
  } else if (warp == 1) {
    // ---- role multiply: one thread ----
    tc_note_role("multiply");
    if (tc_elect()) {
      const u32 instruction =
          1u << 4 | 1u << 7 | 1u << 10 | BN / 8 << 17 | BM / 16 << 24;  // f32 = bf16 bf16
      for (int k = 0; k < steps; k++) {
        const int slot = k % STAGES;
        const u32 a = base + slot * STAGE_BYTES, b = a + A_BYTES;
        // get A, B
        tc_mbar_wait(base + FULL + 8 * slot, k / STAGES & 1);
        tc_tcgen05_fence_after();
        for (int i = 0; i < BK / 16; i++)
          tc_umma_f16(tmem, descriptor(a + i * 32), descriptor(b + i * 32), instruction,
                      (k | i) != 0);
        // done A, B, when these products are
        tc_umma_commit(base + EMPTY + 8 * slot);
      }
      tc_umma_commit(base + DONE);
    }
  }
  tc_syncwarp();

  // ---- store: warp w has rows 32 w .. 32 w + 31 ----
  tc_note_role("store");
  tc_mbar_wait(base + DONE, 0);
  tc_tcgen05_fence_after();
  const int row = m0 + warp * 32 + lane;
  for (int column = 0; column < BN; column += 32) {
    u32 r[32];
    tc_tmem_load<32>(r, tmem + ((u32)(warp * 32) << 16) + column);
    tc_tmem_wait_load();
#pragma unroll
    for (int i = 0; i < 32; i++)
      if (row < m && n0 + column + i < n) C[(u64)row * n + n0 + column + i] = tc_bits_f32(r[i]);
  }
  tc_tcgen05_fence_before();
  tc_syncthreads();
  if (warp == 1) {
    tc_tcgen05_fence_after();
    tc_tmem_dealloc(tmem, BN);
  }
}
