#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_swiglu.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_math-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

template <class T>
void swiglu_rows(const SwigluForward& op, int64_t begin, int64_t end) {
  const F32 d;
  const int64_t D = op.y.size(1);
  for (int64_t n = begin; n < end; ++n) {
    const T *gate = op.x.data<T>() + n * op.x.stride(0), *up = gate + D;
    T* y = op.y.data<T>() + n * op.y.stride(0);
    for_lanes(size_t(D), [&](size_t i, auto extent) HWY_ATTR {
      const VF g = load(d, gate + i, extent);
      store(hn::Mul(hn::Mul(g, sigmoid(d, g)), load(d, up + i, extent)), d, y + i, extent);
    });
  }
}

/// y = silu(g) u:  dg = dy u silu'(g) with silu'(g) = s + g s (1 - s), s = sigmoid(g);  du = dy silu(g).
template <class T>
void swiglu_backward_rows(const SwigluBackward& op, int64_t begin, int64_t end) {
  const F32 d;
  const VF one = hn::Set(d, 1.0f);
  const int64_t D = op.dy.size(1);
  for (int64_t n = begin; n < end; ++n) {
    const T *gate = op.x.data<T>() + n * op.x.stride(0), *up = gate + D;
    const T* dy = op.dy.data<T>() + n * op.dy.stride(0);
    T *dgate = op.dx.data<T>() + n * op.dx.stride(0), *dup = dgate + D;
    for_lanes(size_t(D), [&](size_t i, auto extent) HWY_ATTR {
      const VF g = load(d, gate + i, extent), v = load(d, dy + i, extent), s = sigmoid(d, g);
      const VF silu = hn::Mul(g, s);
      VF dg = hn::Mul(hn::Mul(v, load(d, up + i, extent)), hn::MulAdd(silu, hn::Sub(one, s), s));
      VF du = hn::Mul(v, silu);
      if (op.accumulate) {
        dg = hn::Add(dg, load(d, dgate + i, extent));
        du = hn::Add(du, load(d, dup + i, extent));
      }
      store(dg, d, dgate + i, extent);
      store(du, d, dup + i, extent);
    });
  }
}

void swiglu_forward(const SwigluForward& op, int64_t begin, int64_t end) {
  with_type(op.x.dtype(), [&](auto type) HWY_ATTR { swiglu_rows<decltype(type)>(op, begin, end); });
}
void swiglu_backward(const SwigluBackward& op, int64_t begin, int64_t end) {
  with_type(op.x.dtype(), [&](auto type) HWY_ATTR { swiglu_backward_rows<decltype(type)>(op, begin, end); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(swiglu_forward);
HWY_EXPORT(swiglu_backward);

}  // namespace

bool supports(const SwigluForward& op) {
  return have_vector_dtype(op.x) && all_are(op.x.dtype(), op.y) && have_unit_rows(op.x, op.y);
}
bool supports(const SwigluBackward& op) {
  return have_vector_dtype(op.x) && all_are(op.x.dtype(), op.dy, op.dx) && have_unit_rows(op.x, op.dy, op.dx);
}

void run(const SwigluForward& op) {
  parallel_for(op.y.size(0), row_grain(op.y.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(swiglu_forward)(op, b, e);
  });
}
void run(const SwigluBackward& op) {
  parallel_for(op.dy.size(0), row_grain(op.dy.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(swiglu_backward)(op, b, e);
  });
}

}  // namespace rapt::kernels::vector
#endif
