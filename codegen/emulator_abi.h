// What a host-compiled kernel and the emulator's runtime know of each other: one list of C
// functions. emulator_device.h (in the kernel) calls them, emulator_*.h (in the runtime) define
// them.
#pragma once

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

struct EmuDim3 {
  u32 x, y, z;
};
struct EmuSelf {
  EmuDim3 thread, block, block_dim, grid_dim;
  u32 cluster_rank, cluster_size;
};
enum EmuType { EMU_F16, EMU_BF16, EMU_TF32, EMU_E4M3, EMU_E5M2, EMU_S8, EMU_U8 };
enum EmuShuffle { EMU_XOR, EMU_IDX, EMU_UP, EMU_DOWN };
enum EmuAtomic {
  EMU_LOAD_ACQUIRE,
  EMU_STORE_RELEASE,
  EMU_ADD,
  EMU_MAX,
  EMU_MIN,
  EMU_EXCHANGE,
  EMU_CAS,
  EMU_REDUCE_F32,
  EMU_REDUCE_U32,
  EMU_REDUCE_F16X2,
  EMU_REDUCE_BF16X2
};
// units of emu_cost: 0 the thread alone, 1 the partition's special-function unit
enum EmuUnit { EMU_ALU, EMU_SFU };

extern "C" {
extern EmuSelf* emu_self;  // the running thread
u8* emu_shared();          // its block's dynamic shared memory
u32 emu_shared_address(const void* pointer);
void emu_note_role(const char* name, int index);
void emu_note_name(u32 addr, u32 bytes, const char* name, int index);
void emu_cost(double cycles, int unit);

void emu_syncthreads();
void emu_syncwarp();
void emu_bar(int id, int threads, int wait);
u32 emu_shuffle(u32 value, int argument, int kind);
u32 emu_ballot(int predicate);
bool emu_elect();

void emu_fence_gpu();
u32 emu_atomic(void* address, u32 value, u32 expected, int operation);

void emu_cp_async(u32 dst, const void* src, int bytes, int size);
void emu_cp_async_commit();
void emu_cp_async_wait(int pending);
void emu_ldmatrix(u32* r, u32 addr, int count, int transposed);
void emu_stmatrix(u32 addr, const u32* r, int count, int transposed);
void emu_mma(void* d, const u32* a, u32 b0, u32 b1, int type, int zero);

void emu_mbar_init(u32 bar, u32 count);
void emu_mbar_invalidate(u32 bar);
void emu_mbar_arrive(u32 bar, u32 bytes);
void emu_mbar_expect(u32 bar, u32 bytes);
bool emu_mbar_try_wait(u32 bar, u32 parity);
void emu_fence_proxy();

void emu_tma_load(u32 dst, const CUtensorMap* map, u32 bar, int mask, const int* at, int rank);
void emu_tma_store(const CUtensorMap* map, u32 src, const int* at, int rank, int add);
void emu_bulk_load(u32 dst, const void* src, u32 bytes, u32 bar);
void emu_bulk_store(void* dst, u32 src, u32 bytes);
void emu_bulk_commit();
void emu_bulk_wait(int pending, int read_only);

void emu_cluster_arrive();
void emu_cluster_wait();
u32 emu_cluster_map(u32 addr, u32 rank);
u32 emu_cluster_load(u32 addr);
void emu_cluster_store(u32 addr, u32 value);
void emu_setmaxnreg(int registers, int increase);

void emu_wgmma_fence();
void emu_wgmma_commit();
void emu_wgmma_wait(int pending);
void emu_wgmma(void* d, int n, int type, const u32* a, u64 a_desc, u64 b_desc, int accumulate,
               int ta, int tb);

void emu_tmem_alloc(u32 dst, u32 columns);
void emu_tmem_dealloc(u32 tmem, u32 columns);
void emu_umma(u32 tmem, u64 a, u64 b, u32 instruction, int accumulate);
void emu_umma_commit(u32 bar);
void emu_tmem_load(u32* r, u32 tmem, int columns);
void emu_tmem_wait_load();
void emu_tcgen05_fence_before();
void emu_tcgen05_fence_after();
}
