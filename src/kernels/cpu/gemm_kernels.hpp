#pragma once
// The micro-kernels of this build. Each may be run only on a processor with its instructions (features.hpp).
#include <kernels/cpu/gemm_micro.hpp>

namespace rapt::kernels::cpu {

extern const GemmKernel kPortableF32, kPortableBf16, kPortableInt8;
#if defined(__x86_64__)
extern const GemmKernel kAvx2F32, kAvx2Bf16;
extern const GemmKernel kAvx512F32, kAvx512RoundedBf16;
extern const GemmKernel kAvx512Bf16, kAvx512Vnni;
extern const GemmKernel kAmxBf16, kAmxInt8;

void pack_avx512(const PackJob& job);
void finish_avx512(const FinishJob& job);
void finish_avx512bf16(const FinishJob& job);
void finish_avx2(const FinishJob& job);
#endif

void pack_portable(const PackJob& job);
void finish_portable(const FinishJob& job);
void finish_s32(const FinishJob& job);  ///< integer sums: C = sum, or C += sum

}  // namespace rapt::kernels::cpu
