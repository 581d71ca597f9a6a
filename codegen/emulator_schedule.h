// The scheduler: which thread or which asynchronous operation goes next. Every choice counts a
// step. The default choice is deterministic (the thread that became ready last; operations when no
// thread is ready); a seed's policy departs from it, and each departure is recorded as (step,
// pick), so that a run can be repeated, and shrunk, by its departures alone.
#pragma once
#include "emulator_fibers.h"
#include "emulator_report.h"

struct Departure {
  u64 step;
  u32 pick;
};
static std::vector<Departure> taken;    // departures of this run, in order
static std::vector<std::string> story;  // the first departures in words, when they are recorded
static bool recording;
static std::vector<Departure> given;  // departures to follow instead of a policy
static size_t next_given;
static bool replaying;

static u64 random_state;
static u32 random_u32() {  // xorshift64
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (u32)(random_state >> 16);
}
static bool chance(u32 one_in) { return random_u32() % one_in == 0; }

// any ready thread; all but one warp, which runs when nothing else can; mostly the default
enum ThreadPolicy { UNIFORM, STARVE, STICKY };
enum AsyncPolicy { NOW_AND_THEN, IDLE_ONLY, AT_ONCE, OFTEN };
static ThreadPolicy thread_policy;
static AsyncPolicy async_policy;
static void choose_policy(u64 seed) {
  random_state = seed * 0x9E3779B97F4A7C15ull + 0x1234567;
  for (int i = 0; i < 8; i++) random_u32();
  async_policy = (AsyncPolicy)(seed % 4);
  thread_policy = (ThreadPolicy)((seed % 4 + seed / 4) % 3);
}

static bool timed;  // virtual time: see emulator_time.h
static u32 pick_thread_timed(size_t threads);
static bool async_first_timed(size_t threads, u32& pick);

static size_t async_count() { return run.loose.size() + run.queues.size(); }

// The policy's choice among `threads` ready threads (0 is the default, the last) and `ops`
// operations after them.
static u32 policy_pick(size_t threads, size_t ops) {
  if (ops) {
    const bool now = !threads || async_policy == AT_ONCE ||
                     (async_policy == NOW_AND_THEN && chance(24)) ||
                     (async_policy == OFTEN && chance(4));
    if (now) return (u32)(threads + (async_policy == AT_ONCE && threads ? 0 : random_u32() % ops));
  }
  if (thread_policy == UNIFORM) return random_u32() % (u32)threads;
  if (thread_policy == STICKY) return chance(16) ? random_u32() % (u32)threads : 0;
  // STARVE: skip the starved warp's threads while others are ready
  for (u32 tries = 0; tries < 8; tries++) {
    const u32 pick = random_u32() % (u32)threads;
    if (!run.ready[threads - 1 - pick]->starved) return pick;
  }
  for (u32 pick = 0; pick < threads; pick++)
    if (!run.ready[threads - 1 - pick]->starved) return pick;
  return 0;
}
// One decision with `options` choices, of which 0 is the default.
template <class Policy> static u32 decide(u32 options, Policy policy) {
  const u64 step = run.steps++;
  u32 pick = 0;
  if (replaying) {
    while (next_given < given.size() && given[next_given].step < step) next_given++;
    if (next_given < given.size() && given[next_given].step == step)
      pick = given[next_given].pick % options;
  } else {
    pick = policy();
  }
  if (pick) taken.push_back({step, pick});
  return pick;
}

static void wake(Thread* t) {
  if (t->ready || t->done) return;
  t->ready = true;
  t->wait.on = NOTHING;
  run.ready.push_back(t);
}
static void block_on(Waiting on, const char* what, u32 a, u32 b, void* pc) {
  current->ready = false;
  current->wait = {on, what, a, b, pc};
  leave_fiber();
}
static const size_t LONGEST_STORY = 64;
static void tell(const std::string& what) {
  if (recording && !taken.empty() && story.size() < LONGEST_STORY)
    story.push_back(text("step %llu: %s", taken.back().step, what.c_str()));
}
static std::string full_name(const Thread& t) {
  return t.role ? text("%s (thread %d)", role_of(t).c_str(), t.id) : role_of(t);
}
static std::string op_name(const Op& op) {
  return text("the %s of %s", op.what, full_name(*op.issuer).c_str());
}

// a place where the scheduler may be asked, one time in `one_in`
static void maybe_yield(u32 one_in) {
  if (timed) return;
  if (!decide(2, [&] { return chance(one_in) ? 1u : 0u; })) return;
  if (recording) tell(full_name(*current) + " pauses");
  run.ready.insert(run.ready.begin(),
                   current);  // under all others, so that the default choice is someone else
  leave_fiber();
}

static void finish_op(const OpRef& op) {
  Cluster& c = *op->block->cluster;
  op->run(*op);
  op->run = nullptr;
  op->done = true;
  run.ops++;
  c.pending_ops--;
  c.slots[slot_of(op->epoch) - c.threads.size()].busy = false;
  for (Thread* t : op->waiters) wake(t);
  op->waiters.clear();
}
static void enqueue(std::deque<OpRef>& queue, const OpRef& op) {
  if (queue.empty()) run.queues.push_back(&queue);
  queue.push_back(op);
}
static void run_async(u32 index) {
  if (index < run.loose.size()) {
    OpRef op = run.loose[index];
    run.loose.erase(run.loose.begin() + index);
    finish_op(op);
    return;
  }
  auto* queue = run.queues[index - run.loose.size()];
  OpRef op = queue->front();
  queue->pop_front();
  if (queue->empty()) run.queues.erase(std::find(run.queues.begin(), run.queues.end(), queue));
  finish_op(op);
}
// wait for an operation and learn what it knew
static void await(const OpRef& op, Waiting on, const char* what, void* pc) {
  while (!op->done) {
    op->waiters.push_back(current);
    block_on(on, what, 0, 0, pc);
  }
  current->seen.join(op->seen);
  current->time = std::max(current->time, op->finished);
}

static bool admit_cluster();  // emulator_launch.h: start one more cluster, if any is left
static bool wake_pollers();
static void report_deadlock();

// Runs until every thread has finished and every operation has run, or the launch stops on a fault.
static void schedule() {
  while (!run.stopped) {
    const size_t threads = run.ready.size(), ops = async_count();
    if (!threads && !ops) {
      if (run.resident.empty() && run.waiting_clusters.empty()) return;
      if (admit_cluster() || wake_pollers()) continue;
      if (run.resident.empty()) return;
      report_deadlock();
      return;
    }
    if (run.step_limit && run.steps > run.step_limit) {
      report("livelock", text("no end after %llu scheduling steps", run.step_limit), nullptr);
      return;
    }
    u32 pick = 0;
    if (timed) {
      if (!async_first_timed(threads, pick)) pick = pick_thread_timed(threads);
    } else pick = decide((u32)(threads + ops), [&] { return policy_pick(threads, ops); });
    const bool telling = recording && pick && story.size() < LONGEST_STORY;
    const std::string instead =
        telling && threads ? " instead of " + full_name(*run.ready.back()) : "";
    if (pick >= threads) {
      const u32 index = pick - (u32)threads;
      const size_t loose = run.loose.size();
      if (telling)
        tell(op_name(*(index < loose ? run.loose[index] : run.queues[index - loose]->front())) +
             " completes" + instead);
      run_async(index);
      continue;
    }
    const size_t at = threads - 1 - pick;
    Thread* t = run.ready[at];
    if (telling) tell(full_name(*t) + " runs" + instead);
    run.ready.erase(run.ready.begin() + at);
    enter_fiber(*t);
  }
}
