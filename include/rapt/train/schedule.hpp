#pragma once
#include <cstdint>

namespace rapt::train {

/// The learning rate at a step (counted from 1).
///   inverse_sqrt  peak min(step / warmup, sqrt(warmup / step))      [Vaswani 2017, 5.3, with its peak named]
///   cosine        down to `floor` along half a cosine, at `total`
///   linear        down to `floor` along a line, at `total`
///   constant
/// All but inverse_sqrt begin with the same linear warm-up when `warmup` is not 0.
struct Schedule {
  enum class Kind { inverse_sqrt, cosine, linear, constant } kind = Kind::inverse_sqrt;
  double peak = 1e-3;
  int64_t warmup = 4000;
  int64_t total = 0;  ///< cosine and linear
  double floor = 0;

  double operator()(int64_t step) const;

  /// The paper's d_model^-0.5 min(step^-0.5, step warmup^-1.5).
  static Schedule of_the_paper(int64_t d_model, int64_t warmup = 4000);
};

}  // namespace rapt::train
