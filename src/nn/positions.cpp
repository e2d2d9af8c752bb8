#include <rapt/nn/positions.hpp>
#include <tensor/visit.hpp>

#include <bit>
#include <cmath>

namespace rapt::nn {

Tensor sinusoidal_positions(int64_t length, int64_t d, DType dtype, bool halves) {
  Tensor table = Tensor::empty({length, d}, dtype);
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    T* values = table.data<T>();
    for (int64_t pos = 0; pos < length; ++pos)
      for (int64_t j = 0; j < d; ++j) {
        const int64_t pairs = (d + 1) / 2;
        const int64_t i = halves ? j % pairs : j / 2;
        const bool cosine = halves ? j >= pairs : j % 2 == 1;
        const double angle = double(pos) / std::pow(10000.0, 2.0 * double(i) / double(d));
        values[pos * d + j] = convert<T>(cosine ? std::cos(angle) : std::sin(angle));
      }
  });
  return table;
}

Tensor alibi_slopes(int64_t heads) {
  const int64_t lower = int64_t(std::bit_floor(uint64_t(heads)));
  std::vector<float> slopes;
  for (int64_t i = 1; i <= lower; ++i) slopes.push_back(float(std::exp2(-8.0 * double(i) / double(lower))));
  for (int64_t i = 1; int64_t(slopes.size()) < heads; i += 2)
    slopes.push_back(float(std::exp2(-8.0 * double(i) / double(2 * lower))));
  return Tensor::from(slopes, {heads});
}

}  // namespace rapt::nn
