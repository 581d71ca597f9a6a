// Virtual time: instead of a random order, the earliest first. A thread's clock moves with the
// helpers that it calls and the memory that it touches; an engine (TMA in, TMA out, tensor core,
// special functions) serves one operation after another. Each block has an SM of its own. Not
// counted: instruction issue, plain arithmetic, bank conflicts, caches, contention between SMs. It
// ranks schedules of one kernel; it does not predict seconds.
#pragma once
#include "emulator_counts.h"

struct Engines {
  double load = 0, store = 0, tensor = 0, tensor_busy = 0, sfu[4] = {0, 0, 0, 0};
};
static std::map<const Block*, Engines> engines;
static double last_cycle, tensor_busy;

static u32 pick_thread_timed(size_t threads) {
  size_t best = 0;
  for (size_t i = 1; i < threads; i++)
    if (run.ready[i]->time < run.ready[best]->time) best = i;
  run.steps++;
  return (u32)(threads - 1 - best);
}
static bool async_first_timed(size_t threads, u32& pick) {
  double thread_time = 1e300, op_time = 1e300;
  for (Thread* t : run.ready) thread_time = std::min(thread_time, t->time);
  const size_t loose = run.loose.size();
  for (size_t i = 0; i < loose + run.queues.size(); i++) {
    const OpRef& op = i < loose ? run.loose[i] : run.queues[i - loose]->front();
    if (op->issued < op_time) {
      op_time = op->issued;
      pick = (u32)(threads + i);
    }
  }
  return async_count() && (!threads || op_time < thread_time);
}
static void serve(Op& op, double& engine, double busy, double latency) {
  const double start = std::max(op.issued, engine);
  engine = start + busy;
  op.finished = engine + latency;
}
static void time_load(Op& op, u64 bytes) {
  if (timed)
    serve(op, engines[op.block].load, (double)bytes / rates.copy_bytes, rates.copy_latency);
}
static void time_store(Op& op, u64 bytes) {
  if (timed) serve(op, engines[op.block].store, (double)bytes / rates.copy_bytes, 0);
}
static void issue_time_copies(Op& op, u64 bytes) {
  if (timed)
    serve(op, engines[op.block].load, (double)bytes / rates.copy_bytes, rates.copy_latency);
}
static void time_product(Op& op, int n, int type) {
  if (!timed) return;
  const double rate = type == EMU_F16 || type == EMU_BF16 ? rates.mma_f16
                      : type == EMU_TF32                  ? rates.mma_tf32
                      : is_integer(type)                  ? rates.mma_i8
                                                          : rates.mma_f8;
  const double busy = 64.0 * n * depth_of(type) / std::max(1.0, rate);
  serve(op, engines[op.block].tensor, busy, rates.mma_drain);
  tensor_busy += busy;
}
// cycles of a warp's instruction: on the special-function unit of its partition, or anywhere else
extern "C" void emu_cost(double cycles, int unit) {
  if (!timed || !current) return;
  Thread& t = *current;
  if (unit == EMU_SFU)
    cycles *= 16 / std::max(1.0, rates.exp);  // helpers count cycles at 16 results a cycle
  if (unit == EMU_SFU && !(t.id & 31)) {      // warps w, w + 4, ... share a partition
    double& free = engines[t.block].sfu[t.id >> 5 & 3];
    t.time = std::max(t.time, free);
    free = t.time + cycles;
  }
  t.time += cycles;
}
