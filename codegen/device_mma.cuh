// mma.sync: one warp multiplies 16 rows by 8 columns. Included by device.cuh only.
#pragma once

#define TC_MMA_F32(name, shape, a_type, b_type)                                         \
  TC_DEV void name(float (&d)[4], const u32(&a)[4], u32 b0, u32 b1) {                   \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." a_type "." b_type            \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));       \
  }
// no moves of zeros into d before the first step of a sum
#define TC_MMA_ZERO(name, shape, a_type, b_type)                                            \
  TC_DEV void name(float (&d)[4], const u32(&a)[4], u32 b0, u32 b1) {                       \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." a_type "." b_type                \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};" \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.f)); \
  }
#define TC_MMA_S32(name, shape, type)                                                   \
  TC_DEV void name(int (&d)[4], const u32(&a)[4], u32 b0, u32 b1) {                     \
    asm volatile("mma.sync.aligned." shape ".row.col.s32." type "." type                \
                 ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));       \
  }
TC_MMA_F32(tc_mma_m16n8k16_f16, "m16n8k16", "f16", "f16")
TC_MMA_F32(tc_mma_m16n8k16_bf16, "m16n8k16", "bf16", "bf16")
TC_MMA_ZERO(tc_mma_m16n8k16_f16_zero, "m16n8k16", "f16", "f16")
TC_MMA_ZERO(tc_mma_m16n8k16_bf16_zero, "m16n8k16", "bf16", "bf16")
TC_MMA_F32(tc_mma_m16n8k8_tf32, "m16n8k8", "tf32", "tf32")
TC_MMA_S32(tc_mma_m16n8k32_s8, "m16n8k32", "s8")
TC_MMA_S32(tc_mma_m16n8k32_u8, "m16n8k32", "u8")

#if TC_ARCH >= 89
TC_MMA_F32(tc_mma_m16n8k32_e4m3, "m16n8k32", "e4m3", "e4m3")
TC_MMA_F32(tc_mma_m16n8k32_e5m2, "m16n8k32", "e5m2", "e5m2")
TC_DEV u16 tc_pack_e4m3(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
TC_DEV u16 tc_pack_e5m2(float low, float high) {
  u16 r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
  return r;
}
#endif
