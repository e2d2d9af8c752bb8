// A tensor and its gradient: fit a line by gradient descent, and check the gradient against finite differences.
#include <rapt/rapt.hpp>

#include <cmath>
#include <cstdio>

using namespace rapt;

int main() {
  // y = 3 x - 1, seen at five points.
  const Tensor x = Tensor::from<float>({-2, -1, 0, 1, 2}, {5, 1});
  const Tensor y = Tensor::from<float>({-7, -4, -1, 2, 5}, {5, 1});

  Tensor W = Tensor::zeros({1, 1}), b = Tensor::zeros({1});
  require_grad(W);
  require_grad(b);

  for (int step = 0; step <= 60; ++step) {
    const Tensor loss = mean_squared_error(linear(x, W, b), y);
    backward(loss);
    if (step % 20 == 0)
      std::printf("step %2d  loss %8.5f  w %6.3f  b %6.3f  dloss/dw %8.4f\n", step, loss.item(), W.item(), b.item(),
                  grad(W).item());
    NoGrad no_grad;
    for (Tensor* t : {&W, &b}) {
      t->copy_from(sub(*t, affine(grad(*t), 0.1)));
      zero_grad(*t);
    }
  }

  // The same loss in f64, where a finite difference is good to nine digits.
  const Tensor x64 = x.to(DType::f64), y64 = y.to(DType::f64);
  const GradientCheck check =
      check_gradient([&](const std::vector<Tensor>& p) { return mean_squared_error(linear(x64, p[0], p[1]), y64); },
                     {Tensor::full({1, 1}, 0.5, DType::f64), Tensor::full({1}, 0.25, DType::f64)});
  std::printf("tape against finite differences: largest relative error %s 1e-6\n",
              check.worst < 1e-6 ? "below" : "ABOVE");
  return check.worst < 1e-6 && std::abs(W.item() - 3) < 0.01 && std::abs(b.item() + 1) < 0.01 ? 0 : 1;
}
