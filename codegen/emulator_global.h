// Global memory between blocks: acquire, release, atomics. A flag remembers what its releases told;
// acquiring it orders the reader after them, whichever block they came from. A thread that keeps
// reading an unchanged flag sleeps until somebody changes it, and meanwhile more clusters may
// start: that is how a block waits for a later one.
#pragma once
#include "emulator_sync.h"

static std::vector<Thread*> pollers;

static void release_to(u64 address, const Thread& t) { t.seen.tell(released[address]); }
static void acquire_from(u64 address, Thread& t) {
  auto found = released.find(address);
  if (found != released.end()) t.seen.learn(found->second);
}
static void wake_pollers_of(const void* address) {
  for (size_t i = 0; i < pollers.size();) {
    Thread* t = pollers[i];
    if (t->polled != address) {
      i++;
      continue;
    }
    pollers.erase(pollers.begin() + i);
    wake(t);
  }
}
// nothing else can run: let pollers look once more, up to a limit each
static bool wake_pollers() {
  bool any = false;
  std::vector<Thread*> all;
  all.swap(pollers);
  for (Thread* t : all) {
    if (t->polls++ < 1000) {
      wake(t);
      any = true;
    } else pollers.push_back(t);
  }
  return any;
}
// the reader of a flag that holds the value it held last time waits for a change
static void poll(const u32* address, void* pc) {
  Thread& t = *current;
  u32 value;
  memcpy(&value, address, 4);
  if (t.polled == address && t.polled_value == value) {
    pollers.push_back(&t);
    block_on(ON_FLAG, "flag", 0, value, pc);
    memcpy(&value, address, 4);
  }
  if (t.polled != address || t.polled_value != value) t.polls = 0;
  t.polled = address;
  t.polled_value = value;
}
static u32 add_pairs(u32 a, u32 b, bool f16) {
  auto one = [&](u32 x, u32 y) {
    return f16 ? emu_to_f16(emu_from_f16(x) + emu_from_f16(y))
               : emu_to_bf16(emu_from_bf16(x) + emu_from_bf16(y));
  };
  return one(a & 0xffff, b & 0xffff) | one(a >> 16, b >> 16) << 16;
}
static u32 combined(u32 old, u32 value, u32 expected, int operation) {
  switch (operation) {
    case EMU_ADD:
    case EMU_REDUCE_U32: return old + value;
    case EMU_MAX: return std::max(old, value);
    case EMU_MIN: return std::min(old, value);
    case EMU_CAS: return old == expected ? value : old;
    case EMU_REDUCE_F32: return emu_bits(emu_float(old) + emu_float(value));
    case EMU_REDUCE_F16X2: return add_pairs(old, value, true);
    case EMU_REDUCE_BF16X2: return add_pairs(old, value, false);
    default: return value;  // store, exchange
  }
}
extern "C" {
void emu_fence_gpu() {
  auto told = std::make_shared<Others>();
  current->seen.tell(*told);
  current->released = told;
  current->tick();
}
u32 emu_atomic(void* address, u32 value, u32 expected, int operation) {
  maybe_yield(8);
  Thread& t = *current;
  u8* p = (u8*)address;
  const bool load = operation == EMU_LOAD_ACQUIRE, relaxed = operation >= EMU_REDUCE_F32;
  static const char* const names[] = {"ld.acquire", "st.release",      "atomic add", "atomic max",
                                      "atomic min", "atomic exchange", "atomic cas", "reduction",
                                      "reduction",  "reduction",       "reduction"};
  if ((u64)p & 3)
    report("alignment", text("%s at an address that is no multiple of 4", names[operation]),
           EMU_PC);
  if (load && in_heap(p)) poll((const u32*)p, EMU_PC);
  Accessor a = accessor(t, names[operation], EMU_PC);
  a.epoch |= ATOMIC;
  if (operation != EMU_STORE_RELEASE && !touch_global(p, 4, false, a)) return 0;
  if (!load && !touch_global(p, 4, true, a)) return 0;
  if (operation != EMU_STORE_RELEASE && !relaxed) acquire_from((u64)p, t);
  u32 old;
  memcpy(&old, p, 4);
  if (load) return old;
  if (operation == EMU_STORE_RELEASE) released.erase((u64)p);
  if (!relaxed) release_to((u64)p, t);
  else if (t.released)
    for (auto& [c, components] : *t.released) join(released[(u64)p][c], components);
  t.tick();
  const u32 next = combined(old, value, expected, operation);
  memcpy(p, &next, 4);
  wake_pollers_of(p);
  return old;
}
}
