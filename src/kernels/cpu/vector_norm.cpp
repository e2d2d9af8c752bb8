#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_norm.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_philox-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

template <class T>
T* row_of(const Tensor& t, int64_t n) {
  return t.data<T>() + n * t.stride(0);
}

/// s = x + r * factors; the sum of s.
template <class T>
HWY_INLINE float add_residual(const T* x, const T* r, const float* factors, float* s, size_t D) {
  const F32 d;
  return fold_sum(D, [&](VF total, size_t i, auto extent) HWY_ATTR {
    VF v = load(d, r + i, extent);
    if (factors) v = hn::Mul(v, load(d, factors + i, extent));
    v = hn::Add(load(d, x + i, extent), v);
    store(v, d, s + i, extent);
    return hn::Add(total, v);
  });
}
/// s = x; the sum of s.
template <class T>
HWY_INLINE float widen(const T* x, float* s, size_t D) {
  const F32 d;
  return fold_sum(D, [&](VF total, size_t i, auto extent) HWY_ATTR {
    const VF v = load(d, x + i, extent);
    if constexpr (!std::is_same_v<T, float>) store(v, d, s + i, extent);
    return hn::Add(total, v);
  });
}

HWY_INLINE float squares_about(float mean, const float* s, size_t D) {
  const F32 d;
  const VF center = hn::Set(d, mean), filler = hn::Zero(d);
  return fold_sum(D, [&](VF total, size_t i, auto extent) HWY_ATTR {
    VF v = hn::Sub(load(d, s + i, extent), center);
    if constexpr (std::is_same_v<decltype(extent), Part>) v = hn::IfThenElse(hn::FirstN(d, extent.count), v, filler);
    return hn::MulAdd(v, v, total);
  });
}

/// y = (s - mean) rstd gain + bias
template <class T>
HWY_INLINE void normalise(const float* s, float mean, float rstd, const float* gain, const float* bias, T* y, size_t D,
                          bool streamed) {
  const F32 d;
  const VF scale = hn::Set(d, rstd), center = hn::Set(d, mean);
  if (bias)
    for_lanes(D, streamed, [&](size_t i, auto extent) HWY_ATTR {
      const VF xhat = hn::Mul(hn::Sub(load(d, s + i, extent), center), scale);
      store(hn::MulAdd(xhat, load(d, gain + i, extent), load(d, bias + i, extent)), d, y + i, extent);
    });
  else
    for_lanes(D, streamed, [&](size_t i, auto extent) HWY_ATTR {
      const VF xhat = hn::Mul(hn::Sub(load(d, s + i, extent), center), scale);
      store(hn::Mul(xhat, load(d, gain + i, extent)), d, y + i, extent);
    });
}

template <class T>
void norm_forward_rows(const NormForward& op, int64_t begin, int64_t end) {
  const int64_t D = op.x.size(1);
  const auto columns = size_t(D);
  const DropoutRule rule(op.p);
  const Tensor scratch = Tensor::empty({2, D});
  float *buffer = scratch.data<float>(), *factors = op.residual && op.p > 0 ? buffer + D : nullptr;
  const float *gain = op.gain.data<float>(), *bias = op.bias ? op.bias.data<float>() : nullptr;
  const bool layer = op.kind == NormKind::layer, streamed = streams_rows(op.y);
  const bool streamed_sum = op.residual && streams_rows(op.sum);
  for (int64_t n = begin; n < end; ++n) {
    const T* x = row_of<T>(op.x, n);
    float total = 0;
    const float* s = buffer;
    if (op.residual) {
      if (factors) dropout_factors(op.random, rule, uint64_t(n * D), columns, factors);
      T* sum = row_of<T>(op.sum, n);
      float* to = buffer;
      if constexpr (std::is_same_v<T, float>)
        if (!streamed_sum) to = sum;
      total = add_residual(x, row_of<T>(op.residual, n), factors, to, columns);
      if (to == buffer) copy_row(buffer, columns, sum, false, streamed_sum);
      s = to;
    } else {
      total = widen(x, buffer, columns);
      if constexpr (std::is_same_v<T, float>) s = x;
    }
    const float mean = layer ? total / float(D) : 0;
    const float variance = squares_about(mean, s, columns) / float(D);
    const float rstd = 1 / std::sqrt(variance + float(op.eps));
    normalise(s, mean, rstd, gain, bias, row_of<T>(op.y, n), columns, streamed);
    if (layer) op.mean.data<float>()[n] = mean;
    op.rstd.data<float>()[n] = rstd;
  }
  if (streamed) hwy::FlushStream();
}

void norm_forward(const NormForward& op, int64_t begin, int64_t end) {
  with_type(op.x.dtype(), [&](auto type) HWY_ATTR { norm_forward_rows<decltype(type)>(op, begin, end); });
}

/// What one row of the backward pass needs twice: xhat and g = dy gain, with their two means.
struct RowMeans {
  float g = 0, g_xhat = 0;
};
/// Also adds dy xhat to dgain and dy to dbias.
template <class T>
HWY_INLINE RowMeans backward_means(const T* s, const T* dy, const float* gain, float mean, float rstd, float* dgain,
                                   float* dbias, size_t D) {
  const F32 d;
  const VF scale = hn::Set(d, rstd), center = hn::Set(d, mean);
  VF sum_g = hn::Zero(d), sum_gx = hn::Zero(d), sum_g2 = hn::Zero(d), sum_gx2 = hn::Zero(d);
  const auto step = [&](size_t i, auto extent, VF& g_total, VF& gx_total) HWY_ATTR {
    const VF xhat = hn::Mul(hn::Sub(load(d, s + i, extent), center), scale), v = load(d, dy + i, extent);
    const VF g = hn::Mul(v, load(d, gain + i, extent));
    store(hn::MulAdd(v, xhat, load(d, dgain + i, extent)), d, dgain + i, extent);
    store(hn::Add(v, load(d, dbias + i, extent)), d, dbias + i, extent);
    g_total = hn::Add(g_total, g);
    gx_total = hn::MulAdd(g, xhat, gx_total);
  };
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= D; i += 2 * lanes) {
    step(i, Whole{}, sum_g, sum_gx);
    step(i + lanes, Whole{}, sum_g2, sum_gx2);
  }
  for (; i + lanes <= D; i += lanes) step(i, Whole{}, sum_g, sum_gx);
  if (i < D) step(i, Part{D - i}, sum_g2, sum_gx2);
  return {hn::GetLane(hn::SumOfLanes(d, hn::Add(sum_g, sum_g2))) / float(D),
          hn::GetLane(hn::SumOfLanes(d, hn::Add(sum_gx, sum_gx2))) / float(D)};
}

template <class T>
void norm_backward_rows(const NormBackward& op, int64_t begin, int64_t end, float* dgain, float* dbias) {
  const F32 d;
  const int64_t D = op.sum.size(1);
  const auto columns = size_t(D);
  const DropoutRule rule(op.p);
  const Tensor scratch = Tensor::empty({D});
  float* factors = op.dresidual && op.p > 0 ? scratch.data<float>() : nullptr;
  const float* gain = op.gain.data<float>();
  const bool layer = op.kind == NormKind::layer;
  const bool streamed = (!op.dx || (streams_rows(op.dx) && !op.accumulate_dx)) &&
                        (!op.dresidual || (streams_rows(op.dresidual) && !op.accumulate_dresidual));
  for (int64_t n = begin; n < end; ++n) {
    const T *s = row_of<T>(op.sum, n), *dy = row_of<T>(op.dy, n);
    const float rstd = op.rstd.data<float>()[n], mean = layer ? op.mean.data<float>()[n] : 0;
    const RowMeans means = backward_means(s, dy, gain, mean, rstd, dgain, dbias, columns);
    if (!op.dx && !op.dresidual) continue;
    if (factors) dropout_factors(op.random, rule, uint64_t(n * D), columns, factors);
    const T* dsum = op.dsum ? row_of<T>(op.dsum, n) : nullptr;
    T* dx = op.dx ? row_of<T>(op.dx, n) : nullptr;
    T* dresidual = op.dresidual ? row_of<T>(op.dresidual, n) : nullptr;
    // ds = dsum + rstd (g - mean(g) - xhat mean(g xhat)), xhat written out
    const VF slope = hn::Set(d, rstd * means.g_xhat), scale = hn::Set(d, rstd);
    const VF center = hn::Set(d, mean), g_mean = hn::Set(d, layer ? means.g : 0);
    for_lanes(columns, streamed, [&](size_t i, auto extent) HWY_ATTR {
      const VF g = hn::MulSub(load(d, dy + i, extent), load(d, gain + i, extent), g_mean);
      VF ds = hn::Mul(scale, hn::NegMulAdd(hn::Sub(load(d, s + i, extent), center), slope, g));
      if (dsum) ds = hn::Add(ds, load(d, dsum + i, extent));
      if (dx) store(op.accumulate_dx ? hn::Add(ds, load(d, dx + i, extent)) : ds, d, dx + i, extent);
      if (!dresidual) return;
      if (factors) ds = hn::Mul(ds, load(d, factors + i, extent));
      if (op.accumulate_dresidual) ds = hn::Add(ds, load(d, dresidual + i, extent));
      store(ds, d, dresidual + i, extent);
    });
  }
  if (streamed) hwy::FlushStream();
}

void norm_backward(const NormBackward& op, int64_t begin, int64_t end, float* dgain, float* dbias) {
  with_type(op.sum.dtype(),
            [&](auto type) HWY_ATTR { norm_backward_rows<decltype(type)>(op, begin, end, dgain, dbias); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(norm_forward);
HWY_EXPORT(norm_backward);

/// y[d] (+)= sum over parts of partial[part][d], in the order of the parts; the first part is overwritten.
void add_parts(float* partial, int64_t parts, int64_t stride, const Tensor& y, bool accumulate) {
  const int64_t D = y.numel();
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t d = 0; d < D; ++d) partial[d] += partial[part * stride + d];
  float* to = y.data<float>();
  for (int64_t d = 0; d < D; ++d) to[d] = accumulate ? to[d] + partial[d] : partial[d];
}

}  // namespace

bool supports(const NormForward& op) {
  return have_vector_dtype(op.x) && all_are(op.x.dtype(), op.residual, op.sum, op.y) &&
         have_unit_rows(op.x, op.residual, op.sum, op.y) && all_are(DType::f32, op.gain, op.bias, op.mean, op.rstd) &&
         op.gain.is_contiguous() && (!op.bias || op.bias.is_contiguous());
}
bool supports(const NormBackward& op) {
  return have_vector_dtype(op.sum) && all_are(op.sum.dtype(), op.dy, op.dsum, op.dx, op.dresidual) &&
         have_unit_rows(op.sum, op.dy, op.dsum, op.dx, op.dresidual) &&
         all_are(DType::f32, op.gain, op.mean, op.rstd, op.dgain, op.dbias) && op.gain.is_contiguous() &&
         (!op.dgain || op.dgain.is_contiguous()) && (!op.dbias || op.dbias.is_contiguous());
}

void run(const NormForward& op) {
  parallel_for(op.x.size(0), row_grain(op.x.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(norm_forward)(op, b, e);
  });
}

/// The sums over rows are gathered in parts whose number depends on the shape alone, then added in order.
void run(const NormBackward& op) {
  const int64_t N = op.sum.size(0), D = op.sum.size(1);
  const int64_t rows = std::max<int64_t>({1, row_grain(D), (N + 31) / 32}), parts = (N + rows - 1) / rows;
  const Tensor partial = Tensor::zeros({std::max<int64_t>(1, parts), 2, D});
  float* sums = partial.data<float>();
  parallel_for(parts, 1, [&](int64_t b, int64_t e) {
    for (int64_t part = b; part < e; ++part) {
      float* dgain = sums + part * 2 * D;
      HWY_DYNAMIC_DISPATCH(norm_backward)(op, part * rows, std::min(N, (part + 1) * rows), dgain, dgain + D);
    }
  });
  if (op.dgain) add_parts(sums, parts, 2 * D, op.dgain, op.accumulate_dgain);
  if (op.dbias) add_parts(sums + D, parts, 2 * D, op.dbias, op.accumulate_dbias);
}

}  // namespace rapt::kernels::vector
#endif
