#pragma once
// The register-blocked loop, for the files of one instruction set: everything here has internal linkage.
#include <kernels/cpu/gemm_micro.hpp>

namespace rapt::kernels::cpu {
namespace {

/// An instruction set gives:  Acc, Vec;  kLanes;  zero(), load_acc(p), store_acc(p, v), add(v, v);
///   load_b(p): a vector of units of B;  broadcast_a(p): one unit of A in every lane;  dot(acc, a, b).
/// A is packed[unit][mr], B packed[unit][kVectors * kLanes].
/// Rows of C lie far apart: fetched while the loop runs, they do not hold up its end.
template <class Isa, int kRows, int kVectors>
void prefetch_c(const MultiplyJob& job) {
  for (int r = 0; r < kRows; ++r)
    for (int at = 0; at < 4 * kVectors * Isa::kLanes; at += 64)
      __builtin_prefetch(static_cast<char*>(job.c) + 4 * r * job.c_stride + at, 1);
}

template <class Isa, int kRows, int kVectors, int kWidth>
void multiply_rows(const MultiplyJob& job) {
  prefetch_c<Isa, kRows, kVectors>(job);
  typename Isa::Acc sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Isa::zero();
  const char* a = static_cast<const char*>(job.a);
  const char* b = static_cast<const char*>(job.b);
  for (int64_t u = 0; u < job.units; ++u) {
    typename Isa::Vec columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = Isa::load_b(b + 4 * v * Isa::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const typename Isa::Vec one = Isa::broadcast_a(a + 4 * r);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = Isa::dot(sum[r][v], one, columns[v]);
    }
    a += 4 * kWidth;
    b += 4 * kVectors * Isa::kLanes;
  }
  Isa::template compensate<kRows, kVectors>(sum, b);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    char* c = static_cast<char*>(job.c) + 4 * r * job.c_stride;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      char* to = c + 4 * v * Isa::kLanes;
      Isa::store_acc(to, job.accumulate ? Isa::add(Isa::load_acc(to), sum[r][v]) : sum[r][v]);
    }
  }
}

/// For few rows one chain of dots a vector would wait for its own latency: kChains take turns along k.
template <class Isa, int kRows, int kVectors, int kWidth, int kChains>
void multiply_rows_in_chains(const MultiplyJob& job) {
  typename Isa::Acc sum[kChains][kRows][kVectors];
#pragma GCC unroll 8
  for (int s = 0; s < kChains; ++s)
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[s][r][v] = Isa::zero();
  const char* a = static_cast<const char*>(job.a);
  const char* b = static_cast<const char*>(job.b);
  const auto step = [&](auto& chain) __attribute__((always_inline)) {
    typename Isa::Vec columns[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) columns[v] = Isa::load_b(b + 4 * v * Isa::kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const typename Isa::Vec one = Isa::broadcast_a(a + 4 * r);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) chain[r][v] = Isa::dot(chain[r][v], one, columns[v]);
    }
    a += 4 * kWidth;
    b += 4 * kVectors * Isa::kLanes;
  };
  int64_t u = 0;
  for (; u + kChains <= job.units; u += kChains) {
#pragma GCC unroll 8
    for (int s = 0; s < kChains; ++s) {
      __builtin_prefetch(b + 4096);
      __builtin_prefetch(b + 4096 + 64);
      step(sum[s]);
    }
  }
  for (; u < job.units; ++u) step(sum[0]);
#pragma GCC unroll 8
  for (int s = 1; s < kChains; ++s)
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[0][r][v] = Isa::add(sum[0][r][v], sum[s][r][v]);
  Isa::template compensate<kRows, kVectors>(sum[0], b);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    char* c = static_cast<char*>(job.c) + 4 * r * job.c_stride;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      char* to = c + 4 * v * Isa::kLanes;
      Isa::store_acc(to, job.accumulate ? Isa::add(Isa::load_acc(to), sum[0][r][v]) : sum[0][r][v]);
    }
  }
}

template <class Isa, int kVectors, int kWidth, int kRows = kWidth>
void multiply_any_rows(const MultiplyJob& job) {
  if (job.rows == kRows) return multiply_rows<Isa, kRows, kVectors, kWidth>(job);
  if constexpr (kRows > 1) multiply_any_rows<Isa, kVectors, kWidth, kRows - 1>(job);
}

template <class Isa, int kVectors, int kWidth>
void multiply_few_rows(const MultiplyJob& job) {
  static_assert(kFewRows == 4);
  switch (job.rows) {
    case 1: return multiply_rows_in_chains<Isa, 1, kVectors, kWidth, 4>(job);
    case 2: return multiply_rows_in_chains<Isa, 2, kVectors, kWidth, 2>(job);
    case 3: return multiply_rows_in_chains<Isa, 3, kVectors, kWidth, 2>(job);
    default: return multiply_rows_in_chains<Isa, 4, kVectors, kWidth, 2>(job);
  }
}

}  // namespace
}  // namespace rapt::kernels::cpu
