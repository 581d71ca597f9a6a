// C[m, n] = sum over k of A[m, k] * B[n, k]; bf16, f32 sums. Two blocks of a cluster compute 128 x
// 256 each, one below the other: each loads its own tile of A and one half of their common tile of
// B, which goes to both by multicast. A slot is empty when the consumers of both blocks have done
// it. Layouts as in gemm_sm90a.cu.
#include "device.cuh"

#ifndef STAGES
#define STAGES 3
#endif
enum {
  BM = 128,
  BN = 256,
  BK = 64,
  A_BYTES = BM * BK * 2,
  B_BYTES = BN * BK * 2,
  STAGE_BYTES = A_BYTES + B_BYTES,
  PANEL_BYTES = 64 * 128,
  STAGING = STAGES * STAGE_BYTES,  // four panels a consumer
  FULL = STAGING + 8 * PANEL_BYTES,
  EMPTY = FULL + 8 * STAGES,
  SHARED_BYTES = EMPTY + 8 * STAGES
};
TC_DEV u64 descriptor(u32 address) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
TC_DEV void name_objects(u32 base) {
  for (int s = 0; s < STAGES; s++) {
    tc_note_name(base + s * STAGE_BYTES, A_BYTES, "A", s);
    tc_note_name(base + s * STAGE_BYTES + A_BYTES, B_BYTES, "B", s);
    tc_note_name(base + FULL + 8 * s, 8, "full", s);
    tc_note_name(base + EMPTY + 8 * s, 8, "empty", s);
  }
  for (int w = 0; w < 2; w++)
    tc_note_name(base + STAGING + w * 4 * PANEL_BYTES, 4 * PANEL_BYTES, "staging", w);
}

TC_KERNEL(384, 1)
TC_CLUSTER(2, 1, 1)
gemm(TC_GRID_CONST CUtensorMap A, TC_GRID_CONST CUtensorMap B, TC_GRID_CONST CUtensorMap C, int m,
     int n, int depth) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem), rank = tc_cluster_rank();
  const int warp = tc_warp_uniform(threadIdx.x >> 5), lane = threadIdx.x & 31, group = warp >> 2;
  const int m0 = blockIdx.x * BM, n0 = blockIdx.y * BN, steps = (depth + BK - 1) / BK;

  name_objects(base);
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) {
      tc_mbar_init(base + FULL + 8 * s, 1);
      tc_mbar_init(base + EMPTY + 8 * s, 16);  // one arrival a consumer warp, of both blocks
    }
    tc_fence_mbar_init();
  }
  tc_cluster_sync();

  if (group == 0) {
    // ---- role load: one thread ----
    tc_note_role("load");
    tc_setmaxnreg_dec<40>();
    if (threadIdx.x == 0) {
      for (int k = 0; k < steps; k++) {
        const int slot = k % STAGES;
        const u32 stage = base + slot * STAGE_BYTES, full = base + FULL + 8 * slot;
        // put A; put this block's half of B, here and in the other block
        tc_mbar_wait(base + EMPTY + 8 * slot, (k / STAGES & 1) ^ 1);
        tc_mbar_arrive_expect_tx(full, STAGE_BYTES);
        tc_tma_load_2d(stage, &A, full, k * BK, m0);
        tc_tma_multicast_2d(stage + A_BYTES + rank * (B_BYTES / 2), &B, full, 3, k * BK,
                            n0 + rank * (BN / 2));
      }
    }
  } else {
    // ---- role consumer w: rows 64 w .. 64 w + 63 of the tile ----
    const int w = group - 1;
    tc_note_role("consumer", w);
    tc_setmaxnreg_inc<232>();
    const u32 staging = base + STAGING + w * 4 * PANEL_BYTES;
    const int row = (warp & 3) * 16 + (lane & 15);
    float d[BN / 2];
#pragma unroll
    for (int i = 0; i < BN / 2; i++) d[i] = 0.f;
    for (int k = 0; k < steps; k++) {
      const int slot = k % STAGES;
      // get A, B
      tc_mbar_wait(base + FULL + 8 * slot, k / STAGES & 1);
      const u32 a = base + slot * STAGE_BYTES + w * PANEL_BYTES;
      const u32 b = base + slot * STAGE_BYTES + A_BYTES;
      tc_wgmma_fence();
#pragma unroll
      for (int i = 0; i < BK / 16; i++)
        tc_wgmma_bf16<BN>(d, descriptor(a + i * 32), descriptor(b + i * 32), 1);
      tc_wgmma_commit();
      tc_wgmma_wait<0>();
      tc_tie(d);
      // done A, B: lanes 0 and 1 tell the two blocks
      if (lane < 2) tc_mbar_arrive_cluster(base + EMPTY + 8 * slot, lane);
    }
    // store C through four panels
#pragma unroll
    for (int i = 0; i < BN / 16; i++) {
      const int chunk = i % 4 * 2 + (lane >> 4), at = i * 8;
      tc_stmatrix_x4(staging + i / 4 * PANEL_BYTES + row * 128 + ((chunk ^ (row & 7)) << 4),
                     tc_pack_bf16(d[at], d[at + 1]), tc_pack_bf16(d[at + 2], d[at + 3]),
                     tc_pack_bf16(d[at + 4], d[at + 5]), tc_pack_bf16(d[at + 6], d[at + 7]));
    }
    tc_fence_proxy_async();
    if (w == 0) tc_bar_sync<1, 128>();
    else tc_bar_sync<2, 128>();
    if ((threadIdx.x & 127) == 0) {
      for (int p = 0; p < 4; p++)
        tc_tma_store_2d(&C, staging + p * PANEL_BYTES, n0 + p * 64, m0 + w * 64);
      tc_tma_store_commit();
      tc_tma_store_wait_read<0>();
    }
  }
  // a block must not end while the other may still write or signal here
  tc_cluster_sync();
}
