// TMA: boxes between global and shared memory through tensor maps, in every swizzle, and plain bulk
// copies. The 128 bytes of a tensor map are opaque on hardware; here they hold struct TensorMap,
// written by the driver side.
#pragma once
#include "emulator_async.h"

struct TensorMap {
  u32 magic;
  u8 rank, element_bytes, swizzle,
      kind;  // swizzle: log2 of its span / 16 (0 none, 1, 2, 3: 32, 64, 128 bytes)
  u64 base;
  u32 extent[5], box[5];
  u64 stride[4];  // bytes, of dimensions 1..4
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap), "a tensor map has 128 bytes");
enum {
  MAP_MAGIC = 0x7ec0de01,
  KIND_BITS = 0,
  KIND_F32 = 1,
  KIND_F16 = 2,
  KIND_BF16 = 3,
  KIND_INT = 4
};

// 16-byte chunk index within a row xor row index modulo the span, as bits of the address
static u32 swizzled(u32 address, int swizzle) {
  static const u32 bits[4] = {0, 0x10, 0x30, 0x70};
  return address ^ ((address >> 3) & bits[swizzle]);
}
struct Box {
  TensorMap map;
  int at[5];
};
static u64 box_bytes(const TensorMap& m) {
  u64 n = m.element_bytes;
  for (int i = 0; i < m.rank; i++) n *= m.box[i];
  return n;
}
// body(offset of the row in the box's bytes, its first element in global memory, row inside the
// tensor?)
template <class Body> static void for_rows(const Box& box, Body body) {
  const TensorMap& m = box.map;
  u64 rows = 1;
  for (int i = 1; i < m.rank; i++) rows *= m.box[i];
  for (u64 r = 0; r < rows; r++) {
    u64 rest = r;
    const u8* row = (const u8*)m.base;
    bool inside = true;
    for (int i = 1; i < m.rank; i++) {
      const long long x = (long long)box.at[i] + (long long)(rest % m.box[i]);
      rest /= m.box[i];
      inside = inside && x >= 0 && x < (long long)m.extent[i];
      row += x * (long long)m.stride[i - 1];
    }
    body((u32)r * m.box[0] * m.element_bytes, row, inside);
  }
}
// bytes [first, last) of a row that exist
static void valid_bytes(const Box& box, u32& first, u32& last) {
  const TensorMap& m = box.map;
  const long long low = std::max(0ll, -(long long)box.at[0]);
  const long long high = std::min((long long)m.box[0], (long long)m.extent[0] - box.at[0]);
  first = (u32)(std::min(low, (long long)m.box[0]) * m.element_bytes);
  last = (u32)(std::max(high, 0ll) * m.element_bytes);
}
static bool read_box(Box& box, const CUtensorMap* map, u32 shared, const int* at, int rank,
                     const char* what, void* pc) {
  memcpy(&box.map, map, sizeof box.map);
  if (box.map.magic != MAP_MAGIC || box.map.rank != rank) {
    report("tensor map",
           text("%s: %s", what,
                box.map.magic == MAP_MAGIC ? "the map has another rank"
                                           : "no tensor map at this address"),
           pc);
    return false;
  }
  for (int i = 0; i < rank; i++) box.at[i] = at[i];
  const u32 align = box.map.swizzle ? 128u << box.map.swizzle : 128u;  // a whole swizzle pattern
  if ((shared & 0xffffff) % align)
    report("alignment",
           text("%s: shared address 0x%x is no multiple of %u, which its swizzle needs", what,
                shared & 0xffffff, align),
           pc);
  return true;
}

static void load_box(const Op& op, const Box& box, Block& b, u32 dst) {
  const TensorMap& m = box.map;
  const Accessor a = accessor(op);
  const u32 row_bytes = m.box[0] * m.element_bytes;
  u32 first, last;
  valid_bytes(box, first, last);
  for_rows(box, [&](u32 offset, const u8* row, bool inside) {
    if (!touch_shared(b, dst + offset, row_bytes, true, a)) return;
    const u8* source = row + (long long)box.at[0] * m.element_bytes;
    u32 from = first, to = last;
    if (!inside || from >= to || !touch_global(source + from, to - from, false, a)) from = to = 0;
    for (u32 x = 0; x < row_bytes; x += 16) {
      u8* at = b.arena + swizzled(dst + offset + x, m.swizzle);
      const u32 low = std::max(x, from), high = std::min(x + 16, to);
      if (low == x && high == x + 16) {
        memcpy(at, source + x, 16);
        continue;
      }
      memset(at, 0, 16);
      if (low < high) memcpy(at + (low - x), source + low, high - low);
    }
  });
}
static void add_elements(u8* to, const u8* from, u32 bytes, const TensorMap& m) {
  for (u32 i = 0; i < bytes; i += m.element_bytes) {
    u32 x = 0, y = 0;
    memcpy(&x, to + i, std::min<u32>(m.element_bytes, 4));
    memcpy(&y, from + i, std::min<u32>(m.element_bytes, 4));
    if (m.kind == KIND_F32) x = emu_bits(emu_float(x) + emu_float(y));
    else if (m.kind == KIND_F16) x = emu_to_f16(emu_from_f16(x) + emu_from_f16(y));
    else if (m.kind == KIND_BF16) x = emu_to_bf16(emu_from_bf16(x) + emu_from_bf16(y));
    else x += y;
    memcpy(to + i, &x, std::min<u32>(m.element_bytes, 4));
  }
}
typedef std::shared_ptr<std::vector<u8>> Bytes;
static Bytes collect_box(const Op& op, const Box& box, u32 src) {
  const TensorMap& m = box.map;
  const Accessor a = accessor(op);
  auto bytes = std::make_shared<std::vector<u8>>(box_bytes(m));
  const u32 row_bytes = m.box[0] * m.element_bytes;
  for_rows(box, [&](u32 offset, const u8*, bool inside) {
    if (!inside || !touch_shared(*op.block, src + offset, row_bytes, false, a)) return;
    for (u32 x = 0; x < row_bytes; x += 16)
      memcpy(bytes->data() + offset + x, op.block->arena + swizzled(src + offset + x, m.swizzle),
             16);
  });
  return bytes;
}
static void store_box(const Op& op, const Box& box, const Bytes& bytes, bool add) {
  const TensorMap& m = box.map;
  Accessor a = accessor(op);
  if (add) a.epoch |= ATOMIC;
  u32 first, last;
  valid_bytes(box, first, last);
  if (first >= last) return;
  for_rows(box, [&](u32 offset, const u8* row, bool inside) {
    u8* to = (u8*)row + (long long)box.at[0] * m.element_bytes;
    if (!inside || !touch_global(to + first, last - first, true, a)) return;
    if (add) add_elements(to + first, bytes->data() + offset + first, last - first, m);
    else memcpy(to + first, bytes->data() + offset + first, last - first);
  });
}

static void time_load(Op&, u64 bytes);  // emulator_time.h
static void time_store(Op&, u64 bytes);
static void count_bulk(u64 bytes, bool load);  // emulator_counts.h

// A store is two operations: reading shared memory, then writing global memory with what was read.
template <class Collect, class Write>
static void issue_store(const char* what, u64 bytes, void* pc, Collect collect, Write write) {
  OpRef first = issue(what, pc), second = issue(what, pc);
  first->run = [=](Op& o) {
    Bytes data = collect(o);
    time_store(o, bytes);
    second->seen.join(o.seen);
    second->issued = o.finished;
    second->run = [=](Op& w) {
      write(w, data);
      w.finished = w.issued;
    };
    run.loose.push_back(second);
  };
  run.loose.push_back(first);
  current->stores.push_back({first, second});
  count_bulk(bytes, false);
}

extern "C" {
void emu_tma_load(u32 dst, const CUtensorMap* map, u32 bar, int mask, const int* at, int rank) {
  const char* what = mask < 0 ? "TMA load" : "TMA multicast load";
  Box box;
  if (!read_box(box, map, dst, at, rank, what, EMU_PC)) return;
  Cluster& c = *current->block->cluster;
  if (mask >= 0 && (!mask || mask >> c.blocks.size()))
    report("bounds", text("TMA multicast mask 0x%x in a cluster of %zu", mask, c.blocks.size()),
           EMU_PC);
  if (mask < 0 && !mbarrier_at(bar, what, true, EMU_PC)) return;
  std::vector<Block*> targets;
  if (mask < 0) {
    Block* b = block_at(dst, what, EMU_PC);
    if (!b) return;
    targets.push_back(b);
  } else
    for (auto& b : c.blocks)
      if (mask >> b->rank & 1) targets.push_back(b.get());
  current->time += rates.copy_issue;
  OpRef op = issue(what, EMU_PC);
  dst &= 0xffffff;
  bar &= 0xffffff;
  op->run = [=](Op& o) {
    const u64 bytes = box_bytes(box.map);
    time_load(o, bytes);
    for (Block* b : targets) {
      if (b != o.block) b->remote[slot_of(o.epoch)] = {o.epoch, o.what, o.pc};
      load_box(o, box, *b, dst);
      complete_bytes(*b, bar, bytes, o);
    }
  };
  run.loose.push_back(op);
  count_bulk(box_bytes(box.map), true);
}
void emu_tma_store(const CUtensorMap* map, u32 src, const int* at, int rank, int add) {
  const char* what = add ? "TMA reduction" : "TMA store";
  Box box;
  if (!read_box(box, map, src, at, rank, what, EMU_PC)) return;
  issue_store(
      what, box_bytes(box.map), EMU_PC, [=](Op& o) { return collect_box(o, box, src); },
      [=](Op& o, const Bytes& data) { store_box(o, box, data, add); });
}
static bool bulk_aligned(const char* what, const void* global, u32 shared, u32 bytes, void* pc) {
  if (((u64)global | shared | bytes) & 15)
    report("alignment", text("%s: addresses and bytes must be multiples of 16", what), pc);
  return bytes > 0;
}
void emu_bulk_load(u32 dst, const void* src, u32 bytes, u32 bar) {
  if (!bulk_aligned("bulk load", src, dst, bytes, EMU_PC) ||
      !mbarrier_at(bar, "bulk load", true, EMU_PC))
    return;
  OpRef op = issue("bulk load", EMU_PC);
  op->run = [=](Op& o) {
    time_load(o, bytes);
    const Accessor a = accessor(o);
    if (touch_shared(*o.block, dst, bytes, true, a) &&
        touch_global((const u8*)src, bytes, false, a))
      memcpy(o.block->arena + dst, src, bytes);
    complete_bytes(*o.block, bar, bytes, o);
  };
  run.loose.push_back(op);
  count_bulk(bytes, true);
}
void emu_bulk_store(void* dst, u32 src, u32 bytes) {
  if (!bulk_aligned("bulk store", dst, src, bytes, EMU_PC)) return;
  issue_store(
      "bulk store", bytes, EMU_PC,
      [=](Op& o) {
        auto data = std::make_shared<std::vector<u8>>(bytes);
        if (touch_shared(*o.block, src, bytes, false, accessor(o)))
          memcpy(data->data(), o.block->arena + src, bytes);
        return data;
      },
      [=](Op& o, const Bytes& data) {
        if (touch_global((const u8*)dst, bytes, true, accessor(o)))
          memcpy(dst, data->data(), bytes);
      });
}
void emu_bulk_commit() {
  current->store_groups.push_back(std::move(current->stores));
  current->stores.clear();
}
void emu_bulk_wait(int pending, int read_only) {
  auto& groups = current->store_groups;
  const int last = (int)groups.size() - pending;
  for (int i = 0; i < last; i++)
    for (BulkStore& s : groups[i]) {
      if (s.read) await(s.read, ON_BULK, "cp.async.bulk.wait_group.read", EMU_PC);
      s.read.reset();
      if (!read_only) await(s.write, ON_BULK, "cp.async.bulk.wait_group", EMU_PC);
    }
  if (!read_only)
    for (int i = 0; i < last; i++) groups.pop_front();
}
}
