// The elementary functions and the counted randomness that the vector kernels share, on every target of this machine.
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/random.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_math_test.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_math-inl.hpp>
#include <kernels/cpu/vector_philox-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

template <class F>
void apply(const std::vector<float>& x, std::vector<float>& y, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < x.size(); i += lanes) {
    const size_t count = std::min(lanes, x.size() - i);
    std::copy_n(x.data() + i, count, buffer);
    hn::Store(f(d, hn::Load(d, buffer)), d, buffer);
    std::copy_n(buffer, count, y.data() + i);
  }
}

#define RAPT_APPLY(name, expression)                                      \
  void apply_##name(const std::vector<float>& x, std::vector<float>& y) { \
    apply(x, y, [](auto d, auto v) HWY_ATTR { return expression; });      \
  }
RAPT_APPLY(exp, exp(d, v))
RAPT_APPLY(tanh, tanh(d, v))
RAPT_APPLY(sigmoid, sigmoid(d, v))
RAPT_APPLY(log, log(d, v))
RAPT_APPLY(softplus, softplus(d, v))
RAPT_APPLY(normal_cdf, normal(d, v).cumulated)
RAPT_APPLY(gelu, gelu(d, v))
RAPT_APPLY(gelu_tanh, hn::Mul(v, sigmoid(d, gelu_tanh_argument(d, v))))
#undef RAPT_APPLY

void factors(const Philox& random, float p, uint64_t first, std::vector<float>& out) {
  dropout_factors(random, DropoutRule(p), first, out.size(), out.data());
}

void all_bits(const Philox& random, uint64_t block, std::vector<uint32_t>& out) {
  const hn::ScalableTag<uint32_t> du;
  philox_block(random, block, [&](size_t i, hn::Vec<decltype(du)> bits) HWY_ATTR { hn::StoreU(bits, du, &out[i]); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(apply_exp);
HWY_EXPORT(apply_tanh);
HWY_EXPORT(apply_sigmoid);
HWY_EXPORT(apply_log);
HWY_EXPORT(apply_softplus);
HWY_EXPORT(apply_normal_cdf);
HWY_EXPORT(apply_gelu);
HWY_EXPORT(apply_gelu_tanh);
HWY_EXPORT(factors);
HWY_EXPORT(all_bits);

/// Every test runs once a target.
class VectorMath : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, VectorMath, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

using Apply = void (*)(const std::vector<float>&, std::vector<float>&);

/// Every 1009th float with a value in [low, high], and the ends.
std::vector<float> sample(float low, float high) {
  std::vector<float> x{low, high};
  for (uint32_t bits = 0; bits < 0xFF800000u - 1009; bits += 1009)
    if (const float v = std::bit_cast<float>(bits); v >= low && v <= high) x.push_back(v);
  return x;
}

/// Largest |f(x) - y| / |f(x)|, where results below the smallest normal f32 count as equal to 0.
double worst_relative(const Apply& apply, const std::function<double(double)>& f, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  apply(x, y);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double wanted = f(double(x[i])), error = std::abs(double(y[i]) - wanted);
    const double floor = 1.2e-38;
    if (std::abs(wanted) < floor && error <= floor) continue;
    const double relative = error / std::abs(wanted);
    if (!(relative <= worst)) worst = relative;
    if (std::isnan(relative)) ADD_FAILURE() << "f(" << x[i] << ") = " << y[i] << ", not " << wanted;
  }
  return worst;
}

double gelu_f64(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

TEST_P(VectorMath, ExpIsWithinTwoUlp) {
  EXPECT_LE(worst_relative(
                HWY_DYNAMIC_DISPATCH(apply_exp), [](double x) { return std::exp(x); }, sample(-110, 88.72f)),
            1.3e-7);
}
TEST_P(VectorMath, TanhKeepsItsRelativePrecisionAroundZero) {
  EXPECT_LE(worst_relative(
                HWY_DYNAMIC_DISPATCH(apply_tanh), [](double x) { return std::tanh(x); }, sample(-1e30f, 1e30f)),
            3e-7);
}
TEST_P(VectorMath, Sigmoid) {
  const auto f = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_sigmoid), f, sample(-1e30f, 1e30f)), 2.5e-7);
}
TEST_P(VectorMath, LogOfEveryPositiveFloat) {
  const auto f = [](double x) { return std::log(x); };
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_log), f, sample(1e-45f, 3e38f)), 2.5e-7);
}
TEST_P(VectorMath, Softplus) {
  const auto f = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_softplus), f, sample(-1e30f, 1e30f)), 2.5e-7);
}
TEST_P(VectorMath, NormalDistribution) {
  const auto f = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  // The exponent -x^2/2 is rounded to f32, which costs |x|^2 / 2 ulps far out.
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_normal_cdf), f, sample(-4, 1e30f)), 1.3e-6);
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_normal_cdf), f, sample(-13, -4)), 1.1e-5);
}
TEST_P(VectorMath, Gelu) {
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_gelu), gelu_f64, sample(-4, 1e30f)), 1.3e-6);
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_gelu), gelu_f64, sample(-13, -4)), 1.1e-5);
}
TEST_P(VectorMath, GeluTanh) {
  const auto f = [](double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_LE(worst_relative(HWY_DYNAMIC_DISPATCH(apply_gelu_tanh), f, sample(-4, 1e6f)), 3e-6);
}

TEST_P(VectorMath, LimitsAndNaN) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{inf, -inf, nan};
  const auto at = [&](Apply apply) {
    std::vector<float> y(x.size());
    apply(x, y);
    EXPECT_TRUE(std::isnan(y[2]));
    return y;
  };
  auto y = at(HWY_DYNAMIC_DISPATCH(apply_exp));
  EXPECT_EQ(y[0], inf);
  EXPECT_EQ(y[1], 0);
  y = at(HWY_DYNAMIC_DISPATCH(apply_tanh));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], -1);
  y = at(HWY_DYNAMIC_DISPATCH(apply_sigmoid));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  y = at(HWY_DYNAMIC_DISPATCH(apply_log));
  EXPECT_EQ(y[0], inf);
  EXPECT_TRUE(std::isnan(y[1]));
  y = at(HWY_DYNAMIC_DISPATCH(apply_softplus));
  EXPECT_EQ(y[0], inf);
  EXPECT_EQ(y[1], 0);
  std::vector<float> zero{0.0f}, log_zero(1);
  HWY_DYNAMIC_DISPATCH(apply_log)(zero, log_zero);
  EXPECT_EQ(log_zero[0], -inf);
}

TEST_P(VectorMath, PhiloxBlocksAreTheCountedBits) {
  for (const Philox random : {Philox{}, Philox{0x123456789ABCDEFull, 42}, Philox{~0ull, ~0ull - 5}})
    for (const uint64_t block : {uint64_t(0), uint64_t(1), uint64_t(77), (uint64_t(1) << 28) - 1, uint64_t(1) << 28,
                                 (uint64_t(1) << 50) + 3}) {
      std::vector<uint32_t> bits(128);
      HWY_DYNAMIC_DISPATCH(all_bits)(random, block, bits);
      for (size_t i = 0; i < 128; ++i) ASSERT_EQ(bits[i], random.bits16(128 * block + i)) << block << ' ' << i;
    }
}

TEST_P(VectorMath, DropoutFactorsFromEveryOffset) {
  const Philox random{7, 9};
  const float p = 0.3f;
  for (uint64_t first = 0; first < 260; ++first)
    for (const size_t n : {size_t(1), size_t(5), size_t(127), size_t(128), size_t(300)}) {
      std::vector<float> out(n);
      HWY_DYNAMIC_DISPATCH(factors)(random, p, first, out);
      for (size_t i = 0; i < n; ++i)
        ASSERT_EQ(out[i], random.bits16(first + i) >= std::lround(65536.0 * double(p)) ? 1 / (1 - p) : 0.0f)
            << first << ' ' << n << ' ' << i;
    }
}

}  // namespace
}  // namespace rapt::kernels::vector
#endif
