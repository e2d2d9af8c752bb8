// The parts of streaming attention that every unit shares, on vectors of any width.
#include <kernels/cpu/attention_unit.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/random.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_common.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/attention_rows-inl.hpp>
#include <kernels/cpu/vector_math-inl.hpp>
#include <kernels/cpu/vector_philox-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::cpu::attention::HWY_NAMESPACE {
namespace vec = rapt::kernels::vector::HWY_NAMESPACE;

const Lanes kD;

void add_bias(float* s, int64_t stride, int rows, int columns, float slope, float distance, float row_step,
              float column_step) {
  const int n = int(hn::Lanes(kD));
  for (int r = 0; r < rows; ++r, s += stride)
    for (int c = 0; c < columns; c += n) {
      const Vector column = hn::Iota(kD, float(c));
      const Vector d = hn::MulAdd(column, hn::Set(kD, column_step), hn::Set(kD, distance + row_step * float(r)));
      hn::Store(hn::NegMulAdd(hn::Abs(d), hn::Set(kD, slope), hn::Load(kD, s + c)), kD, s + c);
    }
}

HWY_INLINE float total(const float* sum) {
  const int n = int(hn::Lanes(kD));
  Vector all = hn::Zero(kD);
  for (int i = 0; i < kLanes; i += n) all = hn::Add(all, hn::Load(kD, sum + i));
  return hn::GetLane(hn::SumOfLanes(kD, all));
}

void finish(const float* maximum, const float* sum, int rows, float keep_scale, float* lse, float* reciprocal) {
  const int n = int(hn::Lanes(kD));
  HWY_ALIGN float totals[kLanes];
  const Vector ln2 = hn::Set(kD, 0.693147181f), lowest = hn::Set(kD, -std::numeric_limits<float>::infinity());
  for (int r = 0; r < rows; r += n) {
    const int count = std::min(n, rows - r);
    for (int i = 0; i < n; ++i) totals[i] = i < count ? total(sum + (r + i) * kLanes) : 0.0f;
    const Vector t = hn::Load(kD, totals);
    const auto empty = hn::Eq(t, hn::Zero(kD));
    hn::Store(hn::IfThenZeroElse(empty, hn::Div(hn::Set(kD, keep_scale), t)), kD, reciprocal + r);
    const Vector l = hn::MulAdd(hn::LoadU(kD, maximum + r), ln2, vec::log(kD, t));
    hn::Store(hn::IfThenElse(empty, lowest, l), kD, totals);
    std::copy(totals, totals + count, lse + r);
  }
}

template <class T>
void row_dots(const Rows& a, const Rows& b, float* delta) {
  const int n = int(hn::Lanes(kD));
  for (int r = 0; r < a.rows; ++r) {
    const T* x = static_cast<const T*>(a.data) + r * a.stride;
    const T* y = static_cast<const T*>(b.data) + r * b.stride;
    Vector sum = hn::Zero(kD);
    int c = 0;
    for (; c + n <= a.columns; c += n) sum = hn::MulAdd(load_row(kD, x + c), load_row(kD, y + c), sum);
    float rest = 0;
    for (; c < a.columns; ++c) rest += float(x[c]) * float(y[c]);
    delta[r] = hn::GetLane(hn::SumOfLanes(kD, sum)) + rest;
  }
}

/// q . x for four rows x at a time.
template <class T, int kRows>
HWY_INLINE void dot_some(const float* q, const T* x, int64_t stride, int columns, float* s) {
  const int n = int(hn::Lanes(kD));
  Vector sum[kRows];
  for (int j = 0; j < kRows; ++j) sum[j] = hn::Zero(kD);
  int c = 0;
  for (; c + n <= columns; c += n) {
    const Vector y = hn::Load(kD, q + c);
    for (int j = 0; j < kRows; ++j) sum[j] = hn::MulAdd(y, load_row(kD, x + j * stride + c), sum[j]);
  }
  for (int j = 0; j < kRows; ++j) {
    s[j] = hn::GetLane(hn::SumOfLanes(kD, sum[j]));
    for (int i = c; i < columns; ++i) s[j] += q[i] * float(x[j * stride + i]);
  }
}

template <class T>
void dot_rows(const float* q, int64_t q_stride, int rows, const Rows& k, float* s, int64_t s_stride) {
  const T* x = static_cast<const T*>(k.data);
  for (int r = 0; r < rows; ++r, q += q_stride, s += s_stride) {
    int j = 0;
    for (; j + 4 <= k.rows; j += 4) dot_some<T, 4>(q, x + j * k.stride, k.stride, k.columns, s + j);
    for (; j < k.rows; ++j) dot_some<T, 1>(q, x + j * k.stride, k.stride, k.columns, s + j);
    std::fill(s + j, s + round_up(j, kTile), 0.0f);
  }
}

/// kVectors columns of o += p v.
template <class T, int kVectors>
HWY_INLINE void add_columns(const float* p, const Rows& v, int c, float* o, bool accumulate) {
  const int n = int(hn::Lanes(kD));
  Vector sum[kVectors];
  for (int i = 0; i < kVectors; ++i) sum[i] = accumulate ? hn::Load(kD, o + c + i * n) : hn::Zero(kD);
  const T* x = static_cast<const T*>(v.data) + c;
  for (int j = 0; j < v.rows; ++j, x += v.stride)
    for (int i = 0; i < kVectors; ++i) sum[i] = hn::MulAdd(hn::Set(kD, p[j]), load_row(kD, x + i * n), sum[i]);
  for (int i = 0; i < kVectors; ++i) hn::Store(sum[i], kD, o + c + i * n);
}

template <class T>
void add_rows(const float* p, int64_t p_stride, int rows, const Rows& v, float* o, int64_t o_stride, bool accumulate) {
  const int n = int(hn::Lanes(kD));
  for (int r = 0; r < rows; ++r, p += p_stride, o += o_stride) {
    int c = 0;
    for (; c + 4 * n <= v.columns; c += 4 * n) add_columns<T, 4>(p, v, c, o, accumulate);
    for (; c + n <= v.columns; c += n) add_columns<T, 1>(p, v, c, o, accumulate);
    for (; c < v.columns; ++c) {
      float sum = accumulate ? o[c] : 0.0f;
      for (int j = 0; j < v.rows; ++j) sum += p[j] * float(static_cast<const T*>(v.data)[j * v.stride + c]);
      o[c] = sum;
    }
  }
}

void weights(const float* s, int visible, int columns, float factor, float lse2, float* w) {
  const int n = int(hn::Lanes(kD));
  int c = 0;
  const auto at = [&](int i) HWY_ATTR {
    return exp2(hn::MulSub(hn::Load(kD, s + i), hn::Set(kD, factor), hn::Set(kD, lse2)));
  };
  for (; c + n <= visible; c += n) hn::StoreU(at(c), kD, w + c);
  if (c < visible) {
    HWY_ALIGN float tail[kLanes];
    hn::Store(at(c), kD, tail);
    std::copy(tail, tail + (visible - c), w + c);
    c = visible;
  }
  std::fill(w + c, w + columns, 0.0f);
}

void dropout(const Philox& random, uint64_t first_block, int blocks, uint32_t threshold, uint8_t* keep) {
  const hn::ScalableTag<uint32_t> du;
  const hn::RebindToSigned<decltype(du)> di;
  std::fill(keep, keep + 16 * blocks, uint8_t(0));
  for (int block = 0; block < blocks; ++block, keep += 16)
    vec::philox_block(random, first_block + uint64_t(block), [&](size_t i, hn::Vec<decltype(du)> bits) HWY_ATTR {
      // All bits are below 2^16, so the signed comparison, which every target has, is right.
      const auto kept = hn::Not(hn::Lt(hn::BitCast(di, bits), hn::Set(di, int32_t(threshold))));
      uint8_t lanes[8] = {};
      const size_t bytes = hn::StoreMaskBits(di, kept, lanes);
      for (size_t k = 0; k < bytes; ++k) keep[i / 8 + k] = uint8_t(keep[i / 8 + k] | lanes[k] << i % 8);
    });
}

template <class T>
constexpr Common kCommon{add_bias, finish, row_dots<T>, dot_rows<T>, add_rows<T>, weights, dropout};

const Common* common_for(bool bf16_rows) { return bf16_rows ? &kCommon<BFloat16> : &kCommon<float>; }

}  // namespace rapt::kernels::cpu::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::cpu::attention {

HWY_EXPORT(common_for);
const Common& common(bool bf16_rows) { return *HWY_DYNAMIC_DISPATCH(common_for)(bf16_rows); }

}  // namespace rapt::kernels::cpu::attention
#endif
