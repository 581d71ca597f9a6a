// Counting mode: bank conflicts and memory transactions, by place in the source. Lanes run apart
// here, so accesses are put together again: the i-th time that each lane of a warp reaches one
// instruction is one request of the warp.
#pragma once
#include "emulator_tcgen05.h"

// cost and least in wavefronts (shared memory) or 32-byte sectors (global memory)
struct Tally {
  u64 requests = 0, cost = 0, least = 0;
};
struct CountKey {
  std::string kind;
  void* pc;
  bool operator<(const CountKey& o) const { return pc != o.pc ? pc < o.pc : kind < o.kind; }
};
// one request of a warp: address and bytes by lane
struct Request {
  const char* kind;
  void* pc;
  bool shared;
  std::map<int, std::pair<u64, u32>> lanes;
};
static bool counting;
static std::map<CountKey, Tally> tallies;
static std::map<std::pair<Thread*, void*>, u32> occurrences;
static std::map<std::pair<std::pair<Meeting*, void*>, u32>, Request> requests;
static u64 bulk_bytes[2];  // stored, loaded

// words of one wavefront that fall into the same bank and differ
static u32 bank_wavefronts(const std::vector<std::pair<u64, u32>>& parts, size_t first,
                           size_t last) {
  std::vector<u64> words;
  for (size_t i = first; i < last; i++)
    for (u64 w = parts[i].first / 4; w * 4 < parts[i].first + parts[i].second; w++)
      words.push_back(w);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  u32 in_bank[32] = {};
  for (u64 w : words) in_bank[w % 32]++;
  return *std::max_element(in_bank, in_bank + 32);
}
// 4-byte accesses go out as one wavefront of 32 lanes, 8-byte ones as two of 16, 16-byte ones as
// four of 8
static void tally_shared(Tally& t, const std::vector<std::pair<u64, u32>>& parts) {
  const size_t lanes = std::max<size_t>(1, 32 * 4 / std::max<u32>(4, parts[0].second));
  for (size_t i = 0; i < parts.size(); i += lanes) {
    t.cost += bank_wavefronts(parts, i, std::min(parts.size(), i + lanes));
    t.least++;
  }
}
static void tally_global(Tally& t, const std::vector<std::pair<u64, u32>>& parts) {
  std::vector<u64> sectors;
  u64 bytes = 0;
  for (auto& [at, size] : parts) {
    bytes += size;
    for (u64 s = at / 32; s * 32 < at + size; s++) sectors.push_back(s);
  }
  std::sort(sectors.begin(), sectors.end());
  t.cost += (u64)(std::unique(sectors.begin(), sectors.end()) - sectors.begin());
  t.least += (bytes + 31) / 32;
}
static void close_request(const Request& r) {
  Tally& t = tallies[{r.kind, r.pc}];
  std::vector<std::pair<u64, u32>> parts;
  for (auto& [lane, part] : r.lanes) parts.push_back(part);
  t.requests++;
  if (r.shared) tally_shared(t, parts);
  else tally_global(t, parts);
}
static void count_lane(const char* kind, u64 address, u32 bytes, bool shared, void* pc,
                       u64 salt = 0) {
  Thread& t = *current;
  void* place = (u8*)pc + salt;
  const u32 occurrence = occurrences[{&t, place}]++;
  const auto key = std::make_pair(std::make_pair(&warp_of(t), place), occurrence);
  Request& r = requests[key];
  r.kind = kind;
  r.pc = pc;
  r.shared = shared;
  r.lanes[t.id & 31] = {address, bytes};
  if ((int)r.lanes.size() == warp_size(t)) {
    close_request(r);
    requests.erase(key);
  }
}
static void count_access(const u8* p, u32 bytes, bool write, void* pc) {
  if (!counting) return;
  const bool shared = !in_heap(p);
  const u64 address = shared ? (u64)(p - current->block->arena) : (u64)p;
  count_lane(
      shared ? (write ? "shared write" : "shared read") : (write ? "global write" : "global read"),
      address, bytes, shared, pc);
}
static void count_copy(const Copy& c, void* pc) {
  if (!counting) return;
  count_lane("cp.async shared write", c.dst, c.size, true, pc, 1ull << 60);
  if (c.bytes) count_lane("cp.async global read", (u64)c.src, c.bytes, false, pc, 1ull << 61);
}
static void count_matrix(const u32* addresses, int rows, bool store, void* pc) {
  if (!counting) return;
  std::vector<std::pair<u64, u32>> parts;
  for (int i = 0; i < rows; i++) parts.push_back({addresses[i], 16});
  Tally& t = tallies[{store ? "stmatrix" : "ldmatrix", pc}];
  t.requests++;
  tally_shared(t, parts);
}
static void count_bulk(u64 bytes, bool load) { bulk_bytes[load] += bytes; }
static void close_requests() {
  for (auto& [key, r] : requests) close_request(r);
  requests.clear();
  occurrences.clear();
}
