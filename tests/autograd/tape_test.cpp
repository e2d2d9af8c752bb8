#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>
#include <support/compare.hpp>
#include <support/expect_error.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

using testing::expect_error;
using testing::random_tensor;
using testing::relative_error;

Tensor leaf(const Shape& shape, uint64_t stream, DType dtype = DType::f64) {
  Tensor t = random_tensor(shape, dtype, Philox{2, stream});
  return require_grad(t);
}

TEST(Tape, GradientsGatherOverBackwardPassesUntilTheyAreCleared) {
  const Tensor x = leaf({3, 4}, 1);
  backward(sum(square(x)));
  EXPECT_EQ(grad(x).to_vector(), affine(x, 2).to_vector());
  backward(sum(square(x)));
  EXPECT_EQ(grad(x).to_vector(), affine(x, 4).to_vector());
  zero_grad(x);
  EXPECT_EQ(grad(x).to_vector(), std::vector<double>(12, 0.0));
  backward(sum(square(x)));
  EXPECT_EQ(grad(x).to_vector(), affine(x, 2).to_vector());
}

TEST(Tape, NothingIsRecordedUnderNoGrad) {
  const Tensor x = leaf({3}, 1);
  {
    NoGrad no_grad;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(square(x).requires_grad());
    { NoGrad nested; }
    EXPECT_FALSE(grad_enabled());
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(square(x).requires_grad());
}

TEST(Tape, StopGradientCutsOneWayAndLeavesTheOther) {
  const Tensor x = leaf({3}, 1);
  backward(sum(mul(x, stop_gradient(square(x)))));
  EXPECT_LT(relative_error(grad(x), square(x)), 1e-15);
  EXPECT_FALSE(stop_gradient(x).requires_grad());
  EXPECT_TRUE(x.requires_grad());
}

TEST(Tape, TheGradientOfAnUnusedLeafIsZero) {
  const Tensor x = leaf({3}, 1), unused = leaf({2, 2}, 2);
  backward(sum(x));
  EXPECT_EQ(grad(unused).to_vector(), std::vector<double>(4, 0.0));
}

TEST(Tape, BackwardFromAnyTensorWithItsGradientGiven) {
  const Tensor x = leaf({3, 4}, 1), dy = random_tensor({3, 4}, DType::f64, Philox{3, 0});
  backward(square(x), dy);
  EXPECT_LT(relative_error(grad(x), affine(mul(stop_gradient(x), dy), 2)), 1e-15);
  zero_grad(x);
  backward(square(x).transpose(0, 1), dy.transpose(0, 1));
  EXPECT_LT(relative_error(grad(x), affine(mul(stop_gradient(x), dy), 2)), 1e-15);
  zero_grad(x);
  backward(x, dy);
  backward(x, dy);
  EXPECT_EQ(grad(x).to_vector(), affine(dy, 2).to_vector());
}

TEST(Tape, FourSmallBatchesAccumulateToOneLargeOne) {
  const Tensor W1 = leaf({8, 6}, 1), W2 = leaf({5, 8}, 2), b = leaf({8}, 3);
  const Tensor x = random_tensor({12, 6}, DType::f64, Philox{4, 0});
  std::vector<int32_t> labels;
  for (int32_t n = 0; n < 12; ++n) labels.push_back(n * 7 % 5);
  const Tensor targets = Tensor::from(labels, {12});
  const auto loss = [&](int64_t begin, int64_t count) {
    CrossEntropyOptions options;
    options.normaliser = 12;
    const Tensor hidden = linear(x.narrow(0, begin, count), W1, b, Activation::gelu);
    return projected_cross_entropy(hidden, W2, {}, targets.narrow(0, begin, count), options);
  };
  backward(loss(0, 12));
  std::vector<std::vector<double>> whole;
  std::vector<Tensor> kept;
  for (const Tensor& t : {W1, W2, b}) {
    kept.push_back(affine(grad(t), 1));
    zero_grad(t);
  }
  for (int64_t i = 0; i < 4; ++i) backward(loss(3 * i, 3));
  EXPECT_LT(relative_error(grad(W1), kept[0]), 1e-14);
  EXPECT_LT(relative_error(grad(W2), kept[1]), 1e-14);
  EXPECT_LT(relative_error(grad(b), kept[2]), 1e-14);
}

// -------------------------------------------------------------------------------------------------------------- errors

TEST(TapeErrors, AFreedTapeSaysSo) {
  const Tensor x = leaf({3}, 1);
  const Tensor y = exp(x), loss = sum(y);
  backward(loss);
  for (int again = 0; again < 2; ++again)
    expect_error<GradError>("already run and freed; compute the loss again", [&] { backward(loss); });
  expect_error<GradError>("already run and freed", [&] { backward(sum(square(y))); });
}

TEST(TapeErrors, WhatHasNoGradient) {
  const Tensor plain = Tensor::zeros({3}, DType::f64);
  Tensor ids = Tensor::zeros({3}, DType::i32), strided = Tensor::zeros({3, 4}, DType::f64).transpose(0, 1);
  expect_error<GradError>("wants a gradient", [&] { backward(sum(plain)); });
  expect_error<GradError>("not marked with require_grad", [&] { grad(plain); });
  expect_error<DTypeError>("i32", [&] { require_grad(ids); });
  expect_error<ShapeError>("[4, 3] with strides [1, 4]", [&] { require_grad(strided); });
  const Tensor x = leaf({3}, 1);
  expect_error<ShapeError>("not from shape [3]", [&] { backward(square(x)); });
  expect_error<ShapeError>("y [3] and dy [2]", [&] { backward(square(x), Tensor::zeros({2}, DType::f64)); });
}

TEST(NonFinite, TheFirstBadResultIsNamed) {
  const DetectNonFinite detect;
  Tensor x = Tensor::from(std::vector<double>{1, 0, 2}, {3});
  require_grad(x).set_name("encoder.0.x");
  expect_error<NonFiniteError>("encoder.0.x", [&] { log(x); });
  expect_error<NonFiniteError>("-inf at element 1", [&] { log(x); });
}

TEST(NonFinite, TheFirstBadGradientIsNamed) {
  Tensor x = Tensor::from(std::vector<double>{1, 0, 4}, {3});
  require_grad(x).set_name("decoder.gain");
  const DetectNonFinite detect;
  const Tensor loss = sum(sqrt(x));
  expect_error<NonFiniteError>("the gradient of 'decoder.gain' holds NaN or infinity at element 1",
                               [&] { backward(loss); });
}

TEST(NonFinite, NothingIsSearchedWithoutTheGuard) {
  Tensor x = Tensor::from(std::vector<double>{0}, {1});
  require_grad(x);
  EXPECT_NO_THROW(backward(sum(log(x))));
}

TEST(NonFinite, PartsThatWaitForTheirFirstWriterAreNotSearched) {
  const Shape shape{16, 48};
  { const Tensor poison = Tensor::full(shape, std::nan(""), DType::f64); }  // the pool hands this block out again
  const Tensor x = leaf(shape, 1);
  const DetectNonFinite detect;
  const Tensor y = tanh(x);
  const Tensor loss = add(sum(square(y.narrow(1, 0, 16))), sum(exp(y.narrow(1, 16, 32))));
  { const Tensor poison = Tensor::full(shape, std::nan(""), DType::f64); }
  EXPECT_NO_THROW(backward(loss));
}

}  // namespace
}  // namespace rapt
