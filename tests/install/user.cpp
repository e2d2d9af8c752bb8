#include <rapt/autograd/tape.hpp>
#include <rapt/ops/ops.hpp>

#include <iostream>

int main() {
  // Two queries look at three keys, each of which carries a value: [batch, positions, heads, features].
  auto Q = rapt::Tensor::from<float>({1, 0, 0, 1}, {1, 2, 1, 2});
  auto K = rapt::Tensor::from<float>({4, 0, 0, 4, 2, 2}, {1, 3, 1, 2});
  auto V = rapt::Tensor::from<float>({1, 2, 3}, {1, 3, 1, 1});
  rapt::require_grad(Q);

  rapt::Tensor weights;
  rapt::Tensor O = rapt::attention(Q, K, V, {.weights = &weights});  // softmax(Q K^T / sqrt(d_k)) V
  rapt::backward(rapt::sum(O));

  std::cout << "weights\n" << to_string(weights.view({2, 3})) << "\n";
  std::cout << "output\n" << to_string(O.view({1, 2})) << "\n";
  std::cout << "gradient of Q\n" << to_string(rapt::grad(Q).view({2, 2})) << "\n";
}
