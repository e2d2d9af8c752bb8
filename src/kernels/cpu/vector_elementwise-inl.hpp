// The walk that all elementwise kernels share: short stretches of each operand as f32 in the first-level cache, so that
// a kernel is a loop over floats whatever the dtypes, strides and repetitions are.
#include <kernels/cpu/vector_lanes-inl.hpp>
#include <kernels/cpu/vector_layout.hpp>

#include <algorithm>

#if defined(RAPT_KERNELS_CPU_VECTOR_ELEMENTWISE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RAPT_KERNELS_CPU_VECTOR_ELEMENTWISE_INL
#undef RAPT_KERNELS_CPU_VECTOR_ELEMENTWISE_INL
#else
#define RAPT_KERNELS_CPU_VECTOR_ELEMENTWISE_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

constexpr size_t kStretch = 1024;

/// n elements of t from `at` on as floats: where they lie, or converted or repeated into `buffer`.
inline const float* floats_of(const Tensor& t, int64_t at, int64_t step, size_t n, float* buffer) {
  const F32 d;
  if (t.dtype() == DType::f32) {
    const float* from = t.data<float>() + at;
    if (step == 1) return from;
    const VF value = hn::Set(d, *from);
    for_lanes(n, [&](size_t i, auto extent) HWY_ATTR { store(value, d, buffer + i, extent); });
  } else {
    const BFloat16* from = t.data<BFloat16>() + at;
    const VF value = hn::Set(d, float(*from));
    if (step == 1)
      copy_row(from, n, buffer);
    else
      for_lanes(n, [&](size_t i, auto extent) HWY_ATTR { store(value, d, buffer + i, extent); });
  }
  return buffer;
}

/// Calls kernel(inputs, output, n) on stretches of the pieces [begin, end) of the layout. The last tensor is the output;
/// it is added to when accumulating.
template <size_t N, class Kernel>
HWY_INLINE void for_stretches(const Layout<N>& layout, const Tensor* const (&tensors)[N], bool accumulate,
                              int64_t begin, int64_t end, Kernel&& kernel) {
  HWY_ALIGN float buffers[N][kStretch];
  const Tensor& y = *tensors[N - 1];
  const bool past_caches = !accumulate && outgrows_caches(y);
  const bool direct = y.dtype() == DType::f32 && !accumulate && !past_caches;
  const int64_t per_row = layout.pieces_per_row();
  for (int64_t piece = begin; piece < end; ++piece) {
    const auto at = layout.at(piece / per_row);
    int64_t column = piece % per_row * layout.kPiece;
    const int64_t column_end = std::min(layout.columns, column + layout.kPiece);
    while (column < column_end) {
      const auto n = size_t(std::min(column_end - column, int64_t(kStretch)));
      const float* inputs[N - 1];
      for (size_t i = 0; i + 1 < N; ++i)
        inputs[i] = floats_of(*tensors[i], at[i] + column * layout.step[i], layout.step[i], n, buffers[i]);
      const int64_t to = at[N - 1] + column;
      float* output = direct ? y.data<float>() + to : buffers[N - 1];
      kernel(inputs, output, n);
      if (!direct)
        with_type(y.dtype(), [&](auto type) HWY_ATTR {
          auto* address = y.data<decltype(type)>() + to;
          copy_row(output, n, address, accumulate, past_caches && is_cache_line(address));
        });
      column += int64_t(n);
    }
  }
  if (past_caches) hwy::FlushStream();
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
