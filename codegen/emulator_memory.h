// Where a pointer of the kernel may point: its block's shared memory, the device heap, its own
// stack, constants of the kernel's library. Everything else is a report, and the launch stops
// before the access happens.
//
// The device heap is a file mapped by this process and by the one that drives it, at one fixed
// address here. Between two buffers lies unused memory, so that an access past an end hits no
// neighbour.
#pragma once
#include "emulator_races.h"

// ---- global memory ----
struct Buffer {
  u8* first;
  u64 bytes;
  bool initialised, written;
  Shadow shadow;
};
static u8* heap = nullptr;
static u64 heap_bytes = 0;
static std::vector<Buffer> buffers;  // by address
static Buffer* last_buffer = nullptr;
static std::unordered_map<u64, Others> released;  // by address of a flag: what its releases told

static bool in_heap(const void* p) { return (u64)((const u8*)p - heap) < heap_bytes; }
static Buffer* buffer_at(const u8* p) {
  if (last_buffer && (u64)(p - last_buffer->first) < last_buffer->bytes) return last_buffer;
  auto after = std::upper_bound(buffers.begin(), buffers.end(), p,
                                [](const u8* x, const Buffer& b) { return x < b.first; });
  if (after == buffers.begin()) return nullptr;
  Buffer* b = &*(after - 1);
  return (u64)(p - b->first) < b->bytes ? last_buffer = b : nullptr;
}
static void report_global_bounds(const u8* p, u64 bytes, bool write, const Accessor& a) {
  const Buffer* near = nullptr;
  auto distance = [&](const Buffer& b) { return p < b.first ? b.first - p : p - b.first; };
  for (auto& b : buffers)
    if (!near || distance(b) < distance(*near)) near = &b;
  if (!near)
    report("bounds",
           text("%s %s global memory, but no buffer exists", a.what, write ? "writes" : "reads"),
           a.pc, a.thread);
  else
    report("bounds",
           text("%s %s outside a global buffer of %llu bytes: %llu bytes at offset %lld", a.what,
                write ? "writes" : "reads", near->bytes, bytes, (long long)(p - near->first)),
           a.pc, a.thread);
}
// False: out of bounds, reported.
static bool touch_global(const u8* p, u64 bytes, bool write, const Accessor& a) {
  Buffer* b = buffer_at(p);
  if (!b || p + bytes > b->first + b->bytes) {
    report_global_bounds(p, bytes, write, a);
    return false;
  }
  if (write) b->written = true;
  for (u64 at = (u64)(p - b->first), end = at + bytes; at < end;) {
    const u64 stop = std::min(end, (at | 15) + 1);
    check_line(b->shadow, b->shadow.lines[at >> 4], (u32)at & 15, (u32)(stop - at), write, a,
               {nullptr, (u32)at, b->bytes}, b->initialised);
    at = stop;
  }
  return true;
}

// ---- shared memory ----
static u8* arenas = nullptr;  // one block after another, ARENA bytes apart
static std::vector<Block*> arena_owner;
static const int MOST_ARENAS = 2048;
static void open_arenas() {
  arenas = (u8*)mmap(nullptr, (size_t)MOST_ARENAS * ARENA, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arenas == (u8*)MAP_FAILED) {
    perror("arenas");
    exit(3);
  }
}
static void take_arena(Block& b) {
  for (b.arena_index = 0; b.arena_index < (int)arena_owner.size() && arena_owner[b.arena_index];
       b.arena_index++) {}
  if (b.arena_index == (int)arena_owner.size()) arena_owner.push_back(nullptr);
  if (b.arena_index >= MOST_ARENAS) {
    fprintf(stderr, "too many resident blocks\n");
    exit(3);
  }
  arena_owner[b.arena_index] = &b;
  b.arena = arenas + (size_t)b.arena_index * ARENA;
  memset(b.arena, 0xff, SHARED_BASE + b.shared_bytes);  // NaN in every float format
}
static u32 shared_rank(u32 address) { return address >> 24; }  // 0: the own block; else rank + 1
static Block* block_at(u32 address, const char* what, void* pc) {
  Block& own = *current->block;
  const u32 rank = shared_rank(address);
  if (!rank) return &own;
  if (rank > own.cluster->blocks.size()) {
    report("bounds",
           text("%s names shared memory of block %u of a cluster of %zu", what, rank - 1,
                own.cluster->blocks.size()),
           pc);
    return nullptr;
  }
  Block* b = own.cluster->blocks[rank - 1].get();
  if (b != &own && !b->live)
    report("race", text("%s on shared memory of a block of the cluster that has ended", what), pc);
  return b;
}

// An access of another block must be over before the block ends: checked then, by the clocks.
static void note_remote(Block& b, const char* what, Epoch e, void* pc) {
  if (&b != current->block) b.remote[slot_of(e)] = {e, what, pc};
}

// ---- plain accesses, as the instrumented kernel calls them ----
static std::vector<std::pair<u8*, u8*>> constants;  // segments of the kernel's library

static void count_access(const u8*, u32, bool, void*);  // emulator_counts.h
static void touch_registers(u8*, u32, bool, void*);     // emulator_tcgen05.h
static void touch(void* pointer, u32 bytes, bool write, void* pc) {
  if (!current) return;
  u8* p = (u8*)pointer;
  Thread& t = *current;
  if ((u64)(p - stacks) < (u64)MOST_STACKS * STACK) {
    if ((p - stacks) / STACK != t.stack)
      report("bounds", "access to another thread's local memory", pc);
    else if (t.watched) touch_registers(p, bytes, write, pc);
    return;
  }
  if (p == (u8*)&emu_self || (u64)(p - (u8*)&t.self) < sizeof t.self) return;
  const bool shared = (u64)(p - arenas) < (u64)MOST_ARENAS * ARENA;
  if (shared || in_heap(p)) {
    t.touched = true;
    if (timed) t.time += CALL / 2;
    const u32 natural = bytes >= 16 ? 16 : bytes;
    if ((bytes & (bytes - 1)) == 0 && (u64)p % natural)
      report("alignment",
             text("%u-byte %s at an address that is %u past a multiple of %u", bytes,
                  write ? "write" : "read", (u32)((u64)p % natural), natural),
             pc);
    count_access(p, bytes, write, pc);
    if (!shared) {
      touch_global(p, bytes, write, accessor(t, write ? "plain write" : "plain read", pc));
      return;
    }
    const int index = (int)((p - arenas) / ARENA);
    Block* b = index < (int)arena_owner.size() ? arena_owner[index] : nullptr;
    if (b != t.block) {
      report("bounds", "plain access to shared memory of another block", pc);
      if (!b) stop_launch();
      return;
    }
    touch_shared(*b, (u32)(p - b->arena), bytes, write,
                 accessor(t, write ? "plain write" : "plain read", pc));
    return;
  }
  for (auto& c : constants)
    if (p >= c.first && p + bytes <= c.second) return;
  report("bounds",
         text("%s of %u bytes at address 0x%llx, which is in no memory of the kernel",
              write ? "write" : "read", bytes, (u64)p),
         pc);
  stop_launch();
}

#define EMU_PC __builtin_extract_return_addr(__builtin_return_address(0))
extern "C" {
#define EMU_TOUCH(n)                                                     \
  void __tsan_read##n(void* p) { touch(p, n, false, EMU_PC); }           \
  void __tsan_write##n(void* p) { touch(p, n, true, EMU_PC); }           \
  void __tsan_unaligned_read##n(void* p) { touch(p, n, false, EMU_PC); } \
  void __tsan_unaligned_write##n(void* p) { touch(p, n, true, EMU_PC); }
EMU_TOUCH(1)
EMU_TOUCH(2)
EMU_TOUCH(4) EMU_TOUCH(8) EMU_TOUCH(16) void __tsan_read_range(void* p, unsigned long n) {
  touch(p, (u32)n, false, EMU_PC);
}
void __tsan_write_range(void* p, unsigned long n) { touch(p, (u32)n, true, EMU_PC); }
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void* __tsan_memcpy(void* to, const void* from, unsigned long n) {
  touch((void*)from, (u32)n, false, EMU_PC);
  touch(to, (u32)n, true, EMU_PC);
  return memcpy(to, from, n);
}
void* __tsan_memset(void* to, int value, unsigned long n) {
  touch(to, (u32)n, true, EMU_PC);
  return memset(to, value, n);
}

u8* emu_shared() { return current->block->arena + SHARED_BASE; }
u32 emu_shared_address(const void* pointer) {
  const Block& b = *current->block;
  const u8* p = (const u8*)pointer;
  if (p < b.arena + SHARED_BASE || p > b.arena + SHARED_BASE + b.shared_bytes)
    report("bounds", "tc_smem_u32 of a pointer that is not into the block's dynamic shared memory",
           EMU_PC);
  return (u32)(p - b.arena);
}
void emu_note_role(const char* name, int index) {
  current->role = name;
  current->role_index = index;
}
void emu_note_name(u32 addr, u32 bytes, const char* name, int index) {
  for (Name& n : current->block->names)
    if (n.first == addr && n.bytes == bytes) {
      n.text = name;
      n.index = index;
      return;
    }
  current->block->names.push_back({addr, bytes, name, index});
}
}
