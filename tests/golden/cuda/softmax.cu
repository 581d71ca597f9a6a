// softmax
#include "device.cuh"
#include "scalar.cuh"

// p
TC_KERNEL(128, 1) kernel_0(i64 extent_n_2_4, const float* x, i64 extent_n, float* p) {
  TC_DYN_SMEM(scratch);
  i64 rest = blockIdx.x;
  const i64 m_1 = rest;
  float max1_2 = tc_bits_f32(0xff800000u);
  for (i64 n_2_3 = 0ll; n_2_3 < extent_n_2_4; n_2_3 += 128) {
    const i64 n_2_5 = n_2_3 + threadIdx.x;
    const bool in_n_2_6 = n_2_5 < extent_n_2_4;
    const float x1_7 = ((n_2_5 < extent_n_2_4) ? x[m_1 * extent_n + n_2_5] : tc_bits_f32(0xff800000u));
    const float max1_8 = tcs_max(max1_2, x1_7);
    max1_2 = max1_8;
  }
  const float max2_9 = tcs_across_max<float>(max1_2, scratch);
  float sum1_10 = 0.0f;
  for (i64 n_2_11 = 0ll; n_2_11 < extent_n_2_4; n_2_11 += 128) {
    const i64 n_2_12 = n_2_11 + threadIdx.x;
    const bool in_n_2_13 = n_2_12 < extent_n_2_4;
    const float x2_14 = ((n_2_12 < extent_n_2_4) ? expf((x[m_1 * extent_n + n_2_12] - tcs_max(max2_9, (-3.4028235e+38f)))) : 0.0f);
    const float sum1_15 = (sum1_10 + x2_14);
    sum1_10 = sum1_15;
  }
  const float sum2_16 = tcs_across_sum<float>(sum1_10, scratch);
  for (i64 n_17 = 0ll; n_17 < extent_n; n_17 += 128) {
    const i64 n_18 = n_17 + threadIdx.x;
    const bool in_n_19 = n_18 < extent_n;
    if (in_n_19) p[m_1 * extent_n + n_18] = (expf((x[m_1 * extent_n + n_18] - tcs_max(max2_9, (-3.4028235e+38f)))) / sum2_16);
  }
}
