// What TileLang's printed kernels call, on top of the tc_* helpers: enough to run them in the
// emulator.
#pragma once
#include "device.cuh"

typedef unsigned char uchar;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
struct bfloat16_t {
  u16 bits;
};
struct uint1 {
  u32 x;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(4) __nv_bfloat162 {
  u32 bits;
};
TC_DEV float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
TC_DEV __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {tc_pack_bf16(v.x, v.y)}; }
TC_DEV void __syncthreads() { tc_syncthreads(); }

namespace tl {
enum class DataType { kBFloat16, kFloat32 };

template <int SIZE> TC_DEV void cp_async_gs(void* dst, const void* src) {
  tc_cp_async16(tc_smem_u32(dst), src, SIZE);
}
TC_DEV void cp_async_commit() { tc_cp_async_commit(); }
template <int N> TC_DEV void cp_async_wait() { tc_cp_async_wait<N>(); }
TC_DEV void ptx_ldmatrix_x4(const void* src, void* dst) {
  tc_ldmatrix_x4(*(u32(*)[4])dst, tc_smem_u32(src));
}
TC_DEV void ptx_ldmatrix_x4_trans(const void* src, void* dst) {
  tc_ldmatrix_x4_trans(*(u32(*)[4])dst, tc_smem_u32(src));
}
template <DataType, DataType, DataType, int, int, int, bool, bool>
TC_DEV void mma_sync(float* c, const unsigned* a, const unsigned* b) {
  tc_mma_m16n8k16_bf16(*(float (*)[4])c, *(const u32(*)[4])a, b[0], b[1]);
}

#if TC_ARCH >= 90
// one lane of the first warp in each group of THREADS threads (0: of the block)
template <int THREADS> TC_DEV bool tl_shuffle_elect() {
  const int warp = THREADS ? threadIdx.x % THREADS / 32 : threadIdx.x / 32;
  return tc_warp_uniform(warp) == 0 && tc_elect();
}
TC_DEV void prefetch_tma_descriptor(const CUtensorMap& map) { tc_tma_prefetch(&map); }
TC_DEV void fence_barrier_init() { tc_fence_mbar_init(); }
template <int N> TC_DEV void warpgroup_reg_dealloc() { tc_setmaxnreg_dec<N>(); }
template <int N> TC_DEV void warpgroup_reg_alloc() { tc_setmaxnreg_inc<N>(); }

struct GmmaDescriptor {
  u64 bits;
  GmmaDescriptor operator+(int steps) const { return {bits + steps}; }
  operator uint64_t() const { return bits; }
};
template <int LAYOUT, int LEADING, int STRIDE>
TC_DEV void initialize_wgmma_descriptor(GmmaDescriptor& d, const void* start) {
  d.bits = tc_smem_u32(start) >> 4 | (u64)LEADING << 16 | (u64)STRIDE << 32 | (u64)LAYOUT << 62;
}
template <class T> TC_DEV void increase_descriptor_offset(GmmaDescriptor& d, T bytes) {
  d.bits += bytes >> 4;
}
TC_DEV void warpgroup_fence_operand(float*, int) {}
TC_DEV void warpgroup_arrive() { tc_wgmma_fence(); }
TC_DEV void warpgroup_commit_batch() { tc_wgmma_commit(); }
template <int N> TC_DEV void warpgroup_wait() { tc_wgmma_wait<N>(); }
template <DataType, DataType, DataType, int M, int N, int K, bool TA, bool TB, int, int>
TC_DEV void wgmma_ss(uint64_t a, uint64_t b, uint32_t* d, int accumulate) {
  tc_wgmma_bf16<N, TA, TB>(*(float (*)[N / 2]) d, a, b, accumulate);
}
#endif
}  // namespace tl

#if TC_ARCH >= 90
struct Barrier {
  u64 state;
  u32 at() const { return tc_smem_u32(this); }
  void init(u32 count) { tc_mbar_init(at(), count); }
  void wait(u32 parity) { tc_mbar_wait(at(), parity); }
  void arrive() { tc_mbar_arrive(at()); }
  void expect_transaction(u32 bytes) { tc_mbar_expect_tx(at(), bytes); }
  void arrive_and_expect_tx(u32 bytes) { tc_mbar_arrive_expect_tx(at(), bytes); }
};
namespace tl {
TC_DEV void tma_load(const CUtensorMap& map, Barrier& bar, void* dst, int c0, int c1) {
  tc_tma_load_2d(tc_smem_u32(dst), &map, bar.at(), c0, c1);
}
}  // namespace tl
#endif
