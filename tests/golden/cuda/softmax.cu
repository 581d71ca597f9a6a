// softmax
#include "device.cuh"
#include "scalar.cuh"

// p
TC_KERNEL(128, 1) kernel_0(const u64 extent_n_2_4, const u64 pointer_x_7, const u64 extent_n_8, const u64 pointer_p_22) {
  TC_DYN_SMEM(scratch);
  i64 rest = blockIdx.x;
  const i64 m_1 = rest;
  float max1_2 = tc_bits_f32(0xff800000u);
  for (i64 n_2_3 = (0); n_2_3 < (1ll * (i64)extent_n_2_4); n_2_3 += 128) {
    const i64 n_2_5 = n_2_3 + threadIdx.x;
    const bool in_n_2_6 = n_2_5 < (i64)extent_n_2_4;
    const float x1_9 = ((n_2_5 < (i64)extent_n_2_4) ? ((float*)pointer_x_7)[m_1 * (1ll * (i64)extent_n_8) + n_2_5 * 1] : tc_bits_f32(0xff800000u));
    const float max1_10 = tcs_max(max1_2, x1_9);
    max1_2 = max1_10;
  }
  const float max2_11 = tcs_across_max<float>(max1_2, scratch);
  float sum1_12 = 0.0f;
  for (i64 n_2_13 = (0); n_2_13 < (1ll * (i64)extent_n_2_4); n_2_13 += 128) {
    const i64 n_2_14 = n_2_13 + threadIdx.x;
    const bool in_n_2_15 = n_2_14 < (i64)extent_n_2_4;
    const float x2_16 = ((n_2_14 < (i64)extent_n_2_4) ? expf((((float*)pointer_x_7)[m_1 * (1ll * (i64)extent_n_8) + n_2_14 * 1] - tcs_max(max2_11, (-3.4028235e+38f)))) : 0.0f);
    const float sum1_17 = (sum1_12 + x2_16);
    sum1_12 = sum1_17;
  }
  const float sum2_18 = tcs_across_sum<float>(sum1_12, scratch);
  for (i64 n_19 = (0); n_19 < (1ll * (i64)extent_n_8); n_19 += 128) {
    const i64 n_20 = n_19 + threadIdx.x;
    const bool in_n_21 = n_20 < (i64)extent_n_8;
    if (in_n_21) ((float*)pointer_p_22)[m_1 * (1ll * (i64)extent_n_8) + n_20 * 1] = (expf((((float*)pointer_x_7)[m_1 * (1ll * (i64)extent_n_8) + n_20 * 1] - tcs_max(max2_11, (-3.4028235e+38f)))) / sum2_18);
  }
}
