#include <rapt/base/random.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace rapt {
namespace {

using Block = std::array<uint32_t, 4>;

/// The vectors that the authors of Philox publish for 7 rounds (Random123, kat_vectors).
TEST(Philox, GivesThePublishedBlocks) {
  EXPECT_EQ((Philox{0, 0}.block(0)), (Block{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  const uint64_t ones = ~uint64_t(0);
  EXPECT_EQ((Philox{ones, ones}.block(ones)), (Block{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  const Philox pi{0x299f31d0a4093822, 0x0370734413198a2e};
  EXPECT_EQ(pi.block(0x85a308d3243f6a88), (Block{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

TEST(Philox, SeedStreamAndCounterAllMatter) {
  const Philox philox{12, 34};
  const Block block = philox.block(56);
  EXPECT_EQ(philox.block(56), block);
  EXPECT_NE(philox.block(57), block);
  EXPECT_NE(philox.block(56 + (uint64_t(1) << 32)), block);
  EXPECT_NE((Philox{13, 34}.block(56)), block);
  EXPECT_NE((Philox{12 + (uint64_t(1) << 40), 34}.block(56)), block);
  EXPECT_NE((Philox{12, 35}.block(56)), block);
  EXPECT_NE((Philox{12, 34 + (uint64_t(1) << 40)}.block(56)), block);
}

TEST(Philox, Bits16AreTheHalvesOfSixteenBlocksInTurn) {
  const Philox philox{7, 9};
  for (const uint64_t group : {uint64_t(0), uint64_t(1), uint64_t(12345)})
    for (uint64_t half = 0; half < 8; ++half)
      for (uint64_t lane = 0; lane < 16; ++lane) {
        const uint32_t word = philox.block(16 * group + lane)[half / 2];
        const uint32_t wanted = half % 2 == 0 ? word & 0xFFFFu : word >> 16;
        EXPECT_EQ(philox.bits16(128 * group + 16 * half + lane), wanted);
      }
}

/// Chi-squared over equal cells: the mean is cells - 1, the deviation sqrt(2 (cells - 1)).
void expect_uniform(const std::vector<int>& counts, double total) {
  const double expected = total / double(counts.size()), freedom = double(counts.size()) - 1;
  double chi2 = 0;
  for (const int count : counts) chi2 += (count - expected) * (count - expected) / expected;
  EXPECT_NEAR(chi2, freedom, 5 * std::sqrt(2 * freedom));
}

TEST(Philox, Bits16AreUniform) {
  const Philox philox{1, 2};
  std::vector<int> high(256), low(256);
  for (uint64_t n = 0; n < 1 << 18; ++n) {
    ++high[philox.bits16(n) >> 8];
    ++low[philox.bits16(n) & 255];
  }
  expect_uniform(high, 1 << 18);
  expect_uniform(low, 1 << 18);
}

TEST(Philox, UniformStaysBelowOneAndIsUniform) {
  const Philox philox{3, 4};
  std::vector<int> counts(100);
  for (uint64_t n = 0; n < 200'000; ++n) {
    const float u = philox.uniform(n);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++counts[size_t(u * 100)];
  }
  expect_uniform(counts, 200'000);
}

TEST(Philox, NormalHasTheMomentsOfAStandardNormal) {
  const Philox philox{5, 6};
  const int n = 200'000;
  double moments[4] = {};
  for (uint64_t i = 0; i < n; ++i) {
    const double x = philox.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    for (int k = 0; k < 4; ++k) moments[k] += std::pow(x, k + 1) / n;
  }
  // Five deviations of the mean of x, x^2, x^3, x^4 over n draws: sqrt(1, 2, 15, 96) / sqrt(n).
  EXPECT_NEAR(moments[0], 0, 5 * std::sqrt(1.0 / n));
  EXPECT_NEAR(moments[1], 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(moments[2], 0, 5 * std::sqrt(15.0 / n));
  EXPECT_NEAR(moments[3], 3, 5 * std::sqrt(96.0 / n));
}

TEST(Philox, BelowStaysBelowAndReachesEverything) {
  const Philox philox{8, 9};
  std::vector<int> counts(7);
  for (uint64_t n = 0; n < 70'000; ++n) ++counts.at(philox.below(n, 7));
  expect_uniform(counts, 70'000);
  EXPECT_EQ(philox.below(3, 1), 0u);
}

TEST(SeedFor, NamesGetSeedsOfTheirOwn) {
  std::set<uint64_t> seeds;
  for (const char* name : {"", "a", "b", "ab", "ba", "decoder.0.cross.q", "decoder.1.cross.q"}) {
    seeds.insert(seed_for(1, name));
    seeds.insert(seed_for(2, name));
  }
  EXPECT_EQ(seeds.size(), 14u);
  EXPECT_EQ(seed_for(1, "a"), seed_for(1, "a"));
}

}  // namespace
}  // namespace rapt
