// gemm
#include "device.cuh"
#include "scalar.cuh"
#include "tile.cuh"

// gemm; WIDE: 16 bytes are copied at once
template <bool WIDE>
TC_DEV void body_kernel_0(i64 begin, i64 extent_n, i64 extent_m, i64 extent_k, const u16* a, const u16* w, const float* bias, u16* o) {
  TC_DYN_SMEM(smem);
  const u32 shared = tc_smem_u32(smem);
  const int lane = threadIdx.x % 32;
  const int warp_m = threadIdx.x / 32 % 2;
  const int warp_n = threadIdx.x / 64;
  tc_note_name(shared + 0, 8192, "As", 0);
  tc_note_name(shared + 16384, 8192, "As", 1);
  tc_note_name(shared + 32768, 8192, "As", 2);
  tc_note_name(shared + 49152, 8192, "As", 3);
  tc_note_name(shared + 8192, 8192, "Ws", 0);
  tc_note_name(shared + 24576, 8192, "Ws", 1);
  tc_note_name(shared + 40960, 8192, "Ws", 2);
  tc_note_name(shared + 57344, 8192, "Ws", 3);
  const u32 at_A = shared + tct_byte<128, 64>(8 * ((lane / 8) % 2) + (lane % 8) + 64 * warp_m, 16 * ((2 * (lane / 8)) / 4));
  const u32 at_W = shared + 8192 + tct_byte<32, 128>(8 * ((lane / 8) % 2) + (lane % 8), 16 * ((lane / 8) / 2) + 128 * warp_n);
  // grid m by 128, n by 128
  i64 rest = begin + blockIdx.x;
  const i64 n0 = rest % ((extent_n + 127) / 128) * 128;
  rest /= ((extent_n + 127) / 128);
  const i64 m0 = rest * 128;
  float c[4][8][4];
  TCT_FOR(i, 4) TCT_FOR(j, 8) TCT_FOR(reg, 4) c[i][j][reg] = 0.0f;
  {
    // loop k by 32
    const int tiles = tct_tiles(0ll, extent_k, 32);
    // put: As, Ws of a tile into its slot of 16384 bytes, 4 in a ring
    const auto put = [&](int tile) {
      const u32 slot = (u32)tile % 4 * 16384;
      const i64 k0 = (i64)tile * 32;
      // As[m, k] = a[m, k]
      if (WIDE) {
        const int piece = threadIdx.x;
        const i64 k = k0 + 8 * (piece % 4);
        const i64 m = m0 + (piece / 4);
        const u16* from = a + m * extent_k + k;
        const int rows = tct_count(extent_m - m, 128);
        const int count = tct_count(extent_k - k, 8);
        TCT_FOR(round, 4) tc_cp_async16(shared + slot + tct_byte<128, 64>((piece / 4) + 32 * round, 16 * (piece % 4)), from + round * 32 * extent_k, round * 32 < rows ? 2 * count : 0);
      } else {
        TCT_EACH(piece, 4096, 128) {
          const i64 k = k0 + (piece % 32);
          const i64 m = m0 + (piece / 32);
          *(u16*)(smem + slot + tct_byte<128, 64>((piece / 32), 2 * (piece % 32))) = m < extent_m && k < extent_k ? a[m * extent_k + k] : (u16)0;
        }
      }
      // Ws[k, n] = w[k, n]
      if (WIDE) {
        const int piece = threadIdx.x;
        const i64 k = k0 + (piece / 16);
        const i64 n = n0 + 8 * (piece % 16);
        const u16* from = w + k * extent_n + n;
        const int rows = tct_count(extent_k - k, 32);
        const int count = tct_count(extent_n - n, 8);
        TCT_FOR(round, 4) tc_cp_async16(shared + slot + 8192 + tct_byte<32, 128>((piece / 16) + 8 * round, 16 * (piece % 16)), from + round * 8 * extent_n, round * 8 < rows ? 2 * count : 0);
      } else {
        TCT_EACH(piece, 4096, 128) {
          const i64 k = k0 + (piece / 128);
          const i64 n = n0 + (piece % 128);
          *(u16*)(smem + slot + 8192 + tct_byte<32, 128>((piece / 128), 2 * (piece % 128))) = k < extent_k && n < extent_n ? w[k * extent_n + n] : (u16)0;
        }
      }
    };
    // prologue: put tiles 0 .. 2
#pragma unroll 1
    for (int tile = 0; tile < 3; tile++) {
      if (tile < tiles) put(tile);
      tc_cp_async_commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
      // get tile; all warps have done the one before, whose slot takes tile + 3
      tc_cp_async_wait<2>();
      tc_syncthreads();
      if (tile + 3 < tiles) put(tile + 3);
      tc_cp_async_commit();
      const u32 slot = (u32)tile % 4 * 16384;
      // c'[m, n] = c + sum[k](A * W)
      TCT_FOR(s, 2) {
        u32 A[4][4];
        TCT_FOR(i, 4) tc_ldmatrix_x4(A[i], (slot + at_A ^ 32 * s) + 1024 * i);
        TCT_FOR(t, 4) {
          u32 W[4];
          tc_ldmatrix_x4_trans(W, (slot + at_W ^ 32 * t) + 2048 * s);
          TCT_FOR(i, 4) TCT_FOR(j, 2) {
            tc_mma_m16n8k16_f16(c[i][2 * t + j], A[i], W[2 * j], W[2 * j + 1]);
          }
        }
      }
    }
    tc_cp_async_wait<0>();
  }
  // z[m, n] = c + bias[n]
  TCT_FOR(i, 4) TCT_FOR(j, 8) TCT_FOR(reg, 4) {
    const i64 n = n0 + 2 * (lane % 4) + (reg % 2) + 8 * j + 64 * warp_n;
    c[i][j][reg] = n < extent_n ? (c[i][j][reg] + bias[n]) : 0.0f;
  }
  // store o[m, n] = z * sigmoid(z)
  if (WIDE) {
    TCT_FOR(i, 4) TCT_FOR(half, 2) TCT_FOR(t, 2) {
      u32 words[4];
      TCT_FOR(word, 4) {
        const int j = 4 * t + word;
        float pair[2];
        TCT_FOR(side, 2) {
          const int reg = 2 * half + side;
          pair[side] = c[i][j][reg] * tcs_sigmoid_fast(c[i][j][reg]);
        }
        words[word] = tc_pack_f16(pair[0], pair[1]);
      }
      tct_quad_transpose(words, lane);
      const i64 m = m0 + (lane / 4) + 8 * half + 16 * i + 64 * warp_m;
      const i64 n = n0 + 8 * (lane % 4) + 32 * t + 64 * warp_n;
      if (m < extent_m && n < extent_n) *(tc_u32x4*)(o + m * extent_n + n) = {words[0], words[1], words[2], words[3]};
    }
  } else {
    TCT_FOR(i, 4) TCT_FOR(j, 8) TCT_FOR(reg, 4) {
      const i64 m = m0 + (lane / 4) + 8 * (reg / 2) + 16 * i + 64 * warp_m;
      const i64 n = n0 + 2 * (lane % 4) + (reg % 2) + 8 * j + 64 * warp_n;
      if (m < extent_m && n < extent_n) o[m * extent_n + n] = tc_to_f16((c[i][j][reg] * tcs_sigmoid_fast(c[i][j][reg])));
    }
  }
}
TC_KERNEL(128, 1) kernel_0(i64 begin, i64 extent_n, i64 extent_m, i64 extent_k, const u16* a, const u16* w, const float* bias, u16* o) {
  const bool wide = (((u64)a | 2 * (extent_k)) & 15) == 0
                    && (((u64)w | 2 * (extent_n)) & 15) == 0
                    && (((u64)o | 2 * (extent_n)) & 15) == 0;
  if (wide) body_kernel_0<true>(begin, extent_n, extent_m, extent_k, a, w, bias, o);
  else body_kernel_0<false>(begin, extent_n, extent_m, extent_k, a, w, bias, o);
}
