#include <kernels/cpu/features.hpp>
#include <kernels/cpu/peak.hpp>
#include <rapt/tensor/memory.hpp>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

namespace rapt::kernels::cpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs `work(thread)` on all threads at once and returns the seconds from the common start to the last end.
double time_together(int threads, const std::function<void(int)>& work) {
  std::barrier start(threads), end(threads);
  Clock::time_point begin;
  std::vector<std::thread> others;
  const auto one = [&](int t) {
    start.arrive_and_wait();
    if (t == 0) begin = Clock::now();
    work(t);
    end.arrive_and_wait();
  };
  for (int t = 1; t < threads; ++t) others.emplace_back(one, t);
  one(0);
  const std::chrono::duration<double> took = Clock::now() - begin;
  for (auto& other : others) other.join();
  return took.count();
}

}  // namespace

double run_peak_portable(int64_t rounds) {
  typedef float Float4 __attribute__((vector_size(16)));
  constexpr int kChains = 8;
  Float4 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = Float4{} + float(i);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < kChains; ++i) sum[i] = sum[i] * 0.5f + 0.25f;
  }
  for (int i = 0; i < kChains; ++i) {
    [[maybe_unused]] volatile float kept = sum[i][0];
  }
  return double(rounds) * kChains * 4 * 2;
}

const std::vector<PeakLoop>& peak_loops() {
  static const std::vector<PeakLoop> loops = {
#if defined(__x86_64__)
    {"amx_bf16", "bf16", [] { return features().amx_bf16; }, run_peak_amx_bf16},
    {"avx512_bf16", "bf16", [] { return features().avx512bf16; }, run_peak_avx512bf16},
    {"amx_int8", "int8", [] { return features().amx_int8; }, run_peak_amx_int8},
    {"avx512_vnni", "int8", [] { return features().avx512vnni; }, run_peak_avx512vnni},
    {"avx512_f32", "f32", [] { return features().avx512; }, run_peak_avx512},
    {"avx2_f32", "f32", [] { return features().avx2; }, run_peak_avx2},
#endif
    {"portable", "f32", [] { return true; }, run_peak_portable},
  };
  return loops;
}

double peak_rate(const PeakLoop& loop, int threads) {
  constexpr int kRuns = 20;
  double best = 0;
  // Runs of a few milliseconds: long enough to hide the start, short enough to fall between the turns of a neighbour.
  int64_t rounds = 20000;
  for (int run = 0; run < kRuns; ++run) {
    double operations = 0;
    const double seconds = time_together(threads, [&](int t) {
      const double done = loop.run(rounds);
      if (t == 0) operations = done * threads;
    });
    best = std::max(best, operations / seconds);
    if (seconds < 2e-3) rounds *= 2;
  }
  return best;
}

double peak_rate(const std::string& type, int threads) {
  for (const PeakLoop& loop : peak_loops())
    if (loop.type == type && loop.available()) return peak_rate(loop, threads);
  return 0;
}

double copy_rate(int threads) {
  constexpr size_t kBytes = size_t(48) << 20;
  constexpr int kRuns = 24;
  const auto from = Storage::allocate(kBytes * size_t(threads)), to = Storage::allocate(kBytes * size_t(threads));
  std::memset(from->data(), 1, from->bytes());
  std::memset(to->data(), 2, to->bytes());
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const double seconds = time_together(threads, [&](int t) {
      std::memcpy(to->data() + kBytes * size_t(t), from->data() + kBytes * size_t(t), kBytes);
    });
    best = std::max(best, 2.0 * double(to->bytes()) / seconds);
  }
  return best;
}

}  // namespace rapt::kernels::cpu
