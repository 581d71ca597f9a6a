// Asynchronous operations in general, and cp.async. An operation gets a component of the cluster's
// clocks while it is in flight. A component is used again only by an issuer that knows its last
// operation to be done: whoever learns of the new one then rightly knows the old one too.
#pragma once
#include "emulator_global.h"

// generic: an operation of the generic proxy (cp.async); those have components of their own
static u32 take_slot(Cluster& c, const Clock& seen, bool generic) {
  const u32 threads = (u32)c.threads.size();
  for (u32 i = 0; i < c.slots.size(); i++) {
    const u32 slot = threads + i;
    if (!c.slots[i].busy && c.slots[i].generic == generic && slot < seen.at.size() &&
        seen.at[slot] >= c.slots[i].clock)
      return i;
  }
  if (threads + c.slots.size() >= 0x7ffe) {
    report("bounds", "more operations in flight than this emulator can tell apart (16,000)",
           nullptr);
    stop_launch();
  }
  c.slots.push_back({});
  c.slots.back().generic = generic;
  return (u32)c.slots.size() - 1;
}
static OpRef make_op(const char* what, const Clock& seen, const Clock& fenced, void* pc,
                     bool generic = false) {
  Cluster& c = *current->block->cluster;
  auto op = std::make_shared<Op>();
  op->what = what;
  op->block = current->block;
  op->issuer = current;
  op->pc = pc;
  op->seen = seen;
  op->fenced = fenced;
  const u32 index = take_slot(c, seen, generic), slot = (u32)c.threads.size() + index;
  Slot& s = c.slots[index];
  s = {s.clock + 1, true, generic, what, pc};
  op->epoch = epoch_of(c.index, slot, s.clock);
  if (op->seen.at.size() <= slot) op->seen.at.resize(slot + 1, 0);
  op->seen.at[slot] = s.clock;
  current->time += CALL;
  op->issued = op->finished = current->time;
  c.pending_ops++;
  return op;
}
// issued by the running thread alone: what it does next is later
static OpRef issue(const char* what, void* pc, bool generic = false) {
  OpRef op = make_op(what, current->seen, current->fenced, pc, generic);
  current->tick();
  return op;
}

// ---- cp.async: part of the generic proxy; copies issued in a row by one thread share an operation
// ----
struct Copy {
  u32 dst;
  const u8* src;
  u16 bytes, size;
};
static void count_copy(const Copy&, void*);  // emulator_counts.h
static void run_copies(const Op& op, const std::vector<Copy>& copies) {
  Block& b = *op.block;
  Accessor a = accessor(op);
  a.async = false;
  for (const Copy& c : copies) {
    if (!touch_shared(b, c.dst, c.size, true, a)) continue;
    if (c.bytes && !touch_global(c.src, c.bytes, false, a)) continue;
    memset(b.arena + c.dst, 0, c.size);
    memcpy(b.arena + c.dst, c.src, c.bytes);
  }
}
static void issue_time_copies(Op&, u64 bytes);  // emulator_time.h

extern "C" {
void emu_cp_async(u32 dst, const void* src, int bytes, int size) {
  Thread& t = *current;
  if (bytes < 0 || bytes > size) {
    report("bounds", text("cp.async of %d bytes in a copy of %d", bytes, size), EMU_PC);
    return;
  }
  if (dst % size || (bytes && (u64)src % size))
    report("alignment",
           text("cp.async of %d bytes: shared address 0x%x or global address is no multiple of it",
                size, dst),
           EMU_PC);
  const Copy copy{dst, (const u8*)src, (u16)bytes, (u16)size};
  count_copy(copy, EMU_PC);
  if (t.touched || t.copies.empty() || t.copies.back()->done) {
    OpRef op = issue("cp.async", EMU_PC, true);
    auto copies = std::make_shared<std::vector<Copy>>();
    op->run = [copies](Op& o) {
      run_copies(o, *copies);
      u64 total = 0;
      for (const Copy& c : *copies) total += c.size;
      issue_time_copies(o, total);
    };
    op->extend = copies.get();
    run.loose.push_back(op);
    t.copies.push_back(op);
    t.touched = false;
  }
  ((std::vector<Copy>*)t.copies.back()->extend)->push_back(copy);
}
void emu_cp_async_commit() {
  current->copy_groups.push_back(std::move(current->copies));
  current->copies.clear();
}
void emu_cp_async_wait(int pending) {
  auto& groups = current->copy_groups;
  while ((int)groups.size() > pending) {
    for (const OpRef& op : groups.front()) await(op, ON_CP_ASYNC, "cp.async.wait_group", EMU_PC);
    groups.pop_front();
  }
}
}
