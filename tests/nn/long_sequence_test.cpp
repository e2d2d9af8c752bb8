// Memory of a training step grows with the length of the sequence, not with its square.
#include <rapt/autograd/tape.hpp>
#include <rapt/nn/transformer.hpp>
#include <support/compare.hpp>
#include <support/sanitized.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rapt::nn {
namespace {

/// Bytes at the peak of a forward and a backward pass through one layer.
size_t peak_of_step(int64_t length) {
  LayerShape s;
  s.attention.d_model = 64;
  s.attention.h = 4;
  s.d_ff = 128;
  Parameters parameters(3);
  const EncoderStack stack(Scope(parameters), 1, s);
  parameters.freeze_layout();
  Tensor x = testing::random_tensor({1, length, 64}, DType::f32, Philox{1, 0});
  require_grad(x);
  Context ctx{.training = true};
  const size_t start = memory_stats().in_use;
  reset_peak_memory();
  backward(mean(square(stack(x, {{}, true}, ctx))));
  const size_t peak = memory_stats().peak - start;
  const double norm = std::sqrt(sum(square(grad(x))).item());
  EXPECT_TRUE(std::isfinite(norm) && norm > 0) << norm;
  return peak;
}

TEST(LongSequences, MemoryOfAStepIsLinearInTheLength) {
  constexpr int64_t kLength = testing::kSanitized ? 4096 : 8192;
  const size_t quarter = peak_of_step(kLength / 4), whole = peak_of_step(kLength);
  EXPECT_LE(double(whole) / double(quarter), 4.4) << whole << " against " << quarter << " bytes";
}

}  // namespace
}  // namespace rapt::nn
