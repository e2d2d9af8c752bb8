#include <kernels/cpu/vector.hpp>
#include <kernels/cpu/vector_layout.hpp>
#include <kernels/cpu/vector_targets.hpp>
#include <rapt/base/threads.hpp>

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/vector_rotary.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // compiles this file once a target
#include <hwy/highway.h>
#include <kernels/cpu/vector_lanes-inl.hpp>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace rapt::kernels::vector::HWY_NAMESPACE {

/// One head at one position, pairs (x_i, x_{i+half}).
template <class T>
HWY_INLINE void turn_halves(const T* x, T* y, const float* cosines, const float* sines, size_t half, bool accumulate) {
  const F32 d;
  for_lanes(half, [&](size_t i, auto extent) HWY_ATTR {
    const VF c = load(d, cosines + i, extent), s = load(d, sines + i, extent);
    const VF x0 = load(d, x + i, extent), x1 = load(d, x + half + i, extent);
    VF y0 = hn::NegMulAdd(x1, s, hn::Mul(x0, c)), y1 = hn::MulAdd(x0, s, hn::Mul(x1, c));
    if (accumulate) {
      y0 = hn::Add(y0, load(d, y + i, extent));
      y1 = hn::Add(y1, load(d, y + half + i, extent));
    }
    store(y0, d, y + i, extent);
    store(y1, d, y + half + i, extent);
  });
}
/// The same for pairs (x_2i, x_2i+1); left to the compiler, which knows how to take pairs apart on each target.
template <class T>
HWY_INLINE void turn_pairs(const T* x, T* y, const float* cosines, const float* sines, size_t half, bool accumulate) {
  for (size_t i = 0; i < half; ++i) {
    const auto x0 = float(x[2 * i]), x1 = float(x[2 * i + 1]);
    const float y0 = x0 * cosines[i] - x1 * sines[i], y1 = x0 * sines[i] + x1 * cosines[i];
    y[2 * i] = T(accumulate ? float(y[2 * i]) + y0 : y0);
    y[2 * i + 1] = T(accumulate ? float(y[2 * i + 1]) + y1 : y1);
  }
}

/// Rows [begin, end) of the B T positions.
template <class T>
void rotary_rows(const Rotary& op, const float* cosines, const float* sines, int64_t begin, int64_t end) {
  const int64_t positions = op.x.size(1), heads = op.x.size(2), half = op.x.size(3) / 2;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t b = row / positions, t = row % positions;
    const float *c = cosines + t * half, *s = sines + t * half;
    for (int64_t head = 0; head < heads; ++head) {
      const T* x = op.x.data<T>() + b * op.x.stride(0) + t * op.x.stride(1) + head * op.x.stride(2);
      T* y = op.y.data<T>() + b * op.y.stride(0) + t * op.y.stride(1) + head * op.y.stride(2);
      if (op.interleaved)
        turn_pairs(x, y, c, s, size_t(half), op.accumulate);
      else
        turn_halves(x, y, c, s, size_t(half), op.accumulate);
    }
  }
}

void rotary(const Rotary& op, const float* cosines, const float* sines, int64_t begin, int64_t end) {
  with_type(op.x.dtype(), [&](auto type) HWY_ATTR { rotary_rows<decltype(type)>(op, cosines, sines, begin, end); });
}

}  // namespace rapt::kernels::vector::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rapt::kernels::vector {
namespace {

HWY_EXPORT(rotary);

/// cos and sin of the angles of positions [begin, end), by turning on from the first in f64: its error stays below 1e-14
/// over the few positions of a call, and a sine costs a hundred times as much.
void fill_table(const Rotary& op, int64_t begin, int64_t end, float* cosines, float* sines) {
  const int64_t half = op.x.size(3) / 2;
  const Tensor scratch = Tensor::empty({4, half}, DType::f64);
  double *c = scratch.data<double>(), *s = c + half, *step_c = s + half, *step_s = step_c + half;
  const double sign = op.inverse ? -1 : 1;
  for (int64_t i = 0; i < half; ++i) {
    const double step = sign * std::pow(op.base, -double(i) / double(half)), angle = step * double(op.offset + begin);
    c[i] = std::cos(angle), s[i] = std::sin(angle);
    step_c[i] = std::cos(step), step_s[i] = std::sin(step);
  }
  for (int64_t t = begin; t < end; ++t)
    for (int64_t i = 0; i < half; ++i) {
      cosines[t * half + i] = float(c[i]), sines[t * half + i] = float(s[i]);
      const double next = c[i] * step_c[i] - s[i] * step_s[i];
      s[i] = s[i] * step_c[i] + c[i] * step_s[i];
      c[i] = next;
    }
}

}  // namespace

bool supports(const Rotary& op) {
  return have_vector_dtype(op.x) && all_are(op.x.dtype(), op.y) && op.x.stride(3) == 1 && op.y.stride(3) == 1;
}

void run(const Rotary& op) {
  const int64_t B = op.x.size(0), T = op.x.size(1), h = op.x.size(2), D = op.x.size(3), half = D / 2;
  constexpr int64_t kPositions = 64;  // pieces of fixed size: the table is the same on any number of threads
  const Tensor table = Tensor::empty({2, T, half});
  float *cosines = table.data<float>(), *sines = cosines + T * half;
  parallel_for((T + kPositions - 1) / kPositions, 8, [&](int64_t b, int64_t e) {
    for (int64_t piece = b; piece < e; ++piece)
      fill_table(op, piece * kPositions, std::min(T, (piece + 1) * kPositions), cosines, sines);
  });
  parallel_for(B * T, row_grain(h * D), [&](int64_t b, int64_t e) {
    HWY_DYNAMIC_DISPATCH(rotary)(op, cosines, sines, b, e);
  });
}

}  // namespace rapt::kernels::vector
#endif
