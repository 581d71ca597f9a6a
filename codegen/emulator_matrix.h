// Warp-level work: shuffles, votes, ldmatrix, stmatrix, mma.sync; and the number formats and the
// multiply that the tensor-core instructions share. Products are exact in f32 (integers in 32 bits)
// and are added in order of k, each sum rounded to f32: one of the orders that hardware may take,
// and the same for every seed.
#pragma once
#include "emulator_tma.h"

// ---- number formats ----
static int bits_of(int type) {
  return type == EMU_TF32 ? 32 : type == EMU_F16 || type == EMU_BF16 ? 16 : 8;
}
static int depth_of(int type) { return 256 / bits_of(type); }  // k of one instruction: 32 bytes
static bool is_integer(int type) { return type == EMU_S8 || type == EMU_U8; }
static float f16_table[65536], e4m3_table[256], e5m2_table[256];
static void open_tables() {
  for (u32 i = 0; i < 65536; i++) f16_table[i] = emu_from_f16(i);
  for (u32 i = 0; i < 256; i++) {
    e4m3_table[i] = emu_from_e4m3(i);
    e5m2_table[i] = emu_from_e5m2(i);
  }
}
// `count` consecutive elements to f32; integers become exact small floats, and sums of them stay in
// int
static void decode(float* to, const u8* from, int count, int type) {
  switch (type) {
    case EMU_F16:
      for (int i = 0; i < count; i++) {
        u16 x;
        memcpy(&x, from + 2 * i, 2);
        to[i] = f16_table[x];
      }
      break;
    case EMU_BF16:
      for (int i = 0; i < count; i++) {
        u16 x;
        memcpy(&x, from + 2 * i, 2);
        to[i] = emu_from_bf16(x);
      }
      break;
    case EMU_TF32:
      for (int i = 0; i < count; i++) {
        u32 x;
        memcpy(&x, from + 4 * i, 4);
        to[i] = emu_float(x & 0xffffe000);
      }
      break;
    case EMU_E4M3:
      for (int i = 0; i < count; i++) to[i] = e4m3_table[from[i]];
      break;
    case EMU_E5M2:
      for (int i = 0; i < count; i++) to[i] = e5m2_table[from[i]];
      break;
    case EMU_S8:
      for (int i = 0; i < count; i++) to[i] = (float)(signed char)from[i];
      break;
    case EMU_U8:
      for (int i = 0; i < count; i++) to[i] = (float)from[i];
      break;
  }
}
// c[m][n] += a[m][k] b[k][n], blocks of 32 columns in registers; T is float or int
template <class T>
static void multiply(T* __restrict c, const float* __restrict a, const float* __restrict b, int m,
                     int n, int k, bool accumulate) {
  for (int i = 0; i < m; i++) {
    T* row = c + i * n;
    if (!accumulate) memset((void*)row, 0, n * sizeof(T));
    int j = 0;
    for (; j + 32 <= n; j += 32) {
      T sum[32];
      for (int x = 0; x < 32; x++) sum[x] = row[j + x];
      for (int p = 0; p < k; p++) {
        const T factor = (T)a[i * k + p];
        const float* other = b + p * n + j;
        for (int x = 0; x < 32; x++) sum[x] += factor * (T)other[x];
      }
      for (int x = 0; x < 32; x++) row[j + x] = sum[x];
    }
    for (; j + 8 <= n; j += 8) {
      T sum[8];
      for (int x = 0; x < 8; x++) sum[x] = row[j + x];
      for (int p = 0; p < k; p++)
        for (int x = 0; x < 8; x++) sum[x] += (T)a[i * k + p] * (T)b[p * n + j + x];
      for (int x = 0; x < 8; x++) row[j + x] = sum[x];
    }
  }
}

// ---- shuffles and votes ----
static u32 exchange(u32 value, const char* what, u64 key, void* pc, int source) {
  Thread& t = *current;
  const int generation = warp_of(t).generation & 1, first = t.id & ~31, size = warp_size(t);
  t.exchanged[generation] =
      value;  // two places in turn: a fast lane may already be in the next exchange
  if (meet_warp(what, false, key, pc)) part(warp_of(t), false);
  if (source < 0 || source >= size) return value;
  return t.block->threads[first + source]->exchanged[generation];
}
extern "C" {
u32 emu_shuffle(u32 value, int argument, int kind) {
  const int lane = current->id & 31;
  const int source = kind == EMU_XOR   ? lane ^ argument
                     : kind == EMU_IDX ? argument & 31
                     : kind == EMU_UP  ? lane - argument
                                       : lane + argument;
  return exchange(value, "warp (shuffle)", 16 + kind, EMU_PC, source);
}
u32 emu_ballot(int predicate) {
  Thread& t = *current;
  const int generation = warp_of(t).generation & 1, first = t.id & ~31;
  exchange(predicate != 0, "warp (ballot)", 20, EMU_PC, -1);
  u32 mask = 0;
  for (int i = 0; i < warp_size(t); i++)
    mask |= t.block->threads[first + i]->exchanged[generation] << i;
  return mask;
}
// The lane is hardware's choice and always the same one; a seed picks it.
bool emu_elect() {
  if (meet_warp("warp (elect.sync)", false, 21, EMU_PC)) part(warp_of(*current), false);
  const int lane = run.seed % 4 ? (int)(run.seed * 7 % (u64)warp_size(*current)) : 0;
  return (current->id & 31) == lane;
}
}

// ---- ldmatrix, stmatrix ----
static void count_matrix(const u32* addresses, int rows, bool store, void* pc);

template <class Row>
static void for_matrix_rows(int count, const char* what, bool write, void* pc, Row row) {
  Thread& self = *current;
  Block& b = *self.block;
  const int first = self.id & ~31;
  u32 addresses[32];
  for (int i = 0; i < count * 8; i++) {
    Thread& lane = *b.threads[first + i];
    addresses[i] = lane.matrix_address;
    if (lane.matrix_address & 15) {
      report("alignment",
             text("%s: row address 0x%x is no multiple of 16", what, lane.matrix_address), pc,
             &lane);
      continue;
    }
    if (touch_shared(b, lane.matrix_address, 16, write, accessor(lane, what, pc)))
      row(i / 8, i % 8, b.arena + lane.matrix_address);
  }
  count_matrix(addresses, count * 8, write, pc);
}
extern "C" {
void emu_ldmatrix(u32* r, u32 addr, int count, int transposed) {
  Thread& t = *current;
  t.matrix_address = addr;
  t.matrix_result = r;
  if (!meet_warp("warp (ldmatrix)", false, 32 + count * 2 + transposed, EMU_PC)) return;
  const int first = t.id & ~31;
  for_matrix_rows(count, "ldmatrix", false, EMU_PC, [&](int matrix, int i, const u8* row) {
    for (int k = 0; k < 8; k++) {
      const int lane = transposed ? k * 4 + i / 2 : i * 4 + k / 2,
                half = transposed ? i & 1 : k & 1;
      memcpy((u8*)&t.block->threads[first + lane]->matrix_result[matrix] + 2 * half, row + 2 * k,
             2);
    }
  });
  part(warp_of(t), false);
}
void emu_stmatrix(u32 addr, const u32* r, int count, int transposed) {
  Thread& t = *current;
  t.matrix_address = addr;
  memcpy(t.matrix_stored, r, 4 * count);
  if (!meet_warp("warp (stmatrix)", false, 48 + count * 2 + transposed, EMU_PC)) return;
  const int first = t.id & ~31;
  for_matrix_rows(count, "stmatrix", true, EMU_PC, [&](int matrix, int i, u8* row) {
    for (int k = 0; k < 8; k++) {
      const int lane = transposed ? k * 4 + i / 2 : i * 4 + k / 2,
                half = transposed ? i & 1 : k & 1;
      memcpy(row + 2 * k, (u8*)&t.block->threads[first + lane]->matrix_stored[matrix] + 2 * half,
             2);
    }
  });
  part(warp_of(t), false);
}

// ---- mma.sync: m16 n8, k of 32 bytes ----
// Register layout of the 16-bit shapes, in units of a 32-bit word: lane l has row l / 4 and word l
// % 4 of four; a word holds 1, 2 or 4 elements.
void emu_mma(void* d, const u32* a, u32 b0, u32 b1, int type, int zero) {
  Thread& t = *current;
  t.mma = {d, a, {b0, b1}};
  if (!meet_warp("warp (mma.sync)", false, 64 + type * 2 + zero, EMU_PC)) return;
  const int first = t.id & ~31, k = depth_of(type), per = k / 8;
  float A[16 * 32], B[32 * 8], word[4];
  for (int l = 0; l < 32; l++) {
    const auto& m = t.block->threads[first + l]->mma;
    for (int e = 0; e < 4; e++) {
      decode(word, (const u8*)&m.a[e], per, type);
      for (int h = 0; h < per; h++)
        A[((l >> 2) + (e & 1) * 8) * k + ((e >> 1) * 4 + (l & 3)) * per + h] = word[h];
    }
    for (int e = 0; e < 2; e++) {
      decode(word, (const u8*)&m.b[e], per, type);
      for (int h = 0; h < per; h++) B[((e * 4 + (l & 3)) * per + h) * 8 + (l >> 2)] = word[h];
    }
  }
  union {
    float f[16 * 8];
    int i[16 * 8];
  } C;
  auto element = [](int l, int i) { return ((l >> 2) + (i >> 1) * 8) * 8 + (l & 3) * 2 + (i & 1); };
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++)
      memcpy(&C.f[element(l, i)], (u8*)t.block->threads[first + l]->mma.d + 4 * i, 4);
  if (is_integer(type)) multiply(C.i, A, B, 16, 8, k, !zero);
  else multiply(C.f, A, B, 16, 8, k, !zero);
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++)
      memcpy((u8*)t.block->threads[first + l]->mma.d + 4 * i, &C.f[element(l, i)], 4);
  part(warp_of(t), false);
}
}
