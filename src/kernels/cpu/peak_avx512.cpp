#if defined(__x86_64__)
#include <immintrin.h>

#include <cstdint>

namespace rapt::kernels::cpu {

double run_peak_avx512(int64_t rounds) {
  constexpr int kChains = 16;
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(float(i));
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
  }
  // The assembler sees the sums, so the compiler cannot drop the loop.
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "v"(sum[i]));
  return double(rounds) * kChains * 16 * 2;
}

}  // namespace rapt::kernels::cpu
#endif
