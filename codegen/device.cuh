// The device side of the tc_* helpers (device_helpers.h): the only inline PTX of the project. No
// CUDA header is included, so NVRTC needs no include path beyond this folder. Under TC_EMULATOR the
// same include gives the host side, and a kernel's source stays as it is.
//
// ptxas facts the text depends on: barrier numbers are immediates (a register operand reserves all
// 16), ex2 and rcp carry .ftz (without it each costs three more instructions), asm volatile does
// not keep ptxas from moving a wgmma wait inside a basic block.
#pragma once
#ifdef TC_EMULATOR
#include "emulator_device.h"
#else

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
struct alignas(64) CUtensorMap {
  u64 opaque[16];
};
struct alignas(8) tc_u32x2 {
  u32 x, y;
};
struct alignas(16) tc_u32x4 {
  u32 x, y, z, w;
};

#ifndef TC_ARCH
#ifdef __CUDA_ARCH__
#define TC_ARCH (__CUDA_ARCH__ / 10)
#else
#define TC_ARCH 0
#endif
#endif
#define TC_DEV static __device__ __forceinline__
#define TC_DEV_MEMBER __device__ __forceinline__
// TC_KERNEL(threads of a block, blocks an SM) TC_CLUSTER(x, y, z) name(parameters); TC_CLUSTER may
// be left out
#define TC_KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define TC_CLUSTER(x, y, z) __cluster_dims__(x, y, z)
#define TC_GRID_CONST const __grid_constant__
#define TC_DYN_SMEM(name) extern __shared__ __align__(1024) u8 name[]

#include "device_helpers.h"

TC_DEV void tc_note_role(const char*, int) {}
TC_DEV void tc_note_name(u32, u32, const char*, int) {}

TC_DEV u32 tc_smem_u32(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }
TC_DEV float tc_bits_f32(u32 bits) { return __uint_as_float(bits); }
TC_DEV u32 tc_f32_bits(float value) { return __float_as_uint(value); }

#define TC_UNARY(name, instruction)                 \
  TC_DEV float name(float x) {                      \
    float y;                                        \
    asm(instruction " %0, %1;" : "=f"(y) : "f"(x)); \
    return y;                                       \
  }
TC_UNARY(tc_ex2, "ex2.approx.ftz.f32")
TC_UNARY(tc_lg2, "lg2.approx.ftz.f32")
TC_UNARY(tc_rcp, "rcp.approx.ftz.f32")
TC_UNARY(tc_rsqrt, "rsqrt.approx.ftz.f32")
TC_UNARY(tc_sqrt, "sqrt.rn.f32")
TC_UNARY(tc_tanh, "tanh.approx.f32")
TC_DEV float tc_max(float a, float b) { return fmaxf(a, b); }
TC_DEV float tc_min(float a, float b) { return fminf(a, b); }
TC_DEV float tc_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
TC_DEV float tc_neg_inf() { return __int_as_float(0xff800000); }
TC_DEV u32 tc_pack_f16(float low, float high) {
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
TC_DEV u32 tc_pack_bf16(float low, float high) {
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
TC_DEV u16 tc_to_f16(float x) {
  u16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
TC_DEV u16 tc_to_bf16(float x) {
  u16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
}
TC_DEV float tc_from_f16(u16 x) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
}
TC_DEV float tc_from_bf16(u16 x) { return __uint_as_float((u32)x << 16); }
TC_DEV u32 tc_to_tf32(float x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
template <int N> TC_DEV void tc_tie(float (&r)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(r[i])::"memory");
}

TC_DEV void tc_syncthreads() { __syncthreads(); }
TC_DEV void tc_syncwarp() { __syncwarp(); }
template <int ID, int N> TC_DEV void tc_bar_sync() {
  asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(N) : "memory");
}
template <int ID, int N> TC_DEV void tc_bar_arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(N) : "memory");
}
TC_DEV u32 tc_shfl_xor(u32 value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
TC_DEV u32 tc_shfl_idx(u32 value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }
TC_DEV u32 tc_shfl_up(u32 value, int delta) { return __shfl_up_sync(0xffffffffu, value, delta); }
TC_DEV u32 tc_shfl_down(u32 value, int delta) {
  return __shfl_down_sync(0xffffffffu, value, delta);
}
TC_DEV float tc_shfl_xor_f32(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
TC_DEV float tc_shfl_idx_f32(float value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
TC_DEV float tc_shfl_up_f32(float value, int delta) {
  return __shfl_up_sync(0xffffffffu, value, delta);
}
TC_DEV float tc_shfl_down_f32(float value, int delta) {
  return __shfl_down_sync(0xffffffffu, value, delta);
}
TC_DEV u32 tc_ballot(int predicate) { return __ballot_sync(0xffffffffu, predicate); }
TC_DEV int tc_warp_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

TC_DEV void tc_fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
TC_DEV u32 tc_load_acquire(const u32* address) {
  u32 r;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(r) : "l"(address) : "memory");
  return r;
}
TC_DEV void tc_store_release(u32* address, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
TC_DEV void tc_store_x2(void* address, tc_u32x2 words) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(words.x), "r"(words.y));
}
TC_DEV void tc_store_x4(void* address, tc_u32x4 words) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words.x),
               "r"(words.y), "r"(words.z), "r"(words.w));
}
#define TC_ATOMIC(name, operation)                                     \
  TC_DEV u32 name(u32* address, u32 value) {                           \
    u32 r;                                                             \
    asm volatile("atom.acq_rel.gpu.global." operation " %0, [%1], %2;" \
                 : "=r"(r)                                             \
                 : "l"(address), "r"(value)                            \
                 : "memory");                                          \
    return r;                                                          \
  }
TC_ATOMIC(tc_atomic_add, "add.u32")
TC_ATOMIC(tc_atomic_max, "max.u32")
TC_ATOMIC(tc_atomic_min, "min.u32")
TC_ATOMIC(tc_atomic_exchange, "exch.b32")
TC_DEV u32 tc_atomic_cas(u32* address, u32 expected, u32 value) {
  u32 r;
  asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(r)
               : "l"(address), "r"(expected), "r"(value)
               : "memory");
  return r;
}
TC_DEV void tc_reduce_add_f32(float* address, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}
TC_DEV void tc_reduce_add_u32(u32* address, u32 value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
TC_DEV void tc_reduce_add_f16x2(u32* address, u32 value) {
  asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(address), "r"(value)
               : "memory");
}
TC_DEV void tc_reduce_add_bf16x2(u32* address, u32 value) {
#if TC_ARCH >= 90
  asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(address), "r"(value)
               : "memory");
#else  // a compare-and-swap loop: the instruction exists from sm_90 on
  u32 seen = *(volatile u32*)address, assumed;
  do {
    assumed = seen;
    u32 sum = tc_pack_bf16(tc_from_bf16((u16)assumed) + tc_from_bf16((u16)value),
                           tc_from_bf16((u16)(assumed >> 16)) + tc_from_bf16((u16)(value >> 16)));
    seen = tc_atomic_cas(address, assumed, sum);
  } while (seen != assumed);
#endif
}

#include "device_copy.cuh"
#include "device_mma.cuh"
#if TC_ARCH >= 90
#include "device_barrier.cuh"
#include "device_tma.cuh"
#endif
#if TC_ARCH == 90
#include "device_wgmma.cuh"
#endif
#if TC_ARCH == 100 || TC_ARCH == 103
#include "device_tcgen05.cuh"
#endif
#endif
