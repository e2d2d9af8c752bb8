#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_dropout.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_philox-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

/// Elements [begin, end) of the flat tensors.
void dropout(const Dropout& op, int64_t begin, int64_t end) {
  const F32 d;
  const DropoutRule rule(op.p);
  HWY_ALIGN float factors[1024];
  with_type(op.x.dtype(), [&](auto type) HWY_ATTR {
    using T = decltype(type);
    const T* x = op.x.data<T>();
    T* y = op.y.data<T>();
    const bool streamed = !op.accumulate && outgrows_caches(op.y) && is_cache_line(y);
    for (int64_t at = begin; at < end; at += 1024) {
      const auto n = size_t(std::min<int64_t>(1024, end - at));
      dropout_factors(op.random, rule, uint64_t(at), n, factors);
      for_lanes(n, streamed, [&](size_t i, auto extent) HWY_ATTR {
        const VF kept = hn::Mul(load(d, x + at + i, extent), load(d, factors + i, extent));
        store(op.accumulate ? hn::Add(load(d, y + at + i, extent), kept) : kept, d, y + at + i, extent);
      });
    }
    if (streamed) hwy::FlushStream();
  });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(dropout);

}  // namespace

bool supports(const Dropout& op) {
  return have_vector_dtype(op.x) && all_are(op.x.dtype(), op.y) && op.x.is_contiguous() && op.y.is_contiguous();
}

void run(const Dropout& op) {
  parallel_for(op.y.numel(), kSerialElements, [&](int64_t b, int64_t e) { HWY_DYNAMIC_DISPATCH(dropout)(op, b, e); });
}

}  // namespace rapt::kernels::vector
#endif
