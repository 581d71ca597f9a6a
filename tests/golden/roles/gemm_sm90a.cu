// gemm
#include "device.cuh"
#include "scalar.cuh"
#include "tile.cuh"

// gemm
TC_KERNEL(384, 1) kernel_0(TC_GRID_CONST CUtensorMap map_a, TC_GRID_CONST CUtensorMap map_w, TC_GRID_CONST CUtensorMap map_o, i64 extent_k, i64 extent_m, i64 extent_n) {
  TC_DYN_SMEM(smem);
  const u32 shared = tc_smem_u32(smem);
  const int warp = tc_warp_uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
  const int group = warp / 4, warp_m = warp % 4;
  // from a shuffle, or ptxas would compute it again in every iteration
  const int thread = tc_shfl_idx(threadIdx.x % 128, lane);
  for (int n = 0; n < 4; n++) {
    tc_note_name(shared + 66560 + n * 16384, 16384, "A", n);
    tc_note_name(shared + 230400 + 8 * n, 8, "full A", n);
    tc_note_name(shared + 230432 + 8 * n, 8, "empty A", n);
  }
  for (int n = 0; n < 3; n++) {
    tc_note_name(shared + 132096 + n * 32768, 32768, "B", n);
    tc_note_name(shared + 230464 + 8 * n, 8, "full B", n);
    tc_note_name(shared + 230488 + 8 * n, 8, "empty B", n);
  }
  if (threadIdx.x == 0) {
    for (int n = 0; n < 4; n++) tc_mbar_init(shared + 230400 + 8 * n, 1);
    for (int n = 0; n < 4; n++) tc_mbar_init(shared + 230432 + 8 * n, 2);
    for (int n = 0; n < 3; n++) tc_mbar_init(shared + 230464 + 8 * n, 1);
    for (int n = 0; n < 3; n++) tc_mbar_init(shared + 230488 + 8 * n, 2);
    tc_fence_mbar_init();
  }
  tc_syncthreads();
  const u32 blocks_m = (u32)((extent_m + 127) / 128);
  const u32 blocks_n = (u32)((extent_n + 255) / 256);
  const u32 blocks = blocks_m * blocks_n;
  if (group < 1) {
    // ---- role load ----
    tc_note_role("load");
    if (thread == 0) {
      u32 before = 0, round = 0;
      for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {
        u32 rest = block;
        const i64 n0 = (i64)(rest % blocks_n) * 256;
        rest /= blocks_n;
        const i64 m0 = (i64)rest * 128;
        const int tiles = tct_tiles(0ll, extent_k, 64);
        for (int step = 0; step < tiles; step++) {
          // put A[step] = A()
          tc_mbar_wait(shared + 230432 + 8 * ((before + step) % 4), ((before + step) / 4 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230400 + 8 * ((before + step) % 4), 16384);
          TCT_FOR(p, 1) tc_tma_load_2d(shared + 66560 + ((before + step) % 4) * 16384 + p * 16384, &map_a, shared + 230400 + 8 * ((before + step) % 4), (int)((i64)(step) * 64) + 64 * p, (int)(m0));
          // put B[step] = B()
          tc_mbar_wait(shared + 230488 + 8 * ((before + step) % 3), ((before + step) / 3 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230464 + 8 * ((before + step) % 3), 32768);
          TCT_FOR(p, 1) tc_tma_load_2d(shared + 132096 + ((before + step) % 3) * 32768 + p * 32768, &map_w, shared + 230464 + 8 * ((before + step) % 3), (int)((i64)(step) * 64) + 64 * p, (int)(n0));
        }
        before += tiles;
      }
    }
  } else {
    // ---- role consumer0, consumer1 ----
    const int member = group - 1;
    tc_note_role(member == 0 ? "consumer0" : "consumer1");
    float v_c[1][32][4];
    if (member == 0) tc_bar_arrive<2, 256>();
    u32 before = 0, round = 0;
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {
      u32 rest = block;
      const i64 n0 = (i64)(rest % blocks_n) * 256;
      rest /= blocks_n;
      const i64 m0 = (i64)rest * 128;
      const int tiles = tct_tiles(0ll, extent_k, 64);
      // c[-1] = start()
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(reg, 4) v_c[i][j][reg] = 0.0f;
      tc_tie((float(&)[128])v_c[0]);
      if (0 < tiles) {
        // get A[0]
        tc_mbar_wait(shared + 230400 + 8 * ((before + 0) % 4), ((before + 0) / 4 & 1));
        // get B[0]
        tc_mbar_wait(shared + 230464 + 8 * ((before + 0) % 3), ((before + 0) / 3 & 1));
        // turn mma
        if (member == 0) tc_bar_sync<1, 256>(); else tc_bar_sync<2, 256>();
        // c[0] = c(A[0], B[0], c[-1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1) + ((before + 0) % 3) * 2048;
          const u32 a = tct_operand(shared + 8192 * member + 66560, 1) + ((before + 0) % 4) * 1024;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_f16<256, 0, 0>((float(&)[128])v_c[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 2), 1);
          tc_wgmma_commit();
        }
        // pass mma
        if (member == 0) tc_bar_arrive<2, 256>(); else tc_bar_arrive<1, 256>();
      }
      for (int step = 1; step < tiles; step++) {
        // get A[step]
        tc_mbar_wait(shared + 230400 + 8 * ((before + step) % 4), ((before + step) / 4 & 1));
        // get B[step]
        tc_mbar_wait(shared + 230464 + 8 * ((before + step) % 3), ((before + step) / 3 & 1));
        // turn mma
        if (member == 0) tc_bar_sync<1, 256>(); else tc_bar_sync<2, 256>();
        // c[step] = c(A[step], B[step], c[step - 1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1) + ((before + step) % 3) * 2048;
          const u32 a = tct_operand(shared + 8192 * member + 66560, 1) + ((before + step) % 4) * 1024;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_f16<256, 0, 0>((float(&)[128])v_c[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 2), 1);
          tc_wgmma_commit();
        }
        // pass mma
        if (member == 0) tc_bar_arrive<2, 256>(); else tc_bar_arrive<1, 256>();
        // wait 1 on mma
        tc_wgmma_wait<1>();
        // done A[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + step - 1) % 4));
        // done B[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + step - 1) % 3));
      }
      // wait 0 on mma
      tc_wgmma_wait<0>();
      tc_tie((float(&)[128])v_c[0]);
      if (0 < tiles) {
        // done A[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + tiles - 1) % 4));
        // done B[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + tiles - 1) % 3));
      }
      // do store.o(c[T - 1])
      if (member == 0) tc_bar_sync<4, 128>(); else tc_bar_sync<5, 128>();  // nobody still reads this memory
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(reg, 4) {
        const i64 m = m0 + (lane / 4) + 8 * (reg / 2) + 64 * member + 16 * warp_m;
        const i64 n = n0 + 2 * (lane % 4) + (reg % 2) + 8 * j;
        *(u16*)(smem + 0 + tct_byte<128, 128>((lane / 4) + 8 * (reg / 2) + 64 * member + 16 * warp_m, 4 * (lane % 4) + 2 * (reg % 2) + 16 * j)) = tc_to_f16(v_c[i][j][reg]);
      }
      tc_fence_proxy_async();
      if (member == 0) tc_bar_sync<4, 128>(); else tc_bar_sync<5, 128>();
      // store o[m, n] = O
      if (thread == 0) {
        TCT_FOR(p, 4) tc_tma_store_2d(&map_o, shared + 0 + p * 16384 + 8192 * member, (int)(n0) + 64 * p, (int)(m0) + 64 * member);
        tc_tma_store_commit();
        tc_tma_store_wait_read<0>();
      }
      before += tiles;
    }
    if (member == 1) tc_bar_sync<2, 256>();
  }
}
