#pragma once
#include <array>
#include <cstdint>

namespace rapt {

/// Counted randomness: a value is a function of (seed, stream, index) alone, so it does not depend on the number of
/// threads, the device, the order of evaluation or a resume. Philox4x32 with 7 rounds [Salmon 2011].
struct Philox {
  uint64_t seed = 0;    ///< the run
  uint64_t stream = 0;  ///< what is being drawn: step and tensor

  static constexpr int kRounds = 7;
  static constexpr uint32_t kMul0 = 0xD2511F53u, kMul1 = 0xCD9E8D57u;
  static constexpr uint32_t kKeyStep0 = 0x9E3779B9u, kKeyStep1 = 0xBB67AE85u;

  /// Four random words for one counter value.
  constexpr std::array<uint32_t, 4> block(uint64_t counter) const {
    uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32), c2 = uint32_t(stream), c3 = uint32_t(stream >> 32);
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t p0 = uint64_t(kMul0) * c0, p1 = uint64_t(kMul1) * c2;
      c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
      c1 = uint32_t(p1);
      c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
      c3 = uint32_t(p0);
      k0 += kKeyStep0;
      k1 += kKeyStep1;
    }
    return {c0, c1, c2, c3};
  }

  /// 16 random bits for element `n`. 128 neighbours share 16 counters, laid out so that a vector of 16 lanes makes all
  /// of them with one evaluation: counter = 16 (n / 128) + n mod 16, and (n mod 128) / 16 picks one of its 8 halves.
  constexpr uint32_t bits16(uint64_t n) const {
    const uint64_t counter = n / 128 * 16 + n % 16;
    const uint32_t half = uint32_t(n % 128 / 16);
    return block(counter)[half / 2] >> (half % 2 * 16) & 0xFFFFu;
  }

  /// Uniform in [0, 1), 24 bits.
  constexpr float uniform(uint64_t n) const { return float(block(n / 4)[n % 4] >> 8) * 0x1p-24f; }

  /// Standard normal (Box-Muller in double, so that every platform agrees to the last bits that matter).
  double normal(uint64_t n) const;

  /// Uniform integer in [0, bound).
  constexpr uint32_t below(uint64_t n, uint32_t bound) const { return uint32_t(uint64_t(block(n)[0]) * bound >> 32); }
};

/// An independent seed for everything that has a name (a parameter, a corpus file): FNV-1a folded into `seed`.
uint64_t seed_for(uint64_t seed, const char* name);

}  // namespace rapt
