// What went wrong: one report for each kind of fault at each place in the source, with the first
// occurrence's thread and block and the number of occurrences. Texts name objects as the kernel did
// (tc_note_name, tc_note_role).
#pragma once
#include <cstdarg>
#include "emulator_core.h"

struct Report {
  std::string kind, text, role;
  void* pc;
  void* other_pc;
  EmuDim3 block, thread;
  u64 step, count;
};
static std::vector<Report> reports;
static std::map<std::string, size_t> report_index;
static const size_t MOST_REPORTS = 200;

static std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
static std::string text(const char* format, ...) {
  char buffer[600];
  va_list list;
  va_start(list, format);
  vsnprintf(buffer, sizeof buffer, format, list);
  va_end(list);
  return buffer;
}

static std::string role_of(const Thread& t) {
  if (!t.role) return text("thread %d", t.id);
  return t.role_index < 0 ? std::string(t.role) : text("%s %d", t.role, t.role_index);
}
static const Name* named(const Block& b, u32 addr) {
  for (size_t i = b.names.size(); i-- > 0;)
    if (addr - b.names[i].first < b.names[i].bytes) return &b.names[i];
  return nullptr;
}
static std::string name_of(const Block& b, u32 addr) {
  const Name* n = named(b, addr);
  if (!n) return text("shared memory 0x%x", addr);
  return n->index < 0 ? std::string(n->text) : text("%s[%d]", n->text, n->index);
}
// name and, inside the object, the offset rounded down to 1024: one report for a tile, not one for
// a byte
static std::string place_of(const Block& b, u32 addr) {
  const Name* n = named(b, addr);
  return n ? name_of(b, addr) : text("shared memory 0x%x..", addr & ~1023u);
}

static std::string who_did(const Cluster& c, Epoch e, void** pc = nullptr) {
  if (cluster_of(e) != c.index) return text("block %u (another cluster)", cluster_of(e));
  const u32 slot = slot_of(e);
  if (slot < c.threads.size()) return role_of(*c.threads[slot]);
  const Slot& s = c.slots[slot - c.threads.size()];
  if (s.clock != clock_of(e)) return "an earlier asynchronous operation";
  if (pc) *pc = s.pc;
  return s.what;
}

static void report(const char* kind, const std::string& what, void* pc, const Thread* t = nullptr,
                   void* other = nullptr) {
  if (!t) t = current;
  const std::string key = std::string(kind) + "\n" + what + "\n" + std::to_string((size_t)pc);
  auto found = report_index.find(key);
  if (found != report_index.end()) {
    reports[found->second].count++;
    return;
  }
  if (reports.size() >= MOST_REPORTS) return;
  report_index[key] = reports.size();
  Report r{kind, what, t ? role_of(*t) : "", pc, other, {}, {}, run.steps, 1};
  if (t) {
    r.block = t->block->id;
    r.thread = t->self.thread;
  }
  reports.push_back(r);
}

static void leave_fiber();
// after this nothing can be run: back to the scheduler for good
static void stop_launch() {
  run.stopped = true;
  if (current) leave_fiber();
}

static std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += (char)c;
    } else if (c < 0x20) out += text("\\u%04x", c);
    else out += (char)c;
  }
  return out + "\"";
}
