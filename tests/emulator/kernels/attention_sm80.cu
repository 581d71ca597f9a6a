// o[b, h, m, e] = softmax over n of (q[b, h, m, d] . k[b, h, n, d] * scale) . v[b, h, n, e]; d = e
// = HEAD, f16 or bf16. One block for 16 BLOCKS WARPS query rows, 16 BLOCKS rows a warp. Tiles of
// keys and values come by cp.async into two slots in turn, from the last tile to the first, so that
// guarded tiles come first. c = scale * log2(e).
#include "device.cuh"

#ifndef HEAD
#define HEAD 128
#endif
#ifndef KEYS
#define KEYS (HEAD == 128 ? 32 : 64)  // keys of a tile
#endif
#ifndef BLOCKS
#define BLOCKS 2  // 16-row blocks of a warp
#endif
#ifndef WARPS
#define WARPS 4
#endif
#ifndef CAUSAL
#define CAUSAL 0  // 1: row i sees keys up to i + n - m
#endif
#ifdef BF16
#define MMA tc_mma_m16n8k16_bf16
#define MMA_ZERO tc_mma_m16n8k16_bf16_zero
#define PACK tc_pack_bf16
#else
#define MMA tc_mma_m16n8k16_f16
#define MMA_ZERO tc_mma_m16n8k16_f16_zero
#define PACK tc_pack_f16
#endif
// shared memory: Q, then two slots of K and V; rows of HEAD / 8 chunks of 16 bytes, chunk c of row
// r at c ^ (r & 7)
enum {
  THREADS = WARPS * 32,
  ROWS = 16 * BLOCKS * WARPS,
  ROW = HEAD * 2,
  CHUNKS = HEAD / 8,
  Q_BYTES = ROWS * ROW,
  KV_BYTES = KEYS * ROW,
  SLOT_BYTES = 2 * KV_BYTES,
  SHARED_BYTES = Q_BYTES + 2 * SLOT_BYTES
};

// put a tile: N rows after g, of which `rows` exist and the others become zero. The threads walk
// the tile in address order, so that a step is a constant in both memories; at is this thread's
// place in its first row block.
template <int N, bool WHOLE> TC_DEV void put(u32 dst, u32 at, const u16* g, int rows) {
#pragma unroll
  for (int i = 0; i < N * CHUNKS / THREADS; i++) {
    const bool inside = WHOLE || (int)threadIdx.x / CHUNKS + i * (THREADS / CHUNKS) < rows;
    tc_cp_async16(dst + at + i * THREADS * 16, inside ? g + (i * THREADS + threadIdx.x) * 8 : g,
                  inside ? 16 : 0);
  }
}
// keys past a row's limit count as -inf; limits are relative to this thread's first column
TC_DEV void guard(float (&S)[KEYS / 8][4], int limit0, int limit1) {
#pragma unroll
  for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
    for (int x = 0; x < 4; x++)
      if (i * 8 + (x & 1) >= (x & 2 ? limit1 : limit0)) S[i][x] = tc_neg_inf();
}
// S: scores in, exp2(c S - c R') out. R: running row maxima, L: this thread's part of the row sums,
// X: exp2(c R - c R').
TC_DEV void online_softmax(float (&S)[KEYS / 8][4], float (&R)[2], float (&L)[2], float (&X)[2],
                           float c) {
  float top[4] = {S[0][0], S[0][1], S[0][2], S[0][3]};
#pragma unroll
  for (int i = 1; i < KEYS / 8; i++)
#pragma unroll
    for (int x = 0; x < 4; x++) top[x] = tc_max(top[x], S[i][x]);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float t = tc_max(top[2 * r], top[2 * r + 1]);
    t = tc_max(t, tc_shfl_xor_f32(t, 1));
    t = tc_max(t, tc_shfl_xor_f32(t, 2));
    t = tc_max(R[r], t);
    const float shift = t == tc_neg_inf() ? 0.f : c * t;  // a row that has seen no key yet
    X[r] = tc_ex2(tc_fma(c, R[r], -shift));
    R[r] = t;
    float sum[2] = {0.f, 0.f};
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++)
#pragma unroll
      for (int x = 0; x < 2; x++) {
        S[i][2 * r + x] = tc_ex2(tc_fma(c, S[i][2 * r + x], -shift));
        sum[x] += S[i][2 * r + x];
      }
    L[r] = tc_fma(L[r], X[r], sum[0] + sum[1]);
  }
}
// S = Q K^T for the warp's rows; at_q and at_k are the rows that this lane names to ldmatrix
TC_DEV void scores(float (&S)[BLOCKS][KEYS / 8][4], u32 at_q, u32 at_k) {
#pragma unroll
  for (int d = 0; d < HEAD / 16; d++) {  // the pair of chunks 2 d, 2 d + 1 is one exclusive-or away
    u32 a[BLOCKS][4];
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) tc_ldmatrix_x4(a[i], (at_q ^ d << 5) + i * 16 * ROW);
#pragma unroll
    for (int t = 0; t < KEYS / 16; t++) {
      u32 b[4];
      tc_ldmatrix_x4(b, (at_k ^ d << 5) + t * 16 * ROW);
#pragma unroll
      for (int i = 0; i < BLOCKS; i++)
        if (d == 0) {
          MMA_ZERO(S[i][2 * t], a[i], b[0], b[1]);
          MMA_ZERO(S[i][2 * t + 1], a[i], b[2], b[3]);
        } else {
          MMA(S[i][2 * t], a[i], b[0], b[1]);
          MMA(S[i][2 * t + 1], a[i], b[2], b[3]);
        }
    }
  }
}
// A = A + P V
TC_DEV void values(float (&A)[BLOCKS][HEAD / 8][4], const u32 (&P)[BLOCKS][KEYS / 16][4],
                   u32 at_v) {
#pragma unroll
  for (int s = 0; s < KEYS / 16; s++)
#pragma unroll
    for (int e = 0; e < HEAD / 16; e++) {
      u32 b[4];
      tc_ldmatrix_x4_trans(b, (at_v ^ e << 5) + s * 16 * ROW);
#pragma unroll
      for (int i = 0; i < BLOCKS; i++) {
        MMA(A[i][2 * e], P[i][s], b[0], b[1]);
        MMA(A[i][2 * e + 1], P[i][s], b[2], b[3]);
      }
    }
}

TC_KERNEL(WARPS * 32, 1)
attention(const u16* q, const u16* k, const u16* v, u16* o, int m, int n, float c) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  tc_note_name(base, Q_BYTES, "Q");
  for (int s = 0; s < 2; s++) {
    tc_note_name(base + Q_BYTES + s * SLOT_BYTES, KV_BYTES, "K", s);
    tc_note_name(base + Q_BYTES + s * SLOT_BYTES + KV_BYTES, KV_BYTES, "V", s);
  }
  const u64 plane = (u64)blockIdx.z * gridDim.y + blockIdx.y;
  q += plane * m * HEAD;
  k += plane * n * HEAD;
  v += plane * n * HEAD;
  o += plane * m * HEAD;
  const int row = (CAUSAL ? (int)(gridDim.x - 1 - blockIdx.x) : (int)blockIdx.x) * ROWS,
            row_w = row + warp * 16 * BLOCKS;
  const int seen =
      CAUSAL ? (row + ROWS + n - m < n ? row + ROWS + n - m : n) : n;  // keys that some row sees
  const int whole = CAUSAL && row_w + n - m + 1 < n ? row_w + n - m + 1
                                                    : n;  // keys that every row of the warp sees
  const int tiles = seen > 0 ? (seen + KEYS - 1) / KEYS : 0;
  // this thread's 16 bytes of a tile, and the rows that it names to ldmatrix: Q and V by lane & 15,
  // K by halves
  const int r_put = threadIdx.x / CHUNKS;
  const u32 at_put = r_put * ROW + ((threadIdx.x % CHUNKS ^ (r_put & 7)) << 4);
  const u32 at_q =
      base + (warp * 16 * BLOCKS + (lane & 15)) * ROW + ((lane >> 4 ^ (lane & 7)) << 4);
  const u32 at_k =
      base + Q_BYTES + ((lane & 7) + (lane >> 4) * 8) * ROW + ((lane >> 3 & 1 ^ (lane & 7)) << 4);
  const u32 at_v = base + Q_BYTES + KV_BYTES + (lane & 15) * ROW + ((lane >> 4 ^ (lane & 7)) << 4);

  float A[BLOCKS][HEAD / 8][4], R[BLOCKS][2], L[BLOCKS][2];
#pragma unroll
  for (int i = 0; i < BLOCKS; i++) {
#pragma unroll
    for (int e = 0; e < HEAD / 8; e++)
#pragma unroll
      for (int x = 0; x < 4; x++) A[i][e][x] = 0.f;
    R[i][0] = R[i][1] = tc_neg_inf();
    L[i][0] = L[i][1] = 0.f;
  }
  // prologue: put Q; put K, V of the last tile
  if (tiles > 0) {
    const int j = tiles - 1;
    put<ROWS, false>(base, at_put, q + (u64)row * HEAD, m - row);
    put<KEYS, false>(base + Q_BYTES, at_put, k + (u64)j * KEYS * HEAD, n - j * KEYS);
    put<KEYS, false>(base + Q_BYTES + KV_BYTES, at_put, v + (u64)j * KEYS * HEAD, n - j * KEYS);
    tc_cp_async_commit();
  }
  // steady state
  for (int j = tiles - 1, slot = 0; j >= 0; j--, slot ^= 1) {
    // get K, V of tile j; all warps have done tile j + 1, so its slot takes tile j - 1
    tc_cp_async_wait<0>();
    tc_syncthreads();
    if (j > 0) {
      const u32 next = base + Q_BYTES + (slot ^ 1) * SLOT_BYTES;
      put<KEYS, true>(next, at_put, k + (u64)(j - 1) * KEYS * HEAD, KEYS);
      put<KEYS, true>(next + KV_BYTES, at_put, v + (u64)(j - 1) * KEYS * HEAD, KEYS);
    }
    tc_cp_async_commit();
    float S[BLOCKS][KEYS / 8][4];
    u32 P[BLOCKS][KEYS / 16][4];
    scores(S, at_q, at_k + slot * SLOT_BYTES);
    // P = softmax S; A = A X
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
      if ((j + 1) * KEYS > whole) {
        const int row_t = row_w + i * 16 + (lane >> 2) + n - m + 1,
                  column_t = j * KEYS + (lane & 3) * 2;
        guard(S[i], (CAUSAL && row_t < n ? row_t : n) - column_t,
              (CAUSAL && row_t + 8 < n ? row_t + 8 : n) - column_t);
      }
      float X[2];
      online_softmax(S[i], R[i], L[i], X, c);
#pragma unroll
      for (int e = 0; e < HEAD / 8; e++)
#pragma unroll
        for (int x = 0; x < 4; x++) A[i][e][x] *= X[x >> 1];
#pragma unroll
      for (int w = 0; w < KEYS / 4; w++)
        P[i][w >> 2][w & 3] = PACK(S[i][w >> 1][(w & 1) * 2], S[i][w >> 1][(w & 1) * 2 + 1]);
    }
    values(A, P, at_v + slot * SLOT_BYTES);
  }
  // epilogue: o = A / L; a warp stages its rows where its rows of Q were, and stores them in
  // 16-byte pieces
  tc_syncwarp();
  u8* stage = smem + warp * 16 * BLOCKS * ROW;
#pragma unroll
  for (int i = 0; i < BLOCKS; i++)
#pragma unroll
    for (int r = 0; r < 2; r++) {
      float l = L[i][r];
      l += tc_shfl_xor_f32(l, 1);
      l += tc_shfl_xor_f32(l, 2);
      const float inverse = l == 0.f ? 0.f : tc_rcp(l);
      const int y = i * 16 + r * 8 + (lane >> 2);
#pragma unroll
      for (int e = 0; e < CHUNKS; e++)
        *(u32*)(stage + y * ROW + ((e ^ (y & 7)) << 4) + (lane & 3) * 4) =
            PACK(A[i][e][2 * r] * inverse, A[i][e][2 * r + 1] * inverse);
    }
  tc_syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * BLOCKS * CHUNKS / 32; i++) {
    const int y = (i * 32 + lane) / CHUNKS, chunk = lane % CHUNKS;
    if (row_w + y < m)
      *(tc_u32x4*)(o + (u64)(row_w + y) * HEAD + chunk * 8) =
          *(tc_u32x4*)(stage + y * ROW + ((chunk ^ (y & 7)) << 4));
  }
}
