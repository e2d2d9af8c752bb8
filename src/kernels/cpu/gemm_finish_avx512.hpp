#pragma once
// The vector type of the epilogue for AVX-512, and with the bf16 conversion where the including file is compiled for
// it. Everything here has internal linkage.
#include <kernels/cpu/gemm_finish.hpp>

#include <immintrin.h>

namespace rapt::kernels::cpu {
namespace {

struct Floats {
  __m512 v;
  static constexpr int64_t kLanes = 16;
  static __mmask16 first(int64_t n) { return __mmask16(0xFFFFu >> (16 - n)); }
  static Floats set(float x) { return {_mm512_set1_ps(x)}; }
  static Floats load(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(first(n), p)}; }
  static void store(float* p, int64_t n, Floats x) {
    if (n == kLanes) return _mm512_storeu_ps(p, x.v);
    _mm512_mask_storeu_ps(p, first(n), x.v);
  }
  static Floats load_bf16(const uint16_t* p, int64_t n) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(n), p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static void store_bf16(uint16_t* p, int64_t n, Floats x) {
#if defined(__AVX512BF16__)
    const __m256i halves = (__m256i)_mm512_cvtneps_pbh(x.v);
#else
    const __m512i u = _mm512_castps_si512(x.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    const __m512i kept = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), quiet);
    const __m256i halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
#endif
    if (n == kLanes) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), halves);
    _mm256_mask_storeu_epi16(p, first(n), halves);
  }
  static Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Floats abs(Floats a) { return {_mm512_abs_ps(a.v)}; }
  static Floats floor(Floats a) { return {_mm512_floor_ps(a.v)}; }
  static Floats power_of_two(Floats n) { return {_mm512_scalef_ps(_mm512_set1_ps(1.0f), n.v)}; }
  static Floats less_than_zero(Floats x, Floats yes, Floats no) {
    return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_LT_OQ), no.v, yes.v)};
  }
  friend Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
};

}  // namespace
}  // namespace rapt::kernels::cpu
