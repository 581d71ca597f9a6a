// C[m, n] = sum over k of A[m, k] * B[n, k]; bf16 in, f32 out. One block computes 64 x 64; four
// warps take 16 rows each. Tiles come by cp.async into two slots in turn; chunk c of row r lies at
// c ^ (r & 7).
#include "device.cuh"

enum {
  TILE = 64,
  THREADS = 128,
  ROW_BYTES = TILE * 2,
  TILE_BYTES = TILE * ROW_BYTES,
  SLOT_BYTES = 2 * TILE_BYTES
};

TC_DEV u32 chunk_at(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ (row & 7)) << 4); }

// rows [row0, row0 + 64) and columns [k0, k0 + 64) of a matrix; what lies outside becomes zero
TC_DEV void put_tile(u32 dst, const u16* g, int row0, int rows, int k0, int depth) {
  for (int i = threadIdx.x; i < TILE * 8; i += THREADS) {
    const int row = i >> 3, chunk = i & 7;
    const bool inside = row0 + row < rows && k0 + chunk * 8 < depth;
    const u16* from = inside ? g + (u64)(row0 + row) * depth + k0 + chunk * 8 : g;
    tc_cp_async16(dst + chunk_at(row, chunk), from, inside ? 16 : 0);
  }
}

TC_KERNEL(128, 1) gemm(const u16* A, const u16* B, float* C, int m, int n, int depth) {
  TC_DYN_SMEM(smem);
  const u32 base = tc_smem_u32(smem);
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE, tiles = (depth + TILE - 1) / TILE;
  for (int slot = 0; slot < 2; slot++) {
    tc_note_name(base + slot * SLOT_BYTES, TILE_BYTES, "A", slot);
    tc_note_name(base + slot * SLOT_BYTES + TILE_BYTES, TILE_BYTES, "B", slot);
  }
  float d[8][4];
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) d[j][i] = 0.f;

  // prologue: put tile 0
  put_tile(base, A, m0, m, 0, depth);
  put_tile(base + TILE_BYTES, B, n0, n, 0, depth);
  tc_cp_async_commit();
  for (int k = 0; k < tiles; k++) {
    const u32 slot = base + (k & 1) * SLOT_BYTES, next = base + (~k & 1) * SLOT_BYTES;
    // put tile k + 1
    if (k + 1 < tiles) {
      put_tile(next, A, m0, m, (k + 1) * TILE, depth);
      put_tile(next + TILE_BYTES, B, n0, n, (k + 1) * TILE, depth);
    }
    tc_cp_async_commit();
    // get tile k
    tc_cp_async_wait<1>();
    tc_syncthreads();
#pragma unroll
    for (int step = 0; step < TILE / 16; step++) {
      u32 a[4];
      tc_ldmatrix_x4(a, slot + chunk_at(warp * 16 + (lane & 15), step * 2 + (lane >> 4)));
#pragma unroll
      for (int j = 0; j < 4; j++) {
        u32 b[4];
        tc_ldmatrix_x4(
            b, slot + TILE_BYTES +
                   chunk_at(j * 16 + (lane & 7) + (lane >> 4) * 8, step * 2 + (lane >> 3 & 1)));
        tc_mma_m16n8k16_bf16(d[2 * j], a, b[0], b[1]);
        tc_mma_m16n8k16_bf16(d[2 * j + 1], a, b[2], b[3]);
      }
    }
    // all have done tile k: its slot is free
    tc_syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = m0 + warp * 16 + (lane >> 2) + (i >> 1) * 8,
                column = n0 + j * 8 + (lane & 3) * 2 + (i & 1);
      if (row < m && column < n) C[(u64)row * n + column] = d[j][i];
    }
}
