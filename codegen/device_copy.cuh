// cp.async and the matrix loads and stores between shared memory and registers. Included by
// device.cuh only.
#pragma once

TC_DEV void tc_cp_async16(u32 dst, const void* src, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes)
               : "memory");
}
TC_DEV void tc_cp_async8(u32 dst, const void* src, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dst), "l"(src), "r"(bytes)
               : "memory");
}
TC_DEV void tc_cp_async4(u32 dst, const void* src, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(bytes)
               : "memory");
}
TC_DEV void tc_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> TC_DEV void tc_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#define TC_LDMATRIX(suffix, modifier)                                                           \
  TC_DEV void tc_ldmatrix_x1##suffix(u32(&r)[1], u32 addr) {                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" modifier ".shared.b16 {%0}, [%1];"             \
                 : "=r"(r[0])                                                                   \
                 : "r"(addr)                                                                    \
                 : "memory");                                                                   \
  }                                                                                             \
  TC_DEV void tc_ldmatrix_x2##suffix(u32(&r)[2], u32 addr) {                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" modifier ".shared.b16 {%0, %1}, [%2];"         \
                 : "=r"(r[0]), "=r"(r[1])                                                       \
                 : "r"(addr)                                                                    \
                 : "memory");                                                                   \
  }                                                                                             \
  TC_DEV void tc_ldmatrix_x4##suffix(u32(&r)[4], u32 addr) {                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" modifier ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                               \
                 : "r"(addr)                                                                    \
                 : "memory");                                                                   \
  }
TC_LDMATRIX(, "")
TC_LDMATRIX(_trans, ".trans")

#if TC_ARCH >= 90
#define TC_STMATRIX(suffix, modifier)                                                            \
  TC_DEV void tc_stmatrix_x1##suffix(u32 addr, u32 r0) {                                         \
    asm volatile("stmatrix.sync.aligned.m8n8.x1" modifier ".shared.b16 [%0], {%1};" ::"r"(addr), \
                 "r"(r0)                                                                         \
                 : "memory");                                                                    \
  }                                                                                              \
  TC_DEV void tc_stmatrix_x2##suffix(u32 addr, u32 r0, u32 r1) {                                 \
    asm volatile("stmatrix.sync.aligned.m8n8.x2" modifier                                        \
                 ".shared.b16 [%0], {%1, %2};" ::"r"(addr),                                      \
                 "r"(r0), "r"(r1)                                                                \
                 : "memory");                                                                    \
  }                                                                                              \
  TC_DEV void tc_stmatrix_x4##suffix(u32 addr, u32 r0, u32 r1, u32 r2, u32 r3) {                 \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" modifier                                        \
                 ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(addr),                              \
                 "r"(r0), "r"(r1), "r"(r2), "r"(r3)                                              \
                 : "memory");                                                                    \
  }
TC_STMATRIX(, "")
TC_STMATRIX(_trans, ".trans")
#endif
