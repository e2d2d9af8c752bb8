// What the tape holds, and that it lets go.
#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

using testing::random_tensor;

constexpr int kDeep = 20000;

Tensor leaf(const Shape& shape) {
  Tensor t = random_tensor(shape, DType::f64, Philox{2, 1}, 0.1);
  return require_grad(t);
}

Tensor chain(const Tensor& x, int nodes) {
  Tensor y = x;
  for (int i = 0; i < nodes; ++i) y = i % 2 ? tanh(y) : add(y, x);
  return y;
}

TEST(TapeMemory, ADeepChainRunsBackwards) {
  const Tensor x = leaf({4});
  const size_t start = memory_stats().in_use;
  backward(sum(chain(x, kDeep)));
  for (const double g : grad(x).to_vector()) EXPECT_TRUE(std::isfinite(g) && g != 0) << g;
  zero_grad(x);
  EXPECT_EQ(memory_stats().in_use, start);
}

TEST(TapeMemory, ADeepChainIsDroppedWithoutABackwardPass) {
  const Tensor x = leaf({4});
  const size_t start = memory_stats().in_use;
  for (const int nodes : {kDeep, 10 * kDeep}) {
    const Tensor y = chain(x, nodes);
    EXPECT_GT(memory_stats().in_use, start);
  }
  EXPECT_EQ(memory_stats().in_use, start);
}

TEST(TapeMemory, ABackwardPassFreesWhatItHasUsed) {
  const Tensor x = leaf({1000});
  const size_t start = memory_stats().in_use;
  const Tensor loss = sum(chain(x, 100));
  const size_t recorded = memory_stats().in_use - start;
  EXPECT_GT(recorded, 50 * 8000u);
  reset_peak_memory();
  backward(loss);
  EXPECT_LT(memory_stats().peak - start, recorded + 10 * 8192u);  // gradients come while saved values go
  EXPECT_LT(memory_stats().in_use - start, 3 * 8192u);            // the loss and the gradient of x
}

TEST(TapeMemory, ManyStepsOfTheSameShapesAskTheSystemForNothing) {
  const Tensor x = leaf({8, 16}), W = leaf({16, 16});
  const auto step = [&] {
    zero_grad(x);
    zero_grad(W);
    backward(mean(square(linear(gelu(linear(x, W)), W, {}, Activation::tanh))));
  };
  step();
  const MemoryStats first = memory_stats();
  for (int i = 0; i < 200; ++i) step();
  const MemoryStats last = memory_stats();
  EXPECT_EQ(last.in_use, first.in_use);
  EXPECT_EQ(last.system_allocations, first.system_allocations);
}

TEST(TapeMemory, AnErrorInTheMiddleLeaksNothing) {
  Tensor x = Tensor::from(std::vector<double>{1, 0}, {2});
  require_grad(x);
  const size_t start = memory_stats().in_use;
  {
    const Tensor loss = sum(exp(sqrt(x)));
    const DetectNonFinite detect;
    EXPECT_ANY_THROW(backward(loss));
  }
  zero_grad(x);
  EXPECT_EQ(memory_stats().in_use, start);
}

}  // namespace
}  // namespace rapt
