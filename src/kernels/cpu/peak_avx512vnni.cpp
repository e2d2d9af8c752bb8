#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace rapt::kernels::cpu {

double run_peak_avx512vnni(int64_t rounds) {
  constexpr int kChains = 16;
  __m512i sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(-5);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "v"(sum[i]));
  return double(rounds) * kChains * 64 * 2;
}

}  // namespace rapt::kernels::cpu
#endif
