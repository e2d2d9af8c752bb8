// Streaming attention against the reference in f64: values, gradients, masks, dropout, probe, threads, memory.
#include <kernels/attention_setup.hpp>
#include <kernels/cpu/attention_problem.hpp>
#include <kernels/cpu/attention_tiles.hpp>
#include <kernels/cpu/features.hpp>
#include <rapt/base/threads.hpp>

#include <gtest/gtest.h>

#include <cstring>

namespace rapt {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::implementations;
using testing::AttentionCandidate;
using testing::AttentionCase;
using testing::AttentionTensors;

/// What AMX does, in plain code: a dot product adds the products of a pair to the sum, in the order of the pairs.
struct EmulatedTiles {
  static inline thread_local uint8_t tiles[8][16][64];
  template <int T>
  static void zero() {
    std::memset(tiles[T], 0, sizeof tiles[T]);
  }
  template <int T>
  static void load(const void* from, int64_t bytes_a_row) {
    for (int r = 0; r < 16; ++r) std::memcpy(tiles[T][r], static_cast<const char*>(from) + r * bytes_a_row, 64);
  }
  template <int T>
  static void store(void* to, int64_t bytes_a_row) {
    for (int r = 0; r < 16; ++r) std::memcpy(static_cast<char*>(to) + r * bytes_a_row, tiles[T][r], 64);
  }
  template <int C, int A, int B>
  static void dot() {
    BFloat16 a[16][32], b[16][16][2];
    float c[16][16];
    std::memcpy(a, tiles[A], sizeof a);
    std::memcpy(b, tiles[B], sizeof b);
    std::memcpy(c, tiles[C], sizeof c);
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < 16; ++k)
        for (int n = 0; n < 16; ++n)
          c[m][n] += float(a[m][2 * k]) * float(b[k][n][0]) + float(a[m][2 * k + 1]) * float(b[k][n][1]);
    std::memcpy(tiles[C], c, sizeof c);
  }
};

/// Every available implementation but the reference, and the algorithm of the tiles on emulated ones.
const std::vector<AttentionCandidate>& candidates() {
  static const auto list = [] {
    std::vector<AttentionCandidate> all;
    const auto& forwards = implementations<AttentionForward>();
    const auto& backwards = implementations<AttentionBackward>();
    for (size_t i = 0; i + 1 < forwards.size(); ++i) {
      const auto f = forwards[i];
      const auto b = backwards[i];
      if (!f.available()) continue;
      const auto supports = [=](const AttentionTensors& t) { return f.supports(t.forward) && b.supports(t.backward); };
      all.push_back({f.name, supports, f.run, b.run});
    }
    if (kernels::cpu::features().avx512bf16) {
      static kernels::cpu::attention::Unit unit = *kernels::cpu::attention::avx512bf16_unit();
      unit.inner_multiple = 32;
      unit.multiply = kernels::cpu::attention::multiply_with_tiles<EmulatedTiles>;
      all.push_back({"emulated tiles", [](const AttentionTensors& t) { return t.forward.q.dtype() == DType::bf16; },
                     [](const AttentionForward& a) { kernels::cpu::attention::forward(a, unit); },
                     [](const AttentionBackward& a) { kernels::cpu::attention::backward(a, unit); }});
    }
    return all;
  }();
  return list;
}

TEST(AttentionTiles, MultiplyOperandsOfEverySize) {
  const int stride = 96;
  std::vector<BFloat16> a(96 * 96), b(96 * 96);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = BFloat16(float(Philox{1, 1}.normal(i)));
    b[i] = BFloat16(float(Philox{1, 2}.normal(i)));
  }
  for (const int m : {1, 15, 16, 17, 32, 33, 48, 64, 80})
    for (const int n : {16, 32, 48, 80})
      for (const int k : {32, 64, 96})
        for (const bool accumulate : {false, true}) {
          std::vector<float> c(96 * 96, 3.0f);
          kernels::cpu::attention::multiply_with_tiles<EmulatedTiles>(
              {a.data(), stride, 1, b.data(), stride, c.data(), stride, m, n, k, accumulate});
          for (int row = 0; row < m; ++row)
            for (int column = 0; column < n; ++column) {
              double want = accumulate ? 3 : 0;
              for (int i = 0; i < k; ++i)
                want += double(float(a[size_t(row * stride + i)])) *
                        double(float(b[size_t(i / 2 * 2 * stride + 2 * column + i % 2)]));
              ASSERT_NEAR(c[size_t(row * stride + column)], want, 1e-4) << m << " " << n << " " << k;
            }
        }
}

void reference(const AttentionForward& a) { implementations<AttentionForward>().back().run(a); }
void reference(const AttentionBackward& a) { implementations<AttentionBackward>().back().run(a); }

/// Close in the norm, and equal where not finite. The floor is for gradients that are 0 but for rounding, as those of
/// the scores of a single key.
void expect_close(const Tensor& got, const Tensor& want, double bound, const char* what) {
  const std::vector<double> a = got.to_vector(), b = want.to_vector();
  ASSERT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(b[i])) {
      ASSERT_TRUE(std::isfinite(a[i])) << what << " " << i;
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    } else {
      ASSERT_EQ(a[i], b[i]) << what << " " << i;
    }
  }
  EXPECT_LE(std::sqrt(difference), bound * (std::sqrt(size) + 0.1 * std::sqrt(double(a.size())))) << what;
}

void check(const AttentionCase& c, DType dtype) {
  // Weights and score gradients are rounded to bf16 on their way into the second products, outputs once more.
  const double bound = dtype == DType::bf16 ? 8e-3 : 1e-5;
  const AttentionTensors given(c, dtype);
  reference(given.forward);
  AttentionTensors want = given.in_double(c);
  reference(want.backward);
  want.forward.weights = Tensor::empty({c.batch, c.heads, c.queries, c.keys}, DType::f64);
  reference(want.forward);
  for (const AttentionCandidate& candidate : candidates()) {
    AttentionTensors got(c, dtype);
    if (!candidate.supports(got)) continue;
    SCOPED_TRACE(candidate.name + ", " + to_string(dtype) + ", " + c.name());
    got.forward.weights = Tensor::full(want.forward.weights.shape(), 7, DType::f32);
    candidate.forward(got.forward);
    expect_close(got.forward.o, want.forward.o, bound, "o");
    expect_close(got.forward.lse, want.forward.lse, 1e-5, "lse");
    expect_close(got.forward.weights, want.forward.weights, 1e-5, "weights");
    got.forward.o.copy_from(given.forward.o);
    got.forward.lse.copy_from(given.forward.lse);
    candidate.backward(got.backward);
    expect_close(got.backward.dq, want.backward.dq, bound, "dq");
    expect_close(got.backward.dk, want.backward.dk, bound, "dk");
    expect_close(got.backward.dv, want.backward.dv, bound, "dv");
  }
}

void check_all(const std::vector<AttentionCase>& cases) {
  for (const AttentionCase& c : cases)
    for (const DType dtype : {DType::f32, DType::bf16}) check(c, dtype);
}

TEST(Attention, OddSizes) {
  for (const int64_t t : {1, 2, 3, 5, 7, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 97, 127, 128, 129, 130})
    check_all({{.batch = 2, .queries = t, .keys = t, .heads = 2, .key_heads = 2, .d_k = 16, .d_v = 16},
               {.batch = 1, .queries = t, .keys = 131 - t, .heads = 1, .d_k = 24, .d_v = 8, .causal = true}});
}

TEST(Attention, HeadSizes) {
  for (const int64_t d : {1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 40, 64, 80, 96, 128, 192, 256})
    check_all({{.queries = 20, .keys = 37, .heads = 2, .key_heads = 2, .d_k = d, .d_v = d},
               {.queries = 9, .keys = 35, .d_k = d, .d_v = 48, .causal = true},
               {.queries = 9, .keys = 35, .d_k = 48, .d_v = d}});
}

TEST(Attention, Masks) {
  AttentionCase c{.batch = 4, .d_k = 16, .d_v = 16};
  for (const auto& [queries, keys] : {std::pair{70, 70}, {40, 130}, {130, 40}, {1, 90}})
    for (const bool causal : {false, true})
      for (const bool lengths : {false, true})
        for (const bool slopes : {false, true}) {
          c.queries = queries, c.keys = keys, c.causal = causal, c.slopes = slopes;
          c.lengths.clear();
          if (lengths) c.lengths = {0, 1, keys / 2, keys};
          check_all({c});
        }
  check_all({{.batch = 2,
              .queries = 260,
              .keys = 300,
              .d_k = 16,
              .d_v = 16,
              .causal = true,
              .slopes = true,
              .lengths = {290, 7}}});
}

TEST(Attention, RowsThatSeeNothingGiveZeros) {
  const AttentionCase c{.batch = 2, .queries = 9, .keys = 5, .d_k = 8, .d_v = 8, .causal = true, .lengths = {0, 5}};
  check_all({c});
  for (const AttentionCandidate& candidate : candidates()) {
    AttentionTensors t(c, DType::bf16);
    candidate.forward(t.forward);
    candidate.backward(t.backward);
    for (int64_t d = 0; d < 8; ++d) {
      EXPECT_EQ(t.forward.o.at({0, 3, 0, d}), 0);  // length 0
      EXPECT_EQ(t.forward.o.at({1, 3, 0, d}), 0);  // before the first key
      EXPECT_EQ(t.backward.dq.at({1, 3, 0, d}), 0);
      EXPECT_EQ(t.backward.dk.at({0, 2, 0, d}), 0);
      EXPECT_EQ(t.backward.dv.at({0, 2, 0, d}), 0);
    }
  }
}

TEST(Attention, GroupedHeads) {
  check_all({{.batch = 2, .queries = 33, .keys = 33, .heads = 6, .key_heads = 2, .d_k = 16, .d_v = 32},
             {.queries = 300, .keys = 270, .heads = 4, .key_heads = 1, .d_k = 16, .d_v = 16, .causal = true}});
}

TEST(Attention, SlicesOfAFusedProjection) {
  check_all({{.batch = 3, .queries = 21, .keys = 21, .heads = 4, .key_heads = 4, .d_k = 24, .d_v = 24, .fused = true},
             {.batch = 2,
              .queries = 65,
              .keys = 65,
              .heads = 2,
              .key_heads = 2,
              .d_k = 64,
              .d_v = 64,
              .causal = true,
              .accumulate = true,
              .fused = true}});
}

TEST(Attention, Accumulates) {
  check_all({{.batch = 2,
              .queries = 19,
              .keys = 50,
              .heads = 2,
              .key_heads = 1,
              .d_k = 16,
              .d_v = 16,
              .accumulate = true,
              .lengths = {0, 33}},
             {.queries = 600, .keys = 1100, .d_k = 16, .d_v = 16, .accumulate = true}});
}

TEST(Attention, Dropout) {
  for (const int keys : {1, 5, 48, 64, 100, 128, 129, 200, 256})
    check_all({{.batch = 2, .queries = 50, .keys = keys, .heads = 2, .key_heads = 2, .d_k = 16, .d_v = 16, .p = 0.3f},
               {.queries = keys, .keys = keys, .d_k = 16, .d_v = 16, .causal = true, .p = 0.1f}});
}

/// Enough keys for the backward pass to be cut into parts.
TEST(Attention, LongSequences) {
  check_all(
      {{.queries = 1100, .keys = 1100, .heads = 2, .key_heads = 2, .d_k = 16, .d_v = 16, .causal = true},
       {.queries = 70, .keys = 2100, .heads = 2, .key_heads = 1, .d_k = 16, .d_v = 16, .lengths = {1500}, .p = 0.2f}});
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw(), b.raw(), size_t(a.numel()) * size_of(a.dtype())) == 0;
}

TEST(Attention, TheProbeChangesNothing) {
  const AttentionCase c{.batch = 2,
                        .queries = 70,
                        .keys = 150,
                        .heads = 2,
                        .key_heads = 2,
                        .d_k = 32,
                        .d_v = 32,
                        .causal = true,
                        .lengths = {150, 33},
                        .p = 0.2f};
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const AttentionCandidate& candidate : candidates()) {
      AttentionTensors plain(c, dtype), probed(c, dtype);
      if (!candidate.supports(plain)) continue;
      probed.forward.weights = Tensor::empty({2, 2, 70, 150}, DType::f32);
      candidate.forward(plain.forward);
      candidate.forward(probed.forward);
      EXPECT_TRUE(same_bytes(plain.forward.o, probed.forward.o)) << candidate.name;
      EXPECT_TRUE(same_bytes(plain.forward.lse, probed.forward.lse)) << candidate.name;
    }
}

TEST(Attention, ResultsDoNotDependOnTheNumberOfThreads) {
  const std::vector<AttentionCase> cases = {
      {.batch = 3, .queries = 48, .keys = 48, .heads = 4, .key_heads = 2, .d_k = 16, .d_v = 16, .p = 0.1f},
      {.queries = 1500, .keys = 1500, .heads = 2, .key_heads = 2, .d_k = 16, .d_v = 16, .causal = true}};
  const int before = thread_count();
  for (const AttentionCase& c : cases)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const AttentionCandidate& candidate : candidates()) {
        if (!candidate.supports(AttentionTensors(c, dtype))) continue;
        const auto run = [&](int threads) {
          set_thread_count(threads);
          AttentionTensors t(c, dtype);
          candidate.forward(t.forward);
          candidate.backward(t.backward);
          return t;
        };
        const AttentionTensors one = run(1), three = run(3);
        SCOPED_TRACE(candidate.name + ", " + to_string(dtype) + ", " + c.name());
        EXPECT_TRUE(same_bytes(one.forward.o, three.forward.o));
        EXPECT_TRUE(same_bytes(one.forward.lse, three.forward.lse));
        EXPECT_TRUE(same_bytes(one.backward.dq, three.backward.dq));
        EXPECT_TRUE(same_bytes(one.backward.dk, three.backward.dk));
        EXPECT_TRUE(same_bytes(one.backward.dv, three.backward.dv));
      }
  set_thread_count(before);
}

TEST(Attention, MemoryGrowsLinearly) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto peak = [&](int64_t length) {
      const AttentionCase c{
          .queries = length, .keys = length, .heads = 2, .key_heads = 2, .d_k = 64, .d_v = 64, .causal = true};
      const size_t before = memory_stats().in_use;
      reset_peak_memory();
      AttentionTensors t(c, dtype);
      kernels::launch(t.forward);
      kernels::launch(t.backward);
      return double(memory_stats().peak - before);
    };
    EXPECT_LE(peak(8192) / peak(2048), 4.3) << to_string(dtype);
  }
}

}  // namespace
}  // namespace rapt
