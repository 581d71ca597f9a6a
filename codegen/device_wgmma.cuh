// wgmma: a warp group (128 threads) multiplies 64 rows by N columns, asynchronously. Included by
// device.cuh only.
//
// An asm statement needs one operand a register, so each N is a specialisation made from two
// tables: its N / 2 register operands, and the numbers of the operands that follow them. The type
// comes in as text (constraint C).
#pragma once

TC_DEV void tc_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TC_DEV void tc_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> TC_DEV void tc_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// the first n registers as text, and as operands with constraint c
#define TC_R4 "%0, %1, %2, %3"
#define TC_D4(c) c(d[0]), c(d[1]), c(d[2]), c(d[3])
#define TC_R8 TC_R4 ", %4, %5, %6, %7"
#define TC_D8(c) TC_D4(c), c(d[4]), c(d[5]), c(d[6]), c(d[7])
#define TC_R12 TC_R8 ", %8, %9, %10, %11"
#define TC_D12(c) TC_D8(c), c(d[8]), c(d[9]), c(d[10]), c(d[11])
#define TC_R16 TC_R12 ", %12, %13, %14, %15"
#define TC_D16(c) TC_D12(c), c(d[12]), c(d[13]), c(d[14]), c(d[15])
#define TC_R20 TC_R16 ", %16, %17, %18, %19"
#define TC_D20(c) TC_D16(c), c(d[16]), c(d[17]), c(d[18]), c(d[19])
#define TC_R24 TC_R20 ", %20, %21, %22, %23"
#define TC_D24(c) TC_D20(c), c(d[20]), c(d[21]), c(d[22]), c(d[23])
#define TC_R28 TC_R24 ", %24, %25, %26, %27"
#define TC_D28(c) TC_D24(c), c(d[24]), c(d[25]), c(d[26]), c(d[27])
#define TC_R32 TC_R28 ", %28, %29, %30, %31"
#define TC_D32(c) TC_D28(c), c(d[28]), c(d[29]), c(d[30]), c(d[31])
#define TC_R36 TC_R32 ", %32, %33, %34, %35"
#define TC_D36(c) TC_D32(c), c(d[32]), c(d[33]), c(d[34]), c(d[35])
#define TC_R40 TC_R36 ", %36, %37, %38, %39"
#define TC_D40(c) TC_D36(c), c(d[36]), c(d[37]), c(d[38]), c(d[39])
#define TC_R44 TC_R40 ", %40, %41, %42, %43"
#define TC_D44(c) TC_D40(c), c(d[40]), c(d[41]), c(d[42]), c(d[43])
#define TC_R48 TC_R44 ", %44, %45, %46, %47"
#define TC_D48(c) TC_D44(c), c(d[44]), c(d[45]), c(d[46]), c(d[47])
#define TC_R52 TC_R48 ", %48, %49, %50, %51"
#define TC_D52(c) TC_D48(c), c(d[48]), c(d[49]), c(d[50]), c(d[51])
#define TC_R56 TC_R52 ", %52, %53, %54, %55"
#define TC_D56(c) TC_D52(c), c(d[52]), c(d[53]), c(d[54]), c(d[55])
#define TC_R60 TC_R56 ", %56, %57, %58, %59"
#define TC_D60(c) TC_D56(c), c(d[56]), c(d[57]), c(d[58]), c(d[59])
#define TC_R64 TC_R60 ", %60, %61, %62, %63"
#define TC_D64(c) TC_D60(c), c(d[60]), c(d[61]), c(d[62]), c(d[63])
#define TC_R68 TC_R64 ", %64, %65, %66, %67"
#define TC_D68(c) TC_D64(c), c(d[64]), c(d[65]), c(d[66]), c(d[67])
#define TC_R72 TC_R68 ", %68, %69, %70, %71"
#define TC_D72(c) TC_D68(c), c(d[68]), c(d[69]), c(d[70]), c(d[71])
#define TC_R76 TC_R72 ", %72, %73, %74, %75"
#define TC_D76(c) TC_D72(c), c(d[72]), c(d[73]), c(d[74]), c(d[75])
#define TC_R80 TC_R76 ", %76, %77, %78, %79"
#define TC_D80(c) TC_D76(c), c(d[76]), c(d[77]), c(d[78]), c(d[79])
#define TC_R84 TC_R80 ", %80, %81, %82, %83"
#define TC_D84(c) TC_D80(c), c(d[80]), c(d[81]), c(d[82]), c(d[83])
#define TC_R88 TC_R84 ", %84, %85, %86, %87"
#define TC_D88(c) TC_D84(c), c(d[84]), c(d[85]), c(d[86]), c(d[87])
#define TC_R92 TC_R88 ", %88, %89, %90, %91"
#define TC_D92(c) TC_D88(c), c(d[88]), c(d[89]), c(d[90]), c(d[91])
#define TC_R96 TC_R92 ", %92, %93, %94, %95"
#define TC_D96(c) TC_D92(c), c(d[92]), c(d[93]), c(d[94]), c(d[95])
#define TC_R100 TC_R96 ", %96, %97, %98, %99"
#define TC_D100(c) TC_D96(c), c(d[96]), c(d[97]), c(d[98]), c(d[99])
#define TC_R104 TC_R100 ", %100, %101, %102, %103"
#define TC_D104(c) TC_D100(c), c(d[100]), c(d[101]), c(d[102]), c(d[103])
#define TC_R108 TC_R104 ", %104, %105, %106, %107"
#define TC_D108(c) TC_D104(c), c(d[104]), c(d[105]), c(d[106]), c(d[107])
#define TC_R112 TC_R108 ", %108, %109, %110, %111"
#define TC_D112(c) TC_D108(c), c(d[108]), c(d[109]), c(d[110]), c(d[111])
#define TC_R116 TC_R112 ", %112, %113, %114, %115"
#define TC_D116(c) TC_D112(c), c(d[112]), c(d[113]), c(d[114]), c(d[115])
#define TC_R120 TC_R116 ", %116, %117, %118, %119"
#define TC_D120(c) TC_D116(c), c(d[116]), c(d[117]), c(d[118]), c(d[119])
#define TC_R124 TC_R120 ", %120, %121, %122, %123"
#define TC_D124(c) TC_D120(c), c(d[120]), c(d[121]), c(d[122]), c(d[123])
#define TC_R128 TC_R124 ", %124, %125, %126, %127"
#define TC_D128(c) TC_D124(c), c(d[124]), c(d[125]), c(d[126]), c(d[127])

// N, its registers, and the numbers of the operands that follow them
#define TC_FOR_EACH_N(F)                              \
  F(8, 4, 4, 5, 6, 7, 8, 9, 10, 11)                   \
  F(16, 8, 8, 9, 10, 11, 12, 13, 14, 15)              \
  F(24, 12, 12, 13, 14, 15, 16, 17, 18, 19)           \
  F(32, 16, 16, 17, 18, 19, 20, 21, 22, 23)           \
  F(40, 20, 20, 21, 22, 23, 24, 25, 26, 27)           \
  F(48, 24, 24, 25, 26, 27, 28, 29, 30, 31)           \
  F(56, 28, 28, 29, 30, 31, 32, 33, 34, 35)           \
  F(64, 32, 32, 33, 34, 35, 36, 37, 38, 39)           \
  F(72, 36, 36, 37, 38, 39, 40, 41, 42, 43)           \
  F(80, 40, 40, 41, 42, 43, 44, 45, 46, 47)           \
  F(88, 44, 44, 45, 46, 47, 48, 49, 50, 51)           \
  F(96, 48, 48, 49, 50, 51, 52, 53, 54, 55)           \
  F(104, 52, 52, 53, 54, 55, 56, 57, 58, 59)          \
  F(112, 56, 56, 57, 58, 59, 60, 61, 62, 63)          \
  F(120, 60, 60, 61, 62, 63, 64, 65, 66, 67)          \
  F(128, 64, 64, 65, 66, 67, 68, 69, 70, 71)          \
  F(136, 68, 68, 69, 70, 71, 72, 73, 74, 75)          \
  F(144, 72, 72, 73, 74, 75, 76, 77, 78, 79)          \
  F(152, 76, 76, 77, 78, 79, 80, 81, 82, 83)          \
  F(160, 80, 80, 81, 82, 83, 84, 85, 86, 87)          \
  F(168, 84, 84, 85, 86, 87, 88, 89, 90, 91)          \
  F(176, 88, 88, 89, 90, 91, 92, 93, 94, 95)          \
  F(184, 92, 92, 93, 94, 95, 96, 97, 98, 99)          \
  F(192, 96, 96, 97, 98, 99, 100, 101, 102, 103)      \
  F(200, 100, 100, 101, 102, 103, 104, 105, 106, 107) \
  F(208, 104, 104, 105, 106, 107, 108, 109, 110, 111) \
  F(216, 108, 108, 109, 110, 111, 112, 113, 114, 115) \
  F(224, 112, 112, 113, 114, 115, 116, 117, 118, 119) \
  F(232, 116, 116, 117, 118, 119, 120, 121, 122, 123) \
  F(240, 120, 120, 121, 122, 123, 124, 125, 126, 127) \
  F(248, 124, 124, 125, 126, 127, 128, 129, 130, 131) \
  F(256, 128, 128, 129, 130, 131, 132, 133, 134, 135)

// text of an instruction: what follows the shape's N, and the immediates after the accumulate
// predicate
template <int TA, int TB> struct tc_wgmma_text {
  static constexpr char f16[] = "k16.f32.f16.f16", bf16[] = "k16.f32.bf16.bf16",
                        tf32[] = "k8.f32.tf32.tf32";
  static constexpr char e4m3[] = "k32.f32.e4m3.e4m3", e5m2[] = "k32.f32.e5m2.e5m2";
  static constexpr char s8[] = "k32.s32.s8.s8", u8[] = "k32.s32.u8.u8";
  static constexpr char scales_ss[] = {',', '1', ',', '1', ',', '0' + TA, ',', '0' + TB, 0};
  static constexpr char scales_rs[] = {',', '1', ',', '1', ',', '0' + TB, 0};
  static constexpr char scales[] = ",1,1", nothing[] = "";
};
template <int N> struct tc_wgmma_shape;
#define TC_F(x) "+f"(x)
#define TC_I(x) "+r"(x)
#define TC_WGMMA_SS(VALUE, C, N, R, n0, n1, n2, n3, n4)                                           \
  template <const char* type, const char* tail>                                                   \
  TC_DEV void ss(VALUE(&d)[R], u64 a, u64 b, int accumulate) {                                    \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #n2                                            \
                 ", 0;\n"                                                                         \
                 "wgmma.mma_async.sync.aligned.m64n" #N "%" #n3 " {" TC_R##R "}, %" #n0 ", %" #n1 \
                                                                             ", p%" #n4 ";}"      \
                 : TC_D##R(C)                                                                     \
                 : "l"(a), "l"(b), "r"(accumulate), "C"(type), "C"(tail));                        \
  }
#define TC_WGMMA_RS(VALUE, C, N, R, n0, n1, n2, n3, n4, n5, n6, n7)                                \
  template <const char* type, const char* tail>                                                    \
  TC_DEV void rs(VALUE(&d)[R], const u32(&a)[4], u64 b, int accumulate) {                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #n5                                             \
                 ", 0;\n"                                                                          \
                 "wgmma.mma_async.sync.aligned.m64n" #N "%" #n6 " {" TC_R##R                       \
                 "},"                                                                              \
                 " {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p%" #n7 ";}"                \
                 : TC_D##R(C)                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "C"(type), \
                   "C"(tail));                                                                     \
  }
#define TC_WGMMA_SHAPE(N, R, n0, n1, n2, n3, n4, n5, n6, n7)       \
  template <> struct tc_wgmma_shape<N> {                           \
    TC_WGMMA_SS(float, TC_F, N, R, n0, n1, n2, n3, n4)             \
    TC_WGMMA_SS(int, TC_I, N, R, n0, n1, n2, n3, n4)               \
    TC_WGMMA_RS(float, TC_F, N, R, n0, n1, n2, n3, n4, n5, n6, n7) \
    TC_WGMMA_RS(int, TC_I, N, R, n0, n1, n2, n3, n4, n5, n6, n7)   \
  };
TC_FOR_EACH_N(TC_WGMMA_SHAPE)

template <int N, int TA, int TB>
TC_DEV void tc_wgmma_f16(float (&d)[N / 2], u64 a, u64 b, int accumulate) {
  tc_wgmma_shape<N>::template ss<tc_wgmma_text<TA, TB>::f16, tc_wgmma_text<TA, TB>::scales_ss>(
      d, a, b, accumulate);
}
template <int N, int TA, int TB>
TC_DEV void tc_wgmma_bf16(float (&d)[N / 2], u64 a, u64 b, int accumulate) {
  tc_wgmma_shape<N>::template ss<tc_wgmma_text<TA, TB>::bf16, tc_wgmma_text<TA, TB>::scales_ss>(
      d, a, b, accumulate);
}
template <int N> TC_DEV void tc_wgmma_tf32(float (&d)[N / 2], u64 a, u64 b, int accumulate) {
  tc_wgmma_shape<N>::template ss<tc_wgmma_text<0, 0>::tf32, tc_wgmma_text<0, 0>::scales>(
      d, a, b, accumulate);
}
template <int N> TC_DEV void tc_wgmma_e4m3(float (&d)[N / 2], u64 a, u64 b, int accumulate) {
  tc_wgmma_shape<N>::template ss<tc_wgmma_text<0, 0>::e4m3, tc_wgmma_text<0, 0>::scales>(
      d, a, b, accumulate);
}
template <int N> TC_DEV void tc_wgmma_e5m2(float (&d)[N / 2], u64 a, u64 b, int accumulate) {
  tc_wgmma_shape<N>::template ss<tc_wgmma_text<0, 0>::e5m2, tc_wgmma_text<0, 0>::scales>(
      d, a, b, accumulate);
}
template <int N> TC_DEV void tc_wgmma_s8(int (&d)[N / 2], u64 a, u64 b, int accumulate) {
  tc_wgmma_shape<N>::template ss<tc_wgmma_text<0, 0>::s8, tc_wgmma_text<0, 0>::nothing>(d, a, b,
                                                                                        accumulate);
}
template <int N> TC_DEV void tc_wgmma_u8(int (&d)[N / 2], u64 a, u64 b, int accumulate) {
  tc_wgmma_shape<N>::template ss<tc_wgmma_text<0, 0>::u8, tc_wgmma_text<0, 0>::nothing>(d, a, b,
                                                                                        accumulate);
}
template <int N, int TB>
TC_DEV void tc_wgmma_f16_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  tc_wgmma_shape<N>::template rs<tc_wgmma_text<0, TB>::f16, tc_wgmma_text<0, TB>::scales_rs>(
      d, a, b, accumulate);
}
template <int N, int TB>
TC_DEV void tc_wgmma_bf16_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  tc_wgmma_shape<N>::template rs<tc_wgmma_text<0, TB>::bf16, tc_wgmma_text<0, TB>::scales_rs>(
      d, a, b, accumulate);
}
template <int N>
TC_DEV void tc_wgmma_tf32_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  tc_wgmma_shape<N>::template rs<tc_wgmma_text<0, 0>::tf32, tc_wgmma_text<0, 0>::scales>(
      d, a, b, accumulate);
}
template <int N>
TC_DEV void tc_wgmma_e4m3_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  tc_wgmma_shape<N>::template rs<tc_wgmma_text<0, 0>::e4m3, tc_wgmma_text<0, 0>::scales>(
      d, a, b, accumulate);
}
template <int N>
TC_DEV void tc_wgmma_e5m2_rs(float (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  tc_wgmma_shape<N>::template rs<tc_wgmma_text<0, 0>::e5m2, tc_wgmma_text<0, 0>::scales>(
      d, a, b, accumulate);
}
template <int N>
TC_DEV void tc_wgmma_s8_rs(int (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  tc_wgmma_shape<N>::template rs<tc_wgmma_text<0, 0>::s8, tc_wgmma_text<0, 0>::nothing>(d, a, b,
                                                                                        accumulate);
}
template <int N>
TC_DEV void tc_wgmma_u8_rs(int (&d)[N / 2], const u32 (&a)[4], u64 b, int accumulate) {
  tc_wgmma_shape<N>::template rs<tc_wgmma_text<0, 0>::u8, tc_wgmma_text<0, 0>::nothing>(d, a, b,
                                                                                        accumulate);
}
