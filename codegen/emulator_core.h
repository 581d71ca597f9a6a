// The emulator's state: one launch, its resident clusters, their blocks and threads, and vector
// clocks.
//
// A thread of the kernel is a fiber; everything runs on one thread of the host. Happens-before is
// kept as vector clocks with one component for each thread of a cluster and one for each
// asynchronous operation in flight. Clusters know of each other only what global memory's acquire
// and release operations tell them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>
#include "emulator_abi.h"
#include "emulator_numbers.h"

enum {
  SHARED_BASE = 1024,   // shared address of the first byte of dynamic shared memory
  SHARED_MAX = 232448,  // 227 KiB, the most that a block of sm_90 can have
  ARENA = 256 << 10,    // host bytes between two blocks' arenas
  STACK = 64 << 10,
  MAX_THREADS = 1024,
};

// ---- clocks ----
// Who did something, and when: cluster, thread or operation in it, and its clock then. 0 is nobody.
// Bits: atomic 1, cluster 20, slot + 1 15, clock 28.
typedef u64 Epoch;
static const Epoch ATOMIC = 1ull << 63;
static inline Epoch epoch_of(u32 cluster, u32 slot, u32 clock) {
  return (u64)(cluster & 0xfffff) << 43 | (u64)(slot + 1) << 28 | (clock & 0xfffffff);
}
static inline u32 cluster_of(Epoch e) { return (u32)(e >> 43) & 0xfffff; }
static inline u32 slot_of(Epoch e) { return ((u32)(e >> 28) & 0x7fff) - 1; }
static inline u32 clock_of(Epoch e) { return (u32)e & 0xfffffff; }

typedef std::vector<u32> Components;
typedef std::map<u32, Components> Others;  // by cluster
static inline void join(Components& into, const Components& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  u32* a = into.data();
  const u32* b = from.data();
  for (size_t i = 0, n = from.size(); i < n; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
}

static u64 stamps;  // of clocks that learnt something
struct Clock {
  u32 cluster = 0;
  u64 stamp = 0;  // changes whenever the clock learns from another
  Components at;
  std::shared_ptr<const Others> others;  // null until something was acquired from another cluster

  void reset(u32 c, u32 width) {
    stamp = ++stamps;
    cluster = c;
    at.assign(width, 0);
    others.reset();
  }
  bool knows(Epoch e) const {
    if (!e) return true;
    const u32 slot = slot_of(e);
    if (cluster_of(e) == cluster) return slot < at.size() && at[slot] >= clock_of(e);
    if (!others) return false;
    auto found = others->find(cluster_of(e));
    return found != others->end() && slot < found->second.size() &&
           found->second[slot] >= clock_of(e);
  }
  void learn(const Others& more) {
    stamp = ++stamps;
    auto merged = std::make_shared<Others>(others ? *others : Others());
    for (auto& [c, components] : more)
      if (c == cluster) ::join(at, components);
      else ::join((*merged)[c], components);
    others = merged;
  }
  void join(const Clock& from) {
    stamp = ++stamps;
    ::join(at, from.at);
    if (from.others && from.others != others) {
      if (others) learn(*from.others);
      else others = from.others;
    }
  }
  void tell(Others& to) const {
    ::join(to[cluster], at);
    if (others)
      for (auto& [c, components] : *others) ::join(to[c], components);
  }
};

// ---- the launch's parts ----
struct Thread;
struct Block;
struct Cluster;
struct Op;
typedef std::shared_ptr<Op> OpRef;

enum Waiting {
  NOTHING,
  ON_MBARRIER,
  ON_NAMED_BARRIER,
  ON_COLLECTIVE,
  ON_CLUSTER,
  ON_CP_ASYNC,
  ON_BULK,
  ON_WGMMA,
  ON_REGISTERS,
  ON_FLAG
};
struct Wait {
  Waiting on = NOTHING;
  const char* what = "";
  u32 a = 0, b = 0;
  void* pc = nullptr;
};

// An asynchronous operation: issued with what its issuer knows, run at some later point, then known
// as done to whoever waits
struct Op {
  const char* what;
  Block* block;
  Thread* issuer;
  Clock seen, fenced;  // generic order; and the part of it fenced for the async proxy
  Epoch epoch = 0;
  bool done = false;
  void* pc = nullptr;
  std::function<void(Op&)> run;
  void* extend = nullptr;  // cp.async: the list of copies, while it may still grow
  std::vector<Thread*> waiters;
  OpRef after;                      // tcgen05: the product before it in the pipeline
  double issued = 0, finished = 0;  // virtual time
};
struct Slot {
  u32 clock = 0;
  bool busy = false, generic = false;
  const char* what = "";
  void* pc = nullptr;
};

// A meeting of a fixed set of threads: a warp's or warp group's collective, a named barrier's phase
struct Meeting {
  int arrived = 0, generation = 0;
  u64 key = 0;
  double time = 0;
  bool named = false;  // a named barrier
  std::vector<Thread*> here;
  Clock seen, fenced;
  std::vector<Epoch> arrivals, last_arrivals;  // named barriers: of this phase, of the one before
};

struct BulkStore {
  OpRef read, write;
};
struct Thread {
  EmuSelf self;
  int id = 0;    // in the block
  u32 slot = 0;  // in the cluster's clocks
  Block* block = nullptr;
  void* context = nullptr;
  int stack = -1;
  bool ready = false, done = false, starved = false;
  Wait wait;
  Clock seen, fenced, tensor;        // tensor: what tcgen05.fence::after_thread_sync has admitted
  std::shared_ptr<Others> released;  // at the last tc_fence_gpu
  const char* role = nullptr;
  int role_index = -1;
  u32 exchanged[2] = {0, 0};  // operands of warp-level calls, for the lane that does the work
  u32 matrix_address = 0, *matrix_result = nullptr, matrix_stored[4] = {0, 0, 0, 0};
  struct {
    void* d;
    const u32* a;
    u32 b[2];
  } mma = {nullptr, nullptr, {0, 0}};
  std::vector<OpRef> copies;  // cp.async not yet committed
  std::deque<std::vector<OpRef>> copy_groups;
  bool touched = true;            // has accessed memory since its last cp.async
  std::vector<BulkStore> stores;  // TMA stores not yet committed
  std::deque<std::vector<BulkStore>> store_groups;
  std::vector<std::pair<u32*, std::vector<u32>>> loads;  // tcgen05.ld in flight
  std::vector<Epoch*> tensor_reads;  // in tensor memory's cells, since the last fence::before
  int watched = 0;                   // register arrays that an operation in flight reads or writes
  OpRef last_product;                // tcgen05.mma issued last
  int polls = 0;                     // reads of an unchanged flag
  const void* polled = nullptr;
  u32 polled_value = 0;
  double time = 0;
  Epoch now() const { return epoch_of(seen.cluster, slot, seen.at[slot]); }
  void tick() { seen.at[slot]++; }  // what comes next is later than what was just released
};

struct Mbarrier {
  bool live = false;
  u32 count = 0, pending = 0;
  long long bytes = 0;           // still expected
  u64 phase = 0;                 // completed phases
  Clock seen, fenced;            // of the current phase
  Clock done_seen, done_fenced;  // of the last completed one
  Epoch made = 0;
  double time = 0, done_time = 0;
  std::vector<Thread*> waiting;
  std::vector<Epoch> arrivals, last_arrivals;  // of this phase, of the one before
};

struct Cell {
  Epoch write = 0, read[3] = {0, 0, 0};
};
// 16 bytes: one cell, or `count` parts
struct Line {
  Cell whole;
  Cell* parts;
  u32 count;
};
// of a piece of memory: zero pages until they are used
struct Shadow {
  Line* lines = nullptr;
  size_t count = 0;
  std::vector<Line*> split;
};

struct Name {
  u32 first, bytes;
  const char* text;
  int index;
};
struct WarpGroup;
struct TensorMemory;
struct Block {
  Cluster* cluster = nullptr;
  u32 rank = 0;
  EmuDim3 id{};
  int arena_index = 0;
  u8* arena = nullptr;  // arena[a] is the byte at shared address a
  u32 shared_bytes = 0;
  Shadow shadow;
  std::vector<u8> barrier_at;  // per 8 bytes: holds a live mbarrier
  std::vector<Thread*> threads;
  int live = 0;
  std::map<u32, Mbarrier> mbarriers;
  Meeting named[16];
  std::vector<int> named_generation[16];  // per thread: generation of its last arrival, plus one
  std::vector<int> named_synced[16];      // and of its last wait
  std::vector<Meeting> warps, groups;
  std::vector<std::unique_ptr<WarpGroup>> wgmma;
  std::unique_ptr<TensorMemory> tensor;
  std::deque<OpRef> tensor_queue;  // tcgen05 runs in order
  int register_pool = 0;
  std::vector<int> warp_registers;
  std::vector<Thread*> register_waiters;
  std::vector<Name> names;
  struct Remote {
    Epoch epoch;
    const char* what;
    void* pc;
  };
  std::map<u32, Remote> remote;  // the last access of another block, by who did it
};
struct Cluster {
  u32 index = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::unique_ptr<Thread>> threads;
  std::vector<Slot> slots;  // of asynchronous operations; clock slot = threads + index
  int live = 0, pending_ops = 0;
  Meeting barrier;
  Clock done_seen, done_fenced;         // of the barrier's last completed phase
  std::vector<int> barrier_generation;  // per thread: the generation it arrived in, plus one
};

// ---- virtual time (emulator_time.h) ----
// of one SM, in the order of the request's `timed` field
struct Rates {
  double copy_latency, copy_bytes;                                   // cycles; bytes a cycle
  double mma_f16, mma_f8, mma_tf32, mma_i8;                          // multiply-adds a cycle
  double copy_issue, mma_issue, mma_drain, mbarrier, named_barrier;  // cycles
  double exp;  // special-function results a cycle
};
static Rates rates;
enum { CALL = 4 };  // cycles of a helper call; a plain memory access costs half of it

struct Run {
  u64 seed = 0, steps = 0, step_limit = 0;
  EmuDim3 grid{}, block_dim{}, cluster_dim{1, 1, 1};
  u32 shared_bytes = 0;
  int registers = 255;  // of a thread at launch
  void (*entry)(void**) = nullptr;
  void** parameters = nullptr;
  std::vector<Thread*> ready;
  std::vector<OpRef> loose;                // operations that may run in any order
  std::vector<std::deque<OpRef>*> queues;  // non-empty in-order queues
  std::vector<std::unique_ptr<Cluster>> resident;
  std::vector<u32> waiting_clusters;  // not yet started, the next one last
  bool stopped = false;               // a fault after which nothing more can be run
  u64 wgmmas = 0, ops = 0, switches = 0;
};
static Run run;
static Thread* current = nullptr;
EmuSelf* emu_self = nullptr;
