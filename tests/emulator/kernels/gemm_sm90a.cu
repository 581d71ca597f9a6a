// C[m, n] = sum over k of A[m, k] * B[n, k]; bf16, f32 sums. Persistent: a block takes output tiles
// of 128 x 256, gridDim.x apart. Warp group 0 loads (one thread), warp groups 1 and 2 compute 64 x
// 256 each. Every tile in shared memory is made of panels 64 columns wide in the 128-byte swizzle.
#include "device.cuh"

#ifndef STAGES
#define STAGES 4
#endif
enum {
  BM = 128,
  BN = 256,
  BK = 64,
  A_BYTES = BM * BK * 2,
  B_BYTES = BN * BK * 2,
  STAGE_BYTES = A_BYTES + B_BYTES,
  PANEL_BYTES = 64 * 128,          // 64 rows of C, 64 columns
  STAGING = STAGES * STAGE_BYTES,  // two panels a consumer
  FULL = STAGING + 4 * PANEL_BYTES,
  EMPTY = FULL + 8 * STAGES,
  SHARED_BYTES = EMPTY + 8 * STAGES
};

// K-major operand in the 128-byte swizzle: start / 16, 8-row groups 1024 bytes apart
TC_DEV u64 descriptor(u32 address) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
// slot and phase of a ring's next stage
struct Ring {
  int slot;
  u32 phase;
  TC_DEV_MEMBER void next() {
    if (++slot == STAGES) {
      slot = 0;
      phase ^= 1;
    }
  }
};
// named barrier 1 + w: the 128 threads of consumer w
TC_DEV void sync_group(int w) {
  if (w == 0) tc_bar_sync<1, 128>();
  else tc_bar_sync<2, 128>();
}
TC_DEV void name_objects(u32 base) {
  for (int s = 0; s < STAGES; s++) {
    tc_note_name(base + s * STAGE_BYTES, A_BYTES, "A", s);
    tc_note_name(base + s * STAGE_BYTES + A_BYTES, B_BYTES, "B", s);
    tc_note_name(base + FULL + 8 * s, 8, "full", s);
    tc_note_name(base + EMPTY + 8 * s, 8, "empty", s);
  }
  for (int w = 0; w < 2; w++)
    tc_note_name(base + STAGING + w * 2 * PANEL_BYTES, 2 * PANEL_BYTES, "staging", w);
}

TC_KERNEL(384, 1)
gemm(TC_GRID_CONST CUtensorMap A, TC_GRID_CONST CUtensorMap B, TC_GRID_CONST CUtensorMap C, int m,
     int n, int depth) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  const int warp = tc_warp_uniform(threadIdx.x >> 5), lane = threadIdx.x & 31, group = warp >> 2;
  const int across = (n + BN - 1) / BN, total = (m + BM - 1) / BM * across,
            steps = (depth + BK - 1) / BK;

  name_objects(base);
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      tc_mbar_init(base + FULL + 8 * s, 1);
      tc_mbar_init(base + EMPTY + 8 * s, 8);  // one arrival a consumer warp
    }
    tc_fence_mbar_init();
  }
  tc_syncthreads();

  if (group == 0) {
    // ---- role load: one thread ----
    tc_note_role("load");
    tc_setmaxnreg_dec<40>();
    if (threadIdx.x == 0) {
      Ring ring = {0, 1};  // an empty slot's first wait falls through
      for (int t = blockIdx.x; t < total; t += gridDim.x)
        for (int k = 0; k < steps; k++) {
          const u32 stage = base + ring.slot * STAGE_BYTES, full = base + FULL + 8 * ring.slot;
          // put A, B
          tc_mbar_wait(base + EMPTY + 8 * ring.slot, ring.phase);
          tc_mbar_arrive_expect_tx(full, STAGE_BYTES);
          tc_tma_load_2d(stage, &A, full, k * BK, t / across * BM);
          tc_tma_load_2d(stage + A_BYTES, &B, full, k * BK, t % across * BN);
          ring.next();
        }
    }
  } else {
    // ---- role consumer w: rows 64 w .. 64 w + 63 of the tile ----
    const int w = group - 1;
    tc_note_role("consumer", w);
    tc_setmaxnreg_inc<232>();  // 40 * 128 + 232 * 256 <= 168 * 384
    const u32 staging = base + STAGING + w * 2 * PANEL_BYTES;
    const int row = (warp & 3) * 16 + (lane & 15);  // the row that this lane names to stmatrix
    float d[BN / 2];
    Ring ring = {0, 0};
    for (int t = blockIdx.x; t < total; t += gridDim.x) {
#pragma unroll
      for (int i = 0; i < BN / 2; i++) d[i] = 0.f;
      int before = -1;  // slot of the step before, still being read
      for (int k = 0; k < steps; k++) {
        // get A, B
        tc_mbar_wait(base + FULL + 8 * ring.slot, ring.phase);
        const u32 a = base + ring.slot * STAGE_BYTES + w * PANEL_BYTES,
                  b = base + ring.slot * STAGE_BYTES + A_BYTES;
        tc_wgmma_fence();
#pragma unroll
        for (int i = 0; i < BK / 16; i++)
          tc_wgmma_bf16<BN>(d, descriptor(a + i * 32), descriptor(b + i * 32), 1);
        tc_wgmma_commit();
        // done A, B of the step before
        tc_wgmma_wait<1>();
        if (before >= 0 && lane == 0) tc_mbar_arrive(base + EMPTY + 8 * before);
        before = ring.slot;
        ring.next();
      }
      tc_wgmma_wait<0>();
      tc_tie(d);
      if (lane == 0) tc_mbar_arrive(base + EMPTY + 8 * before);

      // store C, 128 columns at a time through two panels
#pragma unroll
      for (int half = 0; half < 2; half++) {
        if ((threadIdx.x & 127) == 0) tc_tma_store_wait_read<0>();
        sync_group(w);
#pragma unroll
        for (int i = 0; i < 8; i++) {
          const int chunk = i % 4 * 2 + (lane >> 4), at = half * 64 + i * 8;
          tc_stmatrix_x4(staging + i / 4 * PANEL_BYTES + row * 128 + ((chunk ^ (row & 7)) << 4),
                         tc_pack_bf16(d[at], d[at + 1]), tc_pack_bf16(d[at + 2], d[at + 3]),
                         tc_pack_bf16(d[at + 4], d[at + 5]), tc_pack_bf16(d[at + 6], d[at + 7]));
        }
        tc_fence_proxy_async();
        sync_group(w);
        if ((threadIdx.x & 127) == 0) {
          for (int p = 0; p < 2; p++)
            tc_tma_store_2d(&C, staging + p * PANEL_BYTES, t % across * BN + half * 128 + p * 64,
                            t / across * BM + w * 64);
          tc_tma_store_commit();
        }
      }
    }
    if ((threadIdx.x & 127) == 0) tc_tma_store_wait_read<0>();
  }
}
