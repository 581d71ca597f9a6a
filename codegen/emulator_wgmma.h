// wgmma: a warp group's asynchronous products of 64 rows by n columns.
//
// At issue the accumulator registers are poisoned with a signalling NaN (any arithmetic changes its
// bits) and their values kept aside; the wait that retires the last product on them writes the
// results back. Products of a group run in order, at any later time, and read shared memory (and
// A's registers) only then. A register operand that differs from what it held at the last
// wgmma.fence, an accumulator touched in flight, an A register changed in flight: each is a report.
#pragma once
#include "emulator_matrix.h"

static const u32 POISON = 0x7fa0dead;
struct Accumulator {
  int n, type, pending = 0;
  std::vector<float> value;  // [64][n]; int bits for integer types
  u32* registers[128];
};
struct OperandA {
  const u32* registers[128];
  u32 held[128][4];
};
struct Product {
  OpRef op;
  std::shared_ptr<Accumulator> d;
  std::shared_ptr<OperandA> a;
  void* pc;
};
// an operand's registers, as they were at the last fence
struct Seen {
  const u32* registers;
  int count;
  std::vector<u32> held;
};
struct WarpGroup {
  u32* d[128];
  const u32* a[128];
  bool fenced[128] = {};
  std::vector<Seen> seen[128];
  std::map<u32*, std::shared_ptr<Accumulator>> in_flight;  // by the first thread's registers
  std::deque<std::vector<Product>> groups;
  std::vector<Product> open;
  std::deque<OpRef> queue;
  u64 stamp = 0;  // of the threads' clocks when these were joined
  Clock seen_by_all, fenced_by_all;
};
static int accumulator_row(int t, int i) {
  return (t >> 5) * 16 + ((t & 31) >> 2) + (i >> 1 & 1) * 8;
}
static int accumulator_column(int t, int i) { return (i >> 2) * 8 + (t & 3) * 2 + (i & 1); }

// ---- matrix descriptors ----
struct Descriptor {
  u32 address, leading, stride;
  int swizzle;
};
static Descriptor descriptor_sm90(u64 d) {
  static const int swizzles[4] = {0, 3, 2, 1};
  return {(u32)(d & 0x3fff) << 4, (u32)(d >> 16 & 0x3fff) << 4, (u32)(d >> 32 & 0x3fff) << 4,
          swizzles[d >> 62]};
}
static void operand_chunk(const Block& b, u32 address, u8* to) {
  if (address + 16 <= SHARED_BASE + SHARED_MAX) memcpy(to, b.arena + address, 16);
  else memset(to, 0xff, 16);
}
static void touch_chunk(Block& b, u32 address, const Accessor& a) {
  touch_shared(b, address, 16, false, a);
}
// K-major: rows of 32 bytes in 8-row groups `stride` apart; without a swizzle the two 16-byte
// halves are `leading` apart
static void load_k_major(Block& b, const Descriptor& d, int rows, int type, float* out,
                         bool transpose, const Accessor& a) {
  const int k = depth_of(type), per = k / 2;
  float values[16];
  u8 chunk[16];
  for (int r = 0; r < rows; r++)
    for (int half = 0; half < 2; half++) {
      const u32 pitch = 16u << d.swizzle, group = d.address + (r / 8) * d.stride;
      const u32 at =
          swizzled(group + (r % 8) * pitch + half * (d.swizzle ? 16 : d.leading), d.swizzle);
      touch_chunk(b, at, a);
      operand_chunk(b, at, chunk);
      float* to = transpose ? values : out + r * k + half * per;
      decode(to, chunk, per, type);
      if (transpose)
        for (int i = 0; i < per; i++) out[(half * per + i) * rows + r] = values[i];
    }
}
// MN-major, 16-bit types: rows of one k hold (8 << swizzle) elements; panels `leading` apart,
// groups of 8 k `stride` apart
static void load_mn_major(Block& b, const Descriptor& d, int n, int type, float* out,
                          bool transpose, const Accessor& a) {
  const int per = 1 << d.swizzle;  // 16-byte chunks in one swizzled row
  float values[8];
  u8 chunk[16];
  for (int k = 0; k < 16; k++)
    for (int c = 0; c < n / 8; c++) {
      const u32 row = (k % 8) * (16u << d.swizzle);
      const u32 plain = d.swizzle ? (c / per) * d.leading + (c % per) * 16 + (k / 8) * d.stride
                                  : c * d.stride + (k / 8) * d.leading;
      const u32 at = swizzled(d.address + plain + row, d.swizzle);
      touch_chunk(b, at, a);
      operand_chunk(b, at, chunk);
      float* to = transpose ? values : out + k * n + c * 8;
      decode(to, chunk, 8, type);
      if (transpose)
        for (int i = 0; i < 8; i++) out[(c * 8 + i) * 16 + k] = values[i];
    }
}

static bool overlap(const u8* p, u32 bytes, const void* registers, int count) {
  return p < (const u8*)registers + 4 * count && (const u8*)registers < p + bytes;
}
// a plain access to registers that a wgmma in flight uses
static void touch_wgmma_registers(const u8* p, u32 bytes, bool write, void* pc) {
  Thread& t = *current;
  WarpGroup& g = *t.block->wgmma[t.id / 128];
  const int self = t.id & 127;
  for (auto& [key, a] : g.in_flight)
    if (overlap(p, bytes, a->registers[self], a->n / 2))
      report("wgmma",
             text("accumulator registers %s while a wgmma on them is in flight",
                  write ? "written" : "read"),
             pc);
  if (!write) return;
  auto check = [&](const Product& q) {
    if (q.a && overlap(p, bytes, q.a->registers[self], 4))
      report("wgmma", "registers of operand A written while a wgmma that reads them is in flight",
             pc);
  };
  for (auto& q : g.open) check(q);
  for (auto& group : g.groups)
    for (auto& q : group) check(q);
}

// ---- issue ----
static void check_fenced(WarpGroup& g, int t, const u32* registers, int count, const char* what,
                         void* pc, Thread* thread) {
  for (Seen& s : g.seen[t])
    if (s.registers == registers && s.count == count) {
      if (memcmp(s.held.data(), registers, 4 * count))
        report("wgmma", text("%s written after the last wgmma.fence", what), pc, thread);
      return;
    }
  g.seen[t].push_back({registers, count, std::vector<u32>(registers, registers + count)});
}
static bool poisoned(const u32* registers, int count) {
  for (int i = 0; i < count; i++)
    if (registers[i] != POISON) return false;
  return true;
}
static std::shared_ptr<Accumulator> take_accumulator(WarpGroup& g, Thread* const* threads, int n,
                                                     int type, void* pc) {
  auto& a = g.in_flight[g.d[0]];
  if (a) {
    for (int t = 0; t < 128; t += 17)  // a sample: plain accesses are seen one by one
      if (!poisoned(g.d[t], n / 2)) {
        report("wgmma", "accumulator registers written while a wgmma on them is in flight", pc,
               threads[t]);
        break;
      }
    return a;
  }
  a = std::make_shared<Accumulator>();
  a->n = n;
  a->type = type;
  a->value.resize(64 * n);
  for (int t = 0; t < 128; t++) {
    threads[t]->watched++;
    if (t % 32 == 0) check_fenced(g, t, g.d[t], n / 2, "accumulator registers", pc, threads[t]);
    a->registers[t] = g.d[t];
    for (int i = 0; i < n / 2; i++) {
      memcpy(&a->value[accumulator_row(t, i) * n + accumulator_column(t, i)], &g.d[t][i], 4);
      g.d[t][i] = POISON;
    }
  }
  return a;
}
static std::shared_ptr<OperandA> take_registers(WarpGroup& g, Thread* const* threads, void* pc) {
  auto a = std::make_shared<OperandA>();
  for (int t = 0; t < 128; t++) {
    if (t % 32 == 0) check_fenced(g, t, g.a[t], 4, "registers of operand A", pc, threads[t]);
    threads[t]->watched++;
    a->registers[t] = g.a[t];
    memcpy(a->held[t], g.a[t], 16);
  }
  return a;
}
static void decode_registers(const OperandA& a, int type, float* out) {
  const int k = depth_of(type), per = k / 8;
  for (int t = 0; t < 128; t++)
    for (int e = 0; e < 4; e++)
      decode(out + ((t >> 5) * 16 + ((t & 31) >> 2) + (e & 1) * 8) * k +
                 ((e >> 1) * 4 + (t & 3)) * per,
             (const u8*)&a.registers[t][e], per, type);
}
// What the whole group knows, joined again only when one of its threads has learnt something.
static void know_group(WarpGroup& g, Thread* const* threads) {
  u64 stamp = 0;
  for (int t = 0; t < 128; t++) stamp += threads[t]->seen.stamp + threads[t]->fenced.stamp;
  if (stamp != g.stamp) {
    g.seen_by_all = threads[0]->seen;
    g.fenced_by_all = threads[0]->fenced;
    for (int t = 1; t < 128; t++) {
      g.seen_by_all.join(threads[t]->seen);
      g.fenced_by_all.join(threads[t]->fenced);
    }
    g.stamp = stamp;
  }
  for (int t = 0; t < 128; t++)
    g.seen_by_all.at[threads[t]->slot] = threads[t]->seen.at[threads[t]->slot];
}
static void time_product(Op&, int n, int type);  // emulator_time.h

struct ProductCall {
  int n, type;
  u64 a_desc, b_desc;
  int accumulate, ta, tb;
};
static void run_product(Op& op, const ProductCall& p, Accumulator& d, const OperandA* registers) {
  time_product(op, p.n, p.type);
  Accessor a = accessor(op);
  Block& b = *op.block;
  static std::vector<float> left, right;
  const int k = depth_of(p.type);
  left.resize(64 * k);
  right.resize((size_t)k * p.n);
  if (registers) decode_registers(*registers, p.type, left.data());
  else if (p.ta) load_mn_major(b, descriptor_sm90(p.a_desc), 64, p.type, left.data(), true, a);
  else load_k_major(b, descriptor_sm90(p.a_desc), 64, p.type, left.data(), false, a);
  if (p.tb) load_mn_major(b, descriptor_sm90(p.b_desc), p.n, p.type, right.data(), false, a);
  else load_k_major(b, descriptor_sm90(p.b_desc), p.n, p.type, right.data(), true, a);
  if (is_integer(p.type))
    multiply((int*)d.value.data(), left.data(), right.data(), 64, p.n, k, p.accumulate);
  else multiply(d.value.data(), left.data(), right.data(), 64, p.n, k, p.accumulate);
}
static bool valid_product(const ProductCall& p, bool registers, void* pc) {
  const bool shape = p.n >= 8 && p.n <= 256 && p.n % 8 == 0;
  const bool major = bits_of(p.type) == 16 || !(p.ta || p.tb);
  if (!shape || !major)
    report("wgmma",
           text("wgmma of n %d, type %d, transposed %d %d does not exist", p.n, p.type, p.ta, p.tb),
           pc);
  for (u64 d : {registers ? p.b_desc : p.a_desc, p.b_desc})
    if (d >> 49 & 7)
      report("wgmma", "matrix descriptor with a base offset, which this emulator does not know",
             pc);
  return shape && major;
}
static WarpGroup& group_of(Thread& t) { return *t.block->wgmma[t.id / 128]; }
static bool meet_group(const char* what, u64 key, void* pc) {
  return meet(current->block->groups[current->id / 128], 128, what, false, key, ON_COLLECTIVE, pc);
}
static void part_group() { part(current->block->groups[current->id / 128], false); }

extern "C" {
void emu_wgmma_fence() {
  WarpGroup& g = group_of(*current);
  const int t = current->id & 127;
  g.fenced[t] = true;
  for (Seen& s : g.seen[t]) memcpy(s.held.data(), s.registers, 4 * s.count);
}
void emu_wgmma(void* d, int n, int type, const u32* a, u64 a_desc, u64 b_desc, int accumulate,
               int ta, int tb) {
  WarpGroup& g = group_of(*current);
  const int self = current->id & 127;
  g.d[self] = (u32*)d;
  g.a[self] = a;
  if (!meet_group("warp group (wgmma)", a_desc ^ b_desc * 31 ^ (u64)accumulate << 40 ^ (u64)n << 50,
                  EMU_PC))
    return;
  const ProductCall call{n, type, a_desc, b_desc, accumulate, ta, tb};
  if (!valid_product(call, a, EMU_PC)) {
    part_group();
    return;
  }
  Thread* const* threads = &current->block->threads[current->id & ~127];
  run.wgmmas++;
  for (int t = 0; t < 128; t++)
    if (!g.fenced[t]) {
      report("wgmma", "wgmma without a wgmma.fence since the last wait", EMU_PC, threads[t]);
      break;
    }
  know_group(g, threads);
  auto accumulator = take_accumulator(g, threads, n, type, EMU_PC);
  std::shared_ptr<OperandA> operand = a ? take_registers(g, threads, EMU_PC) : nullptr;
  OpRef op = make_op("wgmma", g.seen_by_all, g.fenced_by_all, EMU_PC);
  for (int t = 0; t < 128; t++) threads[t]->tick();
  accumulator->pending++;
  op->run = [=](Op& o) { run_product(o, call, *accumulator, operand.get()); };
  enqueue(g.queue, op);
  g.open.push_back({op, accumulator, operand, EMU_PC});
  part_group();
}
void emu_wgmma_commit() {
  WarpGroup& g = group_of(*current);
  current->time += rates.mma_issue;
  if (!meet_group("warp group (wgmma.commit_group)", 1, EMU_PC)) return;
  g.groups.push_back(std::move(g.open));
  g.open.clear();
  part_group();
}
static void retire(Product& p, Meeting& m, Thread* const* threads, Clock& learnt) {
  while (!p.op->done) {
    p.op->waiters.push_back(current);
    block_on(ON_WGMMA, "wgmma.wait_group", 0, 0, p.pc);
  }
  learnt.join(p.op->seen);
  m.time = std::max(m.time, p.op->finished);
  p.d->pending--;
  if (!p.a) return;
  for (int t = 0; t < 128; t++) threads[t]->watched--;
  for (int t = 0; t < 128; t++)
    if (memcmp(p.a->held[t], p.a->registers[t], 16)) {
      report("wgmma", "registers of operand A written while a wgmma that reads them is in flight",
             p.pc, threads[t]);
      return;
    }
}
static void write_back(Accumulator& a, Thread* const* threads, void* pc) {
  for (int t = 0; t < 128; t += 9)
    if (!poisoned(a.registers[t], a.n / 2)) {
      report("wgmma", "accumulator registers written while a wgmma on them is in flight", pc,
             threads[t]);
      break;
    }
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < a.n / 2; i++)
      memcpy(&a.registers[t][i], &a.value[accumulator_row(t, i) * a.n + accumulator_column(t, i)],
             4);
}
void emu_wgmma_wait(int pending) {
  WarpGroup& g = group_of(*current);
  if (!meet_group("warp group (wgmma.wait_group)", 1000 + pending, EMU_PC)) return;
  Meeting& m = current->block->groups[current->id / 128];
  Thread* const* threads = &current->block->threads[current->id & ~127];
  Clock learnt;
  learnt.reset(current->seen.cluster, 0);
  while ((int)g.groups.size() > pending) {
    for (Product& p : g.groups.front()) retire(p, m, threads, learnt);
    g.groups.pop_front();
  }
  if (!learnt.at.empty())
    for (int t = 0; t < 128; t++) threads[t]->seen.join(learnt);
  for (auto it = g.in_flight.begin(); it != g.in_flight.end();) {
    if (it->second->pending) {
      ++it;
      continue;
    }
    write_back(*it->second, threads, EMU_PC);
    for (int t = 0; t < 128; t++) threads[t]->watched--;
    it = g.in_flight.erase(it);
    std::fill(g.fenced, g.fenced + 128, false);
  }
  part_group();
}
}
