// The vector kernels on every target of this machine, and on every number of threads.
#include <kernels/cases.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>
#include <support/sanitized.hpp>

#include <hwy/highway.h>

#include <cstring>

namespace rapt::testing {
namespace {

using namespace kernels;

/// What this machine can run of what the library was compiled for: this file is compiled for the baseline alone.
std::vector<int64_t> targets() {
  std::vector<int64_t> list;
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON, HWY_STATIC_TARGET})
    if (hwy::SupportedTargets() & target & ~(HWY_DISABLED_TARGETS)) list.push_back(target);
  // The first is what the table of cases runs on anyway.
  if (kSanitized && list.size() > 1) list.erase(list.begin());
  return list;
}

class VectorTargets : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { choose(GetParam()); }
  void TearDown() override { choose(0); }

 private:
  static void choose(int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, VectorTargets, ::testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

TEST_P(VectorTargets, EveryOperationEqualsTheReference) {
  for (const auto& operation : operations())
    for (const DType dtype : {DType::f32, DType::bf16}) operation.check_only(dtype, "vector");
}

/// Runs the vector kernel on 1, 2 and 5 threads: all bytes of the results are the same.
template <class Args>
void expect_same_on_any_number_of_threads(const std::function<Args(Workspace&)>& build) {
  for (const auto& candidate : implementations<Args>()) {
    if (candidate.name != std::string("vector")) continue;
    const int before = thread_count();
    Workspace wanted(DType::f32, Layout::plain, 3);
    const Args args = build(wanted);
    ASSERT_TRUE(candidate.supports(args)) << Args::op;
    set_thread_count(1);
    candidate.run(args);
    for (const int threads : {2, 5}) {
      Workspace got(DType::f32, Layout::plain, 3);
      const Args again = build(got);
      set_thread_count(threads);
      candidate.run(again);
      EXPECT_TRUE(got.outputs_equal(wanted)) << Args::op << " on " << threads << " threads";
    }
    set_thread_count(before);
  }
}

constexpr int64_t kRows = 301, kColumns = 515;  // far above the size from which threads are used

TEST(VectorThreads, Norm) {
  expect_same_on_any_number_of_threads<NormForward>([](Workspace& w) {
    const Shape shape{kRows, kColumns};
    return NormForward{.x = w.input(shape),
                       .residual = w.input(shape),
                       .sum = w.output("sum", shape),
                       .gain = w.input({kColumns}),
                       .bias = w.input({kColumns}),
                       .y = w.output("y", shape),
                       .mean = w.output("mean", {kRows}),
                       .rstd = w.output("rstd", {kRows}),
                       .p = 0.1f,
                       .random = w.random()};
  });
  expect_same_on_any_number_of_threads<NormBackward>([](Workspace& w) {
    const Shape shape{kRows, kColumns};
    return NormBackward{.sum = w.input(shape),
                        .gain = w.input({kColumns}),
                        .mean = w.input({kRows}),
                        .rstd = w.input({kRows}),
                        .dy = w.input(shape),
                        .dsum = w.input(shape),
                        .dx = w.output("dx", shape),
                        .dresidual = w.output("dresidual", shape),
                        .dgain = w.output("dgain", {kColumns}),
                        .dbias = w.output("dbias", {kColumns}),
                        .p = 0.1f,
                        .random = w.random()};
  });
}

TEST(VectorThreads, Sums) {
  for (const Shape& to : {Shape{1, kColumns}, Shape{kRows, 1}, Shape{1, 1}})
    expect_same_on_any_number_of_threads<Reduce>([&](Workspace& w) {
      return Reduce{w.input({kRows, kColumns}), w.output("y", to)};
    });
  expect_same_on_any_number_of_threads<SumSquares>([](Workspace& w) {
    return SumSquares{w.input({kRows * kColumns}), w.output("y", {1}, {.dtype = DType::f64})};
  });
}

TEST(VectorThreads, Embedding) {
  expect_same_on_any_number_of_threads<EmbeddingBackward>([](Workspace& w) {
    return EmbeddingBackward{w.integers({kRows}, 0, 17), w.input({kRows, kColumns}), w.output("dw", {17, kColumns})};
  });
}

TEST(VectorThreads, RotaryAndAdditive) {
  expect_same_on_any_number_of_threads<Rotary>([](Workspace& w) {
    return Rotary{w.input({2, 700, 4, 64}), w.output("y", {2, 700, 4, 64})};
  });
  expect_same_on_any_number_of_threads<AdditiveScoresBackward>([](Workspace& w) {
    return AdditiveScoresBackward{.q = w.input({5, 20, 33}),
                                  .k = w.input({5, 30, 33}),
                                  .v = w.input({33}),
                                  .de = w.input({5, 20, 30}),
                                  .dq = w.output("dq", {5, 20, 33}),
                                  .dk = w.output("dk", {5, 30, 33}),
                                  .dv = w.output("dv", {33})};
  });
}

/// Runs the vector kernel and the reference on the same arguments but for the result, which `result` picks out.
template <class Args>
void expect_like_reference(Args args, Tensor Args::*result) {
  const auto& all = implementations<Args>();
  ASSERT_STREQ(all.front().name, "vector");
  ASSERT_TRUE(all.front().supports(args)) << Args::op;
  all.front().run(args);
  const Tensor got = args.*result;
  args.*result = Tensor::empty(got.shape(), got.dtype());
  all.back().run(args);
  EXPECT_LE(relative_error(got, args.*result), error_bound(got.dtype())) << Args::op;
}

/// Results of 16 MiB and more take other paths: rows that end within a vector, with the next row on a cache line.
TEST(VectorLarge, ResultsAreWrittenPastTheCaches) {
  constexpr int64_t n = 2100, d = 2005, padded = 2016;
  const auto matrix = [] { return Tensor::full({n, padded}, 0).narrow(1, 0, d); };
  const Tensor x = random_tensor({1, d}, DType::f32, {1, 1}), rows = matrix();
  launch(BinaryForward{Binary::add, x, random_tensor({n, 1}, DType::f32, {1, 2}), rows});
  expect_like_reference(UnaryForward{Unary::relu, rows, matrix()}, &UnaryForward::y);
  expect_like_reference(Affine{rows, Tensor::empty({n, d})}, &Affine::y);
  expect_like_reference(SoftmaxForward{rows, matrix(), Tensor()}, &SoftmaxForward::y);
  NormForward norm;
  norm.x = norm.residual = rows, norm.sum = matrix(), norm.y = matrix(), norm.p = 0.1f;
  norm.gain = x.view({d}), norm.mean = Tensor::empty({n}), norm.rstd = Tensor::empty({n});
  expect_like_reference(norm, &NormForward::y);
  expect_like_reference(norm, &NormForward::sum);
  NormBackward backward;
  backward.sum = backward.dy = rows, backward.gain = norm.gain, backward.mean = norm.mean, backward.rstd = norm.rstd;
  backward.dx = matrix(), backward.dresidual = matrix(), backward.p = 0.1f;
  expect_like_reference(backward, &NormBackward::dx);
  expect_like_reference(backward, &NormBackward::dresidual);
  const Tensor flat = Tensor::full({n * padded}, 0.5), wide = Tensor::full({2, n * padded}, 0.5);
  expect_like_reference(Dropout{flat, Tensor::empty({n * padded}), 0.1f, {3, 4}}, &Dropout::y);
  expect_like_reference(Affine{wide, Tensor::empty({2, n * padded}, DType::bf16), 1.7}, &Affine::y);
}

TEST(VectorOptimisers, TouchTheWeights) {
  const Tensor w = Tensor::full({100}, 1), g = Tensor::full({100}, 0.5), m = Tensor::zeros({100}),
               v = Tensor::zeros({100});
  for (const auto& candidate : implementations<Adam>()) {
    const uint64_t version = w.storage().version();
    candidate.run({w, g, m, v, 0.1, 0.9, 0.99, 1e-8, 0, 0.1, 0.01});
    EXPECT_GT(w.storage().version(), version) << "adam, " << candidate.name;
  }
  for (const auto& candidate : implementations<Sgd>()) {
    const uint64_t version = w.storage().version();
    candidate.run({w, g, v, 0.1, 0.9, 0});
    EXPECT_GT(w.storage().version(), version) << "sgd, " << candidate.name;
  }
}

}  // namespace
}  // namespace rapt::testing
