// The language's scalar functions for generated kernels: C++ over device.cuh, the same text on a
// GPU and in the emulator. Division by zero, shifts past the width, conversions out of range and NaN
// have the language's values on every path.
#pragma once

typedef long long i64;

#define TCS_INTEGER(T)                                                                    \
  TC_DEV T tcs_floordiv(T x, T y) {                                                       \
    if (y == 0) return 0;                                                                 \
    if ((T)-1 < (T)0 && y == (T)-1) return (T)(0 - (u64)x);                               \
    T q = x / y;                                                                          \
    return (x % y != 0 && ((x < 0) != (y < 0))) ? q - 1 : q;                              \
  }                                                                                       \
  TC_DEV T tcs_mod(T x, T y) { return (T)((u64)x - (u64)tcs_floordiv(x, y) * (u64)y); }   \
  TC_DEV T tcs_max(T x, T y) { return x < y ? y : x; }                                    \
  TC_DEV T tcs_min(T x, T y) { return y < x ? y : x; }                                    \
  TC_DEV T tcs_abs(T x) { return x < 0 ? (T)(0 - (u64)x) : x; }                           \
  TC_DEV T tcs_sign(T x) { return (T)((x > 0) - (x < 0)); }                               \
  TC_DEV T tcs_pow(T x, T y) {                                                            \
    if (y < 0) return x == 1 ? 1 : (x == (T)-1 ? (y % 2 ? x : (T)1) : (T)0);              \
    u64 total = 1, square = (u64)x;                                                       \
    for (u64 n = (u64)y; n; n >>= 1, square *= square)                                    \
      if (n & 1) total *= square;                                                         \
    return (T)total;                                                                      \
  }                                                                                       \
  TC_DEV T tcs_shl(T x, i64 n) {                                                          \
    return (u64)n < 8 * sizeof(T) ? (T)((u64)x << n) : (T)0;                              \
  }                                                                                       \
  TC_DEV T tcs_shr(T x, i64 n) {                                                          \
    return (u64)n < 8 * sizeof(T) ? (T)(x >> n) : (T)(x < 0 ? -1 : 0);                    \
  }                                                                                       \
  TC_DEV int tcs_popcount(T x) {                                                          \
    int count = 0;                                                                        \
    for (u64 bits = sizeof(T) == 4 ? (u64)(u32)x : (u64)x; bits; bits &= bits - 1) count++; \
    return count;                                                                         \
  }
TCS_INTEGER(int)
TCS_INTEGER(u32)
TCS_INTEGER(i64)
TCS_INTEGER(u64)

#define TCS_FLOAT(T, S, BITS, SIGN, FIELD, BIAS, FROM, TO)                               \
  TC_DEV bool tcs_negative(T x) { return (FROM(x) & SIGN) != 0; }                         \
  TC_DEV T tcs_signed(T x, T like) {                                                      \
    return TO((FROM(x) & ~SIGN) | (FROM(like) & SIGN));                                   \
  }                                                                                       \
  TC_DEV T tcs_mod(T x, T y) {                                                            \
    T rest = fmod##S(x, y);                                                               \
    if (rest == 0) return tcs_signed(rest, y);                                            \
    return (rest < 0) != (y < 0) ? rest + y : rest;                                       \
  }                                                                                       \
  TC_DEV T tcs_floordiv(T x, T y) {                                                       \
    if (y == 0) return x / y;                                                             \
    T rest = fmod##S(x, y), quotient = (x - rest) / y;                                    \
    if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;                                \
    if (quotient == 0) return tcs_signed(quotient, x / y);                                \
    T whole = floor##S(quotient);                                                         \
    return quotient - whole > (T)0.5 ? whole + 1 : whole;                                 \
  }                                                                                       \
  TC_DEV T tcs_abs(T x) { return fabs##S(x); }                                            \
  TC_DEV T tcs_sign(T x) { return x > 0 ? (T)1 : (x < 0 ? (T)-1 : x); }                   \
  TC_DEV T tcs_sigmoid(T x) {                                                             \
    T power = exp##S(-fabs##S(x));                                                        \
    return (x < 0 ? power : (T)1) / (1 + power);                                          \
  }                                                                                       \
  TC_DEV T tcs_pow(T x, T y) { return pow##S(x, y); }                                     \
  TC_DEV int tcs_exponent(T x) {                                                          \
    if (x != x) return 0;                                                                 \
    if (x == 0) return -2147483647 - 1;                                                   \
    BITS field = (FROM(x) & ~SIGN) >> FIELD;                                              \
    if (field > 2 * BIAS) return 2147483647;                                              \
    if (field) return (int)field - BIAS;                                                  \
    BITS scaled = FROM(x * (T)18446744073709551616.0) & ~SIGN;                            \
    return (int)(scaled >> FIELD) - BIAS - 64;                                            \
  }                                                                                       \
  TC_DEV T tcs_ldexp(T x, i64 n) {                                                        \
    n = n > 5000 ? 5000 : (n < -5000 ? -5000 : n);                                        \
    while (n > BIAS) x *= TO((BITS)(2 * BIAS) << FIELD), n -= BIAS;                       \
    /* one rounding into the subnormals: scale up to them with an exact product */        \
    if (n < 0) {                                                                          \
      int at = tcs_exponent(x);                                                           \
      while (n < -BIAS + 1 && at + n < -2 * BIAS) x *= (T)0.5, n++;                       \
      if (n < -BIAS + 1) {                                                                \
        T part = TO((BITS)1 << FIELD);                                                    \
        return x * TO((BITS)(n + BIAS - 1 + BIAS) << FIELD) * part;                       \
      }                                                                                   \
    }                                                                                     \
    return x * TO((BITS)(n + BIAS) << FIELD);                                             \
  }                                                                                       \
  TC_DEV i64 tcs_integer(T x, i64 low, i64 high) {                                        \
    if (x != x) return 0;                                                                 \
    if (x >= (T)9223372036854775808.0) return high;                                       \
    if (x <= (T)-9223372036854775808.0) return low;                                       \
    i64 y = (i64)x;                                                                       \
    return y < low ? low : (y > high ? high : y);                                         \
  }                                                                                       \
  TC_DEV u64 tcs_unsigned(T x, u64 high) {                                                \
    if (!(x > 0)) return 0;                                                               \
    if (x >= (T)18446744073709551616.0) return high;                                      \
    u64 y = (u64)x;                                                                       \
    return y > high ? high : y;                                                           \
  }

#ifdef TC_EMULATOR
TC_DEV u64 tcs_bits(double x) {
  u64 y;
  __builtin_memcpy(&y, &x, 8);
  return y;
}
TC_DEV double tcs_double(u64 x) {
  double y;
  __builtin_memcpy(&y, &x, 8);
  return y;
}
#else
TC_DEV u64 tcs_bits(double x) { return (u64)__double_as_longlong(x); }
TC_DEV double tcs_double(u64 x) { return __longlong_as_double((i64)x); }
#endif
TCS_FLOAT(float, f, u32, 0x80000000u, 23, 127, tc_f32_bits, tc_bits_f32)
TCS_FLOAT(double, , u64, 0x8000000000000000ull, 52, 1023, tcs_bits, tcs_double)
#define TCS_EXTREMA(T)                                             \
  TC_DEV T tcs_max(T x, T y) {                                     \
    if (x != x || y != y) return x + y;                            \
    return x == y ? (tcs_negative(x) ? y : x) : (x < y ? y : x);   \
  }                                                                \
  TC_DEV T tcs_min(T x, T y) {                                     \
    if (x != x || y != y) return x + y;                            \
    return x == y ? (tcs_negative(x) ? x : y) : (y < x ? y : x);   \
  }
TCS_EXTREMA(double)
#ifdef TC_EMULATOR
TCS_EXTREMA(float)
TC_DEV float tcs_divide(float x, float y) { return x / y; }
#else  // one instruction with the same meaning: NaN where an operand is, -0 below 0
TC_DEV float tcs_max(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
TC_DEV float tcs_min(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
// a quotient within 2 units in the last place, over the whole range
TC_DEV float tcs_divide(float x, float y) {
  float z;
  asm("div.full.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
#endif

// 1 / (1 + e^-x) within 3 units in the last place beside those of its exponential
TC_DEV float tcs_sigmoid_fast(float x) {
  const float power = expf(-fabsf(x));
  return (x < 0 ? power : 1.0f) * tc_rcp(1 + power);
}

// f64 to f32 rounded to odd, so that a second rounding to 16 or 8 bits is a direct one
TC_DEV float tcs_odd(double x) {
  float y = (float)x;
  if (x != x || (double)y == x || y - y != 0) return y;
  u32 bits = tc_f32_bits(y);
  if (fabs((double)y) > fabs(x)) bits--;
  return tc_bits_f32(bits | 1);
}
TC_DEV float tcs_from_bf16(u16 x) { return tc_bits_f32((u32)x << 16); }
TC_DEV u16 tcs_to_bf16(float x) {
  u32 bits = tc_f32_bits(x);
  if (x != x) return (u16)((bits | 0x400000) >> 16);
  return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
// f8e5m2 is the upper half of an f16; the exponent bias of f8e4m3 is 8 less, its NaN is 0x7f
TC_DEV float tcs_from_f8e5m2(u8 x) { return tc_from_f16((u16)(x << 8)); }
TC_DEV float tcs_from_f8e4m3(u8 x) {
  if ((x & 0x7f) == 0x7f) return tc_bits_f32(0x7fc00000u);
  return 256 * tc_from_f16((u16)((x & 0x80) << 8 | (x & 0x7f) << 7));
}
// Nearest even in an f8 with `fraction` fraction bits, whose least normal number is 2**normal: what
// is smaller is rounded by adding the f32 whose last bit has the weight of the smallest f8.
TC_DEV u8 tcs_to_f8(float x, int fraction, int normal, u32 last, u32 nan) {
  const int shift = 23 - fraction;
  const u32 bits = tc_f32_bits(x), size = bits & 0x7fffffffu;
  const u32 magic = (u32)(150 + normal - fraction) << 23;
  u32 code = (size + ((size >> shift) & 1) + (1u << (shift - 1)) - 1) >> shift;
  code -= (u32)(126 + normal) << fraction;
  if (size < (u32)(127 + normal) << 23)
    code = tc_f32_bits(tc_bits_f32(size) + tc_bits_f32(magic)) - magic;
  code = x != x ? nan : (code < last ? code : last);
  return (u8)((bits >> 24 & 0x80) | code);
}
TC_DEV u8 tcs_to_f8e4m3(float x) { return tcs_to_f8(x, 3, -6, 0x7f, 0x7f); }
TC_DEV u8 tcs_to_f8e5m2(float x) { return tcs_to_f8(x, 2, -14, 0x7c, 0x7e); }

// a subscript read from data: false, and the check's number in `error`, where it leaves [0, size)
TC_DEV bool tcs_inside(i64 position, i64 size, i64* error, i64 number) {
  if ((u64)position < (u64)size) return true;
  tc_atomic_exchange((u32*)error, (u32)number);  // many threads may; the upper half stays 0
  return false;
}

// x to the power of 2, 3 or 4
template <int N, class T> TC_DEV T tcs_power(T x) {
  const T y = x * x;
  return N == 2 ? y : (N == 3 ? y * x : y * y);
}
