#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace rapt::kernels::cpu {

double run_peak_avx512bf16(int64_t rounds) {
  constexpr int kChains = 16;
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(float(i));
  __m512i a = _mm512_set1_epi16(0x3F00), b = _mm512_set1_epi16(0x3E80);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)a, (__m512bh)b);
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "v"(sum[i]));
  return double(rounds) * kChains * 32 * 2;
}

}  // namespace rapt::kernels::cpu
#endif
