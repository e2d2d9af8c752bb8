#pragma once
// The epilogue of a tile of C, over a vector type, for the files of one instruction set: everything here has internal
// linkage. A vector type V gives kLanes, set(x), load(p, n), store(p, n, v), load_bf16, store_bf16 (the first n lanes;
// loads fill the rest with 0), + - * /, fma(a, b, c), max(a, b) and min(a, b) that return b when either is NaN,
// abs, floor, power_of_two(v) for whole v, and less_than_zero(x, yes, no).
#include <kernels/cpu/gemm_micro.hpp>

namespace rapt::kernels::cpu {
namespace {

/// e^x to 1e-7: x = n ln 2 + r, a fitted polynomial for e^r on |r| <= ln 2 / 2, and n into the exponent.
template <class V>
V exp_of(V x) {
  x = V::max(V::set(-87.0f), V::min(V::set(88.0f), x));
  const V n = V::floor(V::fma(x, V::set(1.44269504f), V::set(0.5f)));
  V r = V::fma(n, V::set(-0.693359375f), x);
  r = V::fma(n, V::set(2.12194440e-4f), r);
  V p = V::set(0.00139012979f);
  p = V::fma(p, r, V::set(0.00836320035f));
  p = V::fma(p, r, V::set(0.0416668542f));
  p = V::fma(p, r, V::set(0.166665763f));
  p = V::fma(p, r, V::set(0.5f));
  p = V::fma(V::fma(p, r, V::set(1.0f)), r, V::set(1.0f));
  return p * V::power_of_two(n);
}

template <class V>
V sigmoid_of(V x) {
  return V::set(1.0f) / (V::set(1.0f) + exp_of(V::set(0.0f) - x));
}

/// Near 0 an odd polynomial keeps the relative precision that 1 - 2 / (e^2x + 1) loses there.
template <class V>
V tanh_of(V x) {
  const V z = x * x;
  V p = V::set(-0.00609692931f);
  p = V::fma(p, z, V::set(0.0209973473f));
  p = V::fma(p, z, V::set(-0.0538509525f));
  p = V::fma(p, z, V::set(0.133327708f));
  p = V::fma(p, z, V::set(-0.333333284f));
  const V near_zero = V::fma(p * z, x, x);
  const V e = exp_of(V::abs(x) * V::set(2.0f));
  const V size = V::set(1.0f) - V::set(2.0f) / (e + V::set(1.0f));
  const V far = V::less_than_zero(x, V::set(0.0f) - size, size);
  return V::less_than_zero(V::abs(x) - V::set(0.625f), near_zero, far);
}

/// x Phi(x) with Phi from erfc(z) = e^(-z^2) t q(t), t = 1 / (1 + z / 2), so that the left tail keeps its precision.
template <class V>
V gelu_of(V x) {
  const V z = V::abs(x) * V::set(0.707106781f);
  const V t = V::set(1.0f) / V::fma(z, V::set(0.5f), V::set(1.0f));
  V q = V::set(-0.0589934811f);
  q = V::fma(q, t, V::set(0.284205347f));
  q = V::fma(q, t, V::set(-0.48643136f));
  q = V::fma(q, t, V::set(0.277183801f));
  q = V::fma(q, t, V::set(-0.0260139052f));
  q = V::fma(q, t, V::set(0.202426463f));
  q = V::fma(q, t, V::set(0.243170023f));
  q = V::fma(q, t, V::set(0.282366127f));
  q = V::fma(q, t, V::set(0.282086939f));
  // In the exponent the rounding of x^2 would count as an error of e^(-x^2 / 2); `lost` takes it back.
  const V square = x * x, lost = V::fma(x, x, V::set(0.0f) - square);
  const V decay = V::fma(lost, V::set(-0.5f), V::set(1.0f)) * exp_of(V::set(-0.5f) * square);
  const V tail = V::set(0.5f) * t * q * decay;
  return x * V::less_than_zero(x, tail, V::set(1.0f) - tail);
}

template <class V>
V gelu_tanh_of(V x) {
  const V inner = x * V::fma(x * x, V::set(0.0356774081f), V::set(0.797884561f));
  return x * sigmoid_of(inner + inner);
}

template <class V, Curve kCurve>
V curve_of(V x) {
  if constexpr (kCurve == Curve::relu) return V::max(V::set(0.0f), x);
  if constexpr (kCurve == Curve::gelu) return gelu_of(x);
  if constexpr (kCurve == Curve::gelu_tanh) return gelu_tanh_of(x);
  if constexpr (kCurve == Curve::silu) return x * sigmoid_of(x);
  if constexpr (kCurve == Curve::tanh) return tanh_of(x);
  if constexpr (kCurve == Curve::sigmoid) return sigmoid_of(x);
  return x;
}

template <class V, bool kBf16>
V load_element(const void* base, int64_t at, int64_t n) {
  if constexpr (kBf16)
    return V::load_bf16(static_cast<const uint16_t*>(base) + at, n);
  else
    return V::load(static_cast<const float*>(base) + at, n);
}
template <class V, bool kBf16>
void store_element(void* base, int64_t at, int64_t n, V v) {
  if constexpr (kBf16)
    V::store_bf16(static_cast<uint16_t*>(base) + at, n, v);
  else
    V::store(static_cast<float*>(base) + at, n, v);
}

/// The common case, kSimple, has nothing but a bias.
template <class V, bool kBf16, Curve kCurve, bool kSimple>
void finish_vector(const FinishJob& job, int64_t i, int64_t j, int64_t n) {
  V z = V::load(static_cast<const float*>(job.sum) + i * job.sum_stride + j, n);
  if (!kSimple && job.add_c) z = z + load_element<V, kBf16>(job.c, i * job.c_stride + j, n);
  if (job.bias) z = z + V::load(job.bias + j, n);
  if (!kSimple && job.pre) store_element<V, kBf16>(job.pre, i * job.pre_stride + j, n, z);
  z = curve_of<V, kCurve>(z);
  if (!kSimple && job.residual) z = z + load_element<V, kBf16>(job.residual, i * job.residual_stride + j, n);
  store_element<V, kBf16>(job.c, i * job.c_stride + j, n, z);
}

template <class V, bool kBf16, Curve kCurve, bool kSimple>
void finish_rows(const FinishJob& job) {
  const int64_t whole = job.columns / V::kLanes * V::kLanes;
  for (int64_t i = 0; i < job.rows; ++i) {
    for (int64_t j = 0; j < whole; j += V::kLanes) finish_vector<V, kBf16, kCurve, kSimple>(job, i, j, V::kLanes);
    if (whole < job.columns) finish_vector<V, kBf16, kCurve, kSimple>(job, i, whole, job.columns - whole);
  }
}

template <class V, bool kBf16, Curve kCurve>
void finish_parts(const FinishJob& job) {
  const bool simple = !job.add_c && !job.pre && !job.residual;
  simple ? finish_rows<V, kBf16, kCurve, true>(job) : finish_rows<V, kBf16, kCurve, false>(job);
}

template <class V, bool kBf16>
void finish_curve(const FinishJob& job) {
  switch (job.curve) {
    case Curve::none: return finish_parts<V, kBf16, Curve::none>(job);
    case Curve::relu: return finish_parts<V, kBf16, Curve::relu>(job);
    case Curve::gelu: return finish_parts<V, kBf16, Curve::gelu>(job);
    case Curve::gelu_tanh: return finish_parts<V, kBf16, Curve::gelu_tanh>(job);
    case Curve::silu: return finish_parts<V, kBf16, Curve::silu>(job);
    case Curve::tanh: return finish_parts<V, kBf16, Curve::tanh>(job);
    case Curve::sigmoid: return finish_parts<V, kBf16, Curve::sigmoid>(job);
  }
}

template <class V>
void finish_floats(const FinishJob& job) {
  job.c_type == Element::bf16 ? finish_curve<V, true>(job) : finish_curve<V, false>(job);
}

}  // namespace
}  // namespace rapt::kernels::cpu
