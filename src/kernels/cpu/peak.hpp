#pragma once
// What this machine can do at most: loops that keep everything in registers, and a copy of memory that fits no cache.
// Benchmarks state their rates as shares of these.
#include <cstdint>
#include <string>
#include <vector>

namespace rapt::kernels::cpu {

/// A loop over one arithmetic instruction, with enough independent chains to hide its latency.
struct PeakLoop {
  const char* name;  ///< "amx_bf16", "avx512_bf16", "avx512_f32" ...
  const char* type;  ///< "f32", "bf16" or "int8"
  bool (*available)();
  double (*run)(int64_t rounds);  ///< returns the operations done, a multiply and an add counted as two
};

/// Best first within a type.
const std::vector<PeakLoop>& peak_loops();

/// Operations a second of all threads together, the best of several short runs.
double peak_rate(const PeakLoop& loop, int threads);
/// The same for the best available loop of a type; 0 when there is none.
double peak_rate(const std::string& type, int threads);
/// Bytes read and written a second by a copy.
double copy_rate(int threads);

double run_peak_portable(int64_t rounds);
#if defined(__x86_64__)
double run_peak_avx2(int64_t rounds);
double run_peak_avx512(int64_t rounds);
double run_peak_avx512vnni(int64_t rounds);
double run_peak_avx512bf16(int64_t rounds);
double run_peak_amx_bf16(int64_t rounds);
double run_peak_amx_int8(int64_t rounds);
#endif

}  // namespace rapt::kernels::cpu
