// Counted randomness (rapt/base/random.hpp) on vectors, for any Highway target: bit for bit what Philox::bits16 gives.
#include <rapt/base/random.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(RAPT_KERNELS_CPU_VECTOR_PHILOX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_KERNELS_CPU_VECTOR_PHILOX_INL
#undef RAPT_KERNELS_CPU_VECTOR_PHILOX_INL
#else
#define RAPT_KERNELS_CPU_VECTOR_PHILOX_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls `emit(i, bits)` until all 128 elements of a block were given: lane l of `bits` (u32) holds
/// bits16(128 block + i + l).
template <class Emit>
HWY_INLINE void philox_block(const Philox& random, uint64_t block, Emit&& emit) {
  const hn::ScalableTag<uint32_t> du;
#if HWY_TARGET == HWY_SCALAR
  for (size_t lane = 0; lane < 16; ++lane) {
    const auto words = random.block(16 * block + lane);
    for (size_t w = 0; w < 4; ++w) {
      emit(32 * w + lane, hn::Set(du, words[w] & 0xFFFFu));
      emit(32 * w + 16 + lane, hn::Set(du, words[w] >> 16));
    }
  }
#else
  // The counters of even and of odd lanes stand in two vectors of 64-bit lanes, where a 32 x 32 bit product has room.
  // Only the low half of a lane means something; what gathers in the high half is never looked at.
  const hn::Repartition<uint64_t, decltype(du)> dw;
  using W = hn::Vec<decltype(dw)>;
  const auto low = [du](W x) HWY_ATTR { return hn::BitCast(du, x); };
  const auto mul0 = hn::Set(du, Philox::kMul0), mul1 = hn::Set(du, Philox::kMul1);
  for (size_t lane = 0; lane < 16; lane += hn::Lanes(du)) {
    const uint64_t counter = 16 * block + lane;
    W even0 = hn::Add(hn::Set(dw, counter & 0xFFFFFFFFu), hn::ShiftLeft<1>(hn::Iota(dw, 0)));
    W odd0 = hn::Add(even0, hn::Set(dw, 1));
    W even1 = hn::Set(dw, counter >> 32), odd1 = even1;
    W even2 = hn::Set(dw, random.stream), odd2 = even2;
    W even3 = hn::Set(dw, random.stream >> 32), odd3 = even3;
    uint64_t key0 = random.seed, key1 = random.seed >> 32;
    for (int round = 0; round < Philox::kRounds; ++round) {
      const W k0 = hn::Set(dw, key0), k1 = hn::Set(dw, key1);
      const W even_p0 = hn::MulEven(low(even0), mul0), even_p1 = hn::MulEven(low(even2), mul1);
      const W odd_p0 = hn::MulEven(low(odd0), mul0), odd_p1 = hn::MulEven(low(odd2), mul1);
      even0 = hn::Xor3(hn::ShiftRight<32>(even_p1), even1, k0);
      odd0 = hn::Xor3(hn::ShiftRight<32>(odd_p1), odd1, k0);
      even2 = hn::Xor3(hn::ShiftRight<32>(even_p0), even3, k1);
      odd2 = hn::Xor3(hn::ShiftRight<32>(odd_p0), odd3, k1);
      even1 = even_p1, odd1 = odd_p1, even3 = even_p0, odd3 = odd_p0;
      key0 += Philox::kKeyStep0, key1 += Philox::kKeyStep1;
    }
    const auto emit_word = [&](size_t word, W even, W odd) HWY_ATTR {
      const auto both = hn::OddEven(low(hn::ShiftLeft<32>(odd)), low(even));
      emit(32 * word + lane, hn::And(both, hn::Set(du, 0xFFFFu)));
      emit(32 * word + 16 + lane, hn::ShiftRight<16>(both));
    };
    emit_word(0, even0, odd0);
    emit_word(1, even1, odd1);
    emit_word(2, even2, odd2);
    emit_word(3, even3, odd3);
  }
#endif
}

/// What dropout with probability p multiplies by: 0 or 1 / (1 - p).
struct DropoutRule {
  uint32_t threshold = 0;
  float scale = 1;
  explicit DropoutRule(float p) : threshold(uint32_t(std::lround(65536.0 * double(p)))), scale(1.0f / (1.0f - p)) {}
};

/// factors[i] = bits16(first + i) >= threshold ? scale : 0, for i < n.
inline void dropout_factors(const Philox& random, const DropoutRule& rule, uint64_t first, size_t n, float* factors) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  // All bits are below 2^16, so the signed comparison, which every target has, is right.
  const auto threshold = hn::Set(di, int32_t(rule.threshold));
  const auto scale = hn::Set(d, rule.scale);
  const auto block_to = [&](uint64_t block, float* out) HWY_ATTR {
    philox_block(random, block, [&](size_t i, hn::Vec<decltype(du)> bits) HWY_ATTR {
      const auto dropped = hn::RebindMask(d, hn::Lt(hn::BitCast(di, bits), threshold));
      hn::StoreU(hn::IfThenZeroElse(dropped, scale), d, out + i);
    });
  };
  HWY_ALIGN float edge[128];
  for (size_t done = 0; done < n;) {
    const size_t skip = size_t((first + done) % 128), count = std::min(n - done, 128 - skip);
    const bool whole = count == 128;
    block_to((first + done) / 128, whole ? factors + done : edge);
    if (!whole) std::memcpy(factors + done, edge + skip, count * sizeof(float));
    done += count;
  }
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
