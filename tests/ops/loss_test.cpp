#include <rapt/ops/ops.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rapt {
namespace {

TEST(Losses, HaveTheirValues) {
  const Tensor z = Tensor::from<double>({0.5, -2, 3, 0}, {4}), y = Tensor::from<double>({1, 0, 0.25, 1}, {4});
  double bce = 0, mse = 0;
  for (int64_t i = 0; i < 4; ++i) {
    const double p = 1 / (1 + std::exp(-z.at({i}))), t = y.at({i});
    bce -= (t * std::log(p) + (1 - t) * std::log(1 - p)) / 4;
    mse += (z.at({i}) - t) * (z.at({i}) - t) / 4;
  }
  EXPECT_NEAR(binary_cross_entropy(z, y).item(), bce, 1e-12);
  EXPECT_NEAR(mean_squared_error(z, y).item(), mse, 1e-12);
}

}  // namespace
}  // namespace rapt
