// The tc_* helpers: every prototype, once, with its meaning. A kernel is C++ that calls these and
// nothing else of the hardware. device*.cuh defines them in PTX, emulator_device*.h for the host; a
// test holds the three lists equal, name by name and parameter by parameter. One prototype a line:
// the test reads lines.
//
// Addresses named `bar`, `dst`, `src`, `addr` of type u32 are shared-memory addresses
// (tc_smem_u32). 16-bit operands travel in pairs, the lower index in the lower half of a u32; 8-bit
// operands in fours. TC_ARCH is 80, 86, 89, 90, 100, 103 or 120. Nothing here includes a CUDA
// header.
#pragma once
// clang-format off

// ---- what the emulator's reports call things; no code on the device ----
// role of the calling thread from here on
TC_DEV void tc_note_role(const char* name, int index = -1);
// name of shared memory [addr, addr + bytes): a barrier, a ring slot, a staging buffer
TC_DEV void tc_note_name(u32 addr, u32 bytes, const char* name, int index = -1);

// ---- addresses, bits ----
// shared-memory address of a pointer into dynamic shared memory
TC_DEV u32 tc_smem_u32(const void* pointer);
TC_DEV float tc_bits_f32(u32 bits);
TC_DEV u32 tc_f32_bits(float value);

// ---- arithmetic that plain C++ would leave to flags: each is one rounding ----
// 2^x, relative error below 2^-22 on hardware, correctly rounded here; denormal results are 0
TC_DEV float tc_ex2(float x);
// log2 x
TC_DEV float tc_lg2(float x);
// 1 / x, within 1 unit in the last place on hardware; denormals are 0
TC_DEV float tc_rcp(float x);
// 1 / sqrt(x)
TC_DEV float tc_rsqrt(float x);
// sqrt(x), correctly rounded
TC_DEV float tc_sqrt(float x);
// tanh(x), relative error below 2^-11 on hardware
TC_DEV float tc_tanh(float x);
// maximum and minimum; a NaN operand gives the other one
TC_DEV float tc_max(float a, float b);
TC_DEV float tc_min(float a, float b);
// a * b + c, rounded once
TC_DEV float tc_fma(float a, float b, float c);
TC_DEV float tc_neg_inf();
// round to nearest even, two values into one word
TC_DEV u32 tc_pack_f16(float low, float high);
TC_DEV u32 tc_pack_bf16(float low, float high);
TC_DEV u16 tc_to_f16(float x);
TC_DEV u16 tc_to_bf16(float x);
TC_DEV float tc_from_f16(u16 x);
TC_DEV float tc_from_bf16(u16 x);
// nearest tf32 (10 bits of mantissa), ties away from zero, as f32 bits
TC_DEV u32 tc_to_tf32(float x);
// keeps the compiler from moving reads of `r` above this point; no instruction
template <int N> TC_DEV void tc_tie(float (&r)[N]);

// ---- threads of a block ----
TC_DEV void tc_syncthreads();
TC_DEV void tc_syncwarp();
// named barrier ID (1..15) of N threads (a multiple of 32): wait, or arrive without waiting
template <int ID, int N> TC_DEV void tc_bar_sync();
template <int ID, int N> TC_DEV void tc_bar_arrive();
// whole-warp exchanges: value of lane ^ mask, of `lane`, of lane - delta, of lane + delta (own value past the end)
TC_DEV u32 tc_shfl_xor(u32 value, int mask);
TC_DEV u32 tc_shfl_idx(u32 value, int lane);
TC_DEV u32 tc_shfl_up(u32 value, int delta);
TC_DEV u32 tc_shfl_down(u32 value, int delta);
TC_DEV float tc_shfl_xor_f32(float value, int mask);
TC_DEV float tc_shfl_idx_f32(float value, int lane);
TC_DEV float tc_shfl_up_f32(float value, int delta);
TC_DEV float tc_shfl_down_f32(float value, int delta);
// bit i is lane i's predicate
TC_DEV u32 tc_ballot(int predicate);
// lane 0's value, which the compiler then knows to be equal in the warp
TC_DEV int tc_warp_uniform(int value);

// ---- memory shared between blocks (global, device scope) ----
TC_DEV void tc_fence_gpu();
TC_DEV u32 tc_load_acquire(const u32* address);
TC_DEV void tc_store_release(u32* address, u32 value);
// aligned words at once, to memory that the kernel does not read
TC_DEV void tc_store_x2(void* address, tc_u32x2 words);
TC_DEV void tc_store_x4(void* address, tc_u32x4 words);
// old value; acquire and release
TC_DEV u32 tc_atomic_add(u32* address, u32 value);
TC_DEV u32 tc_atomic_max(u32* address, u32 value);
TC_DEV u32 tc_atomic_min(u32* address, u32 value);
TC_DEV u32 tc_atomic_exchange(u32* address, u32 value);
TC_DEV u32 tc_atomic_cas(u32* address, u32 expected, u32 value);
// reductions without a result, relaxed: f32, and pairs of 16-bit numbers
TC_DEV void tc_reduce_add_f32(float* address, float value);
TC_DEV void tc_reduce_add_f16x2(u32* address, u32 value);
TC_DEV void tc_reduce_add_bf16x2(u32* address, u32 value);
TC_DEV void tc_reduce_add_u32(u32* address, u32 value);

// ---- cp.async: 16, 8 or 4 bytes from global to shared; bytes past `bytes` become zero ----
TC_DEV void tc_cp_async16(u32 dst, const void* src, int bytes);
TC_DEV void tc_cp_async8(u32 dst, const void* src, int bytes);
TC_DEV void tc_cp_async4(u32 dst, const void* src, int bytes);
TC_DEV void tc_cp_async_commit();
// waits until at most N groups of this thread are pending
template <int N> TC_DEV void tc_cp_async_wait();

// ---- 8x8 matrices of 16-bit numbers; lane 8 i + r names row r of matrix i ----
TC_DEV void tc_ldmatrix_x1(u32 (&r)[1], u32 addr);
TC_DEV void tc_ldmatrix_x2(u32 (&r)[2], u32 addr);
TC_DEV void tc_ldmatrix_x4(u32 (&r)[4], u32 addr);
TC_DEV void tc_ldmatrix_x1_trans(u32 (&r)[1], u32 addr);
TC_DEV void tc_ldmatrix_x2_trans(u32 (&r)[2], u32 addr);
TC_DEV void tc_ldmatrix_x4_trans(u32 (&r)[4], u32 addr);

// ---- mma.sync, A row-major, B column-major: d += a b, or d = a b (_zero) ----
TC_DEV void tc_mma_m16n8k16_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
TC_DEV void tc_mma_m16n8k16_f16_zero(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
TC_DEV void tc_mma_m16n8k16_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
TC_DEV void tc_mma_m16n8k16_bf16_zero(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
TC_DEV void tc_mma_m16n8k8_tf32(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
TC_DEV void tc_mma_m16n8k32_s8(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
TC_DEV void tc_mma_m16n8k32_u8(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);

#if TC_ARCH >= 89
// ---- 8-bit floats ----
// round to nearest even, saturating at the largest finite value
TC_DEV u16 tc_pack_e4m3(float low, float high);
TC_DEV u16 tc_pack_e5m2(float low, float high);
TC_DEV void tc_mma_m16n8k32_e4m3(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
TC_DEV void tc_mma_m16n8k32_e5m2(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1);
#endif

#if TC_ARCH >= 90
// true in one lane of the warp, the same one every time
TC_DEV bool tc_elect();
TC_DEV void tc_stmatrix_x1(u32 addr, u32 r0);
TC_DEV void tc_stmatrix_x2(u32 addr, u32 r0, u32 r1);
TC_DEV void tc_stmatrix_x4(u32 addr, u32 r0, u32 r1, u32 r2, u32 r3);
TC_DEV void tc_stmatrix_x1_trans(u32 addr, u32 r0);
TC_DEV void tc_stmatrix_x2_trans(u32 addr, u32 r0, u32 r1);
TC_DEV void tc_stmatrix_x4_trans(u32 addr, u32 r0, u32 r1, u32 r2, u32 r3);

// ---- mbarriers: 8 bytes, `count` arrivals and all expected bytes complete a phase ----
TC_DEV void tc_mbar_init(u32 bar, u32 count);
TC_DEV void tc_mbar_invalidate(u32 bar);
TC_DEV void tc_mbar_arrive(u32 bar);
TC_DEV void tc_mbar_arrive_expect_tx(u32 bar, u32 bytes);
TC_DEV void tc_mbar_expect_tx(u32 bar, u32 bytes);
// arrive on the barrier at the same place in block `rank` of the cluster
TC_DEV void tc_mbar_arrive_cluster(u32 bar, u32 rank);
// has the phase of this parity completed? (may wait a while); and: wait until it has
TC_DEV bool tc_mbar_try_wait(u32 bar, u32 parity);
TC_DEV void tc_mbar_wait(u32 bar, u32 parity);
// makes initialised barriers visible to the async proxy and the cluster
TC_DEV void tc_fence_mbar_init();
// orders this thread's plain shared (or all) accesses before async ones that come after it
TC_DEV void tc_fence_proxy_async();
TC_DEV void tc_fence_proxy_async_all();

// ---- TMA: boxes of 1 to 5 dimensions, the fastest coordinate first ----
TC_DEV void tc_tma_prefetch(const CUtensorMap* map);
TC_DEV void tc_tma_load_1d(u32 dst, const CUtensorMap* map, u32 bar, int c0);
TC_DEV void tc_tma_load_2d(u32 dst, const CUtensorMap* map, u32 bar, int c0, int c1);
TC_DEV void tc_tma_load_3d(u32 dst, const CUtensorMap* map, u32 bar, int c0, int c1, int c2);
TC_DEV void tc_tma_load_4d(u32 dst, const CUtensorMap* map, u32 bar, int c0, int c1, int c2, int c3);
TC_DEV void tc_tma_load_5d(u32 dst, const CUtensorMap* map, u32 bar, int c0, int c1, int c2, int c3, int c4);
// to the same place in every block of the cluster whose bit is set in `mask`; each one's barrier gets the bytes
TC_DEV void tc_tma_multicast_1d(u32 dst, const CUtensorMap* map, u32 bar, u16 mask, int c0);
TC_DEV void tc_tma_multicast_2d(u32 dst, const CUtensorMap* map, u32 bar, u16 mask, int c0, int c1);
TC_DEV void tc_tma_multicast_3d(u32 dst, const CUtensorMap* map, u32 bar, u16 mask, int c0, int c1, int c2);
TC_DEV void tc_tma_multicast_4d(u32 dst, const CUtensorMap* map, u32 bar, u16 mask, int c0, int c1, int c2, int c3);
TC_DEV void tc_tma_multicast_5d(u32 dst, const CUtensorMap* map, u32 bar, u16 mask, int c0, int c1, int c2, int c3, int c4);
TC_DEV void tc_tma_store_1d(const CUtensorMap* map, u32 src, int c0);
TC_DEV void tc_tma_store_2d(const CUtensorMap* map, u32 src, int c0, int c1);
TC_DEV void tc_tma_store_3d(const CUtensorMap* map, u32 src, int c0, int c1, int c2);
TC_DEV void tc_tma_store_4d(const CUtensorMap* map, u32 src, int c0, int c1, int c2, int c3);
TC_DEV void tc_tma_store_5d(const CUtensorMap* map, u32 src, int c0, int c1, int c2, int c3, int c4);
// global += shared, element by element, in the map's dtype
TC_DEV void tc_tma_add_1d(const CUtensorMap* map, u32 src, int c0);
TC_DEV void tc_tma_add_2d(const CUtensorMap* map, u32 src, int c0, int c1);
TC_DEV void tc_tma_add_3d(const CUtensorMap* map, u32 src, int c0, int c1, int c2);
TC_DEV void tc_tma_add_4d(const CUtensorMap* map, u32 src, int c0, int c1, int c2, int c3);
TC_DEV void tc_tma_add_5d(const CUtensorMap* map, u32 src, int c0, int c1, int c2, int c3, int c4);
// plain bulk copies; addresses and bytes are multiples of 16
TC_DEV void tc_bulk_load(u32 dst, const void* src, u32 bytes, u32 bar);
TC_DEV void tc_bulk_store(void* dst, u32 src, u32 bytes);
// groups of stores belong to the thread that issued them
TC_DEV void tc_tma_store_commit();
// waits until at most N groups have not yet read shared memory; or not yet written global memory
template <int N> TC_DEV void tc_tma_store_wait_read();
template <int N> TC_DEV void tc_tma_store_wait();

// ---- clusters ----
TC_DEV u32 tc_cluster_rank();
TC_DEV u32 tc_cluster_size();
TC_DEV void tc_cluster_arrive();
TC_DEV void tc_cluster_wait();
TC_DEV void tc_cluster_sync();
// the address in block `rank` that corresponds to `addr` here, for the accesses below
TC_DEV u32 tc_cluster_map(u32 addr, u32 rank);
TC_DEV u32 tc_cluster_load(u32 addr);
TC_DEV void tc_cluster_store(u32 addr, u32 value);
TC_DEV float tc_cluster_load_f32(u32 addr);
TC_DEV void tc_cluster_store_f32(u32 addr, float value);
#endif

#if TC_ARCH == 90 || TC_ARCH == 100 || TC_ARCH == 103 || TC_ARCH == 120
// ---- registers move between warp groups; N is a multiple of 8 in 24..256 ----
template <int N> TC_DEV void tc_setmaxnreg_inc();
template <int N> TC_DEV void tc_setmaxnreg_dec();
#endif

#if TC_ARCH == 90
// ---- wgmma: m64 nN, k 16 (16-bit), 8 (tf32) or 32 (8-bit); d = a b + (accumulate ? d : 0) ----
// a and b are matrix descriptors, or a four registers (_rs); TA, TB = 1: operand is MN-major (16-bit types only)
TC_DEV void tc_wgmma_fence();
TC_DEV void tc_wgmma_commit();
template <int N> TC_DEV void tc_wgmma_wait();
template <int N, int TA = 0, int TB = 0> TC_DEV void tc_wgmma_f16(float (&d)[N / 2], u64 a, u64 b, int accumulate);
template <int N, int TA = 0, int TB = 0> TC_DEV void tc_wgmma_bf16(float (&d)[N / 2], u64 a, u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_tf32(float (&d)[N / 2], u64 a, u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_e4m3(float (&d)[N / 2], u64 a, u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_e5m2(float (&d)[N / 2], u64 a, u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_s8(int (&d)[N / 2], u64 a, u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_u8(int (&d)[N / 2], u64 a, u64 b, int accumulate);
template <int N, int TB = 0> TC_DEV void tc_wgmma_f16_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);
template <int N, int TB = 0> TC_DEV void tc_wgmma_bf16_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_tf32_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_e4m3_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_e5m2_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_s8_rs(int (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);
template <int N> TC_DEV void tc_wgmma_u8_rs(int (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate);
#endif

#if TC_ARCH == 100 || TC_ARCH == 103
// ---- tcgen05: tensor memory of 128 lanes by 512 columns of 32 bits; one block (cta_group::1) ----
// whole warp: `columns` (a power of two from 32) are reserved, their address is written to shared memory at dst
TC_DEV void tc_tmem_alloc(u32 dst, u32 columns);
TC_DEV void tc_tmem_relinquish();
TC_DEV void tc_tmem_dealloc(u32 tmem, u32 columns);
// one thread: tensor memory (+)= a b, both from shared memory; f16 and bf16 by the instruction descriptor
TC_DEV void tc_umma_f16(u32 tmem, u64 a, u64 b, u32 instruction, int accumulate);
// arrives once on `bar` when every tcgen05.mma issued before by this thread has completed
TC_DEV void tc_umma_commit(u32 bar);
// whole warp w: lanes 32 (w mod 4) + lane, N consecutive columns; readable after tc_tmem_wait_load
template <int N> TC_DEV void tc_tmem_load(u32 (&r)[N], u32 tmem);
TC_DEV void tc_tmem_wait_load();
TC_DEV void tc_tcgen05_fence_before();
TC_DEV void tc_tcgen05_fence_after();
#endif
