#include <kernels/reference/access.hpp>
#include <kernels/reference/reference.hpp>

#include <cmath>

namespace rapt::kernels::reference {

void run(const SumSquares& op) {
  double sum = 0;
  for (double x : read_all(op.x)) sum += x * x;
  store(op.y, 0, 1, 1, &sum);
}

void run(const Adam& op) {
  Row w = read_all(op.w), m = read_all(op.m), v = read_all(op.v);
  const Row gradient = read_all(op.g);
  for (size_t i = 0; i < w.size(); ++i) {
    const double g = op.clip * gradient[i] + (op.decoupled ? 0 : op.decay * w[i]);
    m[i] = op.beta1 * m[i] + (1 - op.beta1) * g;
    v[i] = op.beta2 * v[i] + (1 - op.beta2) * g * g;
    const double step = m[i] / op.correction1 / (std::sqrt(v[i] / op.correction2) + op.eps);
    w[i] -= op.lr * (step + (op.decoupled ? op.decay * w[i] : 0));
  }
  write_all(op.w, w);
  op.w.storage().touch();
  write_all(op.m, m);
  write_all(op.v, v);
}

void run(const Sgd& op) {
  Row w = read_all(op.w), v = op.v ? read_all(op.v) : Row(w.size());
  const Row gradient = read_all(op.g);
  for (size_t i = 0; i < w.size(); ++i) {
    const double g = op.clip * gradient[i] + op.decay * w[i];
    v[i] = op.momentum * v[i] + g;
    w[i] -= op.lr * (op.nesterov ? g + op.momentum * v[i] : v[i]);
  }
  write_all(op.w, w);
  op.w.storage().touch();
  if (op.v) write_all(op.v, v);
}

}  // namespace rapt::kernels::reference
