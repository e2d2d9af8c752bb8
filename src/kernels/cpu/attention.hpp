#pragma once
// Streaming (flash) attention: memory grows linearly with the lengths. One pair of drivers, three sets of instructions:
// f32 arithmetic on the vectors of any machine, for f32 and bf16 tensors; for bf16 tensors the dot products of
// AVX512-BF16, and the tiles of AMX.
#include <kernels/kernels.hpp>

namespace rapt::kernels::cpu {

extern const Implementation<AttentionForward> kAttentionForwardAmx, kAttentionForwardBf16, kAttentionForwardVector;
extern const Implementation<AttentionBackward> kAttentionBackwardAmx, kAttentionBackwardBf16, kAttentionBackwardVector;

}  // namespace rapt::kernels::cpu
