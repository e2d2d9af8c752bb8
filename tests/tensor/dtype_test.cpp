#include <rapt/tensor/dtype.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace rapt {
namespace {

/// The value that IEEE gives to a pattern of 1 sign bit, `exponent_bits` and `fraction_bits`.
double value_of(uint32_t bits, int exponent_bits, int fraction_bits) {
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1) return fraction ? std::nan("") : sign * HUGE_VAL;
  const double significand = exponent ? double(fraction | 1u << fraction_bits) : double(fraction);
  return sign * std::ldexp(significand, (exponent ? int(exponent) : 1) - bias - fraction_bits);
}

template <class Small>
Small pattern(uint32_t bits) {
  Small x;
  x.bits = uint16_t(bits);
  return x;
}

template <class Small>
void expect_every_pattern(int exponent_bits, int fraction_bits) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double wanted = value_of(bits, exponent_bits, fraction_bits);
    const float got = float(pattern<Small>(bits));
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_TRUE(std::isnan(float(Small(got)))) << bits;
    } else {
      ASSERT_EQ(double(got), wanted) << bits;
      ASSERT_EQ(Small(got).bits, bits);
    }
  }
}

/// Between each two neighbours: below the middle goes down, above it up, the middle to the even one.
template <class Small>
void expect_nearest_even(uint32_t last_finite) {
  for (uint32_t bits = 0; bits < last_finite; ++bits)
    for (const float sign : {1.0f, -1.0f}) {
      const float low = float(pattern<Small>(bits)), high = float(pattern<Small>(bits + 1));
      const float middle = float((double(low) + double(high)) / 2);
      const uint32_t negative = sign < 0 ? 0x8000u : 0;
      if (middle == low || middle == high) continue;  // the smallest of bf16: f32 has nothing in between
      ASSERT_EQ(Small(sign * std::nextafter(middle, 0.0f)).bits, bits | negative);
      ASSERT_EQ(Small(sign * middle).bits, (bits + bits % 2) | negative);
      ASSERT_EQ(Small(sign * std::nextafter(middle, HUGE_VALF)).bits, (bits + 1) | negative);
    }
}

TEST(Float16, EveryPatternHasItsValueAndComesBack) { expect_every_pattern<Float16>(5, 10); }
TEST(BFloat16, EveryPatternHasItsValueAndComesBack) { expect_every_pattern<BFloat16>(8, 7); }
TEST(Float16, RoundsToNearestEven) { expect_nearest_even<Float16>(0x7BFF); }
TEST(BFloat16, RoundsToNearestEven) { expect_nearest_even<BFloat16>(0x7F7F); }

TEST(Float16, BeyondTheRangeIsInfinite) {
  EXPECT_EQ(Float16(65504.0f).bits, 0x7BFF);
  EXPECT_EQ(Float16(65519.99f).bits, 0x7BFF);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(Float16(-1e30f).bits, 0xFC00);
  EXPECT_EQ(Float16(1e-30f).bits, 0x0000);
  EXPECT_EQ(Float16(-1e-30f).bits, 0x8000);
}

TEST(BFloat16, BeyondTheRangeIsInfinite) {
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(BFloat16(-HUGE_VALF).bits, 0xFF80);
}

TEST(SmallFloats, NaNStaysNaNWhateverItsPayload) {
  for (const uint32_t bits : {0x7F800001u, 0x7F80FFFFu, 0x7FFFFFFFu, 0xFF800001u, 0xFFFFFFFFu}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(float(BFloat16(nan))));
    EXPECT_TRUE(std::isnan(float(Float16(nan))));
  }
}

TEST(DTypes, NamesSizesAndKinds) {
  EXPECT_EQ(to_string(DType::bf16), "bf16");
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::i64), 8u);
  EXPECT_EQ(size_of(DType::f32), 4u);
  EXPECT_EQ(size_of(DType::i32), 4u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::f16), 2u);
  EXPECT_EQ(size_of(DType::i8), 1u);
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16}) EXPECT_TRUE(is_floating(t));
  for (const DType t : {DType::i8, DType::i32, DType::i64}) EXPECT_FALSE(is_floating(t));
}

}  // namespace
}  // namespace rapt
