#include <rapt/base/random.hpp>

#include <cmath>
#include <numbers>

namespace rapt {

double Philox::normal(uint64_t n) const {
  const auto b = block(n);
  const double u1 = (double(b[0]) + 1.0) * 0x1p-32;  // (0, 1]: the logarithm stays finite
  const double u2 = double(b[1]) * 0x1p-32;
  return std::sqrt(-2.0 * std::log(u1)) * std::cos(2.0 * std::numbers::pi * u2);
}

uint64_t seed_for(uint64_t seed, const char* name) {
  // Spread over all bits: a seed that differs in the low byte alone would cancel against the first letter of a name.
  uint64_t h = 0xCBF29CE484222325ull ^ seed * 0x9E3779B97F4A7C15ull;
  for (; *name; ++name) h = (h ^ uint8_t(*name)) * 0x100000001B3ull;
  return h ^ h >> 29;
}

}  // namespace rapt
