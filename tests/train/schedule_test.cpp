#include <rapt/base/error.hpp>
#include <rapt/train/schedule.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace rapt::train {
namespace {

TEST(Schedule, TheFormulaOfThePaper) {
  const Schedule rate = Schedule::of_the_paper(512, 4000);
  for (const int64_t step : {1, 10, 3999, 4000, 4001, 100000}) {
    const double s = double(step);
    const double paper = std::pow(512.0, -0.5) * std::min(std::pow(s, -0.5), s * std::pow(4000.0, -1.5));
    EXPECT_NEAR(rate(step), paper, 1e-15) << step;
  }
}

TEST(Schedule, WarmUpThenDown) {
  const Schedule linear{.kind = Schedule::Kind::linear, .peak = 1, .warmup = 10, .total = 110, .floor = 0.1};
  EXPECT_DOUBLE_EQ(linear(1), 0.1);
  EXPECT_DOUBLE_EQ(linear(10), 1);
  EXPECT_DOUBLE_EQ(linear(60), 0.55);
  EXPECT_DOUBLE_EQ(linear(110), 0.1);
  EXPECT_DOUBLE_EQ(linear(500), 0.1);

  Schedule cosine = linear;
  cosine.kind = Schedule::Kind::cosine;
  EXPECT_DOUBLE_EQ(cosine(10), 1);
  EXPECT_NEAR(cosine(60), 0.55, 1e-12);
  EXPECT_NEAR(cosine(35), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(cosine(110), 0.1, 1e-12);

  const Schedule constant{.kind = Schedule::Kind::constant, .peak = 2, .warmup = 4};
  EXPECT_DOUBLE_EQ(constant(1), 0.5);
  EXPECT_DOUBLE_EQ(constant(4), 2);
  EXPECT_DOUBLE_EQ(constant(4000), 2);
  const Schedule at_once{.kind = Schedule::Kind::constant, .peak = 2, .warmup = 0};
  EXPECT_DOUBLE_EQ(at_once(1), 2);
}

TEST(Schedule, RefusesWhatMeansNothing) {
  EXPECT_THROW(Schedule{}(0), ConfigError);
  const Schedule backwards{.kind = Schedule::Kind::linear, .peak = 1, .warmup = 10, .total = 5};
  EXPECT_THROW(backwards(11), ConfigError);
  EXPECT_THROW(Schedule::of_the_paper(512, 0), ConfigError);
}

}  // namespace
}  // namespace rapt::train
