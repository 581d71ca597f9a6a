// What kernels emitted for threads call where a thread has several lanes of a block: pieces of
// memory, and reductions over the lanes of all threads. C++ over device.cuh, the same text on a GPU
// and in the emulator.
#pragma once

// for (int v = 0; v < n; v++), unrolled
#define TCS_FOR(v, n) _Pragma("unroll") for (int v = 0; v < (n); v++)

// what is moved at once
template <int BYTES> struct tcs_word;
template <> struct tcs_word<16> { typedef tc_u32x4 type; };
template <> struct tcs_word<8> { typedef tc_u32x2 type; };
template <> struct tcs_word<4> { typedef u32 type; };
template <> struct tcs_word<2> { typedef u16 type; };
template <class T, int N> union tcs_piece {
  static constexpr int COUNT = N * sizeof(T) < 16 ? N : 16 / sizeof(T);
  typename tcs_word<COUNT * sizeof(T)>::type whole;
  T element[COUNT];
};

TC_DEV void tcs_put(void* to, tc_u32x4 words) { tc_store_x4(to, words); }
TC_DEV void tcs_put(void* to, tc_u32x2 words) { tc_store_x2(to, words); }
TC_DEV void tcs_put(void* to, u32 word) { *(u32*)to = word; }
TC_DEV void tcs_put(void* to, u16 half) { *(u16*)to = half; }

// N lanes, `step` elements apart, of memory that ends `left` elements from here; lanes beyond hold
// 0. WIDE: they are neighbours, and pieces of up to 16 bytes are aligned.
template <bool WIDE, class T, int N>
TC_DEV void tcs_load(T (&to)[N], const T* from, i64 left, int step) {
  if (WIDE && left >= N) {
    typedef tcs_piece<T, N> Piece;
    TCS_FOR(p, N / Piece::COUNT) {
      Piece piece;
      piece.whole = ((const decltype(piece.whole)*)from)[p];
      TCS_FOR(v, Piece::COUNT) to[p * Piece::COUNT + v] = piece.element[v];
    }
  } else {
    TCS_FOR(v, N) to[v] = v * step < left ? from[v * step] : T(0);
  }
}
template <bool WIDE, class T, int N>
TC_DEV void tcs_store(T* to, const T (&from)[N], i64 left, int step) {
  if (WIDE && left >= N) {
    typedef tcs_piece<T, N> Piece;
    TCS_FOR(p, N / Piece::COUNT) {
      Piece piece;
      TCS_FOR(v, Piece::COUNT) piece.element[v] = from[p * Piece::COUNT + v];
      tcs_put(to + p * Piece::COUNT, piece.whole);
    }
  } else {
    TCS_FOR(v, N) if (v * step < left) to[v * step] = from[v];
  }
}

TC_DEV u32 tcs_other(u32 x, int mask) { return tc_shfl_xor(x, mask); }
TC_DEV int tcs_other(int x, int mask) { return (int)tc_shfl_xor((u32)x, mask); }
TC_DEV bool tcs_other(bool x, int mask) { return tc_shfl_xor(x, mask) != 0; }
TC_DEV float tcs_other(float x, int mask) { return tc_shfl_xor_f32(x, mask); }
TC_DEV u64 tcs_other(u64 x, int mask) {
  const u32 high = tc_shfl_xor((u32)(x >> 32), mask);
  return (u64)high << 32 | tc_shfl_xor((u32)x, mask);
}
TC_DEV i64 tcs_other(i64 x, int mask) { return (i64)tcs_other((u64)x, mask); }
TC_DEV double tcs_other(double x, int mask) { return tcs_double(tcs_other(tcs_bits(x), mask)); }

// over all lanes of the block, for all threads: those of a thread, of a warp by exchanges, of the
// block through shared memory, always in the same order
#define TCS_REDUCER(name, expression)                                              \
  template <class T> TC_DEV T tcs_both_##name(T x, T y) { return (expression); }   \
  template <class T> TC_DEV T tcs_across_##name(T value, void* memory) {           \
    TCS_FOR(bit, 5) {                                                              \
      const T other = tcs_other(value, 1 << bit);                                  \
      value = tcs_both_##name(value, other);                                       \
    }                                                                              \
    if (blockDim.x == 32) return value;                                            \
    T* part = (T*)memory;                                                          \
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;                     \
    tc_syncthreads();                                                              \
    value = part[0];                                                               \
    for (u32 warp = 1; warp < blockDim.x / 32; warp++) {                           \
      value = tcs_both_##name(value, part[warp]);                                  \
    }                                                                              \
    tc_syncthreads();                                                              \
    return value;                                                                  \
  }                                                                                \
  template <class T, int N> TC_DEV T tcs_across_##name(T (&value)[N], void* memory) { \
    T own[N];                                                                      \
    TCS_FOR(v, N) own[v] = value[v];                                               \
    TCS_FOR(half, 3) {                                                             \
      const int apart = N >> (half + 1);                                           \
      TCS_FOR(v, apart) own[v] = tcs_both_##name(own[v], own[v + apart]);          \
    }                                                                              \
    return tcs_across_##name(own[0], memory);                                      \
  }
TCS_REDUCER(sum, x + y)
TCS_REDUCER(prod, x* y)
TCS_REDUCER(max, tcs_max(x, y))
TCS_REDUCER(min, tcs_min(x, y))
TCS_REDUCER(any, x || y)
TCS_REDUCER(all, x&& y)
