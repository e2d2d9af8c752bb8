#include <rapt/base/error.hpp>
#include <rapt/models/encoder_decoder.hpp>

#include <gtest/gtest.h>

namespace rapt::models {
namespace {

TEST(Presets, AreThoseOfThePaper) {
  auto parameters = [](const char* name) {
    EncoderDecoderConfig c = EncoderDecoderConfig::preset(name);
    c.source_vocabulary = c.target_vocabulary = 100;
    return EncoderDecoder(c).parameters().count();
  };
  // Per layer: 4 d^2 + 4 d for each attention, 2 d d_ff + d + d_ff for the feed-forward, 2 d for each norm.
  auto expected = [](int64_t d, int64_t f) {
    const int64_t attention = 4 * d * d + 4 * d, ffn = 2 * d * f + d + f, norm = 2 * d;
    return 6 * (attention + ffn + 2 * norm) + 6 * (2 * attention + ffn + 3 * norm) + 100 * d;
  };
  EXPECT_EQ(parameters("base"), expected(512, 2048));
  EXPECT_EQ(parameters("big"), expected(1024, 4096));
  EXPECT_THROW(EncoderDecoderConfig::preset("huge"), ConfigError);
}

}  // namespace
}  // namespace rapt::models
