// What kernels for the threads of rows call beside the tc_* helpers: neighbours from and to memory in
// pieces of 16 bytes, and reductions among the threads that share a row. C++ over scalar.cuh, the
// same text on a GPU and in the emulator.
#pragma once

// element v of words of 32 bits, and back; words start as 0
TC_DEV void tcr_get(u8& x, const u32* w, int v) { x = (u8)(w[v / 4] >> (8 * (v % 4))); }
TC_DEV void tcr_get(signed char& x, const u32* w, int v) {
  x = (signed char)(w[v / 4] >> (8 * (v % 4)));
}
TC_DEV void tcr_get(u16& x, const u32* w, int v) { x = (u16)(w[v / 2] >> (16 * (v % 2))); }
TC_DEV void tcr_get(short& x, const u32* w, int v) { x = (short)(w[v / 2] >> (16 * (v % 2))); }
TC_DEV void tcr_get(u32& x, const u32* w, int v) { x = w[v]; }
TC_DEV void tcr_get(int& x, const u32* w, int v) { x = (int)w[v]; }
TC_DEV void tcr_get(float& x, const u32* w, int v) { x = tc_bits_f32(w[v]); }
TC_DEV void tcr_get(u64& x, const u32* w, int v) { x = (u64)w[2 * v + 1] << 32 | w[2 * v]; }
TC_DEV void tcr_get(i64& x, const u32* w, int v) { x = (i64)((u64)w[2 * v + 1] << 32 | w[2 * v]); }
TC_DEV void tcr_get(double& x, const u32* w, int v) {
  x = tcs_double((u64)w[2 * v + 1] << 32 | w[2 * v]);
}
TC_DEV void tcr_set(u32* w, int v, u8 x) { w[v / 4] |= (u32)x << (8 * (v % 4)); }
TC_DEV void tcr_set(u32* w, int v, signed char x) { w[v / 4] |= (u32)(u8)x << (8 * (v % 4)); }
TC_DEV void tcr_set(u32* w, int v, u16 x) { w[v / 2] |= (u32)x << (16 * (v % 2)); }
TC_DEV void tcr_set(u32* w, int v, short x) { w[v / 2] |= (u32)(u16)x << (16 * (v % 2)); }
TC_DEV void tcr_set(u32* w, int v, u32 x) { w[v] = x; }
TC_DEV void tcr_set(u32* w, int v, int x) { w[v] = (u32)x; }
TC_DEV void tcr_set(u32* w, int v, float x) { w[v] = tc_f32_bits(x); }
TC_DEV void tcr_set(u32* w, int v, u64 x) { w[2 * v] = (u32)x, w[2 * v + 1] = (u32)(x >> 32); }
TC_DEV void tcr_set(u32* w, int v, i64 x) { tcr_set(w, v, (u64)x); }
TC_DEV void tcr_set(u32* w, int v, double x) { tcr_set(w, v, tcs_bits(x)); }

// `count` of V neighbours from here on, 0 for the others; whole pieces at once where `wide`
template <int V, class T> TC_DEV void tcr_load(T* to, const T* from, i64 count, bool wide) {
  constexpr int words = (int)sizeof(T) * V / 4;
  if (words > 0 && wide && count >= V) {
    u32 w[words > 0 ? words : 1];
    if (words == 1) w[0] = *(const u32*)from;
    if (words == 2) {
      const tc_u32x2 x = *(const tc_u32x2*)from;
      w[0] = x.x, w[words - 1] = x.y;
    }
    TCT_FOR(n, words / 4) {
      const tc_u32x4 x = ((const tc_u32x4*)from)[n];
      w[4 * n] = x.x, w[4 * n + 1] = x.y, w[4 * n + 2] = x.z, w[4 * n + 3] = x.w;
    }
    TCT_FOR(v, V) tcr_get(to[v], w, v);
  } else {
    TCT_FOR(v, V) to[v] = v < count ? from[v] : T(0);
  }
}

// 16 bytes at once, which nvcc takes apart again where it merges branches
TC_DEV void tcr_store16(tc_u32x4* to, const u32* w) {
#ifdef TC_EMULATOR
  *to = {w[0], w[1], w[2], w[3]};
#else
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
#endif
}

template <int V, class T> TC_DEV void tcr_store(T* to, const T* from, i64 count, bool wide) {
  constexpr int words = (int)sizeof(T) * V / 4;
  if (words > 0 && wide && count >= V) {
    u32 w[words > 0 ? words : 1] = {};
    TCT_FOR(v, V) tcr_set(w, v, from[v]);
    if (words == 1) *(u32*)to = w[0];
    if (words == 2) *(tc_u32x2*)to = {w[0], w[words - 1]};
    TCT_FOR(n, words / 4) tcr_store16((tc_u32x4*)to + n, w + 4 * n);
  } else {
    TCT_FOR(v, V) if (v < count) to[v] = from[v];
  }
}

// a lane's value from the lane whose number differs in the bits of `mask`
TC_DEV float tcr_xor(float x, int mask) { return tc_shfl_xor_f32(x, mask); }
TC_DEV u32 tcr_xor(u32 x, int mask) { return tc_shfl_xor(x, mask); }
TC_DEV int tcr_xor(int x, int mask) { return (int)tc_shfl_xor((u32)x, mask); }
TC_DEV bool tcr_xor(bool x, int mask) { return tc_shfl_xor((u32)x, mask) != 0; }
TC_DEV u64 tcr_xor(u64 x, int mask) {
  const u32 low = tc_shfl_xor((u32)x, mask), high = tc_shfl_xor((u32)(x >> 32), mask);
  return (u64)high << 32 | low;
}
TC_DEV i64 tcr_xor(i64 x, int mask) { return (i64)tcr_xor((u64)x, mask); }
TC_DEV double tcr_xor(double x, int mask) { return tcs_double(tcr_xor(tcs_bits(x), mask)); }

// the reduction of what the GROUP threads of a row hold, the same in each: by a tree in every warp,
// then by one over the warps of the row, from `memory` of 8 bytes a warp that nobody else uses
#define TCR_REDUCER(name, expression)                                         \
  template <int GROUP, class T> TC_DEV T tcr_##name(T value, void* memory) {  \
    constexpr int LANES = GROUP < 32 ? GROUP : 32, WARPS = GROUP < 32 ? 1 : GROUP / 32; \
    TCT_FOR(n, 5) {                                                           \
      if ((1 << n) < LANES) {                                                 \
        const T x = value, y = tcr_xor(value, 1 << n);                        \
        value = (expression);                                                 \
      }                                                                       \
    }                                                                         \
    if (WARPS > 1) {                                                          \
      T* part = (T*)memory;                                                   \
      const int warp = threadIdx.x / 32;                                      \
      if (threadIdx.x % 32 == 0) part[warp] = value;                          \
      tc_syncthreads();                                                       \
      value = part[(warp & ~(WARPS - 1)) + (threadIdx.x & (WARPS - 1))];      \
      TCT_FOR(n, 5) {                                                         \
        if ((1 << n) < WARPS) {                                               \
          const T x = value, y = tcr_xor(value, 1 << n);                      \
          value = (expression);                                               \
        }                                                                     \
      }                                                                       \
    }                                                                         \
    return value;                                                             \
  }
TCR_REDUCER(sum, x + y)
TCR_REDUCER(prod, x* y)
TCR_REDUCER(max, tcs_max(x, y))
TCR_REDUCER(min, tcs_min(x, y))
TCR_REDUCER(any, x || y)
TCR_REDUCER(all, x&& y)
