// Included before any Highway header by every file that is compiled once a target: the few targets worth their
// compile time. On x86-64: plain, SSE4, AVX2, AVX-512; on arm64: NEON.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
