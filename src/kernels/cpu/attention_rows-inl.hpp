// Rows of f32 or bf16 read and written as lanes of f32, for any Highway target.
#include <rapt/tensor/dtype.hpp>

#include <hwy/highway.h>

#if defined(RAPT_KERNELS_CPU_ATTENTION_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_KERNELS_CPU_ATTENTION_ROWS_INL
#undef RAPT_KERNELS_CPU_ATTENTION_ROWS_INL
#else
#define RAPT_KERNELS_CPU_ATTENTION_ROWS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::cpu::attention::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// At most 16 lanes, so that they divide what the drivers pad to.
using Lanes = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lanes>;

template <class D>
HWY_INLINE hn::Vec<D> load_row(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> load_row(D d, const BFloat16* from) {
  const hn::Rebind<uint16_t, D> dh;
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(from)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

HWY_INLINE void store_row(Vector x, float* to) { hn::StoreU(x, Lanes(), to); }
HWY_INLINE void store_row(Vector x, BFloat16* to) {
  const hn::RebindToUnsigned<Lanes> du;
  const hn::RebindToSigned<Lanes> di;
  const hn::Rebind<uint16_t, Lanes> dh;
  const auto bits = hn::BitCast(du, x);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFF)), even));
  const auto nan = hn::RebindMask(du, hn::Ne(x, x));
  const auto result = hn::IfThenElse(nan, hn::Set(du, 0x7FC0), rounded);
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, result)), dh, reinterpret_cast<uint16_t*>(to));
}

/// 2^t for t < 128; 0 below the normal range.
HWY_INLINE Vector exp2(Vector t) {
  const Lanes d;
  const hn::RebindToSigned<Lanes> di;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the mantissa.
  const Vector magic = hn::Set(d, 12582912.0f), shifted = hn::Add(t, magic);
  const Vector f = hn::Sub(t, hn::Sub(shifted, magic));
  Vector y = hn::Set(d, 0.00015345812f);
  y = hn::MulAdd(y, f, hn::Set(d, 0.00133999312f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.00961848896f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.05550328777f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.24022646891f));
  y = hn::MulAdd(y, f, hn::Set(d, 0.69314720574f));
  y = hn::MulAdd(y, f, hn::Set(d, 1.0f));
  const auto scaled = hn::Add(hn::BitCast(di, y), hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(t, hn::Set(d, -126.0f)), hn::BitCast(d, scaled));
}

/// The mask whose lane l is bit l of `bits`, from a bit position that is a multiple of the lanes.
HWY_INLINE hn::Mask<Lanes> load_bits(const uint8_t* bits, int position) {
  uint8_t window[8] = {};
  const int n = int(hn::Lanes(Lanes()));
  for (int i = 0; i < (n + 7) / 8; ++i) window[i] = uint8_t(bits[position / 8 + i] >> position % 8);
  return hn::LoadMaskBits(Lanes(), window);
}

}  // namespace rapt::kernels::cpu::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
