// Who wrote and read every byte, and whether the next access is ordered after them.
//
// Memory is shadowed in lines of 16 bytes, split into words or bytes once accesses differ inside a
// line. A cell keeps its last writer and up to three readers that no later writer has been ordered
// after; a fourth unordered reader replaces one of them (some read-after-write order may then go
// unseen, never the reverse).
//
// The rules. A write must know the last write and all readers; a read must know the last write. An
// asynchronous access must know generic writes through the fenced clock: that is the missing
// fence.proxy.async. Atomics are ordered among themselves.
#pragma once
#include "emulator_schedule.h"

struct Accessor {
  const Clock* seen;
  const Clock* fenced;
  Epoch epoch;
  bool async;
  const char* what;  // "read", "TMA load", ...
  const Cluster* cluster;
  const Thread* thread;
  void* pc;
};
// shared memory of a block, or, without one, a global buffer of so many bytes
struct Place {
  const Block* block;
  u32 address;
  u64 buffer;
};

static std::string at_place(const Place& p) {
  return p.block ? place_of(*p.block, p.address) : text("a global buffer of %llu bytes", p.buffer);
}
static bool is_async(const Cluster& c, Epoch e) {
  return cluster_of(e) == c.index && slot_of(e) >= c.threads.size();
}
// of the async proxy: all operations but cp.async
static bool is_async_proxy(const Cluster& c, Epoch e) {
  return is_async(c, e) && !c.slots[slot_of(e) - c.threads.size()].generic;
}

static void report_race(const char* mine, const Accessor& a, const char* theirs, Epoch e,
                        const Place& p) {
  void* other = nullptr;
  const std::string who = who_did(*a.cluster, e, &other);
  const bool async = is_async(*a.cluster, e);
  report("race",
         text("%s %s %s, not ordered after the %s by %s", a.what, mine, at_place(p).c_str(), theirs,
              async ? (who + " (asynchronous)").c_str() : who.c_str()),
         a.pc, a.thread, other);
}
static void check_cell(Cell& c, bool write, const Accessor& a, const Place& p, bool initialised) {
  const bool atomic = a.epoch & ATOMIC;
  if (!write && !c.write && !initialised) {
    report("uninitialised",
           text("%s reads %s, which nothing has written", a.what, at_place(p).c_str()), a.pc,
           a.thread);
  } else if (c.write != a.epoch && !(atomic && (c.write & ATOMIC)) &&
             !a.seen->knows(c.write & ~ATOMIC)) {
    report_race(write ? "writes" : "reads", a, "write", c.write, p);
  } else if (a.async && c.write && !is_async_proxy(*a.cluster, c.write) &&
             cluster_of(c.write) == a.cluster->index && !a.fenced->knows(c.write & ~ATOMIC)) {
    report("proxy",
           text("%s %s %s, written by %s without a fence.proxy.async in between", a.what,
                write ? "overwrites" : "reads", at_place(p).c_str(),
                who_did(*a.cluster, c.write).c_str()),
           a.pc, a.thread);
  }
  if (write) {
    for (Epoch r : c.read)
      if (r && r != a.epoch && !(atomic && (r & ATOMIC)) && !a.seen->knows(r & ~ATOMIC)) {
        report_race("writes", a, "read", r, p);
        break;
      }
    c.write = a.epoch;
    c.read[0] = c.read[1] = c.read[2] = 0;
    return;
  }
  int free = -1;
  for (int i = 0; i < 3; i++) {
    if (c.read[i] == a.epoch) return;
    if (a.seen->knows(c.read[i] & ~ATOMIC)) {
      c.read[i] = 0;
      free = i;
    }
  }
  if (free < 0) {
    free = 0;
    c.read[0] = c.read[1];
    c.read[1] = c.read[2];
    free = 2;
  }
  c.read[free] = a.epoch;
}

static void open_shadow(Shadow& s, u64 bytes) {
  s.count = bytes / 16 + 2;
  s.lines = (Line*)mmap(nullptr, s.count * sizeof(Line), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (s.lines == (Line*)MAP_FAILED) {
    perror("shadow memory");
    exit(3);
  }
}
static void close_shadow(Shadow& s) {
  for (Line* l : s.split) {
    delete[] l->parts;
    l->parts = nullptr;
  }
  if (s.lines) munmap((void*)s.lines, s.count * sizeof(Line));
  s = Shadow();
}
static void split_line(Shadow& s, Line& l, u32 count) {
  Cell* parts = new Cell[count];
  for (u32 i = 0; i < count; i++) parts[i] = l.parts ? l.parts[i * l.count / count] : l.whole;
  if (!l.parts) s.split.push_back(&l);  // may be listed twice: closing it twice does no harm
  delete[] l.parts;
  l.parts = parts;
  l.count = count;
}
// Bytes [first, first + bytes) of a line.
static void check_line(Shadow& s, Line& l, u32 first, u32 bytes, bool write, const Accessor& a,
                       const Place& p, bool initialised) {
  if (bytes == 16) {
    if (!l.count) {
      check_cell(l.whole, write, a, p, initialised);
      return;
    }
    for (u32 i = 0; i < l.count; i++) check_cell(l.parts[i], write, a, p, initialised);
    if (write) {
      l.whole = l.parts[0];
      delete[] l.parts;
      l.parts = nullptr;
      l.count = 0;
    }
    return;
  }
  const u32 need = (first | bytes) & 3 ? 16 : 4;
  if (l.count < need) split_line(s, l, need);
  const u32 size = 16 / l.count;
  for (u32 i = first / size; i * size < first + bytes; i++)
    check_cell(l.parts[i], write, a, p, initialised);
}

static Accessor accessor(const Thread& t, const char* what, void* pc) {
  return {&t.seen, &t.fenced, t.now(), false, what, t.block->cluster, &t, pc};
}
static Accessor accessor(const Op& op) {
  return {&op.seen, &op.fenced, op.epoch, true, op.what, op.block->cluster, op.issuer, op.pc};
}

// Shared memory [address, address + bytes) of a block, without the cluster bits. False: out of
// bounds, reported.
static bool touch_shared(Block& b, u32 address, u32 bytes, bool write, const Accessor& a) {
  if (address < SHARED_BASE || address + bytes > SHARED_BASE + b.shared_bytes) {
    report("bounds",
           text("%s %s shared memory at byte %d; the block has %u bytes", a.what,
                write ? "writes" : "reads", (int)(address - SHARED_BASE), b.shared_bytes),
           a.pc, a.thread);
    return false;
  }
  for (u32 at = address, end = address + bytes; at < end;) {
    const u32 stop = std::min(end, (at | 15) + 1);
    if (write && (b.barrier_at[at >> 3] | b.barrier_at[(stop - 1) >> 3]))
      report("barrier",
             text("%s writes over the live mbarrier %s", a.what, name_of(b, at & ~7u).c_str()),
             a.pc, a.thread);
    check_line(b.shadow, b.shadow.lines[at >> 4], at & 15, stop - at, write, a, {&b, at, 0}, false);
    at = stop;
  }
  return true;
}
