#include <rapt/tensor/tensor.hpp>

#include <iostream>

int main() {
  const auto x = rapt::Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  std::cout << to_string(x.transpose(0, 1)) << '\n';
  return x.transpose(0, 1).at({2, 1}) == 6 ? 0 : 1;
}
