// mbarriers, proxy fences, clusters and the register pool. Included by device.cuh only.
#pragma once

TC_DEV bool tc_elect() {
  u32 p;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(p));
  return p;
}
TC_DEV void tc_mbar_init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
TC_DEV void tc_mbar_invalidate(u32 bar) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}
TC_DEV void tc_mbar_arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
TC_DEV void tc_mbar_arrive_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
TC_DEV void tc_mbar_expect_tx(u32 bar, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
TC_DEV void tc_mbar_arrive_cluster(u32 bar, u32 rank) {
  asm volatile(
      "{.reg .b32 remote; mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];}" ::"r"(bar),
      "r"(rank)
      : "memory");
}
TC_DEV bool tc_mbar_try_wait(u32 bar, u32 parity) {
  u32 done;
  asm volatile(
      "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done;
}
TC_DEV void tc_mbar_wait(u32 bar, u32 parity) {
  while (!tc_mbar_try_wait(bar, parity)) {}
}
TC_DEV void tc_fence_mbar_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
TC_DEV void tc_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
TC_DEV void tc_fence_proxy_async_all() { asm volatile("fence.proxy.async;" ::: "memory"); }

TC_DEV u32 tc_cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
TC_DEV u32 tc_cluster_size() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
  return r;
}
TC_DEV void tc_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
TC_DEV void tc_cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
TC_DEV void tc_cluster_sync() {
  tc_cluster_arrive();
  tc_cluster_wait();
}
TC_DEV u32 tc_cluster_map(u32 addr, u32 rank) {
  u32 r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank));
  return r;
}
TC_DEV u32 tc_cluster_load(u32 addr) {
  u32 r;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(r) : "r"(addr) : "memory");
  return r;
}
TC_DEV void tc_cluster_store(u32 addr, u32 value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(addr), "r"(value) : "memory");
}
TC_DEV float tc_cluster_load_f32(u32 addr) { return __uint_as_float(tc_cluster_load(addr)); }
TC_DEV void tc_cluster_store_f32(u32 addr, float value) {
  tc_cluster_store(addr, __float_as_uint(value));
}

#if TC_ARCH == 90 || TC_ARCH == 100 || TC_ARCH == 103 || TC_ARCH == 120
template <int N> TC_DEV void tc_setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> TC_DEV void tc_setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
#endif
