// A launch: clusters come, their threads run, what they leave behind is checked, and they go.
#pragma once
#include "emulator_time.h"

static void check_thread_end(const Thread& t) {
  bool left = !t.stores.empty();
  for (auto& group : t.store_groups)
    for (auto& s : group) left = left || s.read;
  if (left)
    report("leftover", "a thread ended without waiting until its TMA stores had read shared memory",
           nullptr, &t);
}
static void fiber_body() {
  run.entry(run.parameters);
  Thread& t = *current;
  check_thread_end(t);
  last_cycle = std::max(last_cycle, t.time);
  t.done = true;
  t.block->live--;
  leave_all(*t.block);
  t.block->cluster->live--;
  leave_fiber();
  abort();
}
// other blocks of the cluster must be done with the block's shared memory
static void check_remote_end(const Block& b) {
  if (b.remote.empty()) return;
  Clock known = b.threads[0]->seen;
  for (auto& t : b.threads) known.join(t->seen);
  for (auto& [slot, r] : b.remote)
    if (!known.knows(r.epoch))
      report("race",
             text("%s on shared memory of block %u of the cluster is not ordered before that block "
                  "ends",
                  r.what, b.rank),
             r.pc, b.threads[0]);
}
static void check_block_end(const Block& b) {
  const Thread* t = b.threads[0];
  check_remote_end(b);
  for (auto& g : b.wgmma)
    if (!g->in_flight.empty() || !g->open.empty())
      report("leftover", "the block ended with a wgmma that nobody waited for", nullptr, t);
  for (int i = 1; i < 16; i++)
    if (b.named[i].arrived)
      report("leftover",
             text("the block ended with %d of %llu arrivals on named barrier %d",
                  b.named[i].arrived, b.named[i].key, i),
             nullptr, t);
  for (auto& [at, m] : b.mbarriers)
    if (m.live && m.bytes)
      report("leftover",
             text("the block ended with %lld bytes outstanding on mbarrier %s", m.bytes,
                  name_of(b, at).c_str()),
             nullptr, t);
  if (b.tensor && b.tensor->columns)
    report("leftover",
           text("the block ended with %u columns of tensor memory allocated", b.tensor->columns),
           nullptr, t);
}

// ---- clusters ----
static EmuDim3 block_of_cluster(u32 cluster, u32 rank) {
  const EmuDim3 c = run.cluster_dim, g = run.grid;
  const u32 nx = g.x / c.x, ny = g.y / c.y;
  return {cluster % nx * c.x + rank % c.x, cluster / nx % ny * c.y + rank / c.x % c.y,
          cluster / nx / ny * c.z + rank / c.x / c.y};
}
static void make_thread(Cluster& c, Block& b, int id, u32 width) {
  auto t = std::make_unique<Thread>();
  const EmuDim3 d = run.block_dim;
  const u32 i = (u32)id;
  t->self = {
      {i % d.x, i / d.x % d.y, i / d.x / d.y}, b.id, d, run.grid, b.rank, (u32)c.blocks.size()};
  t->id = id;
  t->slot = (u32)c.threads.size();
  t->block = &b;
  for (Clock* k : {&t->seen, &t->fenced, &t->tensor}) k->reset(c.index, width);
  t->seen.at[t->slot] = 1;
  t->stack = take_stack();
  make_context(*t);
  t->ready = true;
  run.ready.push_back(t.get());
  b.threads.push_back(t.get());
  c.threads.push_back(std::move(t));
}
static void make_block(Cluster& c, u32 rank, int threads, u32 width) {
  Block& b = *c.blocks[rank];
  b.cluster = &c;
  b.rank = rank;
  b.id = block_of_cluster(c.index, rank);
  b.shared_bytes = run.shared_bytes;
  take_arena(b);
  open_shadow(b.shadow, SHARED_BASE + b.shared_bytes);
  b.barrier_at.assign((SHARED_BASE + b.shared_bytes) / 8 + 4, 0);
  b.live = threads;
  for (Meeting& m : b.named) m.named = true;
  const int warps = (threads + 31) / 32;
  b.warps.resize(warps);
  b.groups.resize((threads + 127) / 128);
  for (size_t i = 0; i < b.groups.size(); i++) b.wgmma.push_back(std::make_unique<WarpGroup>());
  b.warp_registers.assign(warps, run.registers);
  const u32 starved = random_u32() % (u32)warps;
  for (int i = 0; i < threads; i++) {
    make_thread(c, b, i, width);
    b.threads.back()->starved = (u32)i / 32 == starved;
  }
}
static void retire_cluster(size_t at) {
  Cluster& c = *run.resident[at];
  for (auto& b : c.blocks) {
    check_block_end(*b);
    close_shadow(b->shadow);
    arena_owner[b->arena_index] = nullptr;
    engines.erase(b.get());
  }
  for (auto& t : c.threads) {
    free_stacks.push_back(t->stack);
    drop_context(*t);
  }
  if (counting) close_requests();
  run.resident.erase(run.resident.begin() + at);
}
// Called when nothing can run. Clusters that have ended make room; a new one starts when none is
// left, or when those that are left wait for memory that another block may write.
static bool admit_cluster() {
  for (size_t i = run.resident.size(); i-- > 0;)
    if (!run.resident[i]->live && !run.resident[i]->pending_ops) retire_cluster(i);
  if (run.waiting_clusters.empty() || (!run.resident.empty() && pollers.empty())) return false;
  auto cluster = std::make_unique<Cluster>();
  Cluster& c = *cluster;
  c.index = run.waiting_clusters.back();
  run.waiting_clusters.pop_back();
  const u32 blocks = run.cluster_dim.x * run.cluster_dim.y * run.cluster_dim.z;
  const int threads = (int)(run.block_dim.x * run.block_dim.y * run.block_dim.z);
  const u32 width = (u32)threads * blocks + 32;
  for (u32 i = 0; i < blocks; i++) c.blocks.push_back(std::make_unique<Block>());
  for (u32 i = 0; i < blocks; i++) make_block(c, i, threads, width);
  c.live = (int)c.threads.size();
  c.barrier_generation.assign(c.threads.size(), 0);
  run.resident.push_back(std::move(cluster));
  return true;
}

// ---- deadlocks ----
static std::string missing_on_mbarrier(const Thread& t) {
  Block& b =
      shared_rank(t.wait.a) ? *t.block->cluster->blocks[shared_rank(t.wait.a) - 1] : *t.block;
  const Mbarrier& m = b.mbarriers[t.wait.a & 0xffffff];
  std::string missing = text("%u of %u arrivals", m.pending, m.count);
  if (m.bytes > 0) missing += text(" and %lld bytes", m.bytes);
  if (m.bytes < 0) missing += text("; %lld bytes more than expected have come", -m.bytes);
  return text("phase %llu (parity %u) of mbarrier %s, which misses %s", m.phase, t.wait.b & 1,
              name_of(b, t.wait.a & 0xffffff).c_str(), missing.c_str());
}
static std::string missing_in_meeting(const Thread& t) {
  const Block& b = *t.block;
  const bool group = !strncmp(t.wait.what, "warp group", 10);
  const Meeting& m = group ? b.groups[t.id / 128] : b.warps[t.id / 32];
  return text("its %s, where %d of %u threads have come", t.wait.what, m.arrived, t.wait.b);
}
static std::string waited_for(const Thread& t) {
  switch (t.wait.on) {
    case ON_MBARRIER: return missing_on_mbarrier(t);
    case ON_NAMED_BARRIER:
      return text("named barrier %u, where %d of %u threads have arrived", t.wait.a,
                  t.block->named[t.wait.a].arrived, t.wait.b);
    case ON_COLLECTIVE: return missing_in_meeting(t);
    case ON_CLUSTER:
      return text("the cluster barrier, where %d of %zu threads have arrived",
                  t.block->cluster->barrier.arrived, t.block->cluster->threads.size());
    case ON_REGISTERS:
      return text("setmaxnreg.inc to %u registers; the pool has %d, its warp needs %d more",
                  t.wait.a, t.block->register_pool, (int)(t.wait.a - t.wait.b) * 32);
    case ON_FLAG: return text("a change of a flag in global memory that holds %u", t.wait.b);
    default: return t.wait.what;
  }
}
static void report_deadlock() {
  struct Stuck {
    const Thread* first;
    int count;
  };
  std::map<std::string, Stuck> stuck;
  for (auto& c : run.resident)
    for (auto& t : c->threads) {
      if (t->done) continue;
      auto [entry, fresh] = stuck.try_emplace(
          (t->role ? role_of(*t) : "a thread") + " waits for " + waited_for(*t), Stuck{t.get(), 0});
      entry->second.count++;
    }
  size_t shown = 0;
  for (auto& [what, s] : stuck)
    if (shown++ < 24)
      report("deadlock", text("%s (%d threads)", what.c_str(), s.count), s.first->wait.pc, s.first);
}

// ---- the launch ----
static void reset_launch() {
  reports.clear();
  report_index.clear();
  taken.clear();
  story.clear();
  next_given = 0;
  for (auto& c : run.resident) {
    for (auto& b : c->blocks) {
      close_shadow(b->shadow);
      arena_owner[b->arena_index] = nullptr;
    }
    for (auto& t : c->threads) {
      free_stacks.push_back(t->stack);
      drop_context(*t);
    }
  }
  run = Run();
  pollers.clear();
  released.clear();
  engines.clear();
  tallies.clear();
  requests.clear();
  occurrences.clear();
  bulk_bytes[0] = bulk_bytes[1] = 0;
  last_cycle = tensor_busy = 0;
  last_buffer = nullptr;
}
static bool check_launch(const int* bounds) {
  const EmuDim3 g = run.grid, b = run.block_dim, c = run.cluster_dim;
  const u32 threads = b.x * b.y * b.z;
  if (!g.x || !g.y || !g.z || !threads || threads > MAX_THREADS)
    report("launch", text("grid %u x %u x %u of blocks of %u threads", g.x, g.y, g.z, threads),
           nullptr);
  else if (bounds && (int)threads > bounds[0])
    report("launch",
           text("blocks of %u threads; the kernel is compiled for at most %d", threads, bounds[0]),
           nullptr);
  else if (run.shared_bytes > SHARED_MAX)
    report("launch",
           text("%u bytes of shared memory; a block has at most %d", run.shared_bytes, SHARED_MAX),
           nullptr);
  else if (!c.x || !c.y || !c.z || g.x % c.x || g.y % c.y || g.z % c.z || c.x * c.y * c.z > 16)
    report("launch",
           text("clusters of %u x %u x %u blocks in a grid of %u x %u x %u", c.x, c.y, c.z, g.x,
                g.y, g.z),
           nullptr);
  else if ((u64)g.x * g.y * g.z > 1 << 20)
    report("launch", text("%llu blocks; this emulator tells 1,048,576 apart", (u64)g.x * g.y * g.z),
           nullptr);
  return reports.empty();
}
static void launch(const int* bounds) {
  if (bounds) run.cluster_dim = {(u32)bounds[2], (u32)bounds[3], (u32)bounds[4]};
  if (!check_launch(bounds)) return;
  choose_policy(run.seed);
  const u32 threads = run.block_dim.x * run.block_dim.y * run.block_dim.z;
  const u32 blocks = bounds ? std::max(1, bounds[1]) : 1;
  run.registers = (int)std::min(255u, 65536 / (threads * blocks)) & ~7;
  const u32 clusters = run.grid.x * run.grid.y * run.grid.z /
                       (run.cluster_dim.x * run.cluster_dim.y * run.cluster_dim.z);
  for (u32 i = clusters; i-- > 0;) run.waiting_clusters.push_back(i);
  if (run.seed % 2)  // blocks promise no order: odd seeds shuffle them
    for (u32 i = clusters; i-- > 1;)
      std::swap(run.waiting_clusters[i], run.waiting_clusters[random_u32() % (i + 1)]);
  schedule();
}
