#include <kernels/cpu/features.hpp>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace rapt::kernels::cpu {
namespace {

#if defined(__x86_64__)
/// Linux hands out the 8 KiB of tile state only to processes that ask for it.
bool request_tiles() {
  constexpr int kArchReqXcompPerm = 0x1023, kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

/// clang 14 does not know the name "f16c".
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

Features ask() {
  Features f;
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  f.avx512 = f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512cd");
  f.avx512vnni = f.avx512 && __builtin_cpu_supports("avx512vnni");
  f.avx512bf16 = f.avx512vnni && __builtin_cpu_supports("avx512bf16");
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (f.avx512bf16 && __get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    const bool tile = d >> 24 & 1, bf16 = d >> 22 & 1, int8 = d >> 25 & 1;
    if (tile && (bf16 || int8) && request_tiles()) {
      f.amx_bf16 = bf16;
      f.amx_int8 = int8;
    }
  }
  return f;
}
#else
Features ask() { return {}; }
#endif

}  // namespace

const Features& features() {
  static const Features f = ask();
  return f;
}

}  // namespace rapt::kernels::cpu
