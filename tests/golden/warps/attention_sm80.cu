// attention
#include "device.cuh"
#include "scalar.cuh"
#include "tile.cuh"

// attention; WIDE: 16 bytes are copied at once
template <bool WIDE>
TC_DEV void body_kernel_0(i64 begin, i64 extent_m, i64 extent_h, i64 extent_b, const u16* q, i64 extent_n, const u16* k, const u16* v_6, u16* o) {
  TC_DYN_SMEM(smem);
  const u32 shared = tc_smem_u32(smem);
  const int lane = threadIdx.x % 32;
  const int warp_m = threadIdx.x / 32;
  tc_note_name(shared + 0, 32768, "Qs");
  tc_note_name(shared + 32768, 8192, "Ks", 0);
  tc_note_name(shared + 49152, 8192, "Ks", 1);
  tc_note_name(shared + 65536, 8192, "Ks", 2);
  tc_note_name(shared + 40960, 8192, "Vs", 0);
  tc_note_name(shared + 57344, 8192, "Vs", 1);
  tc_note_name(shared + 73728, 8192, "Vs", 2);
  const u32 at_Q = shared + tct_byte<128, 128>(8 * ((lane / 8) % 2) + (lane % 8) + 32 * warp_m, 16 * ((2 * (lane / 8)) / 4));
  const u32 at_K = shared + tct_byte<32, 128>(8 * ((lane / 8) / 2) + (lane % 8), 16 * ((lane / 8) % 2));
  const u32 at_V = shared + 8192 + tct_byte<32, 128>(8 * ((lane / 8) % 2) + (lane % 8), 16 * ((lane / 8) / 2));
  // grid b, h, m by 128
  i64 rest = begin + blockIdx.x;
  const i64 m0 = rest % ((extent_m + 127) / 128) * 128;
  rest /= ((extent_m + 127) / 128);
  const i64 h = rest % extent_h;
  rest /= extent_h;
  const i64 b = rest;
  // Qs[m, d] = q[b, h, m, d]
  if (WIDE) {
    const int piece = threadIdx.x;
    const i64 d = 8 * (piece % 16);
    const i64 m = m0 + (piece / 16);
    const u16* from = q + ((b * extent_h + h) * extent_m + m) * 128ll + d;
    const int rows = tct_count(extent_m - m, 128);
    TCT_FOR(round, 16) tc_cp_async16(shared + 0 + tct_byte<128, 128>((piece / 16) + 8 * round, 16 * (piece % 16)), from + round * 8 * 128ll, round * 8 < rows ? 16 : 0);
  } else {
    TCT_EACH(piece, 16384, 128) {
      const i64 d = (piece % 128);
      const i64 m = m0 + (piece / 128);
      *(u16*)(smem + 0 + tct_byte<128, 128>((piece / 128), 2 * (piece % 128))) = m < extent_m ? q[((b * extent_h + h) * extent_m + m) * 128ll + d] : (u16)0;
    }
  }
  tc_cp_async_commit();
  float r[2][2];
  TCT_FOR(i, 2) TCT_FOR(j, 2) r[i][j] = (-3.4028235e+38f);
  float l[2][2];
  TCT_FOR(i, 2) TCT_FOR(j, 2) l[i][j] = 0.0f;
  float a[2][16][4];
  TCT_FOR(i, 2) TCT_FOR(j, 16) TCT_FOR(reg, 4) a[i][j][reg] = 0.0f;
  {
    // loop n by 32
    const int tiles = tct_tiles(0ll, tcs_min((i64)(m0 + extent_n + 128ll - extent_m), (i64)extent_n), 32);
    // put: Ks, Vs of a tile into its slot of 16384 bytes, 3 in a ring
    const auto put = [&](int tile) {
      const u32 slot = 32768 + (u32)tile % 3 * 16384;
      const i64 n0 = (i64)(tiles - 1 - tile) * 32;
      // Ks[n, d] = k[b, h, n, d]
      if (WIDE) {
        const int piece = threadIdx.x;
        const i64 d = 8 * (piece % 16);
        const i64 n = n0 + (piece / 16);
        const u16* from = k + ((b * extent_h + h) * extent_n + n) * 128ll + d;
        const int rows = tct_count(extent_n - n, 32);
        TCT_FOR(round, 4) tc_cp_async16(shared + slot + tct_byte<32, 128>((piece / 16) + 8 * round, 16 * (piece % 16)), from + round * 8 * 128ll, round * 8 < rows ? 16 : 0);
      } else {
        TCT_EACH(piece, 4096, 128) {
          const i64 d = (piece % 128);
          const i64 n = n0 + (piece / 128);
          *(u16*)(smem + slot + tct_byte<32, 128>((piece / 128), 2 * (piece % 128))) = n < extent_n ? k[((b * extent_h + h) * extent_n + n) * 128ll + d] : (u16)0;
        }
      }
      // Vs[n, e] = v[b, h, n, e]
      if (WIDE) {
        const int piece = threadIdx.x;
        const i64 e = 8 * (piece % 16);
        const i64 n = n0 + (piece / 16);
        const u16* from = v_6 + ((b * extent_h + h) * extent_n + n) * 128ll + e;
        const int rows = tct_count(extent_n - n, 32);
        TCT_FOR(round, 4) tc_cp_async16(shared + slot + 8192 + tct_byte<32, 128>((piece / 16) + 8 * round, 16 * (piece % 16)), from + round * 8 * 128ll, round * 8 < rows ? 16 : 0);
      } else {
        TCT_EACH(piece, 4096, 128) {
          const i64 e = (piece % 128);
          const i64 n = n0 + (piece / 128);
          *(u16*)(smem + slot + 8192 + tct_byte<32, 128>((piece / 128), 2 * (piece % 128))) = n < extent_n ? v_6[((b * extent_h + h) * extent_n + n) * 128ll + e] : (u16)0;
        }
      }
    };
    // prologue: put tiles 0 .. 1
#pragma unroll 1
    for (int tile = 0; tile < 2; tile++) {
      if (tile < tiles) put(tile);
      tc_cp_async_commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
      // get tile; all warps have done the one before, whose slot takes tile + 2
      tc_cp_async_wait<1>();
      tc_syncthreads();
      if (tile + 2 < tiles) put(tile + 2);
      tc_cp_async_commit();
      const u32 slot = 32768 + (u32)tile % 3 * 16384;
      const i64 n0 = (i64)(tiles - 1 - tile) * 32;
      // t[m, n] = sum[d](Q * K)
      float t_10[2][4][4];
      TCT_FOR(s, 8) {
        u32 Q[2][4];
        TCT_FOR(i, 2) tc_ldmatrix_x4(Q[i], (at_Q ^ ((32 * s) % 128)) + 2048 * i + 16384 * ((32 * s) / 128));
        TCT_FOR(t, 2) {
          u32 K[4];
          tc_ldmatrix_x4(K, (slot + at_K ^ ((32 * s) % 128)) + 2048 * t + 4096 * ((32 * s) / 128));
          TCT_FOR(i, 2) TCT_FOR(j, 2) {
            if (s == 0) tc_mma_m16n8k16_f16_zero(t_10[i][2 * t + j], Q[i], K[2 * j], K[2 * j + 1]);
            else tc_mma_m16n8k16_f16(t_10[i][2 * t + j], Q[i], K[2 * j], K[2 * j + 1]);
          }
        }
      }
      // s[m, n] = select(n <= m + |n| - |m|, t, -inf)
      if (!(n0 + 32 <= (m0 + extent_n + 1ll - extent_m))) {
        TCT_FOR(i, 2) TCT_FOR(half, 2) {
          const i64 m = m0 + (lane / 4) + 8 * half + 16 * i + 32 * warp_m;
          const int end = tct_limit((i64)(((m + extent_n) - extent_m) + 1) - n0 - 2 * (lane % 4));
          TCT_FOR(j, 4) TCT_FOR(side, 2)
            if (side + 8 * j >= end) t_10[i][j][2 * half + side] = tc_bits_f32(0xff800000u);
        }
      }
      // r'[m] = max(r, max[n](s))
      float r_12[2][2];
      TCT_FOR(i, 2) {
        float part[4] = {tc_bits_f32(0xff800000u), tc_bits_f32(0xff800000u), tc_bits_f32(0xff800000u), tc_bits_f32(0xff800000u)};
        TCT_FOR(j, 4) TCT_FOR(reg, 4) part[reg] = j ? tcs_max(part[reg], t_10[i][j][reg]) : t_10[i][j][reg];
        TCT_FOR(side, 2) {
          float total = tcs_max(part[2 * side], part[2 * side + 1]);
          total = tcs_max(tc_shfl_xor_f32(total, 1), total);
          total = tcs_max(tc_shfl_xor_f32(total, 2), total);
          r_12[i][side] = tcs_max(r[i][side], total);
        }
      }
      // x[m] = exp2(log2(exp(1)) / sqrt(|d|) * (r - r'))
      TCT_FOR(i, 2) for (int reg = 0; reg < 4; reg += 2) r[i][reg / 2] = tc_ex2((0.12751743f * (r[i][reg / 2] - r_12[i][reg / 2])));
      // y[m, n] = exp2(log2(exp(1)) / sqrt(|d|) * s - log2(exp(1)) / sqrt(|d|) * r')
      TCT_FOR(i, 2) TCT_FOR(j, 4) TCT_FOR(reg, 4) t_10[i][j][reg] = tc_ex2(((0.12751743f * t_10[i][j][reg]) - (0.12751743f * r_12[i][reg / 2])));
      // lx[m] = x * l
      TCT_FOR(i, 2) for (int reg = 0; reg < 4; reg += 2) l[i][reg / 2] = r[i][reg / 2] * l[i][reg / 2];
      // l'[m] = lx + sum[n](y)
      TCT_FOR(i, 2) {
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        TCT_FOR(j, 4) TCT_FOR(reg, 4) part[reg] = j ? part[reg] + t_10[i][j][reg] : t_10[i][j][reg];
        TCT_FOR(side, 2) {
          float total = part[2 * side] + part[2 * side + 1];
          total = tc_shfl_xor_f32(total, 1) + total;
          total = tc_shfl_xor_f32(total, 2) + total;
          l[i][side] = l[i][side] + total;
        }
      }
      // ax[m, e] = x * a
      TCT_FOR(i, 2) TCT_FOR(j, 16) TCT_FOR(reg, 4) a[i][j][reg] = r[i][reg / 2] * a[i][j][reg];
      // P[m, n] = y
      u32 P[2][2][4];
      TCT_FOR(s, 2) TCT_FOR(i, 2) TCT_FOR(word, 4) P[s][i][word] = tc_pack_f16(t_10[i][2 * s + word / 2][word % 2 * 2], t_10[i][2 * s + word / 2][word % 2 * 2 + 1]);
      // a'[m, e] = ax + sum[n](P * V)
      TCT_FOR(s, 2) {
        TCT_FOR(t, 8) {
          u32 V[4];
          tc_ldmatrix_x4_trans(V, (slot + at_V ^ ((32 * t) % 128)) + 2048 * s + 4096 * ((32 * t) / 128));
          TCT_FOR(i, 2) TCT_FOR(j, 2) {
            tc_mma_m16n8k16_f16(a[i][2 * t + j], P[s][i], V[2 * j], V[2 * j + 1]);
          }
        }
      }
      TCT_FOR(i, 2) TCT_FOR(j, 2) r[i][j] = r_12[i][j];
    }
    tc_cp_async_wait<0>();
  }
  // store o[b, h, m, e] = select(m + |n| - |m| < 0, 0, a / l)
  if (WIDE) {
    TCT_FOR(i, 2) TCT_FOR(half, 2) TCT_FOR(t, 4) {
      u32 words[4];
      TCT_FOR(word, 4) {
        const int j = 4 * t + word;
        float pair[2];
        TCT_FOR(side, 2) {
          const int reg = 2 * half + side;
          const i64 m = m0 + (lane / 4) + 8 * (reg / 2) + 16 * i + 32 * warp_m;
          pair[side] = (((m + extent_n) - extent_m) < 0ll) ? 0.0f : tcs_divide(a[i][j][reg], l[i][reg / 2]);
        }
        words[word] = tc_pack_f16(pair[0], pair[1]);
      }
      tct_quad_transpose(words, lane);
      const i64 e = 8 * (lane % 4) + 32 * t;
      const i64 m = m0 + (lane / 4) + 8 * half + 16 * i + 32 * warp_m;
      if (m < extent_m) *(tc_u32x4*)(o + ((b * extent_h + h) * extent_m + m) * 128ll + e) = {words[0], words[1], words[2], words[3]};
    }
  } else {
    TCT_FOR(i, 2) TCT_FOR(j, 16) TCT_FOR(reg, 4) {
      const i64 e = 2 * (lane % 4) + (reg % 2) + 8 * j;
      const i64 m = m0 + (lane / 4) + 8 * (reg / 2) + 16 * i + 32 * warp_m;
      if (m < extent_m) o[((b * extent_h + h) * extent_m + m) * 128ll + e] = tc_to_f16(((((m + extent_n) - extent_m) < 0ll) ? 0.0f : tcs_divide(a[i][j][reg], l[i][reg / 2])));
    }
  }
}
TC_KERNEL(128, 1) kernel_0(i64 begin, i64 extent_m, i64 extent_h, i64 extent_b, const u16* q, i64 extent_n, const u16* k, const u16* v_6, u16* o) {
  const bool wide = (((u64)q | 2 * (extent_h * extent_m * 128ll) | 2 * (extent_m * 128ll)) & 15) == 0
                    && (((u64)k | 2 * (extent_h * extent_n * 128ll) | 2 * (extent_n * 128ll)) & 15) == 0
                    && (((u64)v_6 | 2 * (extent_h * extent_n * 128ll) | 2 * (extent_n * 128ll)) & 15) == 0
                    && (((u64)o | 2 * (extent_h * extent_m * 128ll) | 2 * (extent_m * 128ll)) & 15) == 0;
  if (wide) body_kernel_0<true>(begin, extent_m, extent_h, extent_b, q, extent_n, k, v_6, o);
  else body_kernel_0<false>(begin, extent_m, extent_h, extent_b, q, extent_n, k, v_6, o);
}
