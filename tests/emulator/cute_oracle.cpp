// Prints CuTe's own layouts and descriptors, one table a line: a label, then numbers. test_cute.py
// compares them with ours. Compiled by the host's C++ compiler against CUTLASS's and CUDA's
// headers.
#include <cstdio>
#include <cute/arch/mma_sm100_desc.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm80.hpp>
#include <cute/atom/mma_traits_sm89.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>
#include <cutlass/numeric_types.h>
using namespace cute;

alignas(1024) static unsigned char memory[1 << 18];

// byte offset of every element of one k step, row by row, and the descriptor without its address
template <class Describe, class T, class Layout, int ROWS, int K>
static void operand(const char* label, Layout layout, Describe describe) {
  auto whole = make_tensor(make_smem_ptr((T*)memory), layout);
  auto step = local_tile(whole, make_shape(Int<ROWS>{}, Int<K>{}), make_coord(0, 0));
  printf("%s %llu", label, (unsigned long long)describe(step) & ~0x3fffull);
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < K; k++) printf(" %d", int((unsigned char*)&step(r, k) - memory));
  printf("\n");
}
struct Gmma {
  template <class S> auto k(S const& s) {
    return SM90::GMMA::make_gmma_desc<SM90::GMMA::Major::K>(s).desc_;
  }
  template <class S> auto mn(S const& s) {
    return SM90::GMMA::make_gmma_desc<SM90::GMMA::Major::MN>(s).desc_;
  }
};
struct Umma {
  template <class S> auto k(S const& s) { return UMMA::make_umma_desc<UMMA::Major::K>(s).desc_; }
};
template <class D, class T, class Atom, int ROWS>
static void k_major(const char* label, D d, Atom atom) {
  constexpr int columns =
      size<1>(Atom{}) > 32 / int(sizeof(T)) ? size<1>(Atom{}) : 32 / int(sizeof(T));
  auto layout = tile_to_shape(atom, make_shape(Int<ROWS>{}, Int<columns>{}));
  auto describe = [&](auto const& s) { return d.k(s); };
  operand<decltype(describe), T, decltype(layout), ROWS, 32 / int(sizeof(T))>(label, layout,
                                                                              describe);
}
template <class T, class Atom, int ROWS> static void mn_major(const char* label, Atom atom) {
  auto layout = tile_to_shape(atom, make_shape(Int<ROWS>{}, Int<64>{}));
  Gmma d;
  auto describe = [&](auto const& s) { return d.mn(s); };
  operand<decltype(describe), T, decltype(layout), ROWS, 16>(label, layout, describe);
}
template <class Layout> static void map(const char* label, Layout layout, int threads, int values) {
  printf("%s", label);
  for (int t = 0; t < threads; t++)
    for (int v = 0; v < values; v++) printf(" %d", int(layout(t, v)));
  printf("\n");
}
template <class Atom> static void fragments(const char* a, const char* b, const char* c) {
  using Traits = MMA_Traits<Atom>;
  map(a, typename Traits::ALayout{}, size<0>(typename Traits::ALayout{}),
      size<1>(typename Traits::ALayout{}));
  map(b, typename Traits::BLayout{}, size<0>(typename Traits::BLayout{}),
      size<1>(typename Traits::BLayout{}));
  map(c, typename Traits::CLayout{}, size<0>(typename Traits::CLayout{}),
      size<1>(typename Traits::CLayout{}));
}

int main() {
  using namespace SM90::GMMA;
  using half = cutlass::half_t;
  Gmma g;
  k_major<Gmma, half, Layout_K_INTER_Atom<half>, 64>("k16_0", g, Layout_K_INTER_Atom<half>{});
  k_major<Gmma, half, Layout_K_SW32_Atom<half>, 64>("k16_32", g, Layout_K_SW32_Atom<half>{});
  k_major<Gmma, half, Layout_K_SW64_Atom<half>, 64>("k16_64", g, Layout_K_SW64_Atom<half>{});
  k_major<Gmma, half, Layout_K_SW128_Atom<half>, 64>("k16_128", g, Layout_K_SW128_Atom<half>{});
  k_major<Gmma, int8_t, Layout_K_INTER_Atom<int8_t>, 64>("k8_0", g, Layout_K_INTER_Atom<int8_t>{});
  k_major<Gmma, int8_t, Layout_K_SW128_Atom<int8_t>, 64>("k8_128", g,
                                                         Layout_K_SW128_Atom<int8_t>{});
  k_major<Gmma, float, Layout_K_SW32_Atom<float>, 64>("k32_32", g, Layout_K_SW32_Atom<float>{});
  k_major<Gmma, float, Layout_K_SW128_Atom<float>, 64>("k32_128", g, Layout_K_SW128_Atom<float>{});
  mn_major<half, Layout_MN_INTER_Atom<half>, 64>("mn16_0", Layout_MN_INTER_Atom<half>{});
  mn_major<half, Layout_MN_SW32_Atom<half>, 64>("mn16_32", Layout_MN_SW32_Atom<half>{});
  mn_major<half, Layout_MN_SW64_Atom<half>, 64>("mn16_64", Layout_MN_SW64_Atom<half>{});
  mn_major<half, Layout_MN_SW128_Atom<half>, 128>("mn16_128", Layout_MN_SW128_Atom<half>{});

  Umma u;
  k_major<Umma, half, UMMA::Layout_K_INTER_Atom<half>, 128>("u16_0", u,
                                                            UMMA::Layout_K_INTER_Atom<half>{});
  k_major<Umma, half, UMMA::Layout_K_SW32_Atom<half>, 128>("u16_32", u,
                                                           UMMA::Layout_K_SW32_Atom<half>{});
  k_major<Umma, half, UMMA::Layout_K_SW64_Atom<half>, 128>("u16_64", u,
                                                           UMMA::Layout_K_SW64_Atom<half>{});
  k_major<Umma, half, UMMA::Layout_K_SW128_Atom<half>, 128>("u16_128", u,
                                                            UMMA::Layout_K_SW128_Atom<half>{});
  using bf16 = cutlass::bfloat16_t;
  printf("instruction_f16_64 %u\n",
         uint32_t(
             UMMA::make_instr_desc<half, half, float, 128, 64, UMMA::Major::K, UMMA::Major::K>()));
  printf("instruction_bf16_256 %u\n",
         uint32_t(
             UMMA::make_instr_desc<bf16, bf16, float, 128, 256, UMMA::Major::K, UMMA::Major::K>()));

  map("accumulator_8", typename MMA_Traits<MMA_64x8x16_F32F16F16_SS<Major::K, Major::K>>::CLayout{},
      128, 4);
  map("accumulator_192",
      typename MMA_Traits<MMA_64x192x16_F32F16F16_SS<Major::K, Major::K>>::CLayout{}, 128, 96);
  map("accumulator_256",
      typename MMA_Traits<MMA_64x256x16_F32F16F16_SS<Major::K, Major::K>>::CLayout{}, 128, 128);
  map("operand_16", typename MMA_Traits<MMA_64x64x16_F32F16F16_RS<Major::K, Major::K>>::ALayout{},
      128, 8);
  map("operand_32", typename MMA_Traits<MMA_64x64x8_F32TF32TF32_RS_TN<>>::ALayout{}, 128, 4);
  map("operand_8", typename MMA_Traits<MMA_64x64x32_S32S8S8_RS_TN>::ALayout{}, 128, 16);

  fragments<SM80_16x8x16_F32F16F16F32_TN>("mma16_a", "mma16_b", "mma16_c");
  fragments<SM80_16x8x8_F32TF32TF32F32_TN>("mma32_a", "mma32_b", "mma32_c");
  fragments<SM80_16x8x32_S32S8S8S32_TN>("mma8_a", "mma8_b", "mma8_c");
}
