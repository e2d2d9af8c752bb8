#include <kernels/cpu/features.hpp>
#include <support/openblas.hpp>

#include <dlfcn.h>

#include <cstdlib>

namespace rapt::bench {

OpenBlas::OpenBlas() {
  const auto& features = kernels::cpu::features();
  // Read by OpenBLAS when it is loaded. A core type that the user has set stays.
  if (features.avx512)
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (features.avx2)
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  set_threads_ = reinterpret_cast<SetThreads>(dlsym(library, "openblas_set_num_threads"));
  if (!set_threads_) sgemm_ = nullptr;
}

void OpenBlas::multiply(bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k, const float* a,
                        int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc) const {
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
  sgemm_(kRowMajor, a_transposed ? kTransposed : kPlain, b_transposed ? kTransposed : kPlain, int(m), int(n), int(k),
         1.0f, a, int(lda), b, int(ldb), 0.0f, c, int(ldc));
}

}  // namespace rapt::bench
