#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_cross_entropy.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_math-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

/// Of one row of logits: its maximum, sum of exp(z - max), and plain sum.
struct RowSums {
  float top = -std::numeric_limits<float>::infinity(), exps = 0;
  double total = 0;
};

/// One pass over memory: each stretch is small enough to be read twice from the first-level cache, first for its
/// maximum, which may rescale what was summed before, then for its exponentials.
template <class T>
HWY_INLINE RowSums row_sums(const T* z, size_t V) {
  constexpr size_t kStretch = 2048;
  const F32 d;
  RowSums sums;
  const VF lowest = hn::Set(d, sums.top);
  const auto larger = [](VF a, VF b) HWY_ATTR { return hn::Max(a, b); };
  for (size_t at = 0; at < V; at += kStretch) {
    const T* x = z + at;
    const size_t n = std::min(kStretch, V - at);
    const VF lane_top = fold(
        n, lowest,
        [&](VF best, size_t i, auto extent)
            HWY_ATTR { return hn::Max(best, load(d, x + i, extent, -std::numeric_limits<float>::infinity())); },
        larger);
    const float top = std::max(sums.top, hn::GetLane(hn::MaxOfLanes(d, lane_top)));
    if (top > sums.top) sums.exps *= std::exp(sums.top - top);
    sums.top = top;
    const VF shift = hn::Set(d, top);
    VF total = hn::Zero(d);
    sums.exps += fold_sum(n, [&](VF sum, size_t i, auto extent) HWY_ATTR {
      const VF v = load(d, x + i, extent, -std::numeric_limits<float>::infinity());
      total = hn::Add(total, std::is_same_v<decltype(extent), Part> ? load(d, x + i, extent) : v);
      return hn::Add(sum, exp_bounded(d, hn::Sub(v, shift)));
    });
    sums.total += double(hn::GetLane(hn::SumOfLanes(d, total)));
  }
  return sums;
}

/// scale (softmax(z) - e / V); the caller sets the target's column.
template <class T>
HWY_INLINE void gradient_row(const T* z, T* dz, float lse, float scale, float smooth, size_t V) {
  const F32 d;
  const VF shift = hn::Set(d, lse), factor = hn::Set(d, scale), less = hn::Set(d, scale * smooth);
  for_lanes(V, [&](size_t i, auto extent) HWY_ATTR {
    const VF p = exp_bounded(d, hn::Sub(load(d, z + i, extent), shift));
    store(hn::MulSub(p, factor, less), d, dz + i, extent);
  });
}

template <class T>
void cross_entropy_rows(const CrossEntropy& op, int64_t begin, int64_t end) {
  const auto V = size_t(op.logits.size(1));
  const double e = op.smoothing;
  for (int64_t n = begin; n < end; ++n) {
    const T* z = op.logits.data<T>() + n * op.logits.stride(0);
    T* dz = op.dlogits ? op.dlogits.data<T>() + n * op.dlogits.stride(0) : nullptr;
    const int32_t target = op.targets.data<int32_t>()[n];
    if (target == op.ignore) {
      op.loss.data<float>()[n] = 0;
      if (op.hits) op.hits.data<int32_t>()[n] = 0;
      if (dz) std::fill(dz, dz + V, T(0.0f));
      continue;
    }
    const RowSums sums = row_sums(z, V);
    const auto z_target = float(z[target]);
    const double lse = double(sums.top) + std::log(double(sums.exps));
    const double to_target = lse - double(z_target), to_mean = lse - sums.total / double(V);
    op.loss.data<float>()[n] = float((1 - e) * to_target + (e > 0 ? e * to_mean : 0));
    if (op.hits) {  // the first of equal maxima counts
      const bool top = z_target == sums.top;
      op.hits.data<int32_t>()[n] = top && std::none_of(z, z + target, [&](T v) { return float(v) == sums.top; });
    }
    if (!dz) continue;
    gradient_row(z, dz, float(lse), float(op.scale), float(e / double(V)), V);
    dz[target] = T(float(op.scale * (std::exp(double(z_target) - lse) - (1 - e) - e / double(V))));
  }
}

void cross_entropy(const CrossEntropy& op, int64_t begin, int64_t end) {
  with_type(op.logits.dtype(), [&](auto type) HWY_ATTR { cross_entropy_rows<decltype(type)>(op, begin, end); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(cross_entropy);

}  // namespace

bool supports(const CrossEntropy& op) {
  return have_vector_dtype(op.logits) && all_are(op.logits.dtype(), op.dlogits) && all_are(DType::f32, op.loss) &&
         have_unit_rows(op.logits, op.dlogits);
}

void run(const CrossEntropy& op) {
  parallel_for(op.logits.size(0), row_grain(op.logits.size(1)), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(cross_entropy)(op, b, e);
  });
}

}  // namespace rapt::kernels::vector
#endif
