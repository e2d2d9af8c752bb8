// What operations promise beside their formulas.
#include <kernels/kernels.hpp>
#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rapt {
namespace {

using testing::random_tensor;
using testing::relative_error;

// ------------------------------------------------------------------------------------- weights that are kept in packed form

TEST(Weights, AChangeInPlaceIsSeenByTheNextProduct) {
  for (const auto& row : kernels::kernel_table()) {
    if (row.op != "gemm") continue;
    for (const auto& implementation : row.implementations)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        if (!implementation.available) continue;
        SCOPED_TRACE(implementation.name + ", " + to_string(dtype));
        kernels::force_implementations("gemm:" + implementation.name);
        const Tensor x = random_tensor({40, 64}, dtype, Philox{1, 0});
        const Tensor W = random_tensor({96, 64}, DType::f32, Philox{1, 1});
        const Tensor other = random_tensor({96, 64}, DType::f32, Philox{1, 2});
        const Tensor before = linear(x, W);
        W.copy_from(other);
        EXPECT_EQ(linear(x, W).to_vector(), linear(x, other).to_vector());
        W.narrow(0, 3, 1).fill(0);
        EXPECT_EQ(linear(x, W).select(1, 3).to_vector(), std::vector<double>(40, 0.0));
        kernels::force_implementations("");
      }
  }
}

TEST(Weights, TwoViewsOfOneBufferAreTwoWeights) {
  const Tensor flat = random_tensor({2 * 96 * 64}, DType::f32, Philox{1, 1});
  const Tensor x = random_tensor({40, 64}, DType::f32, Philox{1, 0});
  for (int64_t i = 0; i < 2; ++i) {
    const Tensor view = flat.narrow(0, i * 96 * 64, 96 * 64).view({96, 64}), copy = view.to(DType::f64).to(DType::f32);
    EXPECT_EQ(linear(x, view).to_vector(), linear(x, copy).to_vector());
  }
}

// -------------------------------------------------------------------------------------------------------------- dropout

TEST(Dropout, KeepsTheShareAndTheExpectation) {
  const int64_t n = 100000;
  for (const float p : {0.1f, 0.5f, 0.9f}) {
    const Tensor y = dropout(Tensor::full({n}, 1), p, Philox{3, 4});
    double kept = 0;
    for (const double v : y.to_vector()) {
      if (v == 0) continue;
      ++kept;
      EXPECT_NEAR(v, 1 / (1 - double(p)), 1e-5);
    }
    EXPECT_NEAR(kept / double(n), 1 - double(p), 0.01);
  }
}

TEST(Dropout, OfZeroIsTheInputItself) {
  const Tensor x = random_tensor({3, 4}, DType::f32, Philox{1, 0});
  EXPECT_EQ(dropout(x, 0, {}).raw(), x.raw());
}

TEST(Dropout, AnotherStreamIsAnotherMask) {
  const Tensor x = Tensor::full({1000}, 1);
  EXPECT_EQ(dropout(x, 0.5f, Philox{1, 2}).to_vector(), dropout(x, 0.5f, Philox{1, 2}).to_vector());
  EXPECT_NE(dropout(x, 0.5f, Philox{1, 2}).to_vector(), dropout(x, 0.5f, Philox{1, 3}).to_vector());
  EXPECT_NE(dropout(x, 0.5f, Philox{1, 2}).to_vector(), dropout(x, 0.5f, Philox{2, 2}).to_vector());
}

// --------------------------------------------------------------------------------------------------------------- losses

TEST(CrossEntropy, HitsAreRowsWhoseLargestLogitIsTheTarget) {
  const Tensor logits = Tensor::from(std::vector<float>{5, 1, 1, /**/ 1, 5, 1, /**/ 1, 1, 5, /**/ 5, 1, 1}, {4, 3});
  const Tensor targets = Tensor::from(std::vector<int32_t>{0, 2, 2, 1}, {4}), identity = Tensor::zeros({3, 3});
  for (int64_t i = 0; i < 3; ++i) identity.narrow(0, i, 1).narrow(1, i, 1).fill(1);
  const std::vector<double> wanted{1, 0, 1, 0};
  Tensor hits;
  CrossEntropyOptions options;
  options.hits = &hits;
  cross_entropy(logits, targets, options);
  EXPECT_EQ(hits.to_vector(), wanted);
  for (const int64_t chunk : {0, 1, 3}) {
    options.chunk_rows = chunk;
    hits = {};
    projected_cross_entropy(logits, identity, {}, targets, options);
    EXPECT_EQ(hits.to_vector(), wanted);
  }
}

TEST(CrossEntropy, LogitsThatWouldOverflowDoNot) {
  Tensor logits = Tensor::from(std::vector<float>{1e4f, -1e4f, 0, /**/ -1e30f, -1e30f, 1e30f}, {2, 3});
  require_grad(logits);
  const Tensor targets = Tensor::from(std::vector<int32_t>{0, 2}, {2});
  const Tensor loss = cross_entropy(logits, targets);
  EXPECT_EQ(loss.item(), 0);
  backward(loss);
  for (const double g : grad(logits).to_vector()) EXPECT_EQ(g, 0);
}

TEST(Softmax, ScoresThatWouldOverflowDoNot) {
  const Tensor x = Tensor::from(std::vector<float>{1e5f, 1e5f, -1e5f, 0}, {1, 4});
  EXPECT_EQ(softmax(x).to_vector(), (std::vector<double>{0.5, 0.5, 0, 0}));
  const Tensor Q = Tensor::full({1, 2, 1, 8}, 1e4), K = Tensor::full({1, 2, 1, 8}, 1e4);
  const Tensor V = random_tensor({1, 2, 1, 8}, DType::f32, Philox{1, 0});
  const Tensor mean_value = affine(sum(V, 1), 0.5);
  const Tensor O = attention(Q, K, V);
  for (int64_t i = 0; i < 2; ++i) EXPECT_LT(relative_error(O.narrow(1, i, 1), mean_value), 1e-5);
}

TEST(Softplus, IsExactFarFromZero) {
  const Tensor x = Tensor::from(std::vector<float>{-200, 200}, {2});
  const std::vector<double> y = softplus(x).to_vector();
  EXPECT_GE(y[0], 0);
  EXPECT_LT(y[0], 1e-30);
  EXPECT_EQ(y[1], 200);
}

}  // namespace
}  // namespace rapt
