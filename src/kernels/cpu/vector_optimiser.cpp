#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_optimiser.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

/// Squares are summed in f64: a square of an f32 overflows an f32 long before the gradient is useless.
double squares(const Tensor& t, int64_t begin, int64_t end) {
  double sum = 0;
  with_type(t.dtype(), [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const T* x = t.data<T>();
#if HWY_TARGET == HWY_SCALAR
    for (int64_t i = begin; i < end; ++i) sum += double(float(x[i])) * double(float(x[i]));
#else
    const F32 d;
    const hn::ScalableTag<double> dd;
    const hn::Half<F32> dh;
    auto low = hn::Zero(dd), high = hn::Zero(dd);
    for_lanes(size_t(end - begin), [&](size_t i, auto extent) HWY_ATTR {
      const VF v = load(d, x + begin + i, extent);
      const auto a = hn::PromoteTo(dd, hn::LowerHalf(dh, v)), b = hn::PromoteTo(dd, hn::UpperHalf(dh, v));
      low = hn::MulAdd(a, a, low);
      high = hn::MulAdd(b, b, high);
    });
    sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(low, high)));
#endif
  });
  return sum;
}

void adam_range(const Adam& op, int64_t begin, int64_t end) {
  const F32 d;
  float *w = op.w.data<float>(), *m = op.m.data<float>(), *v = op.v.data<float>();
  const float* g = op.g.data<float>();
  const VF clip = hn::Set(d, float(op.clip)), eps = hn::Set(d, float(op.eps));
  const VF beta1 = hn::Set(d, float(op.beta1)), rest1 = hn::Set(d, float(1 - op.beta1));
  const VF beta2 = hn::Set(d, float(op.beta2)), rest2 = hn::Set(d, float(1 - op.beta2));
  const VF step = hn::Set(d, float(op.lr / op.correction1));
  const VF root = hn::Set(d, float(1 / std::sqrt(op.correction2)));
  const VF coupled = hn::Set(d, op.decoupled ? 0.0f : float(op.decay));
  const VF keep = hn::Set(d, op.decoupled ? float(1 - op.lr * op.decay) : 1.0f);
  for_lanes(size_t(end - begin), [&](size_t at, auto extent) HWY_ATTR {
    const int64_t i = begin + int64_t(at);
    const VF weight = load(d, w + i, extent);
    const VF gradient = hn::MulAdd(weight, coupled, hn::Mul(clip, load(d, g + i, extent)));
    const VF m1 = hn::MulAdd(beta1, load(d, m + i, extent), hn::Mul(rest1, gradient));
    const VF v1 = hn::MulAdd(beta2, load(d, v + i, extent), hn::Mul(rest2, hn::Mul(gradient, gradient)));
    const VF direction = hn::Div(hn::Mul(step, m1), hn::MulAdd(hn::Sqrt(v1), root, eps));
    store(m1, d, m + i, extent);
    store(v1, d, v + i, extent);
    store(hn::MulSub(weight, keep, direction), d, w + i, extent);
  });
}

void sgd_range(const Sgd& op, int64_t begin, int64_t end) {
  const F32 d;
  float *w = op.w.data<float>(), *v = op.v ? op.v.data<float>() : nullptr;
  const float* g = op.g.data<float>();
  const VF clip = hn::Set(d, float(op.clip)), decay = hn::Set(d, float(op.decay)), lr = hn::Set(d, float(op.lr));
  const VF momentum = hn::Set(d, float(op.momentum));
  for_lanes(size_t(end - begin), [&](size_t at, auto extent) HWY_ATTR {
    const int64_t i = begin + int64_t(at);
    const VF weight = load(d, w + i, extent);
    const VF gradient = hn::MulAdd(decay, weight, hn::Mul(clip, load(d, g + i, extent)));
    VF step = gradient;
    if (v) {
      const VF velocity = hn::MulAdd(momentum, load(d, v + i, extent), gradient);
      store(velocity, d, v + i, extent);
      step = op.nesterov ? hn::MulAdd(momentum, velocity, gradient) : velocity;
    }
    store(hn::NegMulAdd(lr, step, weight), d, w + i, extent);
  });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(squares);
HWY_EXPORT(adam_range);
HWY_EXPORT(sgd_range);

template <class... Tensors>
bool are_flat(const Tensors&... t) {
  return ((!t.defined() || t.is_contiguous()) && ...);
}

}  // namespace

bool supports(const SumSquares& op) { return have_vector_dtype(op.x) && are_flat(op.x); }
bool supports(const Adam& op) {
  return all_are(DType::f32, op.w, op.g, op.m, op.v) && are_flat(op.w, op.g, op.m, op.v);
}
bool supports(const Sgd& op) { return all_are(DType::f32, op.w, op.g, op.v) && are_flat(op.w, op.g, op.v); }

/// Parts of a fixed size, added in order.
void run(const SumSquares& op) {
  const int64_t n = op.x.numel(), parts = (n + kSerialElements - 1) / kSerialElements;
  const Tensor partial = Tensor::empty({std::max<int64_t>(1, parts)}, DType::f64);
  double* sums = partial.data<double>();
  parallel_for(parts, 1, [&](int64_t b, int64_t e) {
    for (int64_t p = b; p < e; ++p)
      sums[p] = HWY_DYNAMIC_DISPATCH(squares)(op.x, p * kSerialElements, std::min(n, (p + 1) * kSerialElements));
  });
  double total = 0;
  for (int64_t p = 0; p < parts; ++p) total += sums[p];
  *op.y.data<double>() = total;
}

void run(const Adam& op) {
  parallel_for(op.w.numel(), kSerialElements, [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(adam_range)(op, b, e);
  });
  op.w.storage().touch();
}
void run(const Sgd& op) {
  parallel_for(op.w.numel(), kSerialElements, [&](int64_t b, int64_t e) { HWY_DYNAMIC_DISPATCH(sgd_range)(op, b, e); });
  op.w.storage().touch();
}

}  // namespace rapt::kernels::vector
#endif
