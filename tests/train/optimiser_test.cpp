// What PyTorch 1.13 has no counterpart for (Adafactor, averages), and what happens when things go wrong.
#include <rapt/autograd/tape.hpp>
#include <rapt/base/error.hpp>
#include <rapt/ops/ops.hpp>
#include <rapt/train/optimiser.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rapt::train {
namespace {

/// A matrix [3, 4] and a vector [5] whose gradients are set by hand.
class OptimiserTest : public ::testing::TestWithParam<DType> {
 protected:
  OptimiserTest() : parameters_(1, GetParam()) {
    const nn::Scope root(parameters_);
    matrix_ = root.parameter("matrix", {3, 4}, nn::Init::normal(1));
    vector_ = root.parameter("vector", {5}, nn::Init::ones());
    parameters_.freeze_layout();
  }

  /// The gradient of sum(matrix * dm) + sum(vector * dv) is dm and dv.
  void set_gradients(const Tensor& dm, const Tensor& dv) {
    parameters_.zero_grad();
    backward(add(sum(mul(matrix_, dm.to(GetParam()))), sum(mul(vector_, dv.to(GetParam())))));
  }

  nn::Parameters parameters_;
  Tensor matrix_, vector_;
  double tolerance_ = GetParam() == DType::f64 ? 1e-12 : 1e-5;
};
INSTANTIATE_TEST_SUITE_P(Types, OptimiserTest, ::testing::Values(DType::f32, DType::f64),
                         [](const auto& info) { return to_string(info.param); });

/// The factored second moment of a gradient of rank one is exact, so the first step moves every weight by lr.
TEST_P(OptimiserTest, AdafactorOfRankOne) {
  const auto before_m = matrix_.to_vector(), before_v = vector_.to_vector();
  const Tensor rows = Tensor::from<double>({1, -2, 3}, {3, 1}), columns = Tensor::from<double>({1, 0.5, -4, 2}, {1, 4});
  const Tensor dm = mul(rows, columns), dv = Tensor::from<double>({3, -1, 2, -5, 0.25}, {5});
  set_gradients(dm, dv);
  Optimiser optimiser(parameters_, Adafactor{});
  optimiser.step(0.1);
  const auto after_m = matrix_.to_vector(), after_v = vector_.to_vector();
  const auto gm = dm.to_vector(), gv = dv.to_vector();
  for (size_t i = 0; i < gm.size(); ++i) EXPECT_NEAR(after_m[i], before_m[i] - std::copysign(0.1, gm[i]), tolerance_);
  for (size_t i = 0; i < gv.size(); ++i) EXPECT_NEAR(after_v[i], before_v[i] - std::copysign(0.1, gv[i]), tolerance_);
}

/// Steps two and on mix old and new means: the formulas of the paper, written out for one matrix.
TEST_P(OptimiserTest, AdafactorOverSteps) {
  Optimiser optimiser(parameters_, Adafactor{});
  std::vector<double> w = matrix_.to_vector(), row(3, 0), column(4, 0);
  for (int t = 1; t <= 3; ++t) {
    Tensor dm = Tensor::empty({3, 4}, DType::f64);
    for (int64_t i = 0; i < 12; ++i) dm.data<double>()[i] = Philox{3, uint64_t(t)}.normal(uint64_t(i));
    set_gradients(dm, Tensor::zeros({5}, DType::f64));
    optimiser.step(0.05);

    const double beta = 1 - std::pow(t, -0.8);
    const double* g = dm.data<double>();
    for (int r = 0; r < 3; ++r) {
      double mean = 0;
      for (int c = 0; c < 4; ++c) mean += (g[4 * r + c] * g[4 * r + c] + 1e-30) / 4;
      row[size_t(r)] = beta * row[size_t(r)] + (1 - beta) * mean;
    }
    for (int c = 0; c < 4; ++c) {
      double mean = 0;
      for (int r = 0; r < 3; ++r) mean += (g[4 * r + c] * g[4 * r + c] + 1e-30) / 3;
      column[size_t(c)] = beta * column[size_t(c)] + (1 - beta) * mean;
    }
    const double row_mean = (row[0] + row[1] + row[2]) / 3;
    double rms = 0;
    std::vector<double> u(12);
    for (size_t i = 0; i < 12; ++i) {
      u[i] = g[i] / std::sqrt(row[i / 4] * column[i % 4] / row_mean);
      rms += u[i] * u[i] / 12;
    }
    for (size_t i = 0; i < 12; ++i) w[i] -= 0.05 * u[i] / std::max(1.0, std::sqrt(rms));
  }
  const auto got = matrix_.to_vector();
  for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(got[i], w[i], tolerance_);
}

TEST_P(OptimiserTest, ClippingScalesToTheGlobalNorm) {
  const auto before = matrix_.to_vector();
  set_gradients(Tensor::full({3, 4}, 3, DType::f64), Tensor::full({5}, 4, DType::f64));
  Optimiser optimiser(parameters_, Sgd{});
  const Optimiser::Report report = optimiser.step(1, 2);
  const double norm = std::sqrt(12 * 9 + 5 * 16.0);
  EXPECT_NEAR(report.grad_norm, norm, 1e-5);
  EXPECT_NEAR(matrix_.to_vector()[0], before[0] - 3 * 2 / norm, tolerance_);
}

TEST_P(OptimiserTest, AGradientThatIsNotFiniteChangesNothing) {
  const auto before = matrix_.to_vector();
  Tensor bad = Tensor::zeros({3, 4}, DType::f64);
  bad.data<double>()[5] = std::numeric_limits<double>::quiet_NaN();
  set_gradients(bad, Tensor::zeros({5}, DType::f64));
  Optimiser optimiser(parameters_, Adam{});
  EXPECT_FALSE(optimiser.step(0.1).finite);
  EXPECT_EQ(matrix_.to_vector(), before);
  EXPECT_EQ(optimiser.steps(), 0);
}

TEST_P(OptimiserTest, RestoredStateGoesOnTheSame) {
  Optimiser first(parameters_, Adam{});
  const Tensor dm = Tensor::full({3, 4}, 1.5, DType::f64), dv = Tensor::full({5}, -0.5, DType::f64);
  set_gradients(dm, dv);
  first.step(0.1);
  std::vector<nn::Parameters::Entry> kept;
  for (const auto& entry : first.state()) {
    Tensor copy = Tensor::empty(entry.tensor.shape(), entry.tensor.dtype());
    copy.copy_from(entry.tensor);
    kept.push_back({entry.name, copy});
  }
  const Tensor weights = Tensor::empty(parameters_.weights().shape(), GetParam());
  weights.copy_from(parameters_.weights());
  set_gradients(dm, dv);
  first.step(0.1);
  const auto uninterrupted = parameters_.weights().to_vector();

  parameters_.weights().copy_from(weights);
  Optimiser second(parameters_, Adam{});
  second.restore(kept, 1);
  set_gradients(dm, dv);
  second.step(0.1);
  EXPECT_EQ(parameters_.weights().to_vector(), uninterrupted);

  Optimiser other(parameters_, Adafactor{});
  EXPECT_THROW(other.restore(kept, 1), FileError);
}

TEST_P(OptimiserTest, AverageFollowsAndSwaps) {
  WeightAverage average(parameters_, 0.5);
  const double start = vector_.to_vector()[0];
  vector_.fill(start + 10);
  average.update();  // the first update follows with 2/11 kept
  const double expected = start * 2 / 11 + (start + 10) * 9 / 11;
  average.swap();
  EXPECT_NEAR(vector_.to_vector()[0], expected, 1e-5);
  EXPECT_THROW(average.update(), Error);
  average.swap();
  EXPECT_NEAR(vector_.to_vector()[0], start + 10, 1e-5);
  average.restore(parameters_.weights(), 7);
  EXPECT_EQ(average.updates(), 7);
  EXPECT_THROW(WeightAverage(parameters_, 1.0), ConfigError);
}

}  // namespace
}  // namespace rapt::train
