#if defined(__x86_64__)
#include <kernels/cpu/gemm_finish_avx512.hpp>
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_multiply.hpp>

#include <immintrin.h>

namespace rapt::kernels::cpu {
namespace {

struct Bf16Dot {
  using Acc = __m512;
  using Vec = __m512i;
  static constexpr int kLanes = 16;
  static Acc zero() { return _mm512_setzero_ps(); }
  static Acc load_acc(const char* p) { return _mm512_loadu_ps(p); }
  static void store_acc(char* p, Acc v) { _mm512_storeu_ps(p, v); }
  static Acc add(Acc a, Acc b) { return _mm512_add_ps(a, b); }
  static Vec load_b(const char* p) { return _mm512_loadu_si512(p); }
  static Vec broadcast_a(const char* p) { return _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(p)); }
  static Acc dot(Acc sum, Vec a, Vec b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
  template <int kRows, int kVectors>
  static void compensate(Acc (&)[kRows][kVectors], const char*) {}
};

}  // namespace

void finish_avx512bf16(const FinishJob& job) { finish_floats<Floats>(job); }

const GemmKernel kAvx512Bf16 = {.mr = 14,
                                .nr = 32,
                                .a_form = Packed::bf16,
                                .b_form = Packed::bf16,
                                .tiles = false,
                                .unit_multiple = 1,
                                .k_units = 512,
                                .m_limit = 512,
                                .compensated = false,
                                .multiply = multiply_any_rows<Bf16Dot, 2, 14>,
                                .multiply_few = multiply_few_rows<Bf16Dot, 2, 14>,
                                .pack = pack_avx512,
                                .finish = finish_avx512bf16,
                                .begin = nullptr,
                                .end = nullptr};

}  // namespace rapt::kernels::cpu
#endif
