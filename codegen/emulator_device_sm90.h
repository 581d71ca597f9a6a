// The part of emulator_device.h that exists from sm_90 on: barriers, TMA, clusters, wgmma, tcgen05.
#pragma once

TC_DEV bool tc_elect() { return emu_elect(); }
#define TC_STMATRIX(suffix, transposed)                                          \
  TC_DEV void tc_stmatrix_x1##suffix(u32 addr, u32 r0) {                         \
    const u32 r[] = {r0};                                                        \
    emu_stmatrix(addr, r, 1, transposed);                                        \
  }                                                                              \
  TC_DEV void tc_stmatrix_x2##suffix(u32 addr, u32 r0, u32 r1) {                 \
    const u32 r[] = {r0, r1};                                                    \
    emu_stmatrix(addr, r, 2, transposed);                                        \
  }                                                                              \
  TC_DEV void tc_stmatrix_x4##suffix(u32 addr, u32 r0, u32 r1, u32 r2, u32 r3) { \
    const u32 r[] = {r0, r1, r2, r3};                                            \
    emu_stmatrix(addr, r, 4, transposed);                                        \
  }
TC_STMATRIX(, 0)
TC_STMATRIX(_trans, 1)

TC_DEV void tc_mbar_init(u32 bar, u32 count) { emu_mbar_init(bar, count); }
TC_DEV void tc_mbar_invalidate(u32 bar) { emu_mbar_invalidate(bar); }
TC_DEV void tc_mbar_arrive(u32 bar) { emu_mbar_arrive(bar, 0); }
TC_DEV void tc_mbar_arrive_expect_tx(u32 bar, u32 bytes) { emu_mbar_arrive(bar, bytes); }
TC_DEV void tc_mbar_expect_tx(u32 bar, u32 bytes) { emu_mbar_expect(bar, bytes); }
TC_DEV void tc_mbar_arrive_cluster(u32 bar, u32 rank) {
  emu_mbar_arrive(emu_cluster_map(bar, rank), 0);
}
TC_DEV bool tc_mbar_try_wait(u32 bar, u32 parity) { return emu_mbar_try_wait(bar, parity); }
TC_DEV void tc_mbar_wait(u32 bar, u32 parity) {
  while (!emu_mbar_try_wait(bar, parity)) {}
}
TC_DEV void tc_fence_mbar_init() { emu_fence_proxy(); }
TC_DEV void tc_fence_proxy_async() { emu_fence_proxy(); }
TC_DEV void tc_fence_proxy_async_all() { emu_fence_proxy(); }

TC_DEV void tc_tma_prefetch(const CUtensorMap* map) { (void)map; }
#define TC_LIST(...) __VA_ARGS__
#define TC_FOR_EACH_RANK(F)                                              \
  F(1, TC_LIST(int c0), TC_LIST(c0))                                     \
  F(2, TC_LIST(int c0, int c1), TC_LIST(c0, c1))                         \
  F(3, TC_LIST(int c0, int c1, int c2), TC_LIST(c0, c1, c2))             \
  F(4, TC_LIST(int c0, int c1, int c2, int c3), TC_LIST(c0, c1, c2, c3)) \
  F(5, TC_LIST(int c0, int c1, int c2, int c3, int c4), TC_LIST(c0, c1, c2, c3, c4))
#define TC_TMA(rank, parameters, coordinates)                                                \
  TC_DEV void tc_tma_load_##rank##d(u32 dst, const CUtensorMap* map, u32 bar, parameters) {  \
    const int at[] = {coordinates};                                                          \
    emu_tma_load(dst, map, bar, -1, at, rank);                                               \
  }                                                                                          \
  TC_DEV void tc_tma_multicast_##rank##d(u32 dst, const CUtensorMap* map, u32 bar, u16 mask, \
                                         parameters) {                                       \
    const int at[] = {coordinates};                                                          \
    emu_tma_load(dst, map, bar, mask, at, rank);                                             \
  }                                                                                          \
  TC_DEV void tc_tma_store_##rank##d(const CUtensorMap* map, u32 src, parameters) {          \
    const int at[] = {coordinates};                                                          \
    emu_tma_store(map, src, at, rank, 0);                                                    \
  }                                                                                          \
  TC_DEV void tc_tma_add_##rank##d(const CUtensorMap* map, u32 src, parameters) {            \
    const int at[] = {coordinates};                                                          \
    emu_tma_store(map, src, at, rank, 1);                                                    \
  }
TC_FOR_EACH_RANK(TC_TMA)
TC_DEV void tc_bulk_load(u32 dst, const void* src, u32 bytes, u32 bar) {
  emu_bulk_load(dst, src, bytes, bar);
}
TC_DEV void tc_bulk_store(void* dst, u32 src, u32 bytes) { emu_bulk_store(dst, src, bytes); }
TC_DEV void tc_tma_store_commit() { emu_bulk_commit(); }
template <int N> TC_DEV void tc_tma_store_wait_read() { emu_bulk_wait(N, 1); }
template <int N> TC_DEV void tc_tma_store_wait() { emu_bulk_wait(N, 0); }

TC_DEV u32 tc_cluster_rank() { return emu_self->cluster_rank; }
TC_DEV u32 tc_cluster_size() { return emu_self->cluster_size; }
TC_DEV void tc_cluster_arrive() { emu_cluster_arrive(); }
TC_DEV void tc_cluster_wait() { emu_cluster_wait(); }
TC_DEV void tc_cluster_sync() {
  emu_cluster_arrive();
  emu_cluster_wait();
}
TC_DEV u32 tc_cluster_map(u32 addr, u32 rank) { return emu_cluster_map(addr, rank); }
TC_DEV u32 tc_cluster_load(u32 addr) { return emu_cluster_load(addr); }
TC_DEV void tc_cluster_store(u32 addr, u32 value) { emu_cluster_store(addr, value); }
TC_DEV float tc_cluster_load_f32(u32 addr) { return emu_float(emu_cluster_load(addr)); }
TC_DEV void tc_cluster_store_f32(u32 addr, float value) {
  emu_cluster_store(addr, emu_bits(value));
}

#if TC_ARCH == 90 || TC_ARCH == 100 || TC_ARCH == 103 || TC_ARCH == 120
template <int N> TC_DEV void tc_setmaxnreg_inc() { emu_setmaxnreg(N, 1); }
template <int N> TC_DEV void tc_setmaxnreg_dec() { emu_setmaxnreg(N, 0); }
#endif

#if TC_ARCH == 90
TC_DEV void tc_wgmma_fence() { emu_wgmma_fence(); }
TC_DEV void tc_wgmma_commit() { emu_wgmma_commit(); }
template <int N> TC_DEV void tc_wgmma_wait() { emu_wgmma_wait(N); }
#define TC_WGMMA_16(suffix, type)                                                                  \
  template <int N, int TA, int TB>                                                                 \
  TC_DEV void tc_wgmma_##suffix(float (&d)[N / 2], u64 a, u64 b, int accumulate) {                 \
    emu_wgmma(d, N, type, nullptr, a, b, accumulate, TA, TB);                                      \
  }                                                                                                \
  template <int N, int TB>                                                                         \
  TC_DEV void tc_wgmma_##suffix##_rs(float (&d)[N / 2], const u32(&a)[4], u64 b, int accumulate) { \
    emu_wgmma(d, N, type, a, 0, b, accumulate, 0, TB);                                             \
  }
#define TC_WGMMA(suffix, VALUE, type)                                                              \
  template <int N> TC_DEV void tc_wgmma_##suffix(VALUE(&d)[N / 2], u64 a, u64 b, int accumulate) { \
    emu_wgmma(d, N, type, nullptr, a, b, accumulate, 0, 0);                                        \
  }                                                                                                \
  template <int N>                                                                                 \
  TC_DEV void tc_wgmma_##suffix##_rs(VALUE(&d)[N / 2], const u32(&a)[4], u64 b, int accumulate) {  \
    emu_wgmma(d, N, type, a, 0, b, accumulate, 0, 0);                                              \
  }
TC_WGMMA_16(f16, EMU_F16)
TC_WGMMA_16(bf16, EMU_BF16)
TC_WGMMA(tf32, float, EMU_TF32)
TC_WGMMA(e4m3, float, EMU_E4M3)
TC_WGMMA(e5m2, float, EMU_E5M2)
TC_WGMMA(s8, int, EMU_S8)
TC_WGMMA(u8, int, EMU_U8)
#endif

#if TC_ARCH == 100 || TC_ARCH == 103
TC_DEV void tc_tmem_alloc(u32 dst, u32 columns) { emu_tmem_alloc(dst, columns); }
TC_DEV void tc_tmem_relinquish() {}
TC_DEV void tc_tmem_dealloc(u32 tmem, u32 columns) { emu_tmem_dealloc(tmem, columns); }
TC_DEV void tc_umma_f16(u32 tmem, u64 a, u64 b, u32 instruction, int accumulate) {
  emu_umma(tmem, a, b, instruction, accumulate);
}
TC_DEV void tc_umma_commit(u32 bar) { emu_umma_commit(bar); }
template <int N> TC_DEV void tc_tmem_load(u32 (&r)[N], u32 tmem) { emu_tmem_load(r, tmem, N); }
TC_DEV void tc_tmem_wait_load() { emu_tmem_wait_load(); }
TC_DEV void tc_tcgen05_fence_before() { emu_tcgen05_fence_before(); }
TC_DEV void tc_tcgen05_fence_after() { emu_tcgen05_fence_after(); }
#endif
