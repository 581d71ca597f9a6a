// The host side of the tc_* helpers: the prototypes of device_helpers.h, forwarded to the
// emulator's runtime. A kernel includes device.cuh as ever; with TC_EMULATOR defined it gets this
// file. It is compiled with -fsanitize=thread but not linked with that library: the runtime
// supplies __tsan_read4 and its kin and so sees every plain access of the kernel.
#pragma once
#include "emulator_abi.h"
#include "emulator_numbers.h"

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define TC_DEV static __forceinline__
#define TC_DEV_MEMBER __forceinline__
#define TC_KERNEL(threads, blocks) static void
#define TC_CLUSTER(x, y, z)
#define TC_GRID_CONST const
#define TC_DYN_SMEM(name) u8* name = emu_shared()
#define threadIdx (emu_self->thread)
#define blockIdx (emu_self->block)
#define blockDim (emu_self->block_dim)
#define gridDim (emu_self->grid_dim)

// The C library's mathematics, which device code has without a header. Errors are the host
// library's, below those of the device's.
#define TC_FOR_EACH_FUNCTION(F)                                                                  \
  F(exp)                                                                                         \
  F(exp2)                                                                                        \
  F(expm1)                                                                                       \
  F(log) F(log2) F(log10) F(log1p) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) F(sinh) F(cosh)  \
      F(tanh) F(asinh) F(acosh) F(atanh) F(erf) F(erfc) F(sqrt) F(cbrt) F(fabs) F(floor) F(ceil) \
          F(trunc) F(round) F(rint)
#define TC_FOR_EACH_FUNCTION_OF_TWO(F) F(pow) F(atan2) F(fmod) F(hypot) F(fmin) F(fmax) F(copysign)
#define TC_DECLARE(name) \
  double name(double);   \
  float name##f(float);
#define TC_DECLARE_OF_TWO(name) \
  double name(double, double);  \
  float name##f(float, float);
extern "C" {
TC_FOR_EACH_FUNCTION(TC_DECLARE)
TC_FOR_EACH_FUNCTION_OF_TWO(TC_DECLARE_OF_TWO)
double fma(double, double, double);
float fmaf(float, float, float);
}
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }

#include "device_helpers.h"

TC_DEV void tc_note_role(const char* name, int index) { emu_note_role(name, index); }
TC_DEV void tc_note_name(u32 addr, u32 bytes, const char* name, int index) {
  emu_note_name(addr, bytes, name, index);
}

TC_DEV u32 tc_smem_u32(const void* pointer) { return emu_shared_address(pointer); }
TC_DEV float tc_bits_f32(u32 bits) { return emu_float(bits); }
TC_DEV u32 tc_f32_bits(float value) { return emu_bits(value); }

// exact values rounded once, through double; hardware's approximations are within the errors
// device_helpers.h states
#define TC_UNARY(name, cycles, expression) \
  TC_DEV float name(float x) {             \
    emu_cost(cycles, EMU_SFU);             \
    x = emu_flush(x);                      \
    return emu_flush((float)(expression)); \
  }
TC_UNARY(tc_ex2, 8, __builtin_exp2((double)x))
TC_UNARY(tc_lg2, 8, __builtin_log2((double)x))
TC_UNARY(tc_rcp, 8, 1.0 / x)
TC_UNARY(tc_rsqrt, 8, 1.0 / __builtin_sqrt((double)x))
TC_UNARY(tc_tanh, 8, __builtin_tanh((double)x))
TC_DEV float tc_sqrt(float x) {
  emu_cost(16, EMU_SFU);
  return (float)__builtin_sqrt((double)x);
}
TC_DEV float tc_max(float a, float b) {
  emu_cost(2, EMU_ALU);
  return a != a ? b : a < b ? b : a;
}
TC_DEV float tc_min(float a, float b) {
  emu_cost(2, EMU_ALU);
  return a != a ? b : b < a ? b : a;
}
TC_DEV float tc_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TC_DEV float tc_neg_inf() { return -__builtin_inff(); }
TC_DEV u32 tc_pack_f16(float low, float high) {
  emu_cost(2, EMU_ALU);
  return emu_to_f16(low) | emu_to_f16(high) << 16;
}
TC_DEV u32 tc_pack_bf16(float low, float high) {
  emu_cost(2, EMU_ALU);
  return emu_to_bf16(low) | emu_to_bf16(high) << 16;
}
TC_DEV u16 tc_to_f16(float x) { return (u16)emu_to_f16(x); }
TC_DEV u16 tc_to_bf16(float x) { return (u16)emu_to_bf16(x); }
TC_DEV float tc_from_f16(u16 x) { return emu_from_f16(x); }
TC_DEV float tc_from_bf16(u16 x) { return emu_from_bf16(x); }
TC_DEV u32 tc_to_tf32(float x) { return emu_to_tf32(x); }
template <int N> TC_DEV void tc_tie(float (&r)[N]) { (void)r; }

TC_DEV void tc_syncthreads() { emu_syncthreads(); }
TC_DEV void tc_syncwarp() { emu_syncwarp(); }
template <int ID, int N> TC_DEV void tc_bar_sync() { emu_bar(ID, N, 1); }
template <int ID, int N> TC_DEV void tc_bar_arrive() { emu_bar(ID, N, 0); }
TC_DEV u32 tc_shfl_xor(u32 value, int mask) { return emu_shuffle(value, mask, EMU_XOR); }
TC_DEV u32 tc_shfl_idx(u32 value, int lane) { return emu_shuffle(value, lane, EMU_IDX); }
TC_DEV u32 tc_shfl_up(u32 value, int delta) { return emu_shuffle(value, delta, EMU_UP); }
TC_DEV u32 tc_shfl_down(u32 value, int delta) { return emu_shuffle(value, delta, EMU_DOWN); }
TC_DEV float tc_shfl_xor_f32(float value, int mask) {
  return emu_float(tc_shfl_xor(emu_bits(value), mask));
}
TC_DEV float tc_shfl_idx_f32(float value, int lane) {
  return emu_float(tc_shfl_idx(emu_bits(value), lane));
}
TC_DEV float tc_shfl_up_f32(float value, int delta) {
  return emu_float(tc_shfl_up(emu_bits(value), delta));
}
TC_DEV float tc_shfl_down_f32(float value, int delta) {
  return emu_float(tc_shfl_down(emu_bits(value), delta));
}
TC_DEV u32 tc_ballot(int predicate) { return emu_ballot(predicate); }
TC_DEV int tc_warp_uniform(int value) { return (int)emu_shuffle((u32)value, 0, EMU_IDX); }

TC_DEV void tc_fence_gpu() { emu_fence_gpu(); }
TC_DEV u32 tc_load_acquire(const u32* address) {
  return emu_atomic((void*)address, 0, 0, EMU_LOAD_ACQUIRE);
}
TC_DEV void tc_store_release(u32* address, u32 value) {
  emu_atomic(address, value, 0, EMU_STORE_RELEASE);
}
TC_DEV void tc_store_x2(void* address, tc_u32x2 words) { *(tc_u32x2*)address = words; }
TC_DEV void tc_store_x4(void* address, tc_u32x4 words) { *(tc_u32x4*)address = words; }
TC_DEV u32 tc_atomic_add(u32* address, u32 value) { return emu_atomic(address, value, 0, EMU_ADD); }
TC_DEV u32 tc_atomic_max(u32* address, u32 value) { return emu_atomic(address, value, 0, EMU_MAX); }
TC_DEV u32 tc_atomic_min(u32* address, u32 value) { return emu_atomic(address, value, 0, EMU_MIN); }
TC_DEV u32 tc_atomic_exchange(u32* address, u32 value) {
  return emu_atomic(address, value, 0, EMU_EXCHANGE);
}
TC_DEV u32 tc_atomic_cas(u32* address, u32 expected, u32 value) {
  return emu_atomic(address, value, expected, EMU_CAS);
}
TC_DEV void tc_reduce_add_f32(float* address, float value) {
  emu_atomic(address, emu_bits(value), 0, EMU_REDUCE_F32);
}
TC_DEV void tc_reduce_add_f16x2(u32* address, u32 value) {
  emu_atomic(address, value, 0, EMU_REDUCE_F16X2);
}
TC_DEV void tc_reduce_add_bf16x2(u32* address, u32 value) {
  emu_atomic(address, value, 0, EMU_REDUCE_BF16X2);
}
TC_DEV void tc_reduce_add_u32(u32* address, u32 value) {
  emu_atomic(address, value, 0, EMU_REDUCE_U32);
}

TC_DEV void tc_cp_async16(u32 dst, const void* src, int bytes) {
  emu_cp_async(dst, src, bytes, 16);
}
TC_DEV void tc_cp_async8(u32 dst, const void* src, int bytes) { emu_cp_async(dst, src, bytes, 8); }
TC_DEV void tc_cp_async4(u32 dst, const void* src, int bytes) { emu_cp_async(dst, src, bytes, 4); }
TC_DEV void tc_cp_async_commit() { emu_cp_async_commit(); }
template <int N> TC_DEV void tc_cp_async_wait() { emu_cp_async_wait(N); }

TC_DEV void tc_ldmatrix_x1(u32 (&r)[1], u32 addr) { emu_ldmatrix(r, addr, 1, 0); }
TC_DEV void tc_ldmatrix_x2(u32 (&r)[2], u32 addr) { emu_ldmatrix(r, addr, 2, 0); }
TC_DEV void tc_ldmatrix_x4(u32 (&r)[4], u32 addr) { emu_ldmatrix(r, addr, 4, 0); }
TC_DEV void tc_ldmatrix_x1_trans(u32 (&r)[1], u32 addr) { emu_ldmatrix(r, addr, 1, 1); }
TC_DEV void tc_ldmatrix_x2_trans(u32 (&r)[2], u32 addr) { emu_ldmatrix(r, addr, 2, 1); }
TC_DEV void tc_ldmatrix_x4_trans(u32 (&r)[4], u32 addr) { emu_ldmatrix(r, addr, 4, 1); }

#define TC_MMA(name, VALUE, type, zero)                              \
  TC_DEV void name(VALUE(&d)[4], const u32(&a)[4], u32 b0, u32 b1) { \
    emu_mma(d, a, b0, b1, type, zero);                               \
  }
TC_MMA(tc_mma_m16n8k16_f16, float, EMU_F16, 0)
TC_MMA(tc_mma_m16n8k16_f16_zero, float, EMU_F16, 1)
TC_MMA(tc_mma_m16n8k16_bf16, float, EMU_BF16, 0)
TC_MMA(tc_mma_m16n8k16_bf16_zero, float, EMU_BF16, 1)
TC_MMA(tc_mma_m16n8k8_tf32, float, EMU_TF32, 0)
TC_MMA(tc_mma_m16n8k32_s8, int, EMU_S8, 0)
TC_MMA(tc_mma_m16n8k32_u8, int, EMU_U8, 0)

#if TC_ARCH >= 89
TC_DEV u16 tc_pack_e4m3(float low, float high) {
  return (u16)(emu_to_e4m3(low) | emu_to_e4m3(high) << 8);
}
TC_DEV u16 tc_pack_e5m2(float low, float high) {
  return (u16)(emu_to_e5m2(low) | emu_to_e5m2(high) << 8);
}
TC_MMA(tc_mma_m16n8k32_e4m3, float, EMU_E4M3, 0)
TC_MMA(tc_mma_m16n8k32_e5m2, float, EMU_E5M2, 0)
#endif
#if TC_ARCH >= 90
#include "emulator_device_sm90.h"
#endif

// A launch passes the driver's array of pointers to parameters; the entry unpacks it for one
// thread.
template <class T> struct EmuPlain {
  typedef T type;
};
template <class T> struct EmuPlain<const T> {
  typedef T type;
};
template <class T> struct EmuPlain<T&> {
  typedef typename EmuPlain<T>::type type;
};
template <int... I> struct EmuList {};
template <int N, int... I> struct EmuCount : EmuCount<N - 1, N - 1, I...> {};
template <int... I> struct EmuCount<0, I...> {
  typedef EmuList<I...> type;
};
template <class... P, int... I>
static void emu_unpack(void (*kernel)(P...), void** parameters, EmuList<I...>) {
  kernel(*(typename EmuPlain<P>::type*)parameters[I]...);
}
template <class... P> static void emu_enter(void (*kernel)(P...), void** parameters) {
  emu_unpack(kernel, parameters, typename EmuCount<sizeof...(P)>::type());
}
template <class... P> static void emu_describe(void (*)(P...), int* sizes) {
  const int all[] = {0, (int)sizeof(typename EmuPlain<P>::type)...};
  sizes[0] = (int)sizeof...(P);
  for (int i = 1; i <= sizes[0]; i++) sizes[i] = all[i];
}
// threads and blocks are TC_KERNEL's, x y z are TC_CLUSTER's; the runtime checks a launch against
// them
#define TC_EMULATOR_EXPORT(kernel, threads, blocks, x, y, z)                               \
  extern "C" void emu_entry_##kernel(void** parameters) { emu_enter(kernel, parameters); } \
  extern "C" void emu_sizes_##kernel(int* sizes) { emu_describe(kernel, sizes); }          \
  extern "C" const int emu_bounds_##kernel[5] = {threads, blocks, x, y, z};
