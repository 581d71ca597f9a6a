// Synchronisation: mbarriers, named barriers, meetings of a warp or warp group, clusters, fences,
// the register pool.
#pragma once
#include "emulator_memory.h"

// ---- meetings: the last of `need` threads to arrive does the work, then all go on ----
static void meet_begin(Meeting& m, bool sync) {
  m.time = 0;
  if (!sync) return;
  m.seen.reset(current->seen.cluster, (u32)current->seen.at.size());
  m.fenced.reset(current->seen.cluster, (u32)current->fenced.at.size());
}
static void meet_add(Meeting& m, bool sync) {
  if (sync) {
    m.seen.join(current->seen);
    m.fenced.join(current->fenced);
    current->tick();
  }
  current->time += CALL;
  m.time = std::max(m.time, current->time);
  m.here.push_back(current);
  m.arrived++;
}
// True in the last thread; the others come back when it has called `part`.
static bool meet(Meeting& m, int need, const char* what, bool sync, u64 key, Waiting on, void* pc,
                 u32 id = 0) {
  if (!m.arrived) {
    meet_begin(m, sync);
    m.key = key;
  } else if (m.key != key)
    report("divergence", text("threads of one %s reached different calls", what), pc);
  meet_add(m, sync);
  if (m.arrived == need) return true;
  const int generation = m.generation;
  while (m.generation == generation) block_on(on, what, id, need, pc);
  return false;
}
static void part(Meeting& m, bool sync) {
  for (Thread* t : m.here) {
    t->time = std::max(t->time, m.time);
    if (m.named) t->time += rates.named_barrier;
    if (sync) {
      t->seen.join(m.seen);
      t->fenced.join(m.fenced);
    }
    if (t != current) wake(t);
  }
  m.here.clear();
  m.arrived = 0;
  m.generation++;
  m.last_arrivals.swap(m.arrivals);
  m.arrivals.clear();
}
static int warp_size(const Thread& t) {
  return std::min(32, (int)t.block->threads.size() - (t.id & ~31));
}
static Meeting& warp_of(Thread& t) { return t.block->warps[t.id / 32]; }
static bool meet_warp(const char* what, bool sync, u64 key, void* pc) {
  return meet(warp_of(*current), warp_size(*current), what, sync, key, ON_COLLECTIVE, pc);
}

// An arrival must be ordered after every arrival of the phase before: else, in another
// interleaving, it would be counted there.
static void check_phase(const std::vector<Epoch>& last, const std::string& barrier, void* pc) {
  for (Epoch e : last)
    if (!current->seen.knows(e)) {
      report("barrier",
             text("an arrival on %s may be counted in the phase before: "
                  "it is not ordered after the arrival of %s",
                  barrier.c_str(), who_did(*current->block->cluster, e).c_str()),
             pc);
      return;
    }
}

// ---- named barriers ----
static void note_arrival(int id, const char* what, bool wait, void* pc) {
  Block& b = *current->block;
  Meeting& m = b.named[id];
  auto& last = b.named_generation[id];
  auto& synced = b.named_synced[id];
  if (last.empty()) {
    last.assign(b.threads.size(), 0);
    synced.assign(b.threads.size(), 0);
  }
  if (last[current->id] == m.generation + 1)
    report("barrier",
           text("%s: a thread takes part twice in one phase of named barrier %d", what, id), pc);
  last[current->id] = m.generation + 1;
  if (synced[current->id] < m.generation)
    check_phase(m.last_arrivals, text("named barrier %d", id), pc);
  if (wait) synced[current->id] = m.generation + 1;
  m.arrivals.push_back(current->now());
}
static void sync_named(int id, int threads, void* pc) {
  Meeting& m = current->block->named[id];
  note_arrival(id, "bar.sync", true, pc);
  if (meet(m, threads, "named barrier", true, (u64)threads, ON_NAMED_BARRIER, pc, (u32)id))
    part(m, true);
  maybe_yield(4);
}
static void arrive_named(int id, int threads, void* pc) {
  Meeting& m = current->block->named[id];
  note_arrival(id, "bar.arrive", false, pc);
  if (!m.arrived) {
    meet_begin(m, true);
    m.key = (u64)threads;
  } else if (m.key != (u64)threads)
    report("divergence", text("named barrier %d is used with different thread counts", id), pc);
  m.seen.join(current->seen);
  m.fenced.join(current->fenced);
  current->tick();
  current->time += CALL;
  m.time = std::max(m.time, current->time);
  if (++m.arrived == threads) part(m, true);
  maybe_yield(8);
}
// Barrier 0 without a count: all threads that have not ended.
static const u64 ALL_THREADS = ~0ull;
static void sync_all(void* pc) {
  Block& b = *current->block;
  note_arrival(0, "bar.sync", true, pc);
  if (meet(b.named[0], b.live, "named barrier", true, ALL_THREADS, ON_NAMED_BARRIER, pc))
    part(b.named[0], true);
  maybe_yield(4);
}
// a thread has ended: the others may have been waiting for it alone
static void leave_all(Block& b) {
  Meeting& m = b.named[0];
  if (b.live && m.arrived == b.live && m.key == ALL_THREADS) part(m, true);
}

// ---- mbarriers ----
static Mbarrier* mbarrier_at(u32 bar, const char* what, bool async, void* pc,
                             Block** owner = nullptr) {
  Block* b = block_at(bar, what, pc);
  if (!b) return nullptr;
  if (owner) *owner = b;
  auto found = b->mbarriers.find(bar & 0xffffff);
  if (found == b->mbarriers.end() || !found->second.live) {
    report("barrier",
           text("%s on %s, which is no initialised mbarrier", what,
                name_of(*b, bar & 0xffffff).c_str()),
           pc);
    return nullptr;
  }
  Mbarrier& m = found->second;
  if (!current->seen.knows(m.made))
    report("race",
           text("%s on mbarrier %s, not ordered after its initialisation", what,
                name_of(*b, bar & 0xffffff).c_str()),
           pc);
  else if (async && !current->fenced.knows(m.made))
    report("proxy",
           text("%s on mbarrier %s, whose initialisation is not fenced (tc_fence_mbar_init)", what,
                name_of(*b, bar & 0xffffff).c_str()),
           pc);
  return &m;
}
static void complete_phase(Mbarrier& m) {
  if (m.pending || m.bytes) return;
  m.phase++;
  m.pending = m.count;
  m.last_arrivals.swap(m.arrivals);
  m.arrivals.clear();
  m.done_seen = m.seen;
  m.done_fenced = m.fenced;
  m.done_time = m.time;
  for (Thread* t : m.waiting) wake(t);
  m.waiting.clear();
}
static void arrive_on(Mbarrier& m, const Clock& seen, const Clock& fenced, double time, Block& b,
                      u32 bar, void* pc) {
  m.seen.join(seen);
  m.fenced.join(fenced);
  m.time = std::max(m.time, time);
  if (!m.pending)
    report(
        "barrier",
        text("more arrivals on mbarrier %s than its count of %u", name_of(b, bar).c_str(), m.count),
        pc);
  else m.pending--;
}
// bytes of an asynchronous copy have landed
static void complete_bytes(Block& b, u32 bar, u64 bytes, const Op& op) {
  auto found = b.mbarriers.find(bar);
  if (found == b.mbarriers.end() || !found->second.live) {
    report("barrier",
           text("%s completes on %s, which is no initialised mbarrier", op.what,
                name_of(b, bar).c_str()),
           op.pc, op.issuer);
    return;
  }
  Mbarrier& m = found->second;
  if (!op.seen.knows(m.made))
    report("race",
           text("%s completes on mbarrier %s, not ordered after its initialisation", op.what,
                name_of(b, bar).c_str()),
           op.pc, op.issuer);
  m.seen.join(op.seen);
  m.fenced.join(op.fenced);
  m.time = std::max(m.time, op.finished);
  m.bytes -= (long long)bytes;
  complete_phase(m);
}

extern "C" {
void emu_mbar_init(u32 bar, u32 count) {
  Block& b = *current->block;
  if (bar & 7)
    report("alignment", text("mbarrier at shared memory 0x%x, not a multiple of 8", bar), EMU_PC);
  Mbarrier& m = b.mbarriers[bar];
  if (m.live)
    report("barrier", text("mbarrier %s is initialised twice", name_of(b, bar).c_str()), EMU_PC);
  if (!count || count >= 1u << 20)
    report("barrier", text("mbarrier %s: a count of %u", name_of(b, bar).c_str(), count), EMU_PC);
  if (!touch_shared(b, bar, 8, true, accessor(*current, "mbarrier.init", EMU_PC))) return;
  m = Mbarrier();
  m.live = true;
  m.count = m.pending = count;
  m.made = current->now();
  const u32 width = (u32)current->seen.at.size();
  for (Clock* c : {&m.seen, &m.fenced, &m.done_seen, &m.done_fenced})
    c->reset(current->seen.cluster, width);
  b.barrier_at[bar >> 3] = 1;
}
void emu_mbar_invalidate(u32 bar) {
  Mbarrier* m = mbarrier_at(bar, "mbarrier.inval", false, EMU_PC);
  if (!m) return;
  m->live = false;
  current->block->barrier_at[bar >> 3] = 0;
}
void emu_mbar_arrive(u32 bar, u32 bytes) {
  maybe_yield(8);
  Block* b = nullptr;
  Mbarrier* m = mbarrier_at(bar, "mbarrier.arrive", false, EMU_PC, &b);
  if (!m) return;
  current->time += CALL;
  note_remote(*b, "mbarrier.arrive", current->now(), EMU_PC);
  check_phase(m->last_arrivals, "mbarrier " + name_of(*b, bar & 0xffffff), EMU_PC);
  m->arrivals.push_back(current->now());
  arrive_on(*m, current->seen, current->fenced, current->time, *b, bar & 0xffffff, EMU_PC);
  current->tick();
  m->bytes += bytes;
  complete_phase(*m);
}
void emu_mbar_expect(u32 bar, u32 bytes) {
  Mbarrier* m = mbarrier_at(bar, "mbarrier.expect_tx", false, EMU_PC);
  if (m) m->bytes += bytes;
}
bool emu_mbar_try_wait(u32 bar, u32 parity) {
  Mbarrier* m = mbarrier_at(bar, "mbarrier.try_wait", false, EMU_PC);
  if (!m) {
    stop_launch();
    return true;
  }
  if ((m->phase & 1) == (parity & 1)) {
    const u64 phase = m->phase;
    m->waiting.push_back(current);
    block_on(ON_MBARRIER, "mbarrier", bar, parity, EMU_PC);
    if (m->phase > phase + 1)
      report("barrier",
             text("a wait for phase %llu of mbarrier %s was overtaken: phase %llu completed before "
                  "the thread saw it; nothing makes the others wait for this thread",
                  phase, name_of(*current->block, bar & 0xffffff).c_str(), phase + 1),
             EMU_PC);
    return false;
  }
  current->time = std::max(current->time, m->done_time + rates.mbarrier) + CALL;
  current->seen.join(m->done_seen);
  current->fenced.join(m->done_fenced);
  maybe_yield(4);
  return true;
}
void emu_fence_proxy() {
  current->fenced = current->seen;
  current->fenced.stamp = ++stamps;
  current->tick();
}

void emu_syncthreads() { sync_all(EMU_PC); }
void emu_bar(int id, int threads, int wait) {
  const size_t most = (current->block->threads.size() + 31) & ~31ull;
  if (id < 0 || id > 15 || threads <= 0 || threads % 32 || threads > (int)most) {
    report("barrier",
           text("named barrier %d of %d threads is impossible in a block of %zu", id, threads,
                current->block->threads.size()),
           EMU_PC);
    stop_launch();
  }
  if (wait) sync_named(id, threads, EMU_PC);
  else arrive_named(id, threads, EMU_PC);
}
void emu_syncwarp() {
  if (meet_warp("warp (syncwarp)", true, 1, EMU_PC)) part(warp_of(*current), true);
}

// ---- clusters ----
void emu_cluster_arrive() {
  Cluster& c = *current->block->cluster;
  Meeting& m = c.barrier;
  int& last = c.barrier_generation[current->slot];
  if (last == m.generation + 1)
    report("barrier", "a thread arrives twice in one phase of the cluster's barrier", EMU_PC);
  last = m.generation + 1;
  if (!m.arrived) meet_begin(m, true);
  meet_add(m, true);
  if (m.arrived < (int)c.threads.size()) return;
  m.here.clear();
  m.arrived = 0;
  m.generation++;
  c.done_seen = m.seen;  // fast threads begin the next phase before slow ones have learnt this one
  c.done_fenced = m.fenced;
  for (auto& t : c.threads)
    if (t->wait.on == ON_CLUSTER) wake(t.get());
}
void emu_cluster_wait() {
  Cluster& c = *current->block->cluster;
  Meeting& m = c.barrier;
  const int mine = c.barrier_generation[current->slot];
  if (!mine) {
    report("barrier", "cluster wait without an arrival before it", EMU_PC);
    return;
  }
  while (m.generation < mine) block_on(ON_CLUSTER, "cluster barrier", 0, 0, EMU_PC);
  current->seen.join(c.done_seen);
  current->fenced.join(c.done_fenced);
  current->time = std::max(current->time, m.time);
  maybe_yield(4);
}
u32 emu_cluster_map(u32 addr, u32 rank) { return (addr & 0xffffff) | (rank + 1) << 24; }
u32 emu_cluster_load(u32 addr) {
  Block* b = block_at(addr, "ld.shared::cluster", EMU_PC);
  const u32 at = addr & 0xffffff;
  if (!b || !touch_shared(*b, at, 4, false, accessor(*current, "ld.shared::cluster", EMU_PC)))
    return 0;
  note_remote(*b, "ld.shared::cluster", current->now(), EMU_PC);
  u32 value;
  memcpy(&value, b->arena + at, 4);
  return value;
}
void emu_cluster_store(u32 addr, u32 value) {
  Block* b = block_at(addr, "st.shared::cluster", EMU_PC);
  const u32 at = addr & 0xffffff;
  if (!b || !touch_shared(*b, at, 4, true, accessor(*current, "st.shared::cluster", EMU_PC)))
    return;
  note_remote(*b, "st.shared::cluster", current->now(), EMU_PC);
  memcpy(b->arena + at, &value, 4);
}

// ---- setmaxnreg: a block's pool of registers ----
void emu_setmaxnreg(int registers, int increase) {
  Block& b = *current->block;
  const int warp = current->id / 32;
  if (!meet_warp("warp (setmaxnreg)", false, (u64)registers * 2 + increase, EMU_PC)) return;
  int& held = b.warp_registers[warp];
  // what a launch gives is a bound, the compiler may have taken fewer: an increase to less than it
  // is legal
  if (registers % 8 || registers < 24 || registers > 256 || (!increase && registers > held))
    report("registers",
           text("setmaxnreg.%s to %d registers; the warp holds %d", increase ? "inc" : "dec",
                registers, held),
           EMU_PC);
  const int need = (registers - held) * 32;
  while (need > b.register_pool) {
    b.register_waiters.push_back(current);
    block_on(ON_REGISTERS, "setmaxnreg", (u32)registers, (u32)held, EMU_PC);
  }
  b.register_pool -= need;
  held = registers;
  for (Thread* t : b.register_waiters) wake(t);
  b.register_waiters.clear();
  part(warp_of(*current), false);
}
}
