// Narrow number formats in portable C++: decoding to f32 and rounding to nearest even. Used by
// kernels and runtime.
#pragma once

static inline float emu_float(u32 bits) {
  float f;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}
static inline u32 emu_bits(float f) {
  u32 bits;
  __builtin_memcpy(&bits, &f, 4);
  return bits;
}

// Decode sign, `exponent` and `mantissa` bits (1 + e + m wide, IEEE-like, bias 2^(e-1) - 1) by
// moving them to f32's places and multiplying by 2^(127 - bias), which also normalises denormals.
static inline float emu_decode(u32 bits, int exponent, int mantissa) {
  const int width = 1 + exponent + mantissa, bias = (1 << (exponent - 1)) - 1;
  const u32 sign = (bits >> (width - 1) & 1) << 31, body = bits & ((1u << (width - 1)) - 1);
  const float scaled = emu_float(body << (23 - mantissa)) * emu_float((u32)(254 - bias) << 23);
  return emu_float(emu_bits(scaled) | sign);
}
// Encode with round to nearest even. `top` is the largest exponent field of a finite number; what
// is larger becomes the all-ones exponent with mantissa 0 (infinity).
static inline u32 emu_encode(float x, int exponent, int mantissa, int top) {
  const int bias = (1 << (exponent - 1)) - 1;
  const u32 bits = emu_bits(x), sign = bits >> 31 << (exponent + mantissa),
            magnitude = bits & 0x7fffffff;
  const int e = (int)(magnitude >> 23) - 127 + bias;  // exponent field before rounding
  if (e > top) return sign | (((1u << exponent) - 1) << mantissa);
  int shift = 23 - mantissa;
  u32 significand = magnitude & 0x7fffff;
  if (e > 0) significand |= (u32)e << 23;
  else {  // denormal result
    significand |= magnitude >> 23 ? 0x800000 : 0;
    shift += 1 - e;
    if (shift > 25) return sign;
  }
  const u32 kept = significand >> shift, rest = significand & ((1u << shift) - 1),
            half = 1u << (shift - 1);
  return sign | (kept + (rest > half || (rest == half && (kept & 1))));
}
static inline float emu_from_bf16(u32 x) { return emu_float(x << 16); }
static inline float emu_from_f16(u32 x) {
  return (x & 0x7c00) == 0x7c00 ? emu_float((x & 0x8000) << 16 | 0x7f800000 | (x & 0x3ff) << 13)
                                : emu_decode(x, 5, 10);
}
static inline float emu_from_e5m2(u32 x) { return emu_from_f16((x & 0xff) << 8); }
static inline float emu_from_e4m3(u32 x) {  // no infinity; all ones is NaN
  return (x & 0x7f) == 0x7f ? emu_float((x & 0x80) << 24 | 0x7fc00000) : emu_decode(x & 0xff, 4, 3);
}
static inline u32 emu_to_bf16(float x) {
  const u32 bits = emu_bits(x);
  return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static inline u32 emu_to_f16(float x) { return x != x ? 0x7fff : emu_encode(x, 5, 10, 30); }
static inline u32 emu_to_e5m2(float x) {  // saturating
  const u32 r = x != x ? 0x7f : emu_encode(x, 5, 2, 30);
  return x == x && (r & 0x7f) >= 0x7c ? (r & 0x80) | 0x7b : r;
}
static inline u32 emu_to_e4m3(float x) {  // saturating at 448; NaN is all ones
  if (x != x) return 0x7f;
  const u32 sign = emu_bits(x) >> 31 << 7, r = emu_encode(x, 4, 3, 15) & 0x7f;
  const float magnitude = x < 0 ? -x : x;
  return sign | (magnitude >= 464.f || r >= 0x7f ? 0x7e : r);
}
static inline u32 emu_to_tf32(float x) {  // ties away from zero
  const u32 bits = emu_bits(x);
  return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000;
}
// denormal results and operands flush to zero, as .ftz does
static inline float emu_flush(float x) {
  const u32 bits = emu_bits(x);
  return bits & 0x7f800000 ? x : emu_float(bits & 0x80000000);
}
