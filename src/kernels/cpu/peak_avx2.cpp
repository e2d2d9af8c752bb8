#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace rapt::kernels::cpu {

double run_peak_avx2(int64_t rounds) {
  constexpr int kChains = 12;
  __m256 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_ps(float(i));
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  }
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "x"(sum[i]));
  return double(rounds) * kChains * 8 * 2;
}

}  // namespace rapt::kernels::cpu
#endif
