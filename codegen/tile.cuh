// What kernels emitted for warps call beside the tc_* helpers: places in swizzled tiles, edges of
// tiles, exchanges in a quad. C++ over device.cuh, the same text on a GPU and in the emulator.
#pragma once

// for (int i = 0; i < n; i++), unrolled
#define TCT_FOR(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)

// all threads of the block over `count` pieces in turn, not unrolled: what runs at edges only
#define TCT_EACH(piece, count, threads) \
  _Pragma("unroll 1") for (int piece = threadIdx.x; piece < (count); piece += (threads))

// blocks of `block` from `lower` that start below `upper`
TC_DEV int tct_tiles(i64 lower, i64 upper, int block) {
  return upper > lower ? (int)((upper - lower + block - 1) / block) : 0;
}

// blocks of `block` from `lower` that end at `upper` or below it
TC_DEV int tct_full(i64 lower, i64 upper, int block) {
  return upper > lower ? (int)((upper - lower) / block) : 0;
}

// `left` elements from here on, of which a piece takes at most `most`
TC_DEV int tct_count(i64 left, int most) { return left < 0 ? 0 : (left < most ? (int)left : most); }

// how far it is to a limit, as far as the columns of a tile are concerned
TC_DEV int tct_limit(i64 left) { return left < -65536 ? -65536 : (left > 65536 ? 65536 : (int)left); }

// the offset of a byte of a row in a tile of ROWS rows in panels of SPAN bytes: pieces of 16 bytes
// are exchanged within their row
template <int ROWS, int SPAN> TC_DEV u32 tct_byte(u32 row, u32 byte) {
  const u32 piece = byte % SPAN / 16 ^ (row * SPAN / 128 & (SPAN / 16 - 1));
  return byte / SPAN * (ROWS * SPAN) + row * SPAN + piece * 16 + byte % 16;
}

#if TC_ARCH == 90
// a ring's barriers lie side by side: those of full slots, and then those of empty ones
#define tct_name_ring(slots, bytes, depth, barriers, name)        \
  for (int n = 0; n < (depth); n++) {                             \
    tc_note_name((slots) + n * (bytes), bytes, name, n);          \
    tc_note_name((barriers) + 8 * n, 8, "full " name, n);         \
    tc_note_name((barriers) + 8 * (n + (depth)), 8, "empty " name, n); \
  }
TC_DEV void tct_init_ring(u32 barriers, int depth, int full, int empty) {
  for (int n = 0; n < depth; n++) tc_mbar_init(barriers + 8 * n, full);
  for (int n = 0; n < depth; n++) tc_mbar_init(barriers + 8 * (depth + n), empty);
}
// a matrix operand of wgmma in 128-byte swizzle, groups of 8 rows 1024 bytes apart: the low word of
// its descriptor, which counts sixteens of bytes (of shared memory there are fewer than 2^14), and
// the whole; `panels`: the distance of panels,
// where rows lie along k
TC_DEV u32 tct_operand(u32 address, u32 panels) {
  return (address >> 4) + (panels << 16);
}
TC_DEV u64 tct_descriptor(u32 low) { return (u64)0x40000040 << 32 | low; }
#endif

// the sums of two rows of which the threads of a quad have parts
TC_DEV void tct_quad_sum(float (&v)[2]) {
  TCT_FOR(side, 2) {
    v[side] += tc_shfl_xor_f32(v[side], 1);
    v[side] += tc_shfl_xor_f32(v[side], 2);
  }
}

// a 4 x 4 transposition of words in a quad: lane q gets word q of each of the four lanes
TC_DEV void tct_quad_transpose(u32 (&v)[4], int lane) {
  const bool odd = lane & 1, upper = lane & 2;
  TCT_FOR(p, 2) {
    const u32 got = tc_shfl_xor(odd ? v[2 * p] : v[2 * p + 1], 1);
    v[2 * p] = odd ? got : v[2 * p];
    v[2 * p + 1] = odd ? v[2 * p + 1] : got;
  }
  TCT_FOR(p, 2) {
    const u32 got = tc_shfl_xor(upper ? v[p] : v[p + 2], 2);
    v[p] = upper ? got : v[p];
    v[p + 2] = upper ? v[p + 2] : got;
  }
}

// `count` of 8 elements of 16 bits, to an address that is a multiple of 16
TC_DEV void tct_store8(u16* to, const u32 (&v)[4], int count) {
  if (count == 8) {
    *(tc_u32x4*)to = {v[0], v[1], v[2], v[3]};
  } else {
    TCT_FOR(p, 8) if (p < count) to[p] = (u16)(v[p / 2] >> p % 2 * 16);
  }
}
// `count` of 2 floats, to an address that is a multiple of 8
TC_DEV void tct_store2(float* to, const float (&v)[2], int count) {
  if (count == 2) {
    *(tc_u32x2*)to = {tc_f32_bits(v[0]), tc_f32_bits(v[1])};
  } else {
    TCT_FOR(p, 2) if (p < count) to[p] = v[p];
  }
}
