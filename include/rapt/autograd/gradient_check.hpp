#pragma once
#include <rapt/tensor/tensor.hpp>

#include <functional>
#include <string>
#include <vector>

namespace rapt {

struct GradientCheck {
  double worst = 0;   ///< largest |numeric - analytic| / max(0.001, |numeric|, |analytic|)
  std::string where;  ///< "input 1, element 7: numeric 0.25, analytic 0.26"
};

/// Compares the tape with central differences: f maps f64 leaves to one number, and must be smooth at the given point.
/// At most `samples` elements of each input are tried (all when there are fewer), spread evenly.
GradientCheck check_gradient(const std::function<Tensor(const std::vector<Tensor>&)>& f, std::vector<Tensor> inputs,
                             int64_t samples = 64, double step = 1e-5);

}  // namespace rapt
