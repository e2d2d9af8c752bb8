#if defined(__x86_64__)
#include <kernels/cpu/gemm_finish_avx512.hpp>
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_multiply.hpp>

#include <immintrin.h>

namespace rapt::kernels::cpu {
namespace {

struct Fma {
  using Acc = __m512;
  using Vec = __m512;
  static constexpr int kLanes = 16;
  static Acc zero() { return _mm512_setzero_ps(); }
  static Acc load_acc(const char* p) { return _mm512_loadu_ps(p); }
  static void store_acc(char* p, Acc v) { _mm512_storeu_ps(p, v); }
  static Acc add(Acc a, Acc b) { return _mm512_add_ps(a, b); }
  static Vec load_b(const char* p) { return _mm512_loadu_ps(p); }
  static Vec broadcast_a(const char* p) { return _mm512_set1_ps(*reinterpret_cast<const float*>(p)); }
  static Acc dot(Acc sum, Vec a, Vec b) { return _mm512_fmadd_ps(a, b, sum); }
  template <int kRows, int kVectors>
  static void compensate(Acc (&)[kRows][kVectors], const char*) {}
};

}  // namespace

void finish_avx512(const FinishJob& job) { finish_floats<Floats>(job); }

const GemmKernel kAvx512F32 = {.mr = 14,
                               .nr = 32,
                               .a_form = Packed::f32,
                               .b_form = Packed::f32,
                               .tiles = false,
                               .unit_multiple = 1,
                               .k_units = 512,
                               .m_limit = 512,
                               .compensated = false,
                               .multiply = multiply_any_rows<Fma, 2, 14>,
                               .multiply_few = multiply_few_rows<Fma, 2, 14>,
                               .pack = pack_avx512,
                               .finish = finish_avx512,
                               .begin = nullptr,
                               .end = nullptr};
const GemmKernel kAvx512RoundedBf16 = {.mr = 14,
                                       .nr = 32,
                                       .a_form = Packed::rounded_f32,
                                       .b_form = Packed::rounded_f32,
                                       .tiles = false,
                                       .unit_multiple = 1,
                                       .k_units = 512,
                                       .m_limit = 512,
                                       .compensated = false,
                                       .multiply = multiply_any_rows<Fma, 2, 14>,
                                       .multiply_few = multiply_few_rows<Fma, 2, 14>,
                                       .pack = pack_avx512,
                                       .finish = finish_avx512,
                                       .begin = nullptr,
                                       .end = nullptr};

}  // namespace rapt::kernels::cpu
#endif
