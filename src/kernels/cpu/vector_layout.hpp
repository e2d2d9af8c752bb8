#pragma once
// How the vector kernels walk tensors: as rows whose elements lie side by side.
#include <kernels/kernels.hpp>

#include <algorithm>
#include <array>
#include <optional>

namespace rapt::kernels::vector {

/// Below this many elements another thread costs more than it helps.
constexpr int64_t kSerialElements = 32768;

/// How many rows of `columns` elements a thread takes at once.
constexpr int64_t row_grain(int64_t columns) {
  return columns > 0 && columns < kSerialElements ? kSerialElements / columns : 1;
}

constexpr bool is_vector_dtype(DType t) { return t == DType::f32 || t == DType::bf16; }
/// Are all of these, where defined, f32 or bf16?
template <class... Tensors>
bool have_vector_dtype(const Tensors&... t) {
  return ((!t.defined() || is_vector_dtype(t.dtype())) && ...);
}
/// Do all of these, where defined, hold `dtype`?
template <class... Tensors>
bool all_are(DType dtype, const Tensors&... t) {
  return ((!t.defined() || t.dtype() == dtype) && ...);
}
/// Is every one of these, where defined, a matrix with elements of a row side by side?
template <class... Tensors>
bool have_unit_rows(const Tensors&... t) {
  return ((!t.defined() || (t.rank() == 2 && (t.stride(1) == 1 || t.size(1) == 1))) && ...);
}

/// Is t, a result, so large that keeping it would only push other things out of the caches? Then it is written past them,
/// which also saves reading what is overwritten. The size is what one operation may expect of a shared cache; what virtual
/// machines report of theirs is not to be trusted.
inline bool outgrows_caches(const Tensor& t) { return t.numel() * int64_t(size_of(t.dtype())) >= int64_t(16) << 20; }
inline bool is_cache_line(const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }
/// May the rows of t be written past the caches, and is it worth it?
inline bool streams_rows(const Tensor& t) {
  return outgrows_caches(t) && is_cache_line(t.raw()) && t.stride(0) * int64_t(size_of(t.dtype())) % 64 == 0;
}

/// N tensors over one shape as `rows` x `columns`: neighbouring axes are merged wherever the strides of all of them
/// allow, so contiguous tensors of any rank are one row.
template <size_t N>
struct Layout {
  int64_t rows = 1, columns = 1;
  std::array<int64_t, N> step{};  ///< from one column to the next: 1, or 0 where a tensor is repeated

  /// Where row `row` begins in each of the tensors, in elements from its first.
  std::array<int64_t, N> at(int64_t row) const {
    std::array<int64_t, N> offset{};
    for (int a = 0; a < outer_axes; ++a) {
      const bool last = a + 1 == outer_axes;
      const int64_t index = last ? row : row % sizes[size_t(a)];
      for (size_t i = 0; i < N; ++i) offset[i] += index * strides[size_t(a)][i];
      if (!last) row /= sizes[size_t(a)];
    }
    return offset;
  }

  /// Long rows are cut, so that threads find enough pieces: piece p is a part of row p / pieces_per_row().
  static constexpr int64_t kPiece = 8192;
  int64_t pieces_per_row() const { return std::max<int64_t>(1, (columns + kPiece - 1) / kPiece); }
  int64_t pieces() const { return rows * pieces_per_row(); }
  int64_t grain() const { return row_grain(std::min(columns, kPiece)); }

  int outer_axes = 0;  // innermost first
  std::array<int64_t, Shape::kMaxRank> sizes{};
  std::array<std::array<int64_t, N>, Shape::kMaxRank> strides{};
};

/// The layout of tensors with these strides (0 on repeated axes), or nothing when some of them does not lie in rows.
template <size_t N>
std::optional<Layout<N>> layout_of(const Shape& shape, const Strides (&strides)[N]) {
  Layout<N> result;
  bool inner_found = false;
  result.step.fill(1);
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    std::array<int64_t, N> here{};
    for (size_t i = 0; i < N; ++i) here[i] = strides[i][axis];
    const auto continues = [&](int64_t size, const std::array<int64_t, N>& inner) {
      for (size_t i = 0; i < N; ++i)
        if (here[i] != size * inner[i]) return false;
      return true;
    };
    const auto top = size_t(result.outer_axes) - 1;
    if (!inner_found) {
      inner_found = true;
      result.columns = shape[axis];
      result.step = here;
    } else if (result.outer_axes == 0 && continues(result.columns, result.step)) {
      result.columns *= shape[axis];
    } else if (result.outer_axes > 0 && continues(result.sizes[top], result.strides[top])) {
      result.sizes[top] *= shape[axis];
    } else {
      result.sizes[size_t(result.outer_axes)] = shape[axis];
      result.strides[size_t(result.outer_axes++)] = here;
    }
  }
  for (int a = 0; a < result.outer_axes; ++a) result.rows *= result.sizes[size_t(a)];
  for (const int64_t step : result.step)
    if (step != 0 && step != 1) return std::nullopt;
  return result;
}

/// Strides for broadcasting: an axis of size 1 is repeated by standing still.
inline Strides repeated(const Tensor& t) {
  Strides strides = t.strides();
  for (int i = 0; i < t.rank(); ++i)
    if (t.size(i) == 1) strides[i] = 0;
  return strides;
}

}  // namespace rapt::kernels::vector
