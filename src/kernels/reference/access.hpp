#pragma once
// How the reference kernels see tensors: as rows of doubles, whatever the dtype and the strides. Each result is computed
// in f64 and rounded once, when it is stored.
#include <base/fail.hpp>
#include <kernels/kernels.hpp>
#include <tensor/visit.hpp>

#include <vector>

namespace rapt::kernels::reference {

using Row = std::vector<double>;

/// The elements at, at + stride, ... (n of them, counted from the first element of t) as doubles.
void load(const Tensor& t, int64_t at, int64_t stride, int64_t n, double* to);
/// The way back: rounds to the dtype of t; adds to what is there when accumulating.
void store(const Tensor& t, int64_t at, int64_t stride, int64_t n, const double* from, bool accumulate = false);

/// Row n of t [N, D].
Row read_row(const Tensor& t, int64_t n);
void write_row(const Tensor& t, int64_t n, const Row& row, bool accumulate = false);
/// All of t [D], or of any small tensor, in order.
Row read_all(const Tensor& t);
void write_all(const Tensor& t, const Row& values, bool accumulate = false);

/// i32 [N] as it lies in memory; null when undefined.
const int32_t* integers(const Tensor& t);

/// 0 or 1 / (1 - p), for element n of a dropout.
double dropout_factor(const Philox& random, float p, int64_t n);

double apply(Unary f, double x);
double derivative(Unary f, double x);

/// Calls `f(element, wide)` with tags of the element type and of the type of weights and statistics beside it.
template <class F>
void visit_with_wide(DType dtype, const char* op, F&& f) {
  switch (dtype) {
    case DType::f64: return f(TypeTag<double>{}, TypeTag<double>{});
    case DType::f32: return f(TypeTag<float>{}, TypeTag<float>{});
    case DType::bf16: return f(TypeTag<BFloat16>{}, TypeTag<float>{});
    default: fail<DTypeError>("[{}] takes f64, f32 and bf16, not {}", op, to_string(dtype));
  }
}

/// Calls `f(at, n, steps)` for each run along the last axis of `shape`: where it begins in each of `strides`, its length,
/// and its step in each of them. A tensor without axes is one run of one.
template <size_t N, class F>
void for_each_run(const Shape& shape, const Strides (&strides)[N], F&& f) {
  std::array<int64_t, N> steps{};
  if (shape.rank() == 0) return f(std::array<int64_t, N>{}, int64_t(1), steps);
  Strides outer[N];
  for (size_t i = 0; i < N; ++i) {
    steps[i] = strides[i][-1];
    outer[i] = strides[i].without(-1);
  }
  for_each_offset(shape.without(-1), outer, [&](const std::array<int64_t, N>& at) { f(at, shape[-1], steps); });
}

}  // namespace rapt::kernels::reference
