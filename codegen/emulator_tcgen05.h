// tcgen05: tensor memory of 128 lanes by 512 columns, and one thread's products into it. Covered:
// cta_group::1, kind::f16 with both operands K-major in shared memory, M 128, loads of 32 lanes a
// warp. Each column remembers the product that wrote it and the loads that read it; a thread sees a
// product once it has waited for its commit and passed tcgen05.fence::after_thread_sync.
#pragma once
#include "emulator_wgmma.h"

struct TensorMemory {
  std::vector<float> value = std::vector<float>(128 * 512, __builtin_nanf(""));
  std::vector<Cell> cells = std::vector<Cell>(512 * 4);  // [column][quarter of the lanes]
  u32 columns = 0;                                       // allocated, from 0
};
static TensorMemory& tensor_of(Block& b) {
  if (!b.tensor) b.tensor = std::make_unique<TensorMemory>();
  return *b.tensor;
}
static Descriptor descriptor_sm100(u64 d) {
  const int layout = (int)(d >> 61);
  return {(u32)(d & 0x3fff) << 4, (u32)(d >> 16 & 0x3fff) << 4, (u32)(d >> 32 & 0x3fff) << 4,
          layout == 2   ? 3
          : layout == 4 ? 2
          : layout == 6 ? 1
                        : 0};
}
static void touch_tensor(Block& b, u32 column, u32 quarter, bool write, const Accessor& a,
                         const Clock& admitted) {
  TensorMemory& m = tensor_of(b);
  Cell& c = m.cells[column * 4 + quarter];
  if (!write && !c.write) {
    report("uninitialised",
           text("%s reads tensor memory column %u, which nothing has written", a.what, column),
           a.pc, a.thread);
    return;
  }
  if (c.write != a.epoch && !a.seen->knows(c.write))
    report("race",
           text("%s %s tensor memory, not ordered after the write by %s", a.what,
                write ? "writes" : "reads", who_did(*b.cluster, c.write).c_str()),
           a.pc, a.thread);
  else if (!a.async && c.write && !admitted.knows(c.write))
    report("proxy",
           text("%s of tensor memory without tcgen05.fence::after_thread_sync since %s", a.what,
                who_did(*b.cluster, c.write).c_str()),
           a.pc, a.thread);
  if (!write && a.async) return;
  if (!write) {  // the one warp of this quarter; known to nobody before its fence
    c.read[0] = epoch_of(b.cluster->index, a.thread->slot, 0xfffffff);
    current->tensor_reads.push_back(&c.read[0]);
    return;
  }
  for (Epoch r : c.read)
    if (r && !a.seen->knows(r))
      report("race",
             text("%s overwrites or frees tensor memory, not ordered after a load by %s "
                  "(tcgen05.fence::before_thread_sync, then a barrier)",
                  a.what, who_did(*b.cluster, r).c_str()),
             a.pc, a.thread);
  c.write = a.epoch;
  c.read[0] = c.read[1] = c.read[2] = 0;
}

struct UmmaCall {
  u32 column;
  u64 a, b;
  int m, n, type, accumulate;
};
static void run_umma(Op& op, const UmmaCall& u) {
  Block& b = *op.block;
  TensorMemory& memory = tensor_of(b);
  const Accessor a = accessor(op);
  time_product(op, u.n * 2, u.type);  // 128 rows
  static std::vector<float> left, right, sum;
  left.resize(u.m * 16);
  right.resize(16 * u.n);
  sum.resize((size_t)u.m * u.n);
  load_k_major(b, descriptor_sm100(u.a), u.m, u.type, left.data(), false, a);
  load_k_major(b, descriptor_sm100(u.b), u.n, u.type, right.data(), true, a);
  if (u.column + u.n > memory.columns) {
    report("bounds",
           text("tcgen05.mma on columns %u..%u of %u allocated", u.column, u.column + u.n,
                memory.columns),
           op.pc, op.issuer);
    return;
  }
  for (u32 c = u.column; c < u.column + u.n; c++)
    for (u32 q = 0; q < 4; q++) {
      if (u.accumulate) touch_tensor(b, c, q, false, a, op.seen);
      touch_tensor(b, c, q, true, a, op.seen);
    }
  for (int i = 0; i < u.m; i++) memcpy(&sum[i * u.n], &memory.value[i * 512 + u.column], 4 * u.n);
  multiply(sum.data(), left.data(), right.data(), u.m, u.n, 16, u.accumulate);
  for (int i = 0; i < u.m; i++) memcpy(&memory.value[i * 512 + u.column], &sum[i * u.n], 4 * u.n);
}

// a plain access to a register array that an operation in flight uses
static void touch_registers(u8* p, u32 bytes, bool write, void* pc) {
  touch_wgmma_registers(p, bytes, write, pc);
  for (auto& [registers, values] : current->loads)
    if (overlap(p, bytes, registers, (int)values.size()))
      report(
          "tcgen05",
          text("registers of a tcgen05.ld %s before tcgen05.wait::ld", write ? "written" : "read"),
          pc);
}

extern "C" {
void emu_tmem_alloc(u32 dst, u32 columns) {
  if (!meet_warp("warp (tcgen05.alloc)", true, 90, EMU_PC)) return;
  Block& b = *current->block;
  TensorMemory& m = tensor_of(b);
  if (columns < 32 || columns & (columns - 1) || m.columns + columns > 512)
    report("bounds", text("tcgen05.alloc of %u columns with %u in use", columns, m.columns),
           EMU_PC);
  else if (touch_shared(b, dst, 4, true, accessor(*current, "tcgen05.alloc", EMU_PC))) {
    memcpy(b.arena + dst, &m.columns, 4);
    m.columns += columns;
  }
  part(warp_of(*current), true);
}
void emu_tmem_dealloc(u32 tmem, u32 columns) {
  if (!meet_warp("warp (tcgen05.dealloc)", true, 91, EMU_PC)) return;
  TensorMemory& m = tensor_of(*current->block);
  if (columns > m.columns)
    report("bounds", text("tcgen05.dealloc of %u columns with %u in use", columns, m.columns),
           EMU_PC);
  else {
    const Accessor a = accessor(*current, "tcgen05.dealloc", EMU_PC);
    for (u32 c = tmem & 0xffff; c < (tmem & 0xffff) + columns && c < 512; c++)
      for (u32 q = 0; q < 4; q++)
        if (m.cells[c * 4 + q].write) touch_tensor(*current->block, c, q, true, a, current->seen);
    m.columns -= columns;
  }
  part(warp_of(*current), true);
}
void emu_umma(u32 tmem, u64 a, u64 b, u32 instruction, int accumulate) {
  const int n = (int)(instruction >> 17 & 63) * 8, m = (int)(instruction >> 24 & 31) * 16;
  const u32 d_type = instruction >> 4 & 3, a_type = instruction >> 7 & 7,
            b_type = instruction >> 10 & 7;
  if (m != 128 || n < 16 || n > 256 || n % 16 || d_type != 1 || a_type > 1 || a_type != b_type ||
      instruction >> 15 & 3) {
    report(
        "tcgen05",
        text("tcgen05.mma: instruction descriptor 0x%x (m %d, n %d) is not one this emulator runs",
             instruction, m, n),
        EMU_PC);
    return;
  }
  const UmmaCall call{tmem & 0xffff, a, b, m, n, a_type ? EMU_BF16 : EMU_F16, accumulate};
  OpRef op = issue("tcgen05.mma", EMU_PC);
  auto& queue = current->block->tensor_queue;
  if (current->last_product) op->after = current->last_product;  // the pipeline keeps their order
  current->last_product = op;
  op->run = [=](Op& o) {
    if (o.after) o.seen.join(o.after->seen);
    o.after.reset();
    run_umma(o, call);
  };
  enqueue(queue, op);
}
void emu_umma_commit(u32 bar) {
  if (!mbarrier_at(bar, "tcgen05.commit", true, EMU_PC)) return;
  OpRef op = issue("tcgen05.commit", EMU_PC);
  op->after = current->last_product;
  op->run = [=](Op& o) {
    if (o.after) {
      o.seen.join(o.after->seen);
      o.finished = std::max(o.finished, o.after->finished);
    }
    o.after.reset();
    auto found = o.block->mbarriers.find(bar);
    if (found == o.block->mbarriers.end() || !found->second.live) return;
    arrive_on(found->second, o.seen, o.fenced, o.finished, *o.block, bar, o.pc);
    complete_phase(found->second);
  };
  enqueue(current->block->tensor_queue, op);
}
void emu_tmem_load(u32* r, u32 tmem, int columns) {
  Thread& t = *current;
  if (meet_warp("warp (tcgen05.ld)", false, 92, EMU_PC)) part(warp_of(t), false);
  TensorMemory& m = tensor_of(*t.block);
  const u32 lane = tmem >> 16, column = tmem & 0xffff, quarter = (u32)(t.id / 32) & 3;
  if (lane != quarter * 32)
    report("bounds",
           text("tcgen05.ld of lanes from %u: warp %d may only read lanes from %u", lane, t.id / 32,
                quarter * 32),
           EMU_PC);
  if (column + columns > m.columns) {
    report(
        "bounds",
        text("tcgen05.ld of columns %u..%u of %u allocated", column, column + columns, m.columns),
        EMU_PC);
    return;
  }
  const Accessor a = accessor(t, "tcgen05.ld", EMU_PC);
  std::vector<u32> values(columns);
  for (int i = 0; i < columns; i++) {
    if ((t.id & 31) == 0) touch_tensor(*t.block, column + i, quarter, false, a, t.tensor);
    memcpy(&values[i], &m.value[(quarter * 32 + (t.id & 31)) * 512 + column + i], 4);
    r[i] = POISON;
  }
  t.loads.push_back({r, values});
  t.watched++;
}
void emu_tmem_wait_load() {
  for (auto& [registers, values] : current->loads)
    memcpy(registers, values.data(), 4 * values.size());
  current->watched -= (int)current->loads.size();
  current->loads.clear();
}
void emu_tcgen05_fence_before() {
  for (Epoch* read : current->tensor_reads)
    if (slot_of(*read) == current->slot) *read = current->now();
  current->tensor_reads.clear();
}
void emu_tcgen05_fence_after() { current->tensor = current->seen; }
}
