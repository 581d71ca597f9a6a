// gemm
#include "device.cuh"
#include "scalar.cuh"
#include "tile.cuh"

// gemm
TC_KERNEL(384, 1) kernel_0(TC_GRID_CONST CUtensorMap map_a, TC_GRID_CONST CUtensorMap map_w, TC_GRID_CONST CUtensorMap map_o, i64 extent_k, i64 extent_m, i64 extent_n) {
  TC_DYN_SMEM(smem);
  const u32 shared = tc_smem_u32(smem);
  const int warp = tc_warp_uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
  const int group = warp / 4, warp_m = warp % 4, thread = threadIdx.x % 128;
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
  if (group == 0) {
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
  } else if (group == 1) {
    // ---- role consumer0 ----
    tc_note_role("consumer0");
    float v_c0[1][32][4];
    tc_bar_arrive<2, 256>();
    u32 before = 0, round = 0;
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {
      u32 rest = block;
      const i64 n0 = (i64)(rest % blocks_n) * 256;
      rest /= blocks_n;
      const i64 m0 = (i64)rest * 128;
      const int tiles = tct_tiles(0ll, extent_k, 64);
      // c.0[-1] = start()
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(reg, 4) v_c0[i][j][reg] = 0.0f;
      tc_tie((float(&)[128])v_c0[0]);
      if (0 < tiles) {
        // get A[0]
        tc_mbar_wait(shared + 230400 + 8 * ((before + 0) % 4), ((before + 0) / 4 & 1));
        // get B[0]
        tc_mbar_wait(shared + 230464 + 8 * ((before + 0) % 3), ((before + 0) / 3 & 1));
        // turn mma.consumer0
        tc_bar_sync<1, 256>();
        // c.0[0] = c.0(A[0], B[0], c.0[-1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1) + ((before + 0) % 3) * 2048;
          const u32 a = tct_operand(shared + 66560, 1) + ((before + 0) % 4) * 1024;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_f16<256, 0, 0>((float(&)[128])v_c0[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 2), 1);
          tc_wgmma_commit();
        }
        // pass mma.consumer1
        tc_bar_arrive<2, 256>();
      }
      for (int step = 1; step < tiles; step++) {
        // get A[step]
        tc_mbar_wait(shared + 230400 + 8 * ((before + step) % 4), ((before + step) / 4 & 1));
        // get B[step]
        tc_mbar_wait(shared + 230464 + 8 * ((before + step) % 3), ((before + step) / 3 & 1));
        // turn mma.consumer0
        tc_bar_sync<1, 256>();
        // c.0[step] = c.0(A[step], B[step], c.0[step - 1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1) + ((before + step) % 3) * 2048;
          const u32 a = tct_operand(shared + 66560, 1) + ((before + step) % 4) * 1024;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_f16<256, 0, 0>((float(&)[128])v_c0[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 2), 1);
          tc_wgmma_commit();
        }
        // pass mma.consumer1
        tc_bar_arrive<2, 256>();
        // wait 1 on mma
        tc_wgmma_wait<1>();
        // done A[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + step - 1) % 4));
        // done B[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + step - 1) % 3));
      }
      // wait 0 on mma
      tc_wgmma_wait<0>();
      tc_tie((float(&)[128])v_c0[0]);
      if (0 < tiles) {
        // done A[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + tiles - 1) % 4));
        // done B[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + tiles - 1) % 3));
      }
      // do store.o.0(c.0[T - 1])
      tc_bar_sync<4, 128>();  // nobody still reads this memory
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(reg, 4) {
        const i64 m = m0 + (lane / 4) + 8 * (reg / 2) + 16 * warp_m;
        const i64 n = n0 + 2 * (lane % 4) + (reg % 2) + 8 * j;
        *(u16*)(smem + 0 + tct_byte<128, 128>((lane / 4) + 8 * (reg / 2) + 16 * warp_m, 4 * (lane % 4) + 2 * (reg % 2) + 16 * j)) = tc_to_f16(v_c0[i][j][reg]);
      }
      tc_fence_proxy_async();
      tc_bar_sync<4, 128>();
      // store o[m, n] = O
      if (thread == 0) {
        TCT_FOR(p, 4) tc_tma_store_2d(&map_o, shared + 0 + p * 16384, (int)(n0) + 64 * p, (int)(m0));
        tc_tma_store_commit();
        tc_tma_store_wait_read<0>();
      }
      before += tiles;
    }
  } else {
    // ---- role consumer1 ----
    tc_note_role("consumer1");
    float v_c1[1][32][4];
    u32 before = 0, round = 0;
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {
      u32 rest = block;
      const i64 n0 = (i64)(rest % blocks_n) * 256;
      rest /= blocks_n;
      const i64 m0 = (i64)rest * 128;
      const int tiles = tct_tiles(0ll, extent_k, 64);
      // c.1[-1] = start()
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(reg, 4) v_c1[i][j][reg] = 0.0f;
      tc_tie((float(&)[128])v_c1[0]);
      if (0 < tiles) {
        // get A[0]
        tc_mbar_wait(shared + 230400 + 8 * ((before + 0) % 4), ((before + 0) / 4 & 1));
        // get B[0]
        tc_mbar_wait(shared + 230464 + 8 * ((before + 0) % 3), ((before + 0) / 3 & 1));
        // turn mma.consumer1
        tc_bar_sync<2, 256>();
        // c.1[0] = c.1(A[0], B[0], c.1[-1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1) + ((before + 0) % 3) * 2048;
          const u32 a = tct_operand(shared + 74752, 1) + ((before + 0) % 4) * 1024;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_f16<256, 0, 0>((float(&)[128])v_c1[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 2), 1);
          tc_wgmma_commit();
        }
        // pass mma.consumer0
        tc_bar_arrive<1, 256>();
      }
      for (int step = 1; step < tiles; step++) {
        // get A[step]
        tc_mbar_wait(shared + 230400 + 8 * ((before + step) % 4), ((before + step) / 4 & 1));
        // get B[step]
        tc_mbar_wait(shared + 230464 + 8 * ((before + step) % 3), ((before + step) / 3 & 1));
        // turn mma.consumer1
        tc_bar_sync<2, 256>();
        // c.1[step] = c.1(A[step], B[step], c.1[step - 1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1) + ((before + step) % 3) * 2048;
          const u32 a = tct_operand(shared + 74752, 1) + ((before + step) % 4) * 1024;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_f16<256, 0, 0>((float(&)[128])v_c1[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 2), 1);
          tc_wgmma_commit();
        }
        // pass mma.consumer0
        tc_bar_arrive<1, 256>();
        // wait 1 on mma
        tc_wgmma_wait<1>();
        // done A[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + step - 1) % 4));
        // done B[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + step - 1) % 3));
      }
      // wait 0 on mma
      tc_wgmma_wait<0>();
      tc_tie((float(&)[128])v_c1[0]);
      if (0 < tiles) {
        // done A[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + tiles - 1) % 4));
        // done B[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + tiles - 1) % 3));
      }
      // do store.o.1(c.1[T - 1])
      tc_bar_sync<5, 128>();  // nobody still reads this memory
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(reg, 4) {
        const i64 m = m0 + (lane / 4) + 8 * (reg / 2) + 16 * warp_m + 64;
        const i64 n = n0 + 2 * (lane % 4) + (reg % 2) + 8 * j;
        *(u16*)(smem + 0 + tct_byte<128, 128>((lane / 4) + 8 * (reg / 2) + 16 * warp_m + 64, 4 * (lane % 4) + 2 * (reg % 2) + 16 * j)) = tc_to_f16(v_c1[i][j][reg]);
      }
      tc_fence_proxy_async();
      tc_bar_sync<5, 128>();
      // store o[m, n] = O
      if (thread == 0) {
        TCT_FOR(p, 4) tc_tma_store_2d(&map_o, shared + 0 + p * 16384 + 8192, (int)(n0) + 64 * p, (int)(m0) + 64);
        tc_tma_store_commit();
        tc_tma_store_wait_read<0>();
      }
      before += tiles;
    }
    tc_bar_sync<2, 256>();
  }
}
