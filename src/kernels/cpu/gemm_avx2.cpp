#if defined(__x86_64__)
#include <kernels/cpu/gemm_finish.hpp>
#include <kernels/cpu/gemm_kernels.hpp>
#include <kernels/cpu/gemm_multiply.hpp>

#include <immintrin.h>

namespace rapt::kernels::cpu {
namespace {

struct Fma {
  using Acc = __m256;
  using Vec = __m256;
  static constexpr int kLanes = 8;
  static Acc zero() { return _mm256_setzero_ps(); }
  static Acc load_acc(const char* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static void store_acc(char* p, Acc v) { _mm256_storeu_ps(reinterpret_cast<float*>(p), v); }
  static Acc add(Acc a, Acc b) { return _mm256_add_ps(a, b); }
  static Vec load_b(const char* p) { return _mm256_loadu_ps(reinterpret_cast<const float*>(p)); }
  static Vec broadcast_a(const char* p) { return _mm256_broadcast_ss(reinterpret_cast<const float*>(p)); }
  static Acc dot(Acc sum, Vec a, Vec b) { return _mm256_fmadd_ps(a, b, sum); }
  template <int kRows, int kVectors>
  static void compensate(Acc (&)[kRows][kVectors], const char*) {}
};

struct Floats {
  __m256 v;
  static constexpr int64_t kLanes = 8;
  static __m256i first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Floats set(float x) { return {_mm256_set1_ps(x)}; }
  static Floats load(const float* p, int64_t n) { return {_mm256_maskload_ps(p, first(n))}; }
  static void store(float* p, int64_t n, Floats x) {
    if (n == kLanes) return _mm256_storeu_ps(p, x.v);
    _mm256_maskstore_ps(p, first(n), x.v);
  }
  static Floats load_bf16(const uint16_t* p, int64_t n) {
    alignas(16) uint16_t some[8] = {};
    for (int64_t i = 0; i < n; ++i) some[i] = p[i];
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(some)));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
  static void store_bf16(uint16_t* p, int64_t n, Floats x) {
    const __m256i u = _mm256_castps_si256(x.v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x.v, x.v, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    if (n == kLanes) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), halves);
    alignas(16) uint16_t some[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(some), halves);
    for (int64_t i = 0; i < n; ++i) p[i] = some[i];
  }
  static Floats fma(Floats a, Floats b, Floats c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
  static Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
  static Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.v, b.v)}; }
  static Floats abs(Floats a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
  static Floats floor(Floats a) { return {_mm256_floor_ps(a.v)}; }
  static Floats power_of_two(Floats n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23))};
  }
  static Floats less_than_zero(Floats x, Floats yes, Floats no) {
    return {_mm256_blendv_ps(no.v, yes.v, _mm256_cmp_ps(x.v, _mm256_setzero_ps(), _CMP_LT_OQ))};
  }
  friend Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.v, b.v)}; }
};

}  // namespace

void finish_avx2(const FinishJob& job) { finish_floats<Floats>(job); }

const GemmKernel kAvx2F32 = {.mr = 6,
                             .nr = 16,
                             .a_form = Packed::f32,
                             .b_form = Packed::f32,
                             .tiles = false,
                             .unit_multiple = 1,
                             .k_units = 384,
                             .m_limit = 512,
                             .compensated = false,
                             .multiply = multiply_any_rows<Fma, 2, 6>,
                             .multiply_few = multiply_few_rows<Fma, 2, 6>,
                             .pack = pack_portable,
                             .finish = finish_avx2,
                             .begin = nullptr,
                             .end = nullptr};
const GemmKernel kAvx2Bf16 = {.mr = 6,
                              .nr = 16,
                              .a_form = Packed::rounded_f32,
                              .b_form = Packed::rounded_f32,
                              .tiles = false,
                              .unit_multiple = 1,
                              .k_units = 384,
                              .m_limit = 512,
                              .compensated = false,
                              .multiply = multiply_any_rows<Fma, 2, 6>,
                              .multiply_few = multiply_few_rows<Fma, 2, 6>,
                              .pack = pack_portable,
                              .finish = finish_avx2,
                              .begin = nullptr,
                              .end = nullptr};

}  // namespace rapt::kernels::cpu
#endif
