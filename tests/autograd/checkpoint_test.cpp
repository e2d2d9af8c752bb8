#include <rapt/autograd/tape.hpp>
#include <rapt/nn/context.hpp>
#include <rapt/nn/transformer.hpp>
#include <rapt/ops/ops.hpp>
#include <support/compare.hpp>

#include <gtest/gtest.h>

namespace rapt {
namespace {

using testing::random_tensor;
using testing::relative_error;
using Inputs = std::span<const Tensor>;

Tensor leaf(const Shape& shape, uint64_t stream) {
  Tensor t = random_tensor(shape, DType::f64, Philox{2, stream});
  return require_grad(t);
}

TEST(Checkpoint, EqualsThePlainFunction) {
  const Tensor W = leaf({6, 6}, 1), x = leaf({4, 6}, 2);
  const auto block = [&](Inputs in) {
    return add(in[0], dropout(linear(tanh(linear(in[0], W)), W), 0.2f, Philox{7, 7}));
  };
  std::vector<Tensor> values, grads;
  for (const bool recompute : {false, true}) {
    zero_grad(W);
    zero_grad(x);
    Tensor y = square(x);
    for (int i = 0; i < 3; ++i) y = recompute ? checkpoint(block, {y}) : block(std::span(&y, 1));
    backward(sum(exp(y)));
    values.push_back(y);
    grads.push_back(affine(grad(W), 1));
    grads.push_back(affine(grad(x), 1));
  }
  EXPECT_EQ(values[0].to_vector(), values[1].to_vector());
  EXPECT_EQ(grads[0].to_vector(), grads[2].to_vector());
  EXPECT_EQ(grads[1].to_vector(), grads[3].to_vector());
}

/// The gradient of x through f, plain and checkpointed, when x has other consumers before and after.
void expect_same_gradient(const std::function<Tensor(Inputs)>& f) {
  std::vector<Tensor> grads;
  for (const bool recompute : {false, true}) {
    const Tensor x = leaf({4, 6}, 3);
    const Tensor a = tanh(x);
    const Tensor before = exp(a);
    const Tensor y = recompute ? checkpoint(f, {a}) : f(std::span(&a, 1));
    const Tensor after = square(a);
    backward(add(sum(before), add(sum(exp(y)), sum(after))));
    grads.push_back(grad(x));
  }
  EXPECT_LT(relative_error(grads[1], grads[0]), 1e-14);
}

TEST(Checkpoint, MayReturnAnInputOrAView) {
  expect_same_gradient([](Inputs in) { return in[0]; });
  expect_same_gradient([](Inputs in) { return in[0].transpose(0, 1); });
  expect_same_gradient([](Inputs in) { return in[0].narrow(1, 2, 3); });
  expect_same_gradient([](Inputs in) { return sigmoid(in[0]).narrow(1, 2, 3); });
  expect_same_gradient([](Inputs in) { return sigmoid(in[0]).transpose(0, 1).narrow(0, 1, 2); });
}

TEST(Checkpoint, MayCutTheGradient) {
  expect_same_gradient([](Inputs in) { return stop_gradient(square(in[0])); });
}

TEST(Checkpoint, OfPartsOfOneTensor) {
  const auto product = [](Inputs in) { return mul(tanh(in[0]), in[1]); };
  std::vector<Tensor> grads;
  for (const bool recompute : {false, true}) {
    const Tensor x = leaf({4, 6}, 3);
    const Tensor a = square(x);
    const std::vector<Tensor> parts{a.narrow(1, 0, 3), a.narrow(1, 2, 3)};
    backward(sum(recompute ? checkpoint(product, parts) : product(parts)));
    grads.push_back(grad(x));
  }
  EXPECT_LT(relative_error(grads[1], grads[0]), 1e-14);
}

// -------------------------------------------------------------------------------------------- layers with recomputation

struct Stack {
  nn::Parameters parameters{5, DType::f64};
  nn::EncoderStack layers;
  explicit Stack(bool pre_norm) : layers(nn::Scope(parameters), 3, shape(pre_norm)) { parameters.freeze_layout(); }
  static nn::LayerShape shape(bool pre_norm) {
    nn::LayerShape s;
    s.attention.d_model = 16;
    s.attention.h = 2;
    s.attention.p = 0.1f;
    s.d_ff = 32;
    s.pre_norm = pre_norm;
    s.p = 0.2f;
    s.p_ffn = 0.1f;
    return s;
  }
};

TEST(Checkpoint, RecomputedLayersDrawTheSameRandomness) {
  for (const bool pre_norm : {false, true}) {
    const Stack stack(pre_norm);
    const Tensor x = random_tensor({2, 5, 16}, DType::f64, Philox{8, 0});
    std::vector<Tensor> values, grads;
    std::vector<uint64_t> draws;
    for (const bool recompute : {false, true}) {
      stack.parameters.zero_grad();
      Tensor input = affine(x, 1);
      require_grad(input);
      nn::Context ctx{.training = true, .dtype = DType::f64, .seed = 3, .step = 9};
      ctx.recompute = recompute;
      const Tensor y = stack.layers(input, {{}, true}, ctx);
      backward(sum(square(y)));
      values.push_back(y);
      grads.push_back(affine(stack.parameters.grads(), 1));
      grads.push_back(grad(input));
      draws.push_back(ctx.draws);
    }
    EXPECT_LT(relative_error(values[1], values[0]), 1e-13);
    EXPECT_LT(relative_error(grads[2], grads[0]), 1e-12);
    EXPECT_LT(relative_error(grads[3], grads[1]), 1e-12);
    EXPECT_EQ(draws[0], draws[1]);
  }
}

TEST(Checkpoint, TheProbeSeesEachRecomputedLayerOnce) {
  const Stack stack(true);
  Tensor x = random_tensor({2, 5, 16}, DType::f64, Philox{8, 0});
  require_grad(x);
  nn::Context ctx{.dtype = DType::f64};
  ctx.recompute = true;
  Tensor loss;
  {
    nn::Probe probe;
    ctx.probe = &probe;
    loss = sum(stack.layers(x, {}, ctx));
    EXPECT_EQ(probe.records.size(), 3u);
  }
  EXPECT_NO_THROW(backward(loss));  // the probe is gone
}

size_t peak_of_step(bool recompute) {
  const Stack stack(true);
  Tensor x = random_tensor({4, 64, 16}, DType::f64, Philox{8, 0});
  require_grad(x);
  nn::Context ctx{.training = true, .dtype = DType::f64};
  ctx.recompute = recompute;
  const size_t start = memory_stats().in_use;
  reset_peak_memory();
  backward(sum(square(stack.layers(x, {}, ctx))));
  return memory_stats().peak - start;
}

TEST(Checkpoint, NeedsLessMemory) {
  const size_t plain = peak_of_step(false), recomputed = peak_of_step(true);
  EXPECT_LT(double(recomputed), 0.6 * double(plain)) << recomputed << " against " << plain << " bytes";
}

}  // namespace
}  // namespace rapt
