// The reference gradients of attention and of additive scores against finite differences in f64.
#include <kernels/attention_setup.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

using testing::AttentionCase;
using testing::AttentionTensors;
using testing::random_tensor;

double dot(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector(), y = b.to_vector();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

/// `gradient` of `loss` with respect to `x` (contiguous), element by element.
template <class Loss>
void expect_gradient(const Tensor& x, const Tensor& gradient, const Loss& loss, const char* what) {
  const double step = 1e-5;
  double* values = x.data<double>();
  const std::vector<double> got = gradient.to_vector();
  double difference = 0, size = 0;
  for (int64_t n = 0; n < x.numel(); ++n) {
    const double before = values[n];
    values[n] = before + step;
    const double up = loss();
    values[n] = before - step;
    const double down = loss();
    values[n] = before;
    const double want = (up - down) / (2 * step);
    difference += (got[size_t(n)] - want) * (got[size_t(n)] - want);
    size += want * want;
  }
  ASSERT_GT(size, 0) << what;
  EXPECT_LE(std::sqrt(difference / size), 1e-7) << what;
}

TEST(AttentionGradient, OfTheReference) {
  for (const AttentionCase& c : {AttentionCase{.queries = 5, .keys = 7, .d_k = 4, .d_v = 3}, AttentionCase{.batch = 2,
                                                                                             .queries = 6,
                                                                                             .keys = 4,
                                                                                             .heads = 4,
                                                                                             .key_heads = 2,
                                                                                             .d_k = 3,
                                                                                             .d_v = 5,
                                                                                             .causal = true,
                                                                                             .slopes = true,
                                                                                             .lengths = {4, 2},
                                                                                             .p = 0.3f}}) {
    SCOPED_TRACE(c.name());
    const AttentionTensors t(c, DType::f64);
    const auto loss = [&] {
      kernels::implementations<kernels::AttentionForward>().back().run(t.forward);
      return dot(t.forward.o, t.backward.d_o);
    };
    loss();
    kernels::implementations<kernels::AttentionBackward>().back().run(t.backward);
    expect_gradient(t.forward.q, t.backward.dq, loss, "dq");
    expect_gradient(t.forward.k, t.backward.dk, loss, "dk");
    expect_gradient(t.forward.v, t.backward.dv, loss, "dv");
  }
}

TEST(AdditiveScoresGradient, OfEveryImplementation) {
  const auto input = [](const Shape& shape, uint64_t stream) { return random_tensor(shape, DType::f64, {5, stream}); };
  const Tensor q = input({2, 3, 5}, 1), k = input({2, 4, 5}, 2), v = input({5}, 3), de = input({2, 3, 4}, 4);
  const Tensor e = Tensor::empty({2, 3, 4}, DType::f64);
  const auto loss = [&] {
    kernels::launch(kernels::AdditiveScores{q, k, v, e});
    return dot(e, de);
  };
  for (const auto& candidate : kernels::implementations<kernels::AdditiveScoresBackward>()) {
    kernels::AdditiveScoresBackward b;
    b.q = q, b.k = k, b.v = v, b.de = de;
    b.dq = Tensor::empty(q.shape(), DType::f64);
    b.dk = Tensor::empty(k.shape(), DType::f64);
    b.dv = Tensor::empty(v.shape(), DType::f64);
    if (!candidate.available() || !candidate.supports(b)) continue;
    SCOPED_TRACE(candidate.name);
    candidate.run(b);
    expect_gradient(q, b.dq, loss, "dq");
    expect_gradient(k, b.dk, loss, "dk");
    expect_gradient(v, b.dv, loss, "dv");
  }
}

}  // namespace
}  // namespace rapt
