// Blocks of attention in f32 on vectors of any width.
#include <kernels/cpu/attention_unit.hpp>
#include <kernels/cpu/vector_targets.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_vector.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/attention_rows-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::cpu::attention::HWY_NAMESPACE {

const Lanes kD;

// ------------------------------------------------------------------------------------------------------------- products

constexpr int kBlockRows = 4;
/// 16 sums where there are 32 registers, 8 where there are 16.
constexpr int kBlockVectors = HWY_MAX_BYTES >= 64 ? 4 : 2;

template <int R, int V>
HWY_INLINE void multiply_block(const Product& p, int row, int column) {
  const int n = int(hn::Lanes(kD));
  const float* a = static_cast<const float*>(p.a) + row * p.a_stride;
  const float* b = static_cast<const float*>(p.b) + column;
  float* c = p.c + row * p.c_stride + column;
  Vector sum[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) sum[r][v] = p.accumulate ? hn::Load(kD, c + r * p.c_stride + v * n) : hn::Zero(kD);
  for (int k = 0; k < p.k; ++k) {
    Vector y[V];
    for (int v = 0; v < V; ++v) y[v] = hn::Load(kD, b + v * n);
    for (int r = 0; r < R; ++r) {
      const Vector x = hn::Set(kD, a[r * p.a_stride]);
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, y[v], sum[r][v]);
    }
    a += p.a_step;
    b += p.b_stride;
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::Store(sum[r][v], kD, c + r * p.c_stride + v * n);
}

template <int V>
HWY_INLINE void multiply_columns(const Product& p, int column) {
  int row = 0;
  for (; row + kBlockRows <= p.m; row += kBlockRows) multiply_block<kBlockRows, V>(p, row, column);
  switch (p.m - row) {
    case 3: return multiply_block<3, V>(p, row, column);
    case 2: return multiply_block<2, V>(p, row, column);
    case 1: return multiply_block<1, V>(p, row, column);
  }
}

void multiply(const Product& p) {
  const int n = int(hn::Lanes(kD));
  int column = 0;
  for (; column + kBlockVectors * n <= p.n; column += kBlockVectors * n) multiply_columns<kBlockVectors>(p, column);
  switch ((p.n - column) / n) {
    case 3: return multiply_columns<3>(p, column);
    case 2: return multiply_columns<2>(p, column);
    case 1: return multiply_columns<1>(p, column);
  }
}

// -------------------------------------------------------------------------------------------------------------- packing

template <class T>
void pack_rows(const Rows& from, void* to, int64_t stride, int padded_rows) {
  const int n = int(hn::Lanes(kD));
  float* out = static_cast<float*>(to);
  for (int r = 0; r < from.rows; ++r, out += stride) {
    const T* row = static_cast<const T*>(from.data) + r * from.stride;
    int c = 0;
    for (; c + n <= from.columns; c += n) hn::Store(load_row(kD, row + c), kD, out + c);
    for (; c < from.columns; ++c) out[c] = float(row[c]);
    std::fill(out + c, out + stride, 0.0f);
  }
  std::fill(out, out + (padded_rows - from.rows) * stride, 0.0f);
}

/// to[c, r] = from[r, c] for four rows from `r` on.
template <class T>
HWY_INLINE void transpose_four(const T* from, int64_t from_stride, int columns, float* to, int64_t stride) {
  int c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 4> d4;
  for (; c + 4 <= columns; c += 4) {
    const auto a = load_row(d4, from + c), b = load_row(d4, from + from_stride + c);
    const auto e = load_row(d4, from + 2 * from_stride + c), f = load_row(d4, from + 3 * from_stride + c);
    const auto ae0 = hn::InterleaveLower(d4, a, e), ae1 = hn::InterleaveUpper(d4, a, e);
    const auto bf0 = hn::InterleaveLower(d4, b, f), bf1 = hn::InterleaveUpper(d4, b, f);
    hn::StoreU(hn::InterleaveLower(d4, ae0, bf0), d4, to + c * stride);
    hn::StoreU(hn::InterleaveUpper(d4, ae0, bf0), d4, to + (c + 1) * stride);
    hn::StoreU(hn::InterleaveLower(d4, ae1, bf1), d4, to + (c + 2) * stride);
    hn::StoreU(hn::InterleaveUpper(d4, ae1, bf1), d4, to + (c + 3) * stride);
  }
#endif
  for (; c < columns; ++c)
    for (int r = 0; r < 4; ++r) to[c * stride + r] = float(from[r * from_stride + c]);
}

template <class T>
void pack_b_transposed(const Rows& from, void* to, int64_t stride, int padded_columns) {
  float* out = static_cast<float*>(to);
  const T* in = static_cast<const T*>(from.data);
  int r = 0;
  for (; r + 4 <= from.rows; r += 4) transpose_four(in + r * from.stride, from.stride, from.columns, out + r, stride);
  for (; r < from.rows; ++r)
    for (int c = 0; c < from.columns; ++c) out[c * stride + r] = float(in[r * from.stride + c]);
  if (from.rows < stride)
    for (int c = 0; c < from.columns; ++c) std::fill(out + c * stride + from.rows, out + (c + 1) * stride, 0.0f);
  std::fill(out + from.columns * stride, out + padded_columns * stride, 0.0f);
}

template <class T>
void store(const float* from, int64_t stride, const float* factor, int factor_step, const Rows& to, bool accumulate) {
  const int n = int(hn::Lanes(kD));
  for (int r = 0; r < to.rows; ++r) {
    T* row = static_cast<T*>(to.data) + r * to.stride;
    const float* in = from + r * stride;
    const float f = factor[r * factor_step];
    int c = 0;
    for (; c + n <= to.columns; c += n) {
      Vector y = f == 0 ? hn::Zero(kD) : hn::Mul(hn::Load(kD, in + c), hn::Set(kD, f));
      if (accumulate) y = hn::Add(y, load_row(kD, row + c));
      store_row(y, row + c);
    }
    for (; c < to.columns; ++c) row[c] = T((f == 0 ? 0.0f : in[c] * f) + (accumulate ? float(row[c]) : 0.0f));
  }
}

// ----------------------------------------------------------------------------------------------------------- exponentials

/// Greatest of s[0 .. count), which is not empty.
HWY_INLINE float greatest(const float* s, int count) {
  const int n = int(hn::Lanes(kD));
  const Vector lowest = hn::Set(kD, -std::numeric_limits<float>::infinity());
  Vector high = lowest;
  int c = 0;
  for (; c + n <= count; c += n) high = hn::Max(high, hn::Load(kD, s + c));
  if (c < count) {
    const auto tail = hn::FirstN(kD, size_t(count - c));
    high = hn::Max(high, hn::IfThenElse(tail, hn::Load(kD, s + c), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(kD, high));
}

HWY_INLINE void scale_row(float* o, int columns, float factor) {
  const int n = int(hn::Lanes(kD));
  for (int c = 0; c < columns; c += n) hn::Store(hn::Mul(hn::Load(kD, o + c), hn::Set(kD, factor)), kD, o + c);
}

void softmax(const SoftmaxBlock& b) {
  const int n = int(hn::Lanes(kD));
  const Vector factor = hn::Set(kD, b.factor);
  for (int r = 0; r < b.rows; ++r) {
    const float* s = b.s + r * b.s_stride;
    float* p = static_cast<float*>(b.p) + r * b.p_stride;
    const int visible = b.visible[r];
    int c = 0;
    if (visible > 0) {
      const float maximum = std::max(b.maximum[r], b.factor * greatest(s, visible));
      Vector sum = hn::Load(kD, b.sum + r * kLanes);
      if (!b.first && maximum != b.maximum[r]) {
        const float shrink = std::exp2(b.maximum[r] - maximum);
        sum = hn::Mul(sum, hn::Set(kD, shrink));
        scale_row(b.o + r * b.o_stride, b.o_columns, shrink);
      }
      b.maximum[r] = maximum;
      const Vector shift = hn::Set(kD, maximum);
      for (; c < visible; c += n) {
        Vector w = exp2(hn::MulSub(hn::Load(kD, s + c), factor, shift));
        if (c + n > visible) w = hn::IfThenElseZero(hn::FirstN(kD, size_t(visible - c)), w);
        sum = hn::Add(sum, w);
        if (b.keep) w = hn::IfThenElseZero(load_bits(b.keep + r * kKeepBytes, c), w);
        hn::Store(w, kD, p + c);
      }
      hn::Store(sum, kD, b.sum + r * kLanes);
    }
    std::fill(p + c, p + std::max(c, b.columns), 0.0f);
  }
}

void gradient(const GradientBlock& b) {
  const int n = int(hn::Lanes(kD));
  const Vector factor = hn::Set(kD, b.factor), keep_scale = hn::Set(kD, b.keep_scale);
  for (int r = 0; r < b.keys; ++r) {
    const float* s = b.s + r * b.stride;
    const float* dp = b.dp + r * b.stride;
    float* p = static_cast<float*>(b.p) + r * b.p_stride;
    float* ds = static_cast<float*>(b.ds) + r * b.p_stride;
    const int first = std::clamp(r + b.diagonal, 0, b.queries);
    int c = first / n * n;
    std::fill(p, p + c, 0.0f);
    std::fill(ds, ds + c, 0.0f);
    for (; c < b.queries; c += n) {
      Vector w = exp2(hn::MulSub(hn::Load(kD, s + c), factor, hn::Load(kD, b.lse2 + c)));
      if (c < first) w = hn::IfThenZeroElse(hn::FirstN(kD, size_t(first - c)), w);
      Vector keep = keep_scale;
      if (b.keep) keep = hn::IfThenElseZero(load_bits(b.keep + r * kKeepBytes, c), keep);
      hn::Store(hn::Mul(w, keep), kD, p + c);
      const Vector dw = hn::MulSub(keep, hn::Load(kD, dp + c), hn::Load(kD, b.delta + c));
      hn::Store(hn::Mul(w, dw), kD, ds + c);
    }
    std::fill(p + c, p + std::max(c, b.padded_queries), 0.0f);
    std::fill(ds + c, ds + std::max(c, b.padded_queries), 0.0f);
  }
}

void nothing() {}

template <class T>
constexpr Unit kUnit{
    4,       1,        true,    nothing, nothing, multiply, pack_rows<T>, pack_rows<T>, pack_b_transposed<T>,
    softmax, gradient, store<T>};

const Unit* unit_for(bool bf16_rows) { return bf16_rows ? &kUnit<BFloat16> : &kUnit<float>; }

}  // namespace rapt::kernels::cpu::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::cpu::attention {

HWY_EXPORT(unit_for);
const Unit& vector_unit(bool bf16_rows) { return *HWY_DYNAMIC_DISPATCH(unit_for)(bf16_rows); }

}  // namespace rapt::kernels::cpu::attention
#endif
