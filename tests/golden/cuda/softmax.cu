// softmax
#include "device.cuh"
#include "scalar.cuh"
#include "lanes.cuh"

// p; WIDE: a thread moves pieces of up to 16 bytes
template <bool WIDE>
TC_DEV void body_kernel_0(i64 begin, i64 extent_n_2_4, const float* __restrict__ x, i64 extent_n, float* __restrict__ p) {
  TC_DYN_SMEM(scratch);
  constexpr int STEP = WIDE ? 1 : 128;
  i64 rest = begin + blockIdx.x;
  const i64 m_1 = rest;
  float max1_2[4];
  TCS_FOR(v, 4) max1_2[v] = tc_bits_f32(0xff800000u);
  for (i64 n_2_3 = 0ll; n_2_3 < extent_n_2_4; n_2_3 += 512) {
    const i64 n_2_5 = n_2_3 + (STEP == 1 ? 4 : 1) * threadIdx.x;
    float x_6[4];
    tcs_load<WIDE>(x_6, x + m_1 * extent_n + n_2_5, extent_n - n_2_5, STEP);
    float x1_7[4];
    TCS_FOR(v, 4) x1_7[v] = ((n_2_5 + STEP * v) < extent_n_2_4) ? x_6[v] : tc_bits_f32(0xff800000u);
    float max1_8[4];
    TCS_FOR(v, 4) max1_8[v] = tcs_max(max1_2[v], x1_7[v]);
    TCS_FOR(v, 4) max1_2[v] = max1_8[v];
  }
  const float max2_9 = tcs_across_max<float>(max1_2, scratch);
  float sum1_10[4];
  TCS_FOR(v, 4) sum1_10[v] = 0.0f;
  for (i64 n_2_11 = 0ll; n_2_11 < extent_n_2_4; n_2_11 += 512) {
    const i64 n_2_12 = n_2_11 + (STEP == 1 ? 4 : 1) * threadIdx.x;
    float x_13[4];
    tcs_load<WIDE>(x_13, x + m_1 * extent_n + n_2_12, extent_n - n_2_12, STEP);
    float x2_14[4];
    TCS_FOR(v, 4) x2_14[v] = ((n_2_12 + STEP * v) < extent_n_2_4) ? expf((x_13[v] - tcs_max(max2_9, (-3.4028235e+38f)))) : 0.0f;
    float sum1_15[4];
    TCS_FOR(v, 4) sum1_15[v] = sum1_10[v] + x2_14[v];
    TCS_FOR(v, 4) sum1_10[v] = sum1_15[v];
  }
  const float sum2_16 = tcs_across_sum<float>(sum1_10, scratch);
  for (i64 n_17 = 0ll; n_17 < extent_n; n_17 += 512) {
    const i64 n_18 = n_17 + (STEP == 1 ? 4 : 1) * threadIdx.x;
    float x_19[4];
    tcs_load<WIDE>(x_19, x + m_1 * extent_n + n_18, extent_n - n_18, STEP);
    float p_20[4];
    TCS_FOR(v, 4) p_20[v] = expf((x_19[v] - tcs_max(max2_9, (-3.4028235e+38f)))) / sum2_16;
    tcs_store<WIDE>(p + m_1 * extent_n + n_18, p_20, extent_n - n_18, STEP);
  }
}
TC_KERNEL(128, 1) kernel_0(i64 begin, i64 extent_n_2_4, const float* __restrict__ x, i64 extent_n, float* __restrict__ p) {
  const bool wide = (((u64)x | 4 * (extent_n)) & 15) == 0
                    && (((u64)p | 4 * (extent_n)) & 15) == 0;
  if (wide) body_kernel_0<true>(begin, extent_n_2_4, x, extent_n, p);
  else body_kernel_0<false>(begin, extent_n_2_4, x, extent_n, p);
}
