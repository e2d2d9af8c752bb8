// Attention step by step, with every matrix printed: projections, scores, scaling, softmax, weighted sum, several heads,
// the causal mask; and each result compared with the fused operation.
#include <rapt/rapt.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace rapt;

namespace {

void show(const char* title, const Tensor& matrix) {
  std::printf("%s\n", title);
  std::printf("%s\n\n", to_string(matrix, 3, 8).c_str());
}

Tensor drawn(const Shape& shape, uint64_t stream) {
  Tensor t = Tensor::empty(shape);
  const Philox random{7, stream};
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = float(random.normal(uint64_t(i)));
  return t;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector(), y = b.to_vector();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
  return worst;
}

}  // namespace

int main() {
  const int64_t T = 4, d = 6, h = 2, d_k = d / h;
  std::printf("Four tokens with vectors of size %ld, %ld heads of size %ld.\n\n", d, h, d_k);

  // Step 0: each element of the sequence is a vector.
  const Tensor X = drawn({T, d}, 0);
  show("Step 0. X, one row a token:", X);

  // Step 1: three learned projections of the same rows.
  const Tensor W_Q = drawn({d, d}, 1), W_K = drawn({d, d}, 2), W_V = drawn({d, d}, 3);
  const Tensor Q = linear(X, W_Q), K = linear(X, W_K), V = linear(X, W_V);
  show("Step 1. Q = X W_Q^T:", Q);
  show("        K = X W_K^T:", K);
  show("        V = X W_V^T:", V);

  double worst = 0;
  for (const bool causal : {false, true}) {
    // All heads at once, in one fused operation that never holds the matrix of weights.
    Tensor weights;
    const Tensor fused = attention(Q.view({1, T, h, d_k}), K.view({1, T, h, d_k}), V.view({1, T, h, d_k}),
                                   {.causal = causal, .weights = &weights});
    for (int64_t head = 0; head < h; ++head) {
      // Step 2: compare every query with every key, scale, and turn each row into weights that sum to 1.
      const Tensor q = Q.narrow(1, head * d_k, d_k), k = K.narrow(1, head * d_k, d_k), v = V.narrow(1, head * d_k, d_k);
      const Tensor scores = affine(matmul(contiguous(q), contiguous(k).transpose(0, 1)), 1 / std::sqrt(double(d_k)));
      if (causal)  // the future gets no weight
        for (int64_t i = 0; i < T; ++i)
          for (int64_t j = i + 1; j < T; ++j) scores.data<float>()[i * T + j] = -1e30f;
      const Tensor A = softmax(scores);
      // Step 3: each row of the result is a weighted sum of the values.
      const Tensor Z = matmul(A, contiguous(v));
      std::printf("Head %ld%s\n", head, causal ? ", with the causal mask" : "");
      if (!causal) show("Step 2a. Q K^T / sqrt(d_k):", scores);
      show("Step 2b. softmax of each row:", A);
      show("Step 3. A V:", Z);
      worst = std::max(worst, largest_difference(A, weights.select(0, 0).select(0, head)));
      worst = std::max(worst, largest_difference(Z, contiguous(fused.select(0, 0).select(1, head))));
    }
  }
  std::printf("Largest difference from the fused operation: %s 1e-5\n", worst < 1e-5 ? "below" : "ABOVE");
  return worst < 1e-5 ? 0 : 1;
}
