#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_softmax.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_math-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

template <class T>
HWY_INLINE float row_max(const T* x, size_t n) {
  const F32 d;
  const auto larger = [](VF a, VF b) HWY_ATTR { return hn::Max(a, b); };
  const VF top = fold(
      n, hn::Set(d, kNegativeInfinity),
      [&](VF best, size_t i, auto extent) HWY_ATTR { return hn::Max(best, load(d, x + i, extent, kNegativeInfinity)); },
      larger);
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

/// e = exp(x - top) when `e` is given; their sum.
template <class T>
HWY_INLINE float exp_row(const T* x, float top, float* e, size_t n) {
  const F32 d;
  const VF shift = hn::Set(d, top);
  return fold_sum(n, [&](VF sum, size_t i, auto extent) HWY_ATTR {
    const VF v = exp_bounded(d, hn::Sub(load(d, x + i, extent, kNegativeInfinity), shift));
    if (e) store(v, d, e + i, extent);
    return hn::Add(sum, v);
  });
}

template <class T>
void softmax_rows(const SoftmaxForward& op, int64_t begin, int64_t end) {
  const F32 d;
  const int64_t D = op.x.size(1);
  const bool streamed = streams_rows(op.y);
  const Tensor scratch = Tensor::empty({D});
  for (int64_t n = begin; n < end; ++n) {
    const T* x = op.x.data<T>() + n * op.x.stride(0);
    T* y = op.y.data<T>() + n * op.y.stride(0);
    const int64_t limit = op.lengths ? op.lengths.data<int32_t>()[n / op.repeat] : D;
    const auto length = size_t(std::clamp<int64_t>(limit, 0, D));
    std::fill(y + length, y + D, T(0.0f));
    if (length == 0) continue;
    const float top = row_max(x, length);
    if (op.log) {
      const VF lse = hn::Set(d, top + std::log(exp_row(x, top, nullptr, length)));
      for_lanes(length,
                [&](size_t i, auto extent) HWY_ATTR { store(hn::Sub(load(d, x + i, extent), lse), d, y + i, extent); });
      continue;
    }
    float* e = scratch.data<float>();
    const VF scale = hn::Set(d, 1 / exp_row(x, top, e, length));
    for_lanes(length, streamed,
              [&](size_t i, auto extent) HWY_ATTR { store(hn::Mul(load(d, e + i, extent), scale), d, y + i, extent); });
  }
  if (streamed) hwy::FlushStream();
}

template <class T>
void softmax_backward_rows(const SoftmaxBackward& op, int64_t begin, int64_t end) {
  const F32 d;
  const auto D = size_t(op.y.size(1));
  for (int64_t n = begin; n < end; ++n) {
    const T *y = op.y.data<T>() + n * op.y.stride(0), *dy = op.dy.data<T>() + n * op.dy.stride(0);
    T* dx = op.dx.data<T>() + n * op.dx.stride(0);
    const auto finish = [&](VF v, size_t i, auto extent) HWY_ATTR {
      store(op.accumulate ? hn::Add(v, load(d, dx + i, extent)) : v, d, dx + i, extent);
    };
    if (op.log) {
      const VF total = hn::Set(d, fold_sum(D, [&](VF sum, size_t i, auto extent)
                                                  HWY_ATTR { return hn::Add(sum, load(d, dy + i, extent)); }));
      for_lanes(D, [&](size_t i, auto extent) HWY_ATTR {
        finish(hn::NegMulAdd(exp(d, load(d, y + i, extent)), total, load(d, dy + i, extent)), i, extent);
      });
    } else {
      const VF mean = hn::Set(d, fold_sum(D, [&](VF sum, size_t i, auto extent) HWY_ATTR {
                                return hn::MulAdd(load(d, y + i, extent), load(d, dy + i, extent), sum);
                              }));
      for_lanes(D, [&](size_t i, auto extent) HWY_ATTR {
        finish(hn::Mul(load(d, y + i, extent), hn::Sub(load(d, dy + i, extent), mean)), i, extent);
      });
    }
  }
}

void softmax_forward(const SoftmaxForward& op, int64_t begin, int64_t end) {
  with_type(op.x.dtype(), [&](auto type) HWY_ATTR { softmax_rows<decltype(type)>(op, begin, end); });
}
void softmax_backward(const SoftmaxBackward& op, int64_t begin, int64_t end) {
  with_type(op.y.dtype(), [&](auto type) HWY_ATTR { softmax_backward_rows<decltype(type)>(op, begin, end); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(softmax_forward);
HWY_EXPORT(softmax_backward);

}  // namespace

bool supports(const SoftmaxForward& op) {
  return have_vector_dtype(op.x) && all_are(op.x.dtype(), op.y) && have_unit_rows(op.x, op.y);
}
bool supports(const SoftmaxBackward& op) {
  return have_vector_dtype(op.y) && all_are(op.y.dtype(), op.dy, op.dx) && have_unit_rows(op.y, op.dy, op.dx);
}

void run(const SoftmaxForward& op) {
  parallel_for(op.x.size(0), row_grain(op.x.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(softmax_forward)(op, b, e);
  });
}
void run(const SoftmaxBackward& op) {
  parallel_for(op.y.size(0), row_grain(op.y.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(softmax_backward)(op, b, e);
  });
}

}  // namespace rapt::kernels::vector
#endif
