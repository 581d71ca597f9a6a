// TMA: tensor copies of 1 to 5 dimensions, multicast, reductions, and plain bulk copies. Included
// by device.cuh only.
#pragma once

TC_DEV void tc_tma_prefetch(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// rank, parameter list, "r"(...) list, coordinate operands after 3, 4 and 2 others
#define TC_FOR_EACH_RANK(F)                                                                  \
  F(1, TC_LIST(int c0), TC_LIST("r"(c0)), "%2", "%3", "%4")                                  \
  F(2, TC_LIST(int c0, int c1), TC_LIST("r"(c0), "r"(c1)), "%2, %3", "%3, %4", "%4, %5")     \
  F(3, TC_LIST(int c0, int c1, int c2), TC_LIST("r"(c0), "r"(c1), "r"(c2)), "%2, %3, %4",    \
    "%3, %4, %5", "%4, %5, %6")                                                              \
  F(4, TC_LIST(int c0, int c1, int c2, int c3), TC_LIST("r"(c0), "r"(c1), "r"(c2), "r"(c3)), \
    "%2, %3, %4, %5", "%3, %4, %5, %6", "%4, %5, %6, %7")                                    \
  F(5, TC_LIST(int c0, int c1, int c2, int c3, int c4),                                      \
    TC_LIST("r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)), "%2, %3, %4, %5, %6",              \
    "%3, %4, %5, %6, %7", "%4, %5, %6, %7, %8")
#define TC_LIST(...) __VA_ARGS__

#define TC_TMA_LOAD(rank, parameters, operands, at2, at3, at4)                              \
  TC_DEV void tc_tma_load_##rank##d(u32 dst, const CUtensorMap* map, u32 bar, parameters) { \
    asm volatile("cp.async.bulk.tensor." #rank                                              \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes"                    \
                 " [%0], [%1, {" at3 "}], [%2];" ::"r"(dst),                                \
                 "l"(map), "r"(bar), operands                                               \
                 : "memory");                                                               \
  }
#define TC_TMA_MULTICAST(rank, parameters, operands, at2, at3, at4)                          \
  TC_DEV void tc_tma_multicast_##rank##d(u32 dst, const CUtensorMap* map, u32 bar, u16 mask, \
                                         parameters) {                                       \
    asm volatile("cp.async.bulk.tensor." #rank                                               \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes"                     \
                 ".multicast::cluster [%0], [%1, {" at4 "}], [%2], %3;" ::"r"(dst),          \
                 "l"(map), "r"(bar), "h"(mask), operands                                     \
                 : "memory");                                                                \
  }
#define TC_TMA_STORE(rank, parameters, operands, at2, at3, at4)                             \
  TC_DEV void tc_tma_store_##rank##d(const CUtensorMap* map, u32 src, parameters) {         \
    asm volatile("cp.async.bulk.tensor." #rank "d.global.shared::cta.bulk_group [%0, {" at2 \
                 "}], [%1];" ::"l"(map),                                                    \
                 "r"(src), operands                                                         \
                 : "memory");                                                               \
  }
#define TC_TMA_ADD(rank, parameters, operands, at2, at3, at4)                             \
  TC_DEV void tc_tma_add_##rank##d(const CUtensorMap* map, u32 src, parameters) {         \
    asm volatile("cp.reduce.async.bulk.tensor." #rank                                     \
                 "d.global.shared::cta.add.bulk_group [%0, {" at2 "}], [%1];" ::"l"(map), \
                 "r"(src), operands                                                       \
                 : "memory");                                                             \
  }
TC_FOR_EACH_RANK(TC_TMA_LOAD)
TC_FOR_EACH_RANK(TC_TMA_MULTICAST)
TC_FOR_EACH_RANK(TC_TMA_STORE)
TC_FOR_EACH_RANK(TC_TMA_ADD)

TC_DEV void tc_bulk_load(u32 dst, const void* src, u32 bytes, u32 bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(dst),
      "l"(src), "r"(bytes), "r"(bar)
      : "memory");
}
TC_DEV void tc_bulk_store(void* dst, u32 src, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src),
               "r"(bytes)
               : "memory");
}
TC_DEV void tc_tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> TC_DEV void tc_tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N> TC_DEV void tc_tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
