// Included before any Highway header by every file that is compiled once a target: the few targets worth their
// compile time. On x86-64: plain, SSE4, AVX2, AVX-512; on arm64: NEON. Builds with sanitizers take the plainest and the
// widest: the source is the same, and it is the remainders of the widest that go wrong.
#ifndef HWY_DISABLED_TARGETS
#ifdef RAPT_FEW_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
#endif
