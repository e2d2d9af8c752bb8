#include <kernels/reference/access.hpp>

#include <cmath>

namespace rapt::kernels::reference {

void load(const Tensor& t, int64_t at, int64_t stride, int64_t n, double* to) {
  visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = t.data<T>() + at;
    if (stride == 1) {
      for (int64_t i = 0; i < n; ++i) to[i] = to_double(from[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = to_double(from[i * stride]);
    }
  });
}

void store(const Tensor& t, int64_t at, int64_t stride, int64_t n, const double* from, bool accumulate) {
  visit_dtype(t.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = t.data<T>() + at;
    for (int64_t i = 0; i < n; ++i) {
      T& element = to[i * stride];
      element = convert<T>(accumulate ? to_double(element) + from[i] : from[i]);
    }
  });
}

Row read_row(const Tensor& t, int64_t n) {
  Row row(size_t(t.size(1)));
  load(t, n * t.stride(0), t.stride(1), t.size(1), row.data());
  return row;
}

void write_row(const Tensor& t, int64_t n, const Row& row, bool accumulate) {
  store(t, n * t.stride(0), t.stride(1), t.size(1), row.data(), accumulate);
}

Row read_all(const Tensor& t) { return t.to_vector(); }

void write_all(const Tensor& t, const Row& values, bool accumulate) {
  const double* from = values.data();
  for_each_run(t.shape(), {t.strides()}, [&](const auto& at, int64_t n, const auto& step) {
    store(t, at[0], step[0], n, from, accumulate);
    from += n;
  });
}

const int32_t* integers(const Tensor& t) { return t ? t.data<int32_t>() : nullptr; }

double dropout_factor(const Philox& random, float p, int64_t n) {
  const auto threshold = uint32_t(std::lround(65536.0 * double(p)));
  return random.bits16(uint64_t(n)) >= threshold ? 1.0 / (1.0 - double(p)) : 0.0;
}

}  // namespace rapt::kernels::reference
