#pragma once
// Streaming (flash) attention: memory grows linearly with the lengths. Three implementations, one pair of drivers.
#include <kernels/kernels.hpp>

namespace rapt::kernels::cpu {

/// f32 arithmetic on vectors, for f32 and bf16 tensors, on any machine.
struct StreamingAttention {
  static bool available();
  static bool supports(const AttentionForward&);
  static bool supports(const AttentionBackward&);
  static void run(const AttentionForward&);
  static void run(const AttentionBackward&);
};

/// bf16 tensors, products with the dot-product instructions of AVX512-BF16.
struct StreamingAttentionBf16 {
  static bool available();
  static bool supports(const AttentionForward&);
  static bool supports(const AttentionBackward&);
  static void run(const AttentionForward&);
  static void run(const AttentionBackward&);
};

/// bf16 tensors, products on the tiles of AMX.
struct StreamingAttentionAmx {
  static bool available();
  static bool supports(const AttentionForward&);
  static bool supports(const AttentionBackward&);
  static void run(const AttentionForward&);
  static void run(const AttentionBackward&);
};

}  // namespace rapt::kernels::cpu
