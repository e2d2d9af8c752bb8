// The gradient of a view is the same view of the gradient, in whatever order and overlap the views are used.
#include <rapt/autograd/gradient_check.hpp>
#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace rapt {
namespace {

using testing::random_tensor;
using Tensors = std::vector<Tensor>;

/// f(square(x)): the views are of a result in the middle of the tape. f(x): of a leaf.
void expect_gradient(const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
  const auto weighed = [](const Tensor& y) { return sum(mul(y, random_tensor(y.shape(), DType::f64, Philox{6, 1}))); };
  const Tensor x = random_tensor(shape, DType::f64, Philox{31, 0}, 0.5);
  const auto of_result = check_gradient([&](const Tensors& t) { return weighed(f(square(t[0]))); }, {x});
  EXPECT_LT(of_result.worst, 1e-6) << "of a result, " << of_result.where;
  const auto of_leaf = check_gradient([&](const Tensors& t) { return weighed(f(t[0])); }, {x});
  EXPECT_LT(of_leaf.worst, 1e-6) << "of a leaf, " << of_leaf.where;
}

TEST(Regions, ThirdsOfAFusedProjection) {
  expect_gradient({2, 3, 12}, [](const Tensor& x) {
    return add(mul(tanh(x.narrow(-1, 0, 4)), exp(x.narrow(-1, 4, 4))), sigmoid(x.narrow(-1, 8, 4)));
  });
}

TEST(Regions, APartThatNobodyReads) {
  for (const int64_t unused : {0, 4, 8})
    expect_gradient({2, 3, 12}, [=](const Tensor& x) {
      return mul(tanh(x.narrow(-1, (unused + 4) % 12, 4)), exp(x.narrow(-1, (unused + 8) % 12, 4)));
    });
}

TEST(Regions, OverlappingParts) {
  expect_gradient({3, 10}, [](const Tensor& x) { return mul(tanh(x.narrow(1, 0, 6)), exp(x.narrow(1, 3, 6))); });
  expect_gradient({3, 10}, [](const Tensor& x) {
    return add(mul(tanh(x.narrow(1, 0, 4)), exp(x.narrow(1, 6, 4))), x.narrow(1, 2, 4));
  });
}

TEST(Regions, TheSamePartTwice) {
  expect_gradient({3, 10}, [](const Tensor& x) { return mul(tanh(x.narrow(1, 2, 4)), exp(x.narrow(1, 2, 4))); });
}

TEST(Regions, PartsOfDifferentAxes) {
  expect_gradient({4, 6},
                  [](const Tensor& x) { return add(sum(tanh(x.narrow(0, 1, 2))), sum(exp(x.narrow(1, 2, 3)))); });
  expect_gradient({4, 6, 2}, [](const Tensor& x) {
    return add(sum(tanh(x.select(1, 3))), add(sum(exp(x.select(2, 1))), sum(square(x.select(0, 0)))));
  });
}

TEST(Regions, PartsOfPartsAndOfTransposes) {
  expect_gradient({4, 6, 3}, [](const Tensor& x) { return tanh(x.narrow(1, 1, 4).narrow(2, 1, 2).select(0, 2)); });
  expect_gradient({4, 6}, [](const Tensor& x) {
    return add(tanh(x.transpose(0, 1).narrow(0, 2, 3)), exp(x.transpose(0, 1).narrow(0, 0, 3)));
  });
  expect_gradient({4, 6}, [](const Tensor& x) {
    return mul(tanh(x.view({2, 12}).narrow(1, 5, 5)), exp(x.view({12, 2}).narrow(0, 1, 5).view({2, 5})));
  });
}

TEST(Regions, AWholeAndAPart) {
  expect_gradient({4, 6}, [](const Tensor& x) { return add(tanh(x), exp(x.narrow(0, 3, 1))); });
  expect_gradient({4, 6}, [](const Tensor& x) { return mul(exp(x.narrow(1, 0, 1)), tanh(x)); });
}

TEST(Regions, StepsOfASequenceInBothDirections) {
  expect_gradient({2, 5, 3}, [](const Tensor& x) {
    Tensor h = x.select(1, 4);
    for (int64_t t = 3; t >= 0; --t) h = tanh(add(h, x.select(1, t)));
    for (int64_t t = 0; t < 5; t += 2) h = mul(h, x.select(1, t));
    return h;
  });
}

TEST(Regions, OneTensorInBothArguments) {
  expect_gradient({3, 4}, [](const Tensor& x) { return add(x, x); });
  expect_gradient({3, 4}, [](const Tensor& x) { return sub(x, x); });
  expect_gradient({3, 4}, [](const Tensor& x) { return mul(x, x); });
  expect_gradient({3, 4}, [](const Tensor& x) { return add(add(x, x), add(x, x)); });
  expect_gradient({3, 3}, [](const Tensor& x) { return add(x, x.transpose(0, 1)); });
  expect_gradient({3, 3}, [](const Tensor& x) { return add(x.transpose(0, 1), x); });
}

TEST(Regions, SeveralConsumersOfOneResult) {
  expect_gradient({3, 4}, [](const Tensor& x) {
    const Tensor y = tanh(x);
    return add(add(y, exp(y)), add(mul(y, x), affine(y, 3)));
  });
}

TEST(Regions, AResultThatIsHandedOnUnchanged) {
  // Additions hand their gradient buffer on; the products after them must not find it changed by a neighbour.
  expect_gradient({3, 4}, [](const Tensor& x) {
    const Tensor a = tanh(x), b = exp(x);
    return linear(add(a, b), x.narrow(0, 0, 2), {}, Activation::relu);
  });
}

TEST(Regions, GradientOfAViewOfALeafIsAViewOfItsGradient) {
  Tensor x = random_tensor({4, 6}, DType::f64, Philox{1, 1});
  require_grad(x);
  backward(sum(square(x.narrow(1, 2, 3))));
  const Tensor part = grad(x.narrow(1, 2, 3));
  EXPECT_EQ(part.to_vector(), affine(x.narrow(1, 2, 3), 2).to_vector());
  EXPECT_EQ(grad(x).narrow(1, 0, 2).to_vector(), std::vector<double>(8, 0.0));
}

}  // namespace
}  // namespace rapt
