#if defined(__x86_64__)
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_multiply.hpp>

#include <immintrin.h>

namespace rapt::kernels::cpu {
namespace {

/// The instruction multiplies u8 by s8. A is packed as a + 128, and 128 times the column sums of B, which stand behind
/// each packed block, are taken off again.
struct ByteDot {
  using Acc = __m512i;
  using Vec = __m512i;
  static constexpr int kLanes = 16;
  static Acc zero() { return _mm512_setzero_si512(); }
  static Acc load_acc(const char* p) { return _mm512_loadu_si512(p); }
  static void store_acc(char* p, Acc v) { _mm512_storeu_si512(p, v); }
  static Acc add(Acc a, Acc b) { return _mm512_add_epi32(a, b); }
  static Vec load_b(const char* p) { return _mm512_loadu_si512(p); }
  static Vec broadcast_a(const char* p) { return _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(p)); }
  /// As assembly: with the intrinsic gcc 12 copies and spills the sums (a third of the speed).
  static Acc dot(Acc sum, Vec a, Vec b) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
  }
  template <int kRows, int kVectors>
  static void compensate(Acc (&sum)[kRows][kVectors], const char* behind_b) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512i correction = _mm512_loadu_si512(behind_b + 64 * v);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r][v] = _mm512_add_epi32(sum[r][v], correction);
    }
  }
};

}  // namespace

const GemmKernel kAvx512Vnni = {.mr = 14,
                                .nr = 32,
                                .a_form = Packed::u8,
                                .b_form = Packed::s8,
                                .tiles = false,
                                .unit_multiple = 1,
                                .k_units = 512,
                                .m_limit = 512,
                                .compensated = true,
                                .multiply = multiply_any_rows<ByteDot, 2, 14>,
                                .multiply_few = multiply_few_rows<ByteDot, 2, 14>,
                                .pack = pack_avx512,
                                .finish = finish_s32,
                                .begin = nullptr,
                                .end = nullptr};

}  // namespace rapt::kernels::cpu
#endif
