#pragma once
#include <cstdint>

namespace rapt::bench {

/// The yardstick: C[M, N] = op(A) op(B) in f32, row-major, by OpenBLAS with the core type set to what this processor is
/// (the one that it guesses is wrong on newer processors). Loaded at run time, so that it stays optional.
class OpenBlas {
 public:
  OpenBlas();
  bool available() const { return sgemm_ != nullptr; }
  void set_threads(int n) const { set_threads_(n); }
  void multiply(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                const float* b, int64_t ldb, float* c, int64_t ldc) const;

 private:
  using Sgemm = void (*)(int order, int a_transpose, int b_transpose, int m, int n, int k, float alpha, const float* a,
                         int lda, const float* b, int ldb, float beta, float* c, int ldc);
  using SetThreads = void (*)(int);
  Sgemm sgemm_ = nullptr;
  SetThreads set_threads_ = nullptr;
};

}  // namespace rapt::bench
