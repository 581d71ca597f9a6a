// attention
#include "device.cuh"
#include "scalar.cuh"
#include "tile.cuh"

// o
TC_KERNEL(384, 1) kernel_0(TC_GRID_CONST CUtensorMap map_q, TC_GRID_CONST CUtensorMap map_k, TC_GRID_CONST CUtensorMap map_v, TC_GRID_CONST CUtensorMap map_o, i64 extent_n, i64 extent_b, i64 extent_h, i64 extent_m) {
  TC_DYN_SMEM(smem);
  const u32 shared = tc_smem_u32(smem);
  const int warp = tc_warp_uniform(threadIdx.x / 32), lane = threadIdx.x % 32;
  const int group = warp / 4, warp_m = warp % 4;
  // from a shuffle, or ptxas would compute it again in every iteration
  const int thread = tc_shfl_idx(threadIdx.x % 128, lane);
  tct_name_ring(shared + 33792, 32768, 3, shared + 230400, "K");
  tct_name_ring(shared + 132096, 32768, 3, shared + 230448, "V");
  tct_name_ring(shared + 0, 32768, 1, shared + 230496, "Q");
  if (threadIdx.x == 0) {
    tct_init_ring(shared + 230400, 3, 1, 2);  // K
    tct_init_ring(shared + 230448, 3, 1, 2);  // V
    tct_init_ring(shared + 230496, 1, 1, 2);  // Q
    tc_fence_mbar_init();
  }
  tc_syncthreads();
  const u32 blocks_b = (u32)(extent_b);
  const u32 blocks_h = (u32)(extent_h);
  const u32 blocks_m = (u32)((extent_m + 127) / 128);
  const u32 blocks = blocks_b * blocks_h * blocks_m;
  if (group < 1) {
    // ---- role load ----
    tc_note_role("load");
    tc_setmaxnreg_dec<24>();
    if (thread == 0) {
      u32 before = 0, round = 0;
      for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {
        u32 rest = block;
        const i64 m0 = (i64)(rest % blocks_m) * 128;
        rest /= blocks_m;
        const i64 h = (i64)(rest % blocks_h);
        rest /= blocks_h;
        const i64 b = (i64)rest;
        const int tiles = tct_tiles(0ll, extent_n, 128);
        // put Q = Q()
        tc_mbar_wait(shared + 230504 + 8 * 0, (round & 1) ^ 1);
        tc_mbar_arrive_expect_tx(shared + 230496 + 8 * 0, 32768);
        TCT_FOR(p, 2) tc_tma_load_4d(shared + 0 + 0 * 32768 + p * 16384, &map_q, shared + 230496 + 8 * 0, (int)(0) + 64 * p, (int)(m0), (int)(h), (int)(b));
        if (0 < tiles) {
          // put K[0] = K()
          tc_mbar_wait(shared + 230424 + 8 * ((before + 0) % 3), ((before + 0) / 3 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230400 + 8 * ((before + 0) % 3), 32768);
          TCT_FOR(p, 2) tc_tma_load_4d(shared + 33792 + ((before + 0) % 3) * 32768 + p * 16384, &map_k, shared + 230400 + 8 * ((before + 0) % 3), (int)(0) + 64 * p, (int)((i64)(0) * 128), (int)(h), (int)(b));
        }
        for (int step = 1; step < tiles; step++) {
          // put K[step] = K()
          tc_mbar_wait(shared + 230424 + 8 * ((before + step) % 3), ((before + step) / 3 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230400 + 8 * ((before + step) % 3), 32768);
          TCT_FOR(p, 2) tc_tma_load_4d(shared + 33792 + ((before + step) % 3) * 32768 + p * 16384, &map_k, shared + 230400 + 8 * ((before + step) % 3), (int)(0) + 64 * p, (int)((i64)(step) * 128), (int)(h), (int)(b));
          // put V[step - 1] = V()
          tc_mbar_wait(shared + 230472 + 8 * ((before + step - 1) % 3), ((before + step - 1) / 3 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230448 + 8 * ((before + step - 1) % 3), 32768);
          TCT_FOR(p, 2) tc_tma_load_4d(shared + 132096 + ((before + step - 1) % 3) * 32768 + p * 16384, &map_v, shared + 230448 + 8 * ((before + step - 1) % 3), (int)(0) + 64 * p, (int)((i64)(step - 1) * 128), (int)(h), (int)(b));
        }
        if (0 < tiles) {
          // put V[T - 1] = V()
          tc_mbar_wait(shared + 230472 + 8 * ((before + tiles - 1) % 3), ((before + tiles - 1) / 3 & 1) ^ 1);
          tc_mbar_arrive_expect_tx(shared + 230448 + 8 * ((before + tiles - 1) % 3), 32768);
          TCT_FOR(p, 2) tc_tma_load_4d(shared + 132096 + ((before + tiles - 1) % 3) * 32768 + p * 16384, &map_v, shared + 230448 + 8 * ((before + tiles - 1) % 3), (int)(0) + 64 * p, (int)((i64)(tiles - 1) * 128), (int)(h), (int)(b));
        }
        before += tiles;
      }
    }
  } else {
    // ---- role consumer0, consumer1 ----
    const int member = group - 1;
    tc_note_role(member == 0 ? "consumer0" : "consumer1");
    tc_setmaxnreg_inc<240>();
    float v_r1[1][2], v_s1[1][16][4], v_s2[1][2], v_x[1][2], v_s12[1][16][4];
    float v_s[1][16][4], v_x1[1][2], v_x4[1][2], v_x5[1][16][4];
    u32 v_P[8][1][4];
    if (member == 1) tc_bar_arrive<1, 256>();
    u32 before = 0, round = 0;
    for (u32 block = blockIdx.x; block < blocks; block += gridDim.x, round++) {
      u32 rest = block;
      const i64 m0 = (i64)(rest % blocks_m) * 128;
      rest /= blocks_m;
      const i64 h = (i64)(rest % blocks_h);
      rest /= blocks_h;
      const i64 b = (i64)rest;
      const int tiles = tct_tiles(0ll, extent_n, 128);
      const int full = tct_full(0ll, extent_n, 128);
      const auto do_r1 = [&](int at) {
        TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(reg, 4) v_s[i][j][reg] = v_s12[i][j][reg];
        if (!(at < full)) {
          TCT_FOR(i, 1) TCT_FOR(half, 2) {
            const int end = tct_limit(extent_n - ((i64)(at) * 128) - 2 * (lane % 4));
            TCT_FOR(j, 16) TCT_FOR(side, 2)
              if (side + 8 * j >= end) v_s[i][j][2 * half + side] = tc_bits_f32(0xff800000u);
          }
        }
        TCT_FOR(i, 1) {
          float part[4] = {tc_bits_f32(0xff800000u), tc_bits_f32(0xff800000u), tc_bits_f32(0xff800000u), tc_bits_f32(0xff800000u)};
          TCT_FOR(j, 16) TCT_FOR(reg, 4) part[reg] = j ? tcs_max(part[reg], v_s[i][j][reg]) : v_s[i][j][reg];
          TCT_FOR(side, 2) {
            float total = tcs_max(part[2 * side], part[2 * side + 1]);
            total = tcs_max(tc_shfl_xor_f32(total, 1), total);
            total = tcs_max(tc_shfl_xor_f32(total, 2), total);
            v_r1[i][side] = tcs_max(v_r1[i][side], total);
          }
        }
        TCT_FOR(i, 1) for (int reg = 0; reg < 4; reg += 2) v_x1[i][reg / 2] = tcs_max((0.12751743f * v_r1[i][reg / 2]), (-3.4028235e+38f));
        TCT_FOR(i, 1) for (int reg = 0; reg < 4; reg += 2) v_x4[i][reg / 2] = tc_ex2((v_x[i][reg / 2] - v_x1[i][reg / 2]));
        TCT_FOR(i, 1) TCT_FOR(j, 2) v_x[i][j] = v_x1[i][j];
      };
      const auto do_s2 = [&](int at) {
        TCT_FOR(i, 1) for (int reg = 0; reg < 4; reg += 2) v_s2[i][reg / 2] = v_s2[i][reg / 2] * v_x4[i][reg / 2];
        TCT_FOR(i, 1) {
          float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
          TCT_FOR(j, 16) TCT_FOR(reg, 4) part[reg] = j ? part[reg] + v_x5[i][j][reg] : v_x5[i][j][reg];
          TCT_FOR(side, 2) v_s2[i][side] = v_s2[i][side] + (part[2 * side] + part[2 * side + 1]);
        }
      };
      // r1[-1] = start()
      TCT_FOR(i, 1) TCT_FOR(j, 2) v_r1[i][j] = tc_bits_f32(0xff800000u);
      // s1[-1] = start()
      TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(reg, 4) v_s1[i][j][reg] = 0.0f;
      tc_tie((float(&)[64])v_s1[0]);
      // s2[-1] = start()
      TCT_FOR(i, 1) TCT_FOR(j, 2) v_s2[i][j] = 0.0f;
      // x[-1] = start()
      TCT_FOR(i, 1) TCT_FOR(j, 2) v_x[i][j] = (-3.4028235e+38f);
      // get Q
      tc_mbar_wait(shared + 230496 + 8 * 0, (round & 1));
      if (0 < tiles) {
        // get K[0]
        tc_mbar_wait(shared + 230400 + 8 * ((before + 0) % 3), ((before + 0) / 3 & 1));
        // turn mma
        if (member == 0) tc_bar_sync<1, 256>(); else tc_bar_sync<2, 256>();
        // s1_2[0] = s1_2(Q, K[0]) in flight on mma
        {
          const u32 a = tct_operand(shared + 8192 * member, 1), b = tct_operand(shared + 33792, 1) + ((before + 0) % 3) * 2048;
          tc_wgmma_fence();
          TCT_FOR(s, 8) tc_wgmma_f16<128, 0, 0>((float(&)[64])v_s12[0], tct_descriptor(a + s % 4 * 2 + s / 4 * 1024), tct_descriptor(b + s % 4 * 2 + s / 4 * 1024), s > 0);
          tc_wgmma_commit();
        }
        // pass mma
        if (member == 0) tc_bar_arrive<2, 256>(); else tc_bar_arrive<1, 256>();
        // wait 0 on mma
        tc_wgmma_wait<0>();
        tc_tie((float(&)[64])v_s12[0]);
        // done K[0]
        if (thread == 0) tc_mbar_arrive(shared + 230424 + 8 * ((before + 0) % 3));
        // s[0], r1[0], x'[0], x[0], x4[0] = r1(s1_2[0], r1[-1], x[-1])
        do_r1(0);
        // x5[0] = x5(s[0], x'[0])
        TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(reg, 4) v_x5[i][j][reg] = tc_ex2(((0.12751743f * v_s[i][j][reg]) - v_x1[i][reg / 2]));
        // P[0] = P(x5[0])
        TCT_FOR(s, 8) TCT_FOR(i, 1) TCT_FOR(word, 4) v_P[s][i][word] = tc_pack_f16(v_x5[i][2 * s + word / 2][word % 2 * 2], v_x5[i][2 * s + word / 2][word % 2 * 2 + 1]);
        // s2[0] = s2(x4[0], x5[0], s2[-1])
        do_s2(0);
      }
      for (int step = 1; step < tiles; step++) {
        // get K[step]
        tc_mbar_wait(shared + 230400 + 8 * ((before + step) % 3), ((before + step) / 3 & 1));
        // turn mma
        if (member == 0) tc_bar_sync<1, 256>(); else tc_bar_sync<2, 256>();
        // s1_2[step] = s1_2(Q, K[step]) in flight on mma
        {
          const u32 a = tct_operand(shared + 8192 * member, 1), b = tct_operand(shared + 33792, 1) + ((before + step) % 3) * 2048;
          tc_wgmma_fence();
          TCT_FOR(s, 8) tc_wgmma_f16<128, 0, 0>((float(&)[64])v_s12[0], tct_descriptor(a + s % 4 * 2 + s / 4 * 1024), tct_descriptor(b + s % 4 * 2 + s / 4 * 1024), s > 0);
          tc_wgmma_commit();
        }
        // s1~[step - 1] into s1 = u(x4[step - 1], s1[step - 2])
        TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(reg, 4) v_s1[i][j][reg] = v_s1[i][j][reg] * v_x4[i][reg / 2];
        // get V[step - 1]
        tc_mbar_wait(shared + 230448 + 8 * ((before + step - 1) % 3), ((before + step - 1) / 3 & 1));
        // s1[step - 1] = s1(P[step - 1], V[step - 1], s1~[step - 1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1024) + ((before + step - 1) % 3) * 2048;
          tc_wgmma_fence();
          TCT_FOR(s, 8) tc_wgmma_f16_rs<128, 1>((float(&)[64])v_s1[0], v_P[s][0], tct_descriptor(b + s * 128), 1);
          tc_wgmma_commit();
        }
        // pass mma
        if (member == 0) tc_bar_arrive<2, 256>(); else tc_bar_arrive<1, 256>();
        // wait 1 on mma
        tc_wgmma_wait<1>();
        tc_tie((float(&)[64])v_s12[0]);
        // done K[step]
        if (thread == 0) tc_mbar_arrive(shared + 230424 + 8 * ((before + step) % 3));
        // s[step], r1[step], x'[step], x[step], x4[step] = r1(s1_2[step], r1[step - 1], x[step - 1])
        do_r1(step);
        // x5[step] = x5(s[step], x'[step])
        TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(reg, 4) v_x5[i][j][reg] = tc_ex2(((0.12751743f * v_s[i][j][reg]) - v_x1[i][reg / 2]));
        // wait 0 on mma
        tc_mbar_wait(shared + 230448 + 8 * ((before + step - 1) % 3), ((before + step - 1) / 3 & 1));  // still: what is above stays there
        tc_wgmma_wait<0>();
        tc_tie((float(&)[64])v_s1[0]);
        // done V[step - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230472 + 8 * ((before + step - 1) % 3));
        // P[step] = P(x5[step])
        TCT_FOR(s, 8) TCT_FOR(i, 1) TCT_FOR(word, 4) v_P[s][i][word] = tc_pack_f16(v_x5[i][2 * s + word / 2][word % 2 * 2], v_x5[i][2 * s + word / 2][word % 2 * 2 + 1]);
        // s2[step] = s2(x4[step], x5[step], s2[step - 1])
        do_s2(step);
      }
      if (0 < tiles) {
        // s1~[T - 1] into s1 = u(x4[T - 1], s1[T - 2])
        TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(reg, 4) v_s1[i][j][reg] = v_s1[i][j][reg] * v_x4[i][reg / 2];
        // get V[T - 1]
        tc_mbar_wait(shared + 230448 + 8 * ((before + tiles - 1) % 3), ((before + tiles - 1) / 3 & 1));
        // s1[T - 1] = s1(P[T - 1], V[T - 1], s1~[T - 1]) in flight on mma
        {
          const u32 b = tct_operand(shared + 132096, 1024) + ((before + tiles - 1) % 3) * 2048;
          tc_wgmma_fence();
          TCT_FOR(s, 8) tc_wgmma_f16_rs<128, 1>((float(&)[64])v_s1[0], v_P[s][0], tct_descriptor(b + s * 128), 1);
          tc_wgmma_commit();
        }
        // wait 0 on mma
        tc_wgmma_wait<0>();
        tc_tie((float(&)[64])v_s1[0]);
        // done V[T - 1]
        if (thread == 0) tc_mbar_arrive(shared + 230472 + 8 * ((before + tiles - 1) % 3));
      }
      // do store.o(s1[T - 1], s2[T - 1], Q)
      TCT_FOR(i, 1) tct_quad_sum(v_s2[i]);
      TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(reg, 4) v_s1[i][j][reg] = tcs_divide(v_s1[i][j][reg], v_s2[i][reg / 2]);
      if (member == 0) tc_bar_sync<4, 128>(); else tc_bar_sync<5, 128>();  // nobody still reads this memory
      TCT_FOR(i, 1) TCT_FOR(j, 16) TCT_FOR(half, 2)
        *(u32*)(smem + 0 + tct_byte<128, 128>((lane / 4) + 8 * half + 64 * member + 16 * warp_m, 4 * (lane % 4) + 16 * j)) = tc_pack_f16((0ll < extent_n) ? v_s1[i][j][2 * half] : 0.0f, (0ll < extent_n) ? v_s1[i][j][2 * half + 1] : 0.0f);
      tc_fence_proxy_async();
      if (member == 0) tc_bar_sync<4, 128>(); else tc_bar_sync<5, 128>();
      // store o[b, h, m, e] = O
      if (thread == 0) {
        TCT_FOR(p, 2) tc_tma_store_4d(&map_o, shared + 0 + p * 16384 + 8192 * member, (int)(0) + 64 * p, (int)(m0) + 64 * member, (int)(h), (int)(b));
        tc_tma_store_commit();
        tc_tma_store_wait_read<0>();
      }
      // done Q
      if (thread == 0) tc_mbar_arrive(shared + 230504 + 8 * 0);
      before += tiles;
    }
    if (member == 0) tc_bar_sync<1, 256>();
  }
}
