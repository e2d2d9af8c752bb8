#include <base/fail.hpp>
#include <rapt/autograd/gradient_check.hpp>
#include <rapt/autograd/tape.hpp>

#include <algorithm>
#include <cmath>

namespace rapt {

GradientCheck check_gradient(const std::function<Tensor(const std::vector<Tensor>&)>& f, std::vector<Tensor> inputs,
                             int64_t samples, double step) {
  for (Tensor& input : inputs) {
    if (input.dtype() != DType::f64) continue;  // ids and lengths come along unchanged
    if (!input.requires_grad()) require_grad(input);
    zero_grad(input);
  }
  backward(f(inputs));
  GradientCheck result;
  NoGrad no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != DType::f64) continue;
    const Tensor analytic = grad(inputs[i]);
    double* x = inputs[i].data<double>();
    const int64_t n = inputs[i].numel(), tried = std::min(n, samples);
    for (int64_t s = 0; s < tried; ++s) {
      const int64_t at = s * n / tried;
      const double before = x[at];
      auto value_at = [&](double v) {
        x[at] = v;
        inputs[i].storage().touch();
        return f(inputs).item();
      };
      const double numeric = (value_at(before + step) - value_at(before - step)) / (2 * step);
      value_at(before);
      const double found = analytic.data<double>()[at];
      const double error = std::abs(numeric - found) / std::max({1e-3, std::abs(numeric), std::abs(found)});
      if (!(error <= result.worst)) {
        result.worst = error;
        result.where = fmt::format("input {}, element {}: numeric {:.9g}, analytic {:.9g}", i, at, numeric, found);
      }
    }
  }
  return result;
}

}  // namespace rapt
