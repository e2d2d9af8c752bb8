// Gradients where inputs share memory, shape or storage in ways that a shortcut could mistake.
#include <kernels/kernels.hpp>
#include <rapt/autograd/gradient_check.hpp>
#include <rapt/autograd/tape.hpp>
#include <rapt/base/error.hpp>
#include <rapt/ops/ops.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

Tensor drawn(const Shape& shape, DType dtype, uint64_t stream) {
  Tensor t = Tensor::empty(shape, DType::f64);
  const Philox random{11, stream};
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = random.normal(uint64_t(i));
  return t.to(dtype);
}

/// A transposed square looks like its base: only the strides tell.
TEST(Sharing, TransposedSquares) {
  const Tensor weights = drawn({5, 5}, DType::f64, 1), y = drawn({5, 5}, DType::f64, 2);
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& x) { return contiguous(x.transpose(0, 1)); },
           [&](const Tensor& x) { return add(x.transpose(0, 1), y); },
           [&](const Tensor& x) { return sub(x.transpose(0, 1), y); },
           [](const Tensor& x) { return affine(x.transpose(0, 1), 1, 3); }}) {
    const auto loss = [&](const std::vector<Tensor>& x) { return sum(mul(f(x[0]), weights)); };
    const GradientCheck check = check_gradient(loss, {drawn({5, 5}, DType::f64, 3)});
    EXPECT_LT(check.worst, 1e-6) << check.where;
  }
}

/// Queries, keys and values that are one tensor, in every implementation and over several blocks of keys.
TEST(Sharing, AttentionOfOneTensor) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensor x = drawn({1, 600, 2, 16}, dtype, 4), q = x.to(DType::f64), k = x.to(DType::f64), v = x.to(DType::f64);
    for (Tensor* t : {&x, &q, &k, &v}) require_grad(*t);
    const Tensor dy = drawn({1, 600, 2, 16}, dtype, 5);
    backward(attention(x, x, x, {.causal = true}), dy);
    backward(attention(q, k, v, {.causal = true}), dy.to(DType::f64));
    const Tensor wanted = add(add(grad(q), grad(k)), grad(v));
    EXPECT_LT(testing::relative_error(grad(x), wanted), dtype == DType::f32 ? 1e-5 : 2e-2) << to_string(dtype);
  }
}

/// Each implementation packs a weight in a layout of its own; one must not read what another packed.
TEST(Sharing, OneWeightThroughEveryProduct) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = drawn({40, 64}, dtype, 6), W = drawn({96, 64}, DType::f32, 7);
    const Tensor wanted = linear(x.to(DType::f64), W.to(DType::f64));
    for (const auto& row : kernels::kernel_table()) {
      if (row.op != "gemm") continue;
      for (const auto& entry : row.implementations) {
        if (!entry.available) continue;
        kernels::force_implementations("gemm:" + entry.name);
        EXPECT_LT(testing::relative_error(linear(x, W), wanted), dtype == DType::f32 ? 1e-5 : 1e-2) << entry.name;
      }
    }
    kernels::force_implementations("");
  }
}

TEST(Sharing, AnEmptyPartIsNotTheWhole) {
  Tensor x = drawn({4, 1}, DType::f64, 8);
  require_grad(x);
  backward(add(sum(x.narrow(1, 0, 0)), sum(square(x))));
  for (int64_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(grad(x).at({i, 0}), 2 * x.at({i, 0}));
}

TEST(Sharing, WeightsSeenTransposed) {
  const auto loss = [](const std::vector<Tensor>& p) { return sum(square(linear(p[0], p[1].transpose(0, 1)))); };
  const GradientCheck check = check_gradient(loss, {drawn({3, 4}, DType::f64, 9), drawn({4, 6}, DType::f64, 10)});
  EXPECT_LT(check.worst, 1e-6) << check.where;
}

TEST(Sharing, OnlyLeavesKeepAGradient) {
  Tensor x = drawn({3}, DType::f64, 11);
  require_grad(x);
  const Tensor y = square(x);
  EXPECT_THROW(grad(y), GradError);
  EXPECT_THROW(mean_squared_error(drawn({3, 1}, DType::f32, 12), drawn({3}, DType::f32, 13)), ShapeError);
  EXPECT_THROW(binary_cross_entropy(drawn({3, 1}, DType::f32, 12), drawn({3}, DType::f32, 13)), ShapeError);
  const Tensor targets = Tensor::from<int32_t>({0, 1, 1, 0, 1, 0}, {3, 2});
  EXPECT_THROW(cross_entropy(drawn({2, 3, 4}, DType::f32, 14), targets), ShapeError);
}

}  // namespace
}  // namespace rapt
