// o[b, h, m, e] = softmax over n of (q[b, h, m, d] . k[b, h, n, d] * scale) . v[b, h, n, e]; d = e
// = HEAD, f16 or bf16. Persistent: a block takes query tiles of 128 rows, gridDim.x apart. Warp
// group 0 loads, warp groups 1 and 2 compute 64 rows each and pass each other the tensor core. Key
// tiles run from the last to the first, so that guarded tiles (the ragged end, the causal diagonal)
// come first and the steady state has no guard. c = scale * log2(e).
#include "device.cuh"

#ifndef HEAD
#define HEAD 128
#endif
#ifndef KEYS
#define KEYS 128  // keys of a tile
#endif
#ifndef CAUSAL
#define CAUSAL 0  // 1: row i sees keys up to i + n - m
#endif
#ifndef K_DEPTH
#define K_DEPTH 2
#endif
#ifndef V_DEPTH
#define V_DEPTH 2
#endif
#ifdef BF16
#define WGMMA_QK tc_wgmma_bf16<KEYS>
#define WGMMA_PV tc_wgmma_bf16_rs<HEAD, 1>
#define PACK tc_pack_bf16
#else
#define WGMMA_QK tc_wgmma_f16<KEYS>
#define WGMMA_PV tc_wgmma_f16_rs<HEAD, 1>
#define PACK tc_pack_f16
#endif
// shared memory in panels of 64 columns, 128-byte swizzle: Q [128 rows], ring K [KEYS rows], ring V
// the same
enum {
  PANELS = HEAD / 64,
  Q_PANEL = 128 * 128,
  Q_BYTES = PANELS * Q_PANEL,
  KV_PANEL = KEYS * 128,
  KV_BYTES = PANELS * KV_PANEL,
  K_RING = Q_BYTES,
  V_RING = K_RING + K_DEPTH * KV_BYTES,
  Q_FULL = V_RING + V_DEPTH * KV_BYTES,
  Q_EMPTY = Q_FULL + 8,
  K_FULL = Q_EMPTY + 8,
  K_EMPTY = K_FULL + 8 * K_DEPTH,
  V_FULL = K_EMPTY + 8 * K_DEPTH,
  V_EMPTY = V_FULL + 8 * V_DEPTH,
  SHARED_BYTES = V_EMPTY + 8 * V_DEPTH
};

// Matrix descriptors: the low word is start / 16 and the leading stride / 16, and steps add to it;
// the high word is the 8-row group stride of 1024 bytes and the 128-byte swizzle. K-major ignores
// the leading stride, MN-major takes the distance of 64-column panels.
TC_DEV u64 descriptor(u32 low) { return (u64)0x40000040 << 32 | low; }

struct Ring {
  int slot;
  u32 phase;
  TC_DEV_MEMBER void next(int depth) {
    if (++slot == depth) {
      slot = 0;
      phase ^= 1;
    }
  }
};
// where query tile t lies. Causal ones go from the longest to the shortest over all heads, the
// others head by head, so that keys and values stay in the second-level cache.
struct Tile {
  int head, batch, row, key_tiles;
  TC_DEV_MEMBER Tile(int t, int m, int n, int heads, int planes) {
    const int blocks = (m + 127) / 128, plane = CAUSAL ? t % planes : t / blocks;
    row = (CAUSAL ? blocks - 1 - t / planes : t % blocks) * 128;
    head = plane % heads;
    batch = plane / heads;
    const int seen =
        CAUSAL && row + 128 + n - m < n ? row + 128 + n - m : n;  // keys that some row sees
    key_tiles = seen > 0 ? (seen + KEYS - 1) / KEYS : 0;
  }
};
TC_DEV void name_objects(u32 base) {
  tc_note_name(base, Q_BYTES, "Q");
  tc_note_name(base + Q_FULL, 8, "Q full");
  tc_note_name(base + Q_EMPTY, 8, "Q empty");
  for (int s = 0; s < K_DEPTH; s++) {
    tc_note_name(base + K_RING + s * KV_BYTES, KV_BYTES, "K", s);
    tc_note_name(base + K_FULL + 8 * s, 8, "K full", s);
    tc_note_name(base + K_EMPTY + 8 * s, 8, "K empty", s);
  }
  for (int s = 0; s < V_DEPTH; s++) {
    tc_note_name(base + V_RING + s * KV_BYTES, KV_BYTES, "V", s);
    tc_note_name(base + V_FULL + 8 * s, 8, "V full", s);
    tc_note_name(base + V_EMPTY + 8 * s, 8, "V empty", s);
  }
}
// put one tile of keys or values: wait for the empty slot, expect its bytes, issue one copy a panel
TC_DEV void put(const CUtensorMap* map, u32 ring, u32 full, u32 empty, const Ring& r, int key,
                int head, int batch) {
  tc_mbar_wait(empty + 8 * r.slot, r.phase);
  tc_mbar_arrive_expect_tx(full + 8 * r.slot, KV_BYTES);
#pragma unroll
  for (int p = 0; p < PANELS; p++)
    tc_tma_load_4d(ring + r.slot * KV_BYTES + p * KV_PANEL, map, full + 8 * r.slot, p * 64, key,
                   head, batch);
}
// order tokens on the tensor core: named barrier 1 + w is "the turn of consumer w"
TC_DEV void wait_turn(int w) {
  if (w == 0) tc_bar_sync<1, 256>();
  else tc_bar_sync<2, 256>();
}
TC_DEV void pass_turn(int w) {
  if (w == 0) tc_bar_arrive<2, 256>();
  else tc_bar_arrive<1, 256>();
}

// S = Q K^T, started
TC_DEV void start_scores(float (&S)[KEYS / 2], u32 q, u32 k) {
  tc_wgmma_fence();
#pragma unroll
  for (int d = 0; d < HEAD / 16; d++)
    WGMMA_QK(S, descriptor(q + d / 4 * (Q_PANEL / 16) + d % 4 * 2),
             descriptor(k + d / 4 * (KV_PANEL / 16) + d % 4 * 2), d != 0);
  tc_wgmma_commit();
}
// A = A + P V, started
TC_DEV void start_values(float (&A)[HEAD / 2], const u32 (&P)[KEYS / 16][4], u32 v) {
  tc_wgmma_fence();  // one for each batch: without it ptxas injects one (C7519)
#pragma unroll
  for (int s = 0; s < KEYS / 16; s++) WGMMA_PV(A, P[s], descriptor(v + s * 128), 1);
  tc_wgmma_commit();
}
// keys past a row's limit count as -inf; limits are relative to this thread's first column
TC_DEV void guard(float (&S)[KEYS / 2], int limit0, int limit1) {
#pragma unroll
  for (int i = 0; i < KEYS / 2; i++)
    if ((i >> 2) * 8 + (i & 1) >= (i & 2 ? limit1 : limit0)) S[i] = tc_neg_inf();
}
// S: scores in, exp2(c S - c R') out. R: running row maxima, L: this thread's part of the row sums,
// X: exp2(c R - c R').
TC_DEV void online_softmax(float (&S)[KEYS / 2], float (&R)[2], float (&L)[2], float (&X)[2],
                           float c) {
  float top[4] = {S[0], S[1], S[2], S[3]};  // two chains for each of the two rows
#pragma unroll
  for (int i = 4; i < KEYS / 2; i++) top[i & 3] = tc_max(top[i & 3], S[i]);
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
    for (int i = 0; i < KEYS / 2; i++)
      if ((i >> 1 & 1) == r) {
        S[i] = tc_ex2(tc_fma(c, S[i], -shift));
        sum[i & 1] += S[i];
      }
    L[r] = tc_fma(L[r], X[r], sum[0] + sum[1]);
  }
}
// accumulator layout to register-operand layout: word w of k16 step s holds elements 8 s + 2 w, 8 s
// + 2 w + 1
TC_DEV void to_operand(u32 (&P)[KEYS / 16][4], const float (&S)[KEYS / 2]) {
#pragma unroll
  for (int i = 0; i < KEYS / 4; i++) P[i >> 2][i & 3] = PACK(S[2 * i], S[2 * i + 1]);
}
TC_DEV void rescale(float (&A)[HEAD / 2], const float (&X)[2]) {
#pragma unroll
  for (int i = 0; i < HEAD / 2; i++) A[i] *= X[i >> 1 & 1];
}

TC_KERNEL(384, 1)
attention(TC_GRID_CONST CUtensorMap q, TC_GRID_CONST CUtensorMap k, TC_GRID_CONST CUtensorMap v,
          TC_GRID_CONST CUtensorMap o, int m, int n, int heads, int planes, float c) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  const int warp = tc_warp_uniform(threadIdx.x >> 5), lane = threadIdx.x & 31, group = warp >> 2;
  const int total = (m + 127) / 128 * planes;

  name_objects(base);
  if (threadIdx.x == 0) {
    tc_mbar_init(base + Q_FULL, 1);
    tc_mbar_init(base + Q_EMPTY, 8);  // one arrival a warp
    for (int s = 0; s < K_DEPTH; s++) {
      tc_mbar_init(base + K_FULL + 8 * s, 1);
      tc_mbar_init(base + K_EMPTY + 8 * s, 2);  // one arrival a group
    }
    for (int s = 0; s < V_DEPTH; s++) {
      tc_mbar_init(base + V_FULL + 8 * s, 1);
      tc_mbar_init(base + V_EMPTY + 8 * s, 2);
    }
    tc_fence_mbar_init();
  }
  tc_syncthreads();

  if (group == 0) {
    // ---- role load: one thread ----
    tc_note_role("load");
    tc_setmaxnreg_dec<24>();
    if (threadIdx.x == 0) {
      Ring rk = {0, 1}, rv = {0, 1};  // an empty slot's first wait falls through
      u32 q_phase = 1;
      for (int t = blockIdx.x; t < total; t += gridDim.x) {
        const Tile tile(t, m, n, heads, planes);
        // prologue: put K, last tile; put Q
        if (tile.key_tiles > 0) {
          put(&k, base + K_RING, base + K_FULL, base + K_EMPTY, rk, (tile.key_tiles - 1) * KEYS,
              tile.head, tile.batch);
          rk.next(K_DEPTH);
        }
        tc_mbar_wait(base + Q_EMPTY, q_phase);
        q_phase ^= 1;
        tc_mbar_arrive_expect_tx(base + Q_FULL, Q_BYTES);
#pragma unroll
        for (int p = 0; p < PANELS; p++)
          tc_tma_load_4d(base + p * Q_PANEL, &q, base + Q_FULL, p * 64, tile.row, tile.head,
                         tile.batch);
        // steady state: put K, tile j; put V, tile j + 1
        for (int j = tile.key_tiles - 2; j >= 0; j--) {
          put(&k, base + K_RING, base + K_FULL, base + K_EMPTY, rk, j * KEYS, tile.head,
              tile.batch);
          rk.next(K_DEPTH);
          put(&v, base + V_RING, base + V_FULL, base + V_EMPTY, rv, (j + 1) * KEYS, tile.head,
              tile.batch);
          rv.next(V_DEPTH);
        }
        // epilogue: put V, tile 0
        if (tile.key_tiles > 0) {
          put(&v, base + V_RING, base + V_FULL, base + V_EMPTY, rv, 0, tile.head, tile.batch);
          rv.next(V_DEPTH);
        }
      }
    }
  } else {
    // ---- role consumer w: rows 64 w .. 64 w + 63 of the tile ----
    const int w = group - 1;
    tc_note_role("consumer", w);
    tc_setmaxnreg_inc<240>();  // 24 * 128 + 240 * 256 = 168 * 384
    const bool leader = (threadIdx.x & 127) == 0;
    const int warp_row = 64 * w + (warp & 3) * 16;  // the warp's first row in the tile
    const int row_t = warp_row + (lane >> 2),
              column_t = (lane & 3) * 2;  // this thread's first row and column
    const u32 q_low = (base + w * 8192) / 16 | 1 << 16, k_low = (base + K_RING) / 16 | 1 << 16;
    const u32 v_low = (base + V_RING) / 16 | KV_PANEL / 16 << 16;
    const u32 stage = base + warp_row * 128;  // the warp's rows of Q, and later of o
    float S[KEYS / 2], A[HEAD / 2], R[2], L[2], X[2];
    u32 P[KEYS / 16][4];
    Ring rk = {0, 0}, rv = {0, 0};
    u32 q_phase = 0;
    for (int t = blockIdx.x; t < total; t += gridDim.x) {
      const Tile tile(t, m, n, heads, planes);
      const int first = tile.row + n - m + 1;  // keys that row 0 of a causal tile sees
      const int limit0 = (CAUSAL && first + row_t < n ? first + row_t : n) - column_t;
      const int limit1 = (CAUSAL && first + row_t + 8 < n ? first + row_t + 8 : n) - column_t;
      const int whole =
          CAUSAL && first + 64 * w < n ? first + 64 * w : n;  // keys that every row sees
      R[0] = R[1] = tc_neg_inf();
      L[0] = L[1] = 0.f;
#pragma unroll
      for (int i = 0; i < HEAD / 2; i++) A[i] = 0.f;
      // get Q
      tc_mbar_wait(base + Q_FULL, q_phase);
      q_phase ^= 1;
      if (tile.key_tiles > 0) {
        // prologue: S = Q K^T, last tile; P = softmax S
        tc_mbar_wait(base + K_FULL + 8 * rk.slot, rk.phase);
        if (w == 1) wait_turn(w);
        start_scores(S, q_low, k_low + rk.slot * (KV_BYTES / 16));
        if (w == 0 || tile.key_tiles > 1) pass_turn(w);
        tc_wgmma_wait<0>();
        tc_tie(S);
        if (leader) tc_mbar_arrive(base + K_EMPTY + 8 * rk.slot);
        rk.next(K_DEPTH);
        const int last = (tile.key_tiles - 1) * KEYS;
        if (last + KEYS > whole) guard(S, limit0 - last, limit1 - last);
        online_softmax(S, R, L, X, c);
        to_operand(P, S);
        if (tile.key_tiles > 1) tc_mbar_wait(base + K_FULL + 8 * rk.slot, rk.phase);

        // steady state: scores of tile j, then values of tile j + 1; the softmax of tile j runs
        // under the latter
        for (int j = tile.key_tiles - 2; j >= 0; j--) {
          wait_turn(w);
          start_scores(S, q_low, k_low + rk.slot * (KV_BYTES / 16));
          tc_mbar_wait(base + V_FULL + 8 * rv.slot, rv.phase);
          start_values(A, P, v_low + rv.slot * (KV_BYTES / 16));
          if (w == 0 || j > 0) pass_turn(w);
          // done K, tile j; S = softmax S
          tc_wgmma_wait<1>();
          tc_tie(S);
          if (leader) tc_mbar_arrive(base + K_EMPTY + 8 * rk.slot);
          rk.next(K_DEPTH);
          if (CAUSAL && (j + 1) * KEYS > whole) guard(S, limit0 - j * KEYS, limit1 - j * KEYS);
          online_softmax(S, R, L, X, c);
          // get K, tile j - 1: here, because its loop ends a basic block and so keeps the softmax
          // above the next wait
          if (j > 0) tc_mbar_wait(base + K_FULL + 8 * rk.slot, rk.phase);
          // done V, tile j + 1; A = A X, P = S: both were operands until now
          tc_wgmma_wait<0>();
          tc_tie(A);
          tc_tie(S);
          if (leader) tc_mbar_arrive(base + V_EMPTY + 8 * rv.slot);
          rv.next(V_DEPTH);
          rescale(A, X);
          to_operand(P, S);
        }

        // epilogue: A = A + P V, tile 0
        tc_mbar_wait(base + V_FULL + 8 * rv.slot, rv.phase);
        start_values(A, P, v_low + rv.slot * (KV_BYTES / 16));
        tc_wgmma_wait<0>();
        tc_tie(A);
        if (leader) tc_mbar_arrive(base + V_EMPTY + 8 * rv.slot);
        rv.next(V_DEPTH);
      }

      // store o = A / L: each warp stages its 16 rows where its rows of Q were, and stores them
      // itself
#pragma unroll
      for (int r = 0; r < 2; r++) {
        float l = L[r];
        l += tc_shfl_xor_f32(l, 1);
        l += tc_shfl_xor_f32(l, 2);
        X[r] = l == 0.f ? 0.f : tc_rcp(l);
      }
      rescale(A, X);
#pragma unroll
      for (int e = 0; e < HEAD / 16; e++) {
        const int chunk = e % 4 * 2 + (lane >> 4);
        tc_stmatrix_x4(stage + e / 4 * Q_PANEL + (lane & 15) * 128 + ((chunk ^ (lane & 7)) << 4),
                       PACK(A[8 * e], A[8 * e + 1]), PACK(A[8 * e + 2], A[8 * e + 3]),
                       PACK(A[8 * e + 4], A[8 * e + 5]), PACK(A[8 * e + 6], A[8 * e + 7]));
      }
      tc_fence_proxy_async();
      tc_syncwarp();
      if (lane == 0) {
#pragma unroll
        for (int p = 0; p < PANELS; p++)
          tc_tma_store_4d(&o, stage + p * Q_PANEL, p * 64, tile.row + warp_row, tile.head,
                          tile.batch);
        tc_tma_store_commit();
        tc_tma_store_wait_read<0>();
        tc_mbar_arrive(base + Q_EMPTY);
      }
    }
  }
}
