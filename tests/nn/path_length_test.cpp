// How far a gradient has to travel: one step through attention, n steps through a recurrent layer.
#include <rapt/autograd/tape.hpp>
#include <rapt/nn/attention.hpp>
#include <rapt/nn/recurrent.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace rapt::nn {
namespace {

using testing::random_tensor;

constexpr int64_t kSize = 16;

/// Geometric mean over seeds of || d(last output) / d(first input) || for sequences of length n.
double reach(int64_t n, const std::function<Tensor(const Tensor& x, uint64_t seed)>& layer) {
  constexpr int kSeeds = 4;
  double log_norm = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Tensor x = random_tensor({1, n, kSize}, DType::f64, Philox{seed, 1});
    require_grad(x);
    const Tensor last = layer(x, seed).select(1, n - 1);
    backward(sum(mul(last, random_tensor(last.shape(), DType::f64, Philox{seed, 2}))));
    log_norm += std::log(std::sqrt(sum(square(grad(x).select(1, 0))).item())) / kSeeds;
  }
  return std::exp(log_norm);
}

Tensor recurrent(Cell cell, double forget_bias, const Tensor& x, uint64_t seed) {
  Parameters parameters(seed, DType::f64);
  const Recurrent layer(Scope(parameters), cell, kSize, kSize);
  parameters.freeze_layout();
  if (cell == Cell::lstm) layer.W.b.narrow(0, kSize, kSize).fill(forget_bias);  // gates i, f, g, o
  return layer(x, {}, layer.start(1, DType::f64)).outputs;
}
Tensor attention_layer(const Tensor& x, uint64_t seed) {
  Parameters parameters(seed, DType::f64);
  AttentionShape shape;
  shape.d_model = kSize;
  shape.h = 2;
  const SelfAttention layer(Scope(parameters), shape);
  parameters.freeze_layout();
  Context ctx{.dtype = DType::f64};
  return layer(x, {{}, true}, ctx);
}

TEST(PathLength, ThePlainRnnForgetsExponentially) {
  const auto rnn = [](const Tensor& x, uint64_t seed) { return recurrent(Cell::rnn, 0, x, seed); };
  const double at4 = reach(4, rnn), at16 = reach(16, rnn), at64 = reach(64, rnn);
  EXPECT_LT(at64 / at4, 1e-6);
  // Exponential: the logarithm falls four times as much over 48 steps as over 12.
  const double ratio = std::log(at64 / at16) / std::log(at16 / at4);
  EXPECT_GT(ratio, 2);
  EXPECT_LT(ratio, 8);
}

TEST(PathLength, TheLstmKeepsWhatItsForgetGateKeeps) {
  const auto rnn = [](const Tensor& x, uint64_t seed) { return recurrent(Cell::rnn, 0, x, seed); };
  const auto lstm = [](const Tensor& x, uint64_t seed) { return recurrent(Cell::lstm, 4, x, seed); };
  const double rnn_keeps = reach(64, rnn) / reach(4, rnn), lstm_keeps = reach(64, lstm) / reach(4, lstm);
  EXPECT_GT(lstm_keeps, 1e-3);
  EXPECT_GT(lstm_keeps, 1e3 * rnn_keeps);
}

TEST(PathLength, AttentionReachesEveryPositionInOneStep) {
  // One of n positions has a share of about 1 / n: that, and no more, is lost.
  const double at4 = reach(4, attention_layer), at64 = reach(64, attention_layer);
  EXPECT_GT(at64 / at4, 0.2 * 4 / 64);
  EXPECT_LT(at64 / at4, 5.0 * 4 / 64);
}

}  // namespace
}  // namespace rapt::nn
