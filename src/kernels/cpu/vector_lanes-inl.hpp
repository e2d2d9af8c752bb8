// Loads, stores and loops over rows of f32 or bf16 elements, computing in f32, for any Highway target.
#include <rapt/tensor/dtype.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

#if defined(RAPT_KERNELS_CPU_VECTOR_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_KERNELS_CPU_VECTOR_LANES_INL
#undef RAPT_KERNELS_CPU_VECTOR_LANES_INL
#else
#define RAPT_KERNELS_CPU_VECTOR_LANES_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;

/// How much of a vector a row fills: all of it, or the first `count` lanes at the end of the row.
struct Whole {};
struct Part {
  size_t count;
};
/// All of it, and results are written past the caches, to aligned addresses.
struct Streamed : Whole {};

HWY_INLINE VF load(F32 d, const float* p, Whole = {}, float = 0) { return hn::LoadU(d, p); }
HWY_INLINE VF load(F32 d, const BFloat16* p, Whole = {}, float = 0) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
/// Lanes beyond the row hold `fill`.
template <class T>
HWY_INLINE VF load(F32 d, const T* p, Part part, float fill = 0) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  for (T& element : buffer) element = T(fill);
  std::memcpy(buffer, p, part.count * sizeof(T));
  return load(d, buffer);
}

HWY_INLINE void store(VF v, F32 d, float* p, Whole = {}) { hn::StoreU(v, d, p); }
HWY_INLINE void store(VF v, F32 d, float* p, Streamed) { hn::Stream(v, d, p); }
/// Rounds to nearest even; NaN stays NaN.
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, F32>> round_to_bf16(VF v) {
  const hn::Rebind<uint16_t, F32> d16;
  const hn::RebindToUnsigned<F32> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF)));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto result = hn::IfThenElse(nan, hn::Or(bits, hn::Set(d32, 0x400000)), rounded);
#if HWY_TARGET == HWY_SCALAR
  return hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<F32>(), hn::ShiftRight<16>(result)));
#else
  return hn::TruncateTo(d16, hn::ShiftRight<16>(result));
#endif
}
HWY_INLINE void store(VF v, F32, BFloat16* p, Whole = {}) {
  hn::StoreU(round_to_bf16(v), hn::Rebind<uint16_t, F32>(), reinterpret_cast<uint16_t*>(p));
}
HWY_INLINE void store(VF v, F32, BFloat16* p, Streamed) {
  hn::Stream(round_to_bf16(v), hn::Rebind<uint16_t, F32>(), reinterpret_cast<uint16_t*>(p));
}
template <class T>
HWY_INLINE void store(VF v, F32 d, T* p, Part part) {
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  store(v, d, buffer);
  std::memcpy(p, buffer, part.count * sizeof(T));
}

/// Calls f(i, extent) for i = 0, lanes, 2 lanes ... < n.
template <class Full = Whole, class F>
HWY_INLINE void for_lanes(size_t n, F&& f) {
  const size_t lanes = hn::Lanes(F32());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) f(i, Full{});
  if (i < n) f(i, Part{n - i});
}
/// The same, writing past the caches when told so.
template <class F>
HWY_INLINE void for_lanes(size_t n, bool streamed, F&& f) {
  if (streamed)
    for_lanes<Streamed>(n, f);
  else
    for_lanes<Whole>(n, f);
}

/// value = f(value, i, extent) over a row, in four independent chains so that latency does not bound it, then joined.
template <class F, class Join>
HWY_INLINE VF fold(size_t n, VF start, F&& f, Join&& join) {
  const size_t lanes = hn::Lanes(F32());
  VF a = start, b = start, c = start, e = start;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = f(a, i, Whole{});
    b = f(b, i + lanes, Whole{});
    c = f(c, i + 2 * lanes, Whole{});
    e = f(e, i + 3 * lanes, Whole{});
  }
  for (; i + lanes <= n; i += lanes) a = f(a, i, Whole{});
  if (i < n) b = f(b, i, Part{n - i});
  return join(join(a, b), join(c, e));
}
/// The sum of what f adds.
template <class F>
HWY_INLINE float fold_sum(size_t n, F&& f) {
  const F32 d;
  const auto add = [](VF x, VF y) HWY_ATTR { return hn::Add(x, y); };
  return hn::GetLane(hn::SumOfLanes(d, fold(n, hn::Zero(d), f, add)));
}

/// to[i] (+)= from[i]
template <class To, class From>
HWY_INLINE void copy_row(const From* from, size_t n, To* to, bool accumulate = false, bool streamed = false) {
  const F32 d;
  if (accumulate)
    for_lanes(n, [&](size_t i, auto extent) HWY_ATTR {
      store(hn::Add(load(d, to + i, extent), load(d, from + i, extent)), d, to + i, extent);
    });
  else
    for_lanes(n, streamed,
              [&](size_t i, auto extent) HWY_ATTR { store(load(d, from + i, extent), d, to + i, extent); });
}

/// Calls f(T{}) with the C++ type of a dtype that the vector kernels take.
template <class F>
HWY_INLINE void with_type(DType dtype, F&& f) {
  if (dtype == DType::bf16)
    f(BFloat16{});
  else
    f(float{});
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
