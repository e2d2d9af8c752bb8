#pragma once
// How tests fill tensors and measure how far one lies from another.
#include <rapt/base/random.hpp>
#include <rapt/tensor/tensor.hpp>
#include <tensor/visit.hpp>

#include <cmath>
#include <limits>
#include <vector>

namespace rapt::testing {

/// t_n = f(n), n counting in row-major order.
template <class F>
void set_values(const Tensor& t, F&& f) {
  visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
    T* data = t.data<T>();
    int64_t n = 0;
    for_each_offset(t.shape(), {t.strides()},
                    [&](const std::array<int64_t, 1>& at) { data[at[0]] = convert<T>(double(f(n++))); });
  });
}

/// t_n = f(t_n).
template <class F>
void map_values(const Tensor& t, F&& f) {
  const std::vector<double> before = t.to_vector();
  set_values(t, [&](int64_t n) { return f(before[size_t(n)]); });
}

inline Tensor random_tensor(const Shape& shape, DType dtype, const Philox& random, double scale = 1) {
  const Tensor t = Tensor::empty(shape, dtype);
  set_values(t, [&](int64_t n) { return scale * random.normal(uint64_t(n)); });
  return t;
}

/// ||got - want|| / ||want||, and ||got|| when want is 0. Infinite when the shapes differ, or when some element of one
/// is NaN or infinite and the other does not hold the same there.
inline double relative_error(const Tensor& got, const Tensor& want) {
  if (!(got.shape() == want.shape())) return std::numeric_limits<double>::infinity();
  const std::vector<double> a = got.to_vector(), b = want.to_vector();
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    } else if (!(std::isnan(a[i]) && std::isnan(b[i])) && a[i] != b[i]) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return std::sqrt(size > 0 ? difference / size : difference);
}

/// What relative_error may be when a kernel that sums in f32 (f64 for f64) is right.
constexpr double error_bound(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f32: return 1e-5;
    case DType::bf16: return 5e-3;  // two roundings to 8 bits, 2^-9 each
    case DType::f16: return 1e-3;
    default: return 0;
  }
}

}  // namespace rapt::testing
