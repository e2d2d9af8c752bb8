#pragma once
#include <rapt/tensor/tensor.hpp>

#include <array>
#include <type_traits>

namespace rapt {

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls `f(TypeTag<T>{})` with the C++ type of `t`.
template <class F>
auto visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::f64: return f(TypeTag<double>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    case DType::f16: return f(TypeTag<Float16>{});
    case DType::i8: return f(TypeTag<int8_t>{});
    case DType::i32: return f(TypeTag<int32_t>{});
    case DType::i64: return f(TypeTag<int64_t>{});
    case DType::f32: break;
  }
  return f(TypeTag<float>{});
}

template <class T>
constexpr bool is_small_float = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

template <class T>
double to_double(T x) {
  if constexpr (is_small_float<T>)
    return double(float(x));
  else
    return double(x);
}

template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (is_small_float<To> && is_small_float<From>)
    return To(float(x));
  else if constexpr (is_small_float<To>)
    return To(static_cast<float>(x));
  else if constexpr (is_small_float<From>)
    return static_cast<To>(float(x));
  else
    return static_cast<To>(x);
}

/// Calls `f(offsets)` for every index of `shape` in row-major order, with the offset into each of the `strides`.
template <size_t N, class F>
void for_each_offset(const Shape& shape, const Strides (&strides)[N], F&& f) {
  if (shape.numel() == 0) return;
  std::array<int64_t, N> at{};
  std::array<int64_t, Shape::kMaxRank> index{};
  const int rank = shape.rank();
  for (;;) {
    f(at);
    int axis = rank - 1;
    for (; axis >= 0; --axis) {
      for (size_t i = 0; i < N; ++i) at[i] += strides[i][axis];
      if (++index[size_t(axis)] < shape[axis]) break;
      for (size_t i = 0; i < N; ++i) at[i] -= strides[i][axis] * shape[axis];
      index[size_t(axis)] = 0;
    }
    if (axis < 0) return;
  }
}

}  // namespace rapt
