// gemm
#include "device.cuh"
#include "scalar.cuh"
#include "tile.cuh"

// Y
TC_KERNEL(384, 1) kernel_0(TC_GRID_CONST CUtensorMap map_A, TC_GRID_CONST CUtensorMap map_B, TC_GRID_CONST CUtensorMap map_Y, i64 extent_k, i64 extent_n, const float* b, i64 extent_m) {
  TC_DYN_SMEM(smem);
  const u32 shared = tc_smem_u32(smem);
  const int warp = tc_warp_uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
  const int group = warp / 4, warp_m = warp % 4;
  // from a shuffle, or ptxas would compute it again in every iteration
  const int thread = tc_shfl_idx(threadIdx.x % 128, lane);
  tct_name_ring(shared + 66560, 16384, 4, shared + 230400, "A_s");
  tct_name_ring(shared + 132096, 32768, 3, shared + 230464, "B_s");
  if (threadIdx.x == 0) {
    tct_init_ring(shared + 230400, 4, 1, 2);  // A_s
    tct_init_ring(shared + 230464, 3, 1, 2);  // B_s
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
          // put A_s[step] = A_s()
          tc_mbar_wait(shared + 230432 + 8 * ((before + step) % 4), ((before + step) / 4 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230400 + 8 * ((before + step) % 4), 16384);
          TCT_FOR(p, 1) tc_tma_load_2d(shared + 66560 + ((before + step) % 4) * 16384 + p * 16384, &map_A, shared + 230400 + 8 * ((before + step) % 4), (int)((i64)(step) * 64) + 64 * p, (int)(m0));
          // put B_s[step] = B_s()
          tc_mbar_wait(shared + 230488 + 8 * ((before + step) % 3), ((before + step) / 3 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230464 + 8 * ((before + step) % 3), 32768);
          TCT_FOR(p, 4) tc_tma_load_2d(shared + 132096 + ((before + step) % 3) * 32768 + p * 8192, &map_B, shared + 230464 + 8 * ((before + step) % 3), (int)(n0) + 64 * p, (int)((i64)(step) * 64));
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
        // get A_s[0]
        tc_mbar_wait(shared + 230400 + 8 * ((before + 0) % 4), ((before + 0) / 4 & 1));
        // get B_s[0]
        tc_mbar_wait(shared + 230464 + 8 * ((before + 0) % 3), ((before + 0) / 3 & 1));
        // turn mma
        if (member == 0) tc_bar_sync<1, 256>(); else tc_bar_sync<2, 256>();
        // c[0] = c(A_s[0], B_s[0], c[-1]) in flight on mma
        {
          const u32 a = tct_operand(shared + 8192 * member + 66560, 1) + ((before + 0) % 4) * 1024, b = tct_operand(shared + 132096, 512) + ((before + 0) % 3) * 2048;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_bf16<256, 0, 1>((float(&)[128])v_c[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 128), 1);
          tc_wgmma_commit();
        }
        // pass mma
        if (member == 0) tc_bar_arrive<2, 256>(); else tc_bar_arrive<1, 256>();
      }
      for (int step = 1; step < tiles; step++) {
        // get A_s[step]
        tc_mbar_wait(shared + 230400 + 8 * ((before + step) % 4), ((before + step) / 4 & 1));
        // get B_s[step]
        tc_mbar_wait(shared + 230464 + 8 * ((before + step) % 3), ((before + step) / 3 & 1));
        // turn mma
        if (member == 0) tc_bar_sync<1, 256>(); else tc_bar_sync<2, 256>();
        // c[step] = c(A_s[step], B_s[step], c[step - 1]) in flight on mma
        {
          const u32 a = tct_operand(shared + 8192 * member + 66560, 1) + ((before + step) % 4) * 1024, b = tct_operand(shared + 132096, 512) + ((before + step) % 3) * 2048;
          tc_wgmma_fence();
          TCT_FOR(s, 4) tc_wgmma_bf16<256, 0, 1>((float(&)[128])v_c[0], tct_descriptor(a + s * 2), tct_descriptor(b + s * 128), 1);
          tc_wgmma_commit();
        }
        // pass mma
        if (member == 0) tc_bar_arrive<2, 256>(); else tc_bar_arrive<1, 256>();
        // wait 1 on mma
        tc_wgmma_wait<1>();
        // done A_s[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + step - 1) % 4));
        // done B_s[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + step - 1) % 3));
      }
      // wait 0 on mma
      tc_wgmma_wait<0>();
      tc_tie((float(&)[128])v_c[0]);
      if (0 < tiles) {
        // done A_s[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230432 + 8 * ((before + tiles - 1) % 4));
        // done B_s[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230488 + 8 * ((before + tiles - 1) % 3));
      }
      // do store.Y(c[T - 1])
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(reg, 4) {
        const i64 n = n0 + 2 * (lane % 4) + (reg % 2) + 8 * j;
        v_c[i][j][reg] = n < extent_n ? (v_c[i][j][reg] + b[n]) : 0.0f;
      }
      if (member == 0) tc_bar_sync<4, 128>(); else tc_bar_sync<5, 128>();  // nobody still reads this memory
      TCT_FOR(i, 1) TCT_FOR(j, 32) TCT_FOR(half, 2)
        *(u32*)(smem + 0 + tct_byte<128, 128>((lane / 4) + 8 * half + 64 * member + 16 * warp_m, 4 * (lane % 4) + 16 * j)) = tc_pack_bf16(v_c[i][j][2 * half] * tcs_sigmoid_fast(v_c[i][j][2 * half]), v_c[i][j][2 * half + 1] * tcs_sigmoid_fast(v_c[i][j][2 * half + 1]));
      tc_fence_proxy_async();
      if (member == 0) tc_bar_sync<4, 128>(); else tc_bar_sync<5, 128>();
      // store Y[m, n] = Y2
      if (thread == 0) {
        TCT_FOR(p, 4) tc_tma_store_2d(&map_Y, shared + 0 + p * 16384 + 8192 * member, (int)(n0) + 64 * p, (int)(m0) + 64 * member);
        tc_tma_store_commit();
        tc_tma_store_wait_read<0>();
      }
      before += tiles;
    }
    if (member == 1) tc_bar_sync<2, 256>();
  }
}
